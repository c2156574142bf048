//! Writing a model folder: one tensor in memory at a time, each file whole or not at all.

use super::{config_json, io};
use crate::error::Result;
use candle_core::{DType, Device};
use minigpt_files::{replace_file, write_file};
use minigpt_model::Gpt;
use minigpt_model::Source;
use minigpt_model::config::Config;
use minigpt_model::parameters::{Spec, specs, specs_with_absent};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::Path;

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

/// Hears, while a model is being written, how many bytes of how many are.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// Writes `config.json`, `generation_config.json` and `model.safetensors` into a folder, which is made if need be.
/// Each file appears whole or not at all. What GPT-2 can express is written as GPT-2.
pub fn save(gpt: &Gpt, folder: &Path) -> Result<()> {
    save_as(gpt.source(), folder, SaveOptions::default(), &mut |_, _| {})
}

/// The same from memory or from files, with other numbers, or with the weights shared out among several files.
pub fn save_as(source: Source, folder: &Path, options: SaveOptions, progress: Progress) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|e| io(folder, e))?;
    save_weights(source, folder, options, progress)?;
    save_config(source, folder, options.dtype)
}

/// Writes `config.json` and `generation_config.json` alone.
pub fn save_config(source: Source, folder: &Path, dtype: DType) -> Result<()> {
    let config = config_json::write(source.config, source.extra, dtype);
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

fn save_weights(source: Source, folder: &Path, options: SaveOptions, progress: Progress) -> Result<()> {
    let shards = shards(source.config, options);
    let total = shards.iter().flatten().map(|spec| bytes(spec, options.dtype)).sum();
    let mut written = 0;
    let mut heard = |bytes| {
        written += bytes;
        progress(written, total);
    };
    if let [whole] = &shards[..] {
        return save_shard(source, &folder.join("model.safetensors"), whole, options.dtype, &mut heard);
    }
    let mut weight_map = Map::new();
    for (i, shard) in shards.iter().enumerate() {
        let file = format!("model-{:05}-of-{:05}.safetensors", i + 1, shards.len());
        save_shard(source, &folder.join(&file), shard, options.dtype, &mut heard)?;
        weight_map.extend(shard.iter().map(|spec| (spec.name.clone(), Value::from(file.clone()))));
    }
    let index = json!({ "metadata": { "total_size": total }, "weight_map": weight_map });
    write_json(&folder.join("model.safetensors.index.json"), &index)
}

/// The tensors of a folder, shared out among its files.
fn shards(config: &Config, options: SaveOptions) -> Vec<Vec<Spec>> {
    let mut tensors = match config_json::is_gpt2(config) {
        true => specs_with_absent(config),
        false => specs(config),
    };
    tensors.sort_by(|a, b| a.name.cmp(&b.name));
    let (mut shards, mut size) = (vec![Vec::new()], 0);
    for spec in tensors {
        let bytes = bytes(&spec, options.dtype);
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

fn bytes(spec: &Spec, dtype: DType) -> u64 {
    spec.count() * dtype.size_in_bytes() as u64
}

/// Writes a safetensors file: the length of a JSON header, the header, and the numbers that it describes.
fn save_shard(
    source: Source,
    path: &Path,
    tensors: &[Spec],
    dtype: DType,
    heard: &mut dyn FnMut(u64),
) -> Result<()> {
    replace_file(path, |file| {
        let header = header(tensors, dtype);
        let start = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
        file.write_all(&start).map_err(|e| io(path, e))?;
        for spec in tensors {
            write_numbers(source, spec, dtype, file)?;
            heard(bytes(spec, dtype));
        }
        Ok(())
    })
}

fn header(tensors: &[Spec], dtype: DType) -> String {
    let kind = match dtype {
        DType::F16 => "F16",
        DType::BF16 => "BF16",
        _ => "F32",
    };
    let mut header = Map::from_iter([("__metadata__".to_owned(), json!({ "format": "pt" }))]);
    let mut at = 0;
    for spec in tensors {
        let end = at + bytes(spec, dtype);
        let entry = json!({ "dtype": kind, "shape": spec.shape, "data_offsets": [at, end] });
        header.insert(spec.name.clone(), entry);
        at = end;
    }
    let mut text = Value::Object(header).to_string();
    // The numbers begin at a multiple of 8.
    text.extend(std::iter::repeat_n(' ', text.len().next_multiple_of(8) - text.len()));
    text
}

/// A tensor's numbers row by row; a bias that the model has not is zeros.
fn write_numbers(source: Source, spec: &Spec, dtype: DType, out: &mut impl Write) -> candle_core::Result<()> {
    /// ElementType that are converted at a time.
    const PIECE: usize = 1 << 20;
    let Some(tensor) = source.tensors.plain(&spec.name)? else {
        return Ok(out.write_all(&vec![0; bytes(spec, dtype) as usize])?);
    };
    let tensor = tensor.detach().to_device(&Device::Cpu)?.flatten_all()?;
    let count = tensor.elem_count();
    for start in (0..count).step_by(PIECE) {
        tensor.narrow(0, start, PIECE.min(count - start))?.to_dtype(dtype)?.write_bytes(out)?;
    }
    Ok(())
}
