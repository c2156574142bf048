//! Writes a model folder with one tensor in memory at a time. Each file appears whole or not at all.

use super::config_json;
use crate::Progress;
use crate::error::{Error, Result};
use crate::mapped_model::ExtraKeys;
use crate::other_tools::NotExpressible;
use candle_core::Device;
use minigpt_files::{replace_file, write_file};
use minigpt_kernels::ElementType;
use minigpt_model::Gpt;
use minigpt_model::ModelView;
use minigpt_model::config::Config;
use minigpt_model::parameters::{Spec, specs, specs_with_absent};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::Path;

/// What a model folder may hold, and what may be replaced in one; `*` stands for a number.
pub const FILES: &[&str] = &[
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "model-*-of-*.safetensors",
    "model.gguf",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocabulary.json",
    "chat_template.jinja",
];

/// How the weights of a folder are written.
#[derive(Debug, Clone, Copy)]
pub struct SaveOptions {
    /// f32, f16 or bf16.
    pub element_type: ElementType,
    /// The most bytes of weights per file. Default: one file.
    pub shard: Option<u64>,
}

impl SaveOptions {
    /// Returns an error for an element type that transformers does not support.
    pub(crate) fn check(self) -> Result<()> {
        match self.element_type {
            ElementType::F32 | ElementType::F16 | ElementType::Bf16 => Ok(()),
            other => Err(NotExpressible::ElementType(other).into()),
        }
    }
}

impl Default for SaveOptions {
    fn default() -> Self {
        Self { element_type: ElementType::F32, shard: None }
    }
}

/// Writes `config.json`, `generation_config.json` and `model.safetensors` into a folder, which is made if need be, for a
/// model that came from no file. Each file appears whole or not at all. What GPT-2 can express is written as GPT-2.
pub fn save(gpt: &Gpt, folder: &Path) -> Result<()> {
    save_as(gpt.view(), &ExtraKeys::new(), folder, SaveOptions::default(), &mut |_, _| {})
}

/// The same for a model in memory or in files, with the further keys of its `config.json`, in another element type, or
/// with the weights split over several files.
///
/// # Errors
/// transformers does not support the element type.
pub fn save_as(
    model: ModelView,
    extra: &ExtraKeys,
    folder: &Path,
    options: SaveOptions,
    progress: Progress,
) -> Result<()> {
    options.check()?;
    std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
    save_weights(model, folder, options, progress)?;
    save_config(model.config, extra, folder, options.element_type)
}

/// Writes `config.json` and `generation_config.json` alone.
pub fn save_config(
    config: &Config,
    extra: &ExtraKeys,
    folder: &Path,
    element_type: ElementType,
) -> Result<()> {
    let config = config_json::write(config, extra, element_type);
    let generation = config_json::generation(&config);
    for (name, value) in [("generation_config.json", generation), ("config.json", config)] {
        write_json(&folder.join(name), &value)?;
    }
    Ok(())
}

fn write_json(path: &Path, value: &Value) -> Result<()> {
    let text = serde_json::to_string_pretty(value).unwrap_or_default() + "\n";
    Ok(write_file(path, text.as_bytes())?)
}

fn save_weights(model: ModelView, folder: &Path, options: SaveOptions, progress: Progress) -> Result<()> {
    let shards = shards(model.config, options);
    let total = shards.iter().flatten().map(|spec| bytes(spec, options.element_type)).sum();
    let mut written = 0;
    let mut on_written = |bytes| {
        written += bytes;
        progress(written, total);
    };
    if let [whole] = &shards[..] {
        return save_shard(
            model,
            &folder.join("model.safetensors"),
            whole,
            options.element_type,
            &mut on_written,
        );
    }
    let mut weight_map = Map::new();
    for (i, shard) in shards.iter().enumerate() {
        let file = format!("model-{:05}-of-{:05}.safetensors", i + 1, shards.len());
        save_shard(model, &folder.join(&file), shard, options.element_type, &mut on_written)?;
        weight_map.extend(shard.iter().map(|spec| (spec.name.clone(), Value::from(file.clone()))));
    }
    let index = json!({ "metadata": { "total_size": total }, "weight_map": weight_map });
    write_json(&folder.join("model.safetensors.index.json"), &index)
}

/// The tensors of a folder, split over its files.
fn shards(config: &Config, options: SaveOptions) -> Vec<Vec<Spec>> {
    let mut tensors = if config_json::is_gpt2(config) { specs_with_absent(config) } else { specs(config) };
    tensors.sort_by(|a, b| a.name.cmp(&b.name));
    let (mut shards, mut size) = (vec![Vec::new()], 0);
    for spec in tensors {
        let bytes = bytes(&spec, options.element_type);
        // A tensor is never cut: one that is larger than a file may be has a file for itself.
        if size > 0 && options.shard.is_some_and(|most| size + bytes > most) {
            shards.push(Vec::new());
            size = 0;
        }
        size += bytes;
        if let Some(shard) = shards.last_mut() {
            shard.push(spec);
        }
    }
    shards
}

fn bytes(spec: &Spec, element_type: ElementType) -> u64 {
    spec.count() * element_type.block_bytes() as u64
}

/// Writes a safetensors file: the length of a JSON header, the header, and the elements that it describes.
fn save_shard(
    model: ModelView,
    path: &Path,
    tensors: &[Spec],
    element_type: ElementType,
    on_written: &mut dyn FnMut(u64),
) -> Result<()> {
    replace_file(path, |file| {
        let header = header(tensors, element_type);
        let start = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
        file.write_all(&start).map_err(|e| Error::io(path, e))?;
        for spec in tensors {
            write_elements(model, spec, element_type, file).map_err(|e| Error::writing(path, e))?;
            on_written(bytes(spec, element_type));
        }
        Ok(())
    })
}

fn header(tensors: &[Spec], element_type: ElementType) -> String {
    let dtype = element_type.name().to_uppercase();
    let mut header = Map::from_iter([("__metadata__".to_owned(), json!({ "format": "pt" }))]);
    let mut at = 0;
    for spec in tensors {
        let end = at + bytes(spec, element_type);
        let entry = json!({ "dtype": dtype, "shape": spec.shape, "data_offsets": [at, end] });
        header.insert(spec.name.clone(), entry);
        at = end;
    }
    let mut text = Value::Object(header).to_string();
    // The elements begin at a multiple of 8.
    text.extend(std::iter::repeat_n(' ', text.len().next_multiple_of(8) - text.len()));
    text
}

/// A tensor's elements row by row; a bias that the model does not have is zeros.
fn write_elements(
    model: ModelView,
    spec: &Spec,
    element_type: ElementType,
    out: &mut impl Write,
) -> candle_core::Result<()> {
    /// Elements that are converted at a time.
    const CHUNK: usize = 1 << 20;
    let (Some(tensor), Some(dtype)) = (model.tensors.plain(&spec.name)?, element_type.plain()) else {
        return Ok(out.write_all(&vec![0; bytes(spec, element_type) as usize])?);
    };
    let tensor = tensor.detach().to_device(&Device::Cpu)?.flatten_all()?;
    let count = tensor.elem_count();
    for start in (0..count).step_by(CHUNK) {
        tensor.narrow(0, start, CHUNK.min(count - start))?.to_dtype(dtype)?.write_bytes(out)?;
    }
    Ok(())
}
