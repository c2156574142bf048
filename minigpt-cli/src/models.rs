//! The model of a command: options, and how it is found and opened.

use crate::arguments::numbers;
use crate::device::DeviceKind;
use crate::language::local;
use crate::language::messages::main as message;
use crate::progress::Progress;
use crate::{dtype, output};
use anyhow::Result;
use clap::Args;
use minigpt::{Hub, ModelFolder, ModelPlace};
use minigpt_data::DownloadEvent;
use minigpt_kernels::ElementType;
use minigpt_model::Device;
use std::path::{Path, PathBuf};

/// The placeholder for a model in a usage line.
pub const NAME: &str = "MODEL";
/// The help of every option that takes a model.
pub const HELP: &str = "Model: a model folder, a run (its best/, otherwise its last/), a GGUF file, nanoGPT's ckpt.pt, or \
    hf:owner/name[@revision] from the hub (downloaded on first use, then offline)";

/// The model of a command, by position or as `--model` or `-m` (see `arguments::INPUTS`).
#[derive(Args)]
pub struct ModelArg {
    #[arg(value_name = NAME, help = format!("{HELP}; also as --model"))]
    pub model: PathBuf,
}

/// How a model is run.
#[derive(Args)]
pub struct LoadArgs {
    /// Type of the weight matrices: fewer bits take less memory and time and are slightly less accurate. Default:
    /// quantized matrices as in the file, others in f32.
    #[arg(long, ignore_case = true, value_parser = dtype::among(dtype::TO_RUN))]
    dtype: Option<ElementType>,
    /// Type of the key/value cache: f16 takes half the memory.
    #[arg(long, value_name = "TYPE", aliases = ["cache-type-k", "cache-type-v", "ctk", "ctv"], overrides_with = "cache_type", default_value = "f32", ignore_case = true, value_parser = dtype::among(dtype::TO_CACHE))]
    cache_type: ElementType,
    /// Device to compute on.
    #[arg(long, value_enum, default_value = "cpu")]
    device: DeviceKind,
    #[command(flatten)]
    products: ProductArgs,
}

/// How quantised matrices are multiplied.
#[derive(Args)]
pub struct ProductArgs {
    /// Dequantize weights and multiply in f32 instead of 8-bit integers (slower, exact).
    #[arg(long)]
    exact: bool,
}

/// The length of its context.
#[derive(Args)]
pub struct ContextArgs {
    /// Context length in tokens. Default, or 0: the model's own.
    #[arg(short = 'c', long, value_name = "N", value_parser = numbers::whole::<usize>)]
    ctx_size: Option<usize>,
}

impl LoadArgs {
    /// Opens a model; a note says which one where the name does not.
    pub fn open(&self, name: &Path) -> Result<ModelFolder> {
        let device = self.device.open()?;
        let mut model = self.products.open(&find(name)?, &device, self.dtype)?;
        model.gpt = dtype::with_cache(model.gpt, self.cache_type);
        Ok(model)
    }
}

impl ProductArgs {
    /// Opens the model at a place, and warns if its files don't fit each other.
    pub fn open(&self, place: &Path, device: &Device, dtype: Option<ElementType>) -> Result<ModelFolder> {
        let open = if self.exact { ModelFolder::open_exact } else { ModelFolder::open_as };
        let model = open(place, device, dtype)?;
        if self.exact && !model.gpt.element_types().into_iter().any(ElementType::is_quantized) {
            output::note(message::ExactWithoutEffect { path: place.display() });
        }
        model.warnings().iter().for_each(|warning| output::note(local(warning)));
        Ok(model)
    }
}

impl ContextArgs {
    /// The model with the given context length, which can't exceed the model's own.
    pub fn apply(&self, mut model: ModelFolder) -> Result<ModelFolder> {
        let most = model.gpt.config().block_size;
        match self.ctx_size {
            None | Some(0) => {}
            Some(size) if size > most => {
                output::note(message::ContextLimit { tokens: most as u64 });
            }
            Some(size) => model.gpt = model.gpt.cropped(size)?,
        }
        Ok(model)
    }
}

/// Whether a name is a model rather than a preset.
pub fn is_named(name: &Path) -> bool {
    name.exists() || name.to_str().is_some_and(|name| name.starts_with("hf:"))
}

/// Finds a model: notes which part of a run is used, and shows the download of a model of the hub.
pub fn find(name: &Path) -> Result<PathBuf> {
    let mut fetching = Fetching::default();
    let found = ModelPlace::find_with(name, &mut |file, event| fetching.show(file, event));
    fetching.finish();
    let ModelPlace { path, part } = found?;
    match part.as_deref() {
        Some("best" | "last") => {
            output::note(message::RunPartUsed { run: name.display(), path: path.display() });
        }
        Some(_) => output::note(message::Used { path: path.display() }),
        None => {}
    }
    Ok(path)
}

/// Fetches the newest files of a model of the hub.
pub fn fetch(name: &str) -> Result<PathBuf> {
    let mut fetching = Fetching::default();
    let folder = Hub::from_environment()?.fetch(name, &mut |file, event| fetching.show(file, event));
    fetching.finish();
    Ok(folder?)
}

/// The progress bar of the file being downloaded.
#[derive(Default)]
struct Fetching(Option<Progress>);

impl Fetching {
    fn show(&mut self, file: &str, event: DownloadEvent) {
        match event {
            DownloadEvent::Started { total, have, .. } => {
                output::note(message::Fetching { file });
                let mut bar = Progress::of_bytes(message::FetchingTask.text(), total.unwrap_or(0));
                bar.set(have);
                self.0 = Some(bar);
            }
            DownloadEvent::Progress { have } => {
                if let Some(bar) = &mut self.0 {
                    bar.set(have);
                }
            }
            DownloadEvent::Damaged { problem } => {
                output::note(message::Damaged { file, problem: local(&problem) });
            }
            DownloadEvent::Retrying { problem } => {
                output::note(message::Retrying { file, problem: local(&problem) });
            }
        }
    }

    fn finish(self) {
        if let Some(bar) = self.0 {
            bar.finish();
        }
    }
}
