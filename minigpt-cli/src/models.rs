//! The model that a command is given: what it may be and how it is found, the same for every command.

use crate::device::DeviceKind;
use crate::language::messages::data as message;
use crate::language::{local, t};
use crate::progress::Progress;
use crate::{dtype, output};
use anyhow::Result;
use clap::Args;
use minigpt::{Hub, ModelFolder, ModelPlace};
use minigpt_charts::count;
use minigpt_data::DownloadEvent;
use minigpt_kernels::ElementType;
use minigpt_model::Device;
use std::path::{Path, PathBuf};

/// What stands for a model in a usage line.
pub const NAME: &str = "MODEL";
/// What a model may be, for every option that takes one.
pub const HELP: &str = "The model: a model folder, a run (its best/, else its last/), a GGUF file, nanoGPT's ckpt.pt, or \
    hf:owner/name[@revision] from the hub (fetched on first use, offline afterwards)";

/// The model that a command is about, in its position; `--model` and `-m` say the same (see `arguments/inputs.rs`).
#[derive(Args)]
pub struct ModelArg {
    #[arg(value_name = NAME, help = format!("{HELP}; --model says the same"))]
    pub model: PathBuf,
}

/// How a model is run.
#[derive(Args)]
pub struct LoadArgs {
    /// How the matrices are kept: in fewer bits they take less memory and time, and are a little less exact. Default: quantised
    /// matrices as the file has them, others in f32.
    #[arg(long, ignore_case = true, value_parser = dtype::among(dtype::TO_RUN))]
    dtype: Option<ElementType>,
    /// How keys and values of the tokens so far are kept: in f16 they take half the memory.
    #[arg(long, value_name = "TYPE", aliases = ["cache-type-k", "cache-type-v"], overrides_with = "cache_type", default_value = "f32", ignore_case = true, value_parser = dtype::among(dtype::TO_CACHE))]
    cache_type: ElementType,
    /// Where to compute.
    #[arg(long, value_enum, default_value = "cpu")]
    device: DeviceKind,
    #[command(flatten)]
    products: ProductArgs,
}

/// How quantised matrices are multiplied.
#[derive(Args)]
pub struct ProductArgs {
    /// Multiply quantised matrices as what they stand for, not as small integers with activations of 8 bits: slower, without
    /// that rounding.
    #[arg(long)]
    exact: bool,
}

/// How long a context it has.
#[derive(Args)]
pub struct ContextArgs {
    /// See only so many tokens at once; all that the model can when absent, or 0.
    #[arg(short = 'c', long, value_name = "N")]
    ctx_size: Option<usize>,
}

impl LoadArgs {
    /// Opens a model, and says which one where the name does not.
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
            output::note(&t!("--exact has no effect: the matrices of {} are not quantised", place.display()));
        }
        model.warnings().iter().for_each(|warning| output::note(warning));
        Ok(model)
    }
}

impl ContextArgs {
    /// The model with the context that was asked for; it can't be longer than the model's own.
    pub fn apply(&self, mut model: ModelFolder) -> Result<ModelFolder> {
        let most = model.gpt.config().block_size;
        match self.ctx_size {
            None | Some(0) => {}
            Some(size) if size > most => {
                output::note(&format!(
                    "the model's context is {} tokens, and can't be longer",
                    count(most as u64)
                ));
            }
            Some(size) => model.gpt = model.gpt.cropped(size)?,
        }
        Ok(model)
    }
}

/// Whether this can be a model where a preset may be meant too.
pub fn is_named(name: &Path) -> bool {
    name.exists() || name.to_str().is_some_and(|name| name.starts_with("hf:"))
}

/// Where a model is; says which part of a run is meant, and shows how a model of the hub is fetched.
pub fn find(name: &Path) -> Result<PathBuf> {
    let mut fetching = Fetching::default();
    let found = ModelPlace::find_with(name, &mut |file, event| fetching.show(file, event));
    fetching.finish();
    let ModelPlace { path, part } = found?;
    match part.as_deref() {
        Some("best" | "last") => {
            output::note(&format!("{} is a run: {} is used", name.display(), path.display()));
        }
        Some(_) => output::note(&format!("{} is used", path.display())),
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

/// The bar of the file that is being fetched.
#[derive(Default)]
struct Fetching(Option<Progress>);

impl Fetching {
    fn show(&mut self, file: &str, event: DownloadEvent) {
        match event {
            DownloadEvent::Started { total, have, .. } => {
                output::note(&format!("fetching {file}"));
                let mut bar = Progress::of_bytes("fetching", total.unwrap_or(0));
                bar.set(have);
                self.0 = Some(bar);
            }
            DownloadEvent::Progress { have } => {
                if let Some(bar) = &mut self.0 {
                    bar.set(have);
                }
            }
            DownloadEvent::Damaged { problem } => {
                let problem = format!("{file}: {}", local(&problem));
                output::note(&message::FetchingAgain { problem }.to_string());
            }
            DownloadEvent::Retrying { problem } => {
                let problem = format!("{file}: {}", local(&problem));
                output::note(&message::TryingAgain { problem }.to_string());
            }
        }
    }

    fn finish(self) {
        if let Some(bar) = self.0 {
            bar.finish();
        }
    }
}
