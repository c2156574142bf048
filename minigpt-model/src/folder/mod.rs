//! Model folders: a model *is* a Hugging Face GPT-2 folder. Files come from anywhere and are not trusted: what they
//! claim is checked before memory is asked for.

mod config_json;
mod files;
mod mapped;
mod nanogpt;
mod nanogpt_save;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::gpt::Gpt;
use crate::parameters::{Spec, specs_with_absent};
use crate::pickle::Stored;
use candle_core::{DType, Device, Tensor};
use files::WeightFiles;
pub use nanogpt::load_nanogpt;
pub use nanogpt_save::save_nanogpt;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::Path;

/// How many tensors of one kind an error lists.
const LISTED: usize = 1000;

/// Loads a model folder, with weights as f32 on `device`. Each tensor is copied once, out of a memory map.
pub fn load(folder: &Path, device: &Device) -> Result<Gpt> {
    if !folder.is_dir() {
        let message = if folder.exists() { "is not a folder" } else { "there is no such folder" };
        return Err(problem(folder, message));
    }
    let (config, extra) = read_config(&folder.join("config.json"))?;
    let files = WeightFiles::open(folder)?;
    from_stored(&files.path, config, extra, files.tensors()?, device)
}

/// A model from tensors that a file holds; `path` is for messages.
fn from_stored(
    path: &Path,
    config: Config,
    extra: Map<String, Value>,
    tensors: Vec<(String, Stored)>,
    device: &Device,
) -> Result<Gpt> {
    let tensors = by_our_names(path, tensors)?;
    let config = config_json::with_biases_in_use(config, &extra, &tensors);
    let specs = check(path, &config, &tensors)?;
    let weights = specs
        .into_iter()
        .map(|spec| Ok((spec.name.clone(), tensor(&tensors[&spec.name], device)?)))
        .collect::<Result<HashMap<_, _>>>()?;
    Ok(Gpt::from_tensors(config, weights)?.with_extra(extra))
}

/// Reads only the configuration of a model folder.
pub fn load_config(folder: &Path) -> Result<Config> {
    Ok(read_config(&folder.join("config.json"))?.0)
}

/// How the weights of a folder are written.
#[derive(Debug, Clone, Copy)]
pub struct SaveOptions {
    /// f32, f16 or bf16.
    pub dtype: DType,
    /// The most bytes of weights in one file; all in one without it.
    pub shard: Option<u64>,
}

impl Default for SaveOptions {
    fn default() -> Self {
        Self { dtype: DType::F32, shard: None }
    }
}

/// Writes `config.json`, `generation_config.json` and `model.safetensors` into a folder, which is made if need be.
/// Each file appears whole or not at all. What GPT-2 can express is written as GPT-2.
pub fn save(gpt: &Gpt, folder: &Path) -> Result<()> {
    save_as(gpt, folder, SaveOptions::default())
}

/// The same with other numbers, or with the weights shared out among several files.
pub fn save_as(gpt: &Gpt, folder: &Path, options: SaveOptions) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|e| io(folder, e))?;
    let config = config_json::write(gpt.config(), gpt.extra(), options.dtype);
    let generation = config_json::generation(&config);
    save_weights(gpt, folder, options)?;
    for (name, value) in [("generation_config.json", generation), ("config.json", config)] {
        write_json(&folder.join(name), &value)?;
    }
    Ok(())
}

fn write_json(path: &Path, value: &Value) -> Result<()> {
    let text = serde_json::to_string_pretty(value).unwrap_or_default() + "\n";
    replace(path, |temporary| std::fs::write(temporary, &text))
}

fn save_weights(gpt: &Gpt, folder: &Path, options: SaveOptions) -> Result<()> {
    let mut tensors: BTreeMap<String, Tensor> =
        gpt.parameters().into_iter().map(|p| (p.name, p.tensor.detach())).collect();
    if config_json::is_gpt2(gpt.config()) {
        for spec in specs_with_absent(gpt.config()).into_iter().filter(|spec| spec.absent.is_some()) {
            tensors.insert(spec.name, Tensor::zeros(&spec.shape[..], gpt.dtype(), &Device::Cpu)?);
        }
    }
    let bytes = |tensor: &Tensor| (tensor.elem_count() * options.dtype.size_in_bytes()) as u64;
    let total: u64 = tensors.values().map(bytes).sum();
    let mut shards: Vec<Vec<(String, Tensor)>> = vec![Vec::new()];
    let mut size = 0;
    for (name, tensor) in tensors {
        // A tensor is never cut: one that is larger than a file may be has a file for itself.
        if size > 0 && options.shard.is_some_and(|most| size + bytes(&tensor) > most) {
            shards.push(Vec::new());
            size = 0;
        }
        size += bytes(&tensor);
        if let Some(shard) = shards.last_mut() {
            shard.push((name, tensor));
        }
    }
    if shards.len() == 1 {
        return save_shard(&folder.join("model.safetensors"), &shards.concat(), options.dtype);
    }
    let mut weight_map = Map::new();
    for (i, shard) in shards.iter().enumerate() {
        let file = format!("model-{:05}-of-{:05}.safetensors", i + 1, shards.len());
        save_shard(&folder.join(&file), shard, options.dtype)?;
        weight_map.extend(shard.iter().map(|(name, _)| (name.clone(), Value::from(file.clone()))));
    }
    let index = serde_json::json!({ "metadata": { "total_size": total }, "weight_map": weight_map });
    write_json(&folder.join("model.safetensors.index.json"), &index)
}

fn save_shard(path: &Path, tensors: &[(String, Tensor)], dtype: DType) -> Result<()> {
    let tensors = tensors.iter().map(|(name, tensor)| Ok((name, tensor.to_dtype(dtype)?)));
    let tensors = tensors.collect::<candle_core::Result<Vec<_>>>()?;
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    replace(path, |temporary| {
        let views = tensors.iter().map(|(name, tensor)| (name, tensor));
        safetensors::serialize_to_file(views, Some(metadata), temporary).map_err(|e| match e {
            safetensors::SafeTensorError::IoError(e) => e,
            e => std::io::Error::other(e),
        })
    })
}

/// Writes a file beside its place, syncs it, and moves it there.
pub(crate) fn replace(path: &Path, write: impl FnOnce(&Path) -> std::io::Result<()>) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let done = write(&temporary)
        .and_then(|()| std::fs::File::open(&temporary)?.sync_all())
        .and_then(|()| std::fs::rename(&temporary, path));
    done.map_err(|e| {
        // The error that matters is the first one; what was begun is taken away if it can be.
        let _ = std::fs::remove_file(&temporary);
        io(path, e)
    })
}

fn read_config(path: &Path) -> Result<(Config, Map<String, Value>)> {
    const LIMIT: u64 = 16 << 20;
    let size = std::fs::metadata(path).map_err(|e| io(path, e))?.len();
    if size > LIMIT {
        return Err(problem(path, format!("{size} bytes are too many for a configuration")));
    }
    let text = std::fs::read_to_string(path).map_err(|e| io(path, e))?;
    config_json::read(&text).map_err(|message| problem(path, message))
}

/// The file's tensors under our names: without `transformer.`, and without the buffers that old files carry.
fn by_our_names<'a>(path: &Path, stored: Vec<(String, Stored<'a>)>) -> Result<BTreeMap<String, Stored<'a>>> {
    let mut tensors = BTreeMap::new();
    for (name, stored) in stored {
        let ours = name.strip_prefix("transformer.").unwrap_or(&name);
        if ours.ends_with(".attn.bias") || ours.ends_with(".attn.masked_bias") {
            continue;
        }
        if tensors.insert(ours.to_owned(), stored).is_some() {
            return Err(problem(path, format!("holds both {ours} and transformer.{ours}")));
        }
    }
    Ok(tensors)
}

/// Checks names, shapes and types of all tensors against the configuration, and reports everything at once.
fn check(path: &Path, config: &Config, tensors: &BTreeMap<String, Stored>) -> Result<Vec<Spec>> {
    let specs = specs_with_absent(config);
    let mut known: HashMap<&str, &Spec> = specs.iter().map(|spec| (spec.name.as_str(), spec)).collect();
    let (mut missing, mut unexpected, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
    for spec in specs.iter().filter(|spec| spec.absent.is_none()) {
        if !tensors.contains_key(&spec.name) {
            missing.push(format!("{} {:?}", spec.name, spec.shape));
        }
    }
    for (name, stored) in tensors {
        match known.remove(name.as_str()) {
            Some(spec) if spec.shape != stored.shape => {
                wrong.push(format!("{name} is {:?}, not {:?}", stored.shape, spec.shape));
            }
            Some(spec) if spec.absent.is_some() && !config_json::is_gpt2(config) => {
                unexpected.push(format!("{name} ({} is off)", spec.absent.unwrap_or_default()));
            }
            Some(_) => {
                if let Err(other) = &stored.dtype {
                    wrong.push(format!("{name} is of type {other}, not f32, f16 or bf16"));
                }
            }
            // A tied head is the token embedding; files that carry it twice are common.
            None if name == "lm_head.weight" => {}
            None => unexpected.push(format!("{name} {:?}", stored.shape)),
        }
    }
    let mut message = String::new();
    for (kind, names) in [("missing", missing), ("unexpected", unexpected), ("wrong", wrong)] {
        list(&mut message, kind, &names);
    }
    if message.is_empty() {
        Ok(specs.into_iter().filter(|spec| spec.absent.is_none()).collect())
    } else {
        Err(problem(path, format!("the weights do not fit config.json{message}")))
    }
}

fn list(message: &mut String, kind: &str, names: &[String]) {
    for name in names.iter().take(LISTED) {
        let _ = write!(message, "\n  {kind}: {name}");
    }
    if names.len() > LISTED {
        let _ = write!(message, "\n  {kind}: {} more", names.len() - LISTED);
    }
}

fn tensor(stored: &Stored, device: &Device) -> Result<Tensor> {
    let dtype = stored.dtype.as_ref().copied().unwrap_or(DType::F32);
    Ok(Tensor::from_raw_buffer(&stored.data, dtype, &stored.shape, device)?.to_dtype(DType::F32)?)
}

fn problem(path: &Path, message: impl Into<String>) -> Error {
    Error::Folder { path: path.to_owned(), message: message.into() }
}

fn io(path: &Path, source: std::io::Error) -> Error {
    Error::Io { path: path.to_owned(), source }
}
