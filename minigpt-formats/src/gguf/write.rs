//! Writing a GGUF file, one tensor in memory at a time.

use super::{ALIGNMENT, is_turned, refusal, their_name};
use crate::error::{Error, Result};
use crate::folder::Progress;
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Tensor};
use minigpt_files::replace_file;
use minigpt_model::Source;
use minigpt_model::config::Config;
use minigpt_model::parameters::specs_with_absent;
use std::io::Write;
use std::path::Path;

/// How the numbers of matrices are written. Norms, biases and positions stay f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dtype {
    /// 32 bits, nothing lost.
    F32,
    /// 16 bits.
    F16,
    /// 8.5 bits: blocks of 32 with a common scale.
    Q8_0,
    /// 4.5 bits: blocks of 256 with scales of their own.
    Q4K,
}

/// A value of the metadata.
#[derive(Debug, Clone, PartialEq)]
pub enum Meta {
    /// A whole number.
    U32(u32),
    /// A number.
    F32(f32),
    /// Yes or no.
    Bool(bool),
    /// Text.
    Str(String),
    /// Texts.
    Strs(Vec<String>),
    /// Whole numbers, possibly negative.
    I32s(Vec<i32>),
}

struct Info {
    /// Our name, and theirs.
    ours: String,
    theirs: String,
    /// Rows first, as we write shapes; GGUF has them the other way round.
    shape: Vec<usize>,
    dtype: GgmlDType,
    offset: u64,
}

/// Writes a model; `tokenizer` is what llama.cpp wants to know about its tokens. The file appears whole or not at all.
pub fn save(
    source: Source,
    tokenizer: Vec<(String, Meta)>,
    dtype: Dtype,
    path: &Path,
    progress: Progress,
) -> Result<()> {
    if let Some(message) = refusal(source.config) {
        return Err(Error::bad(path, message));
    }
    let (infos, total) = infos(source.config, dtype);
    let mut metadata = metadata(source.config, dtype);
    metadata.extend(tokenizer);
    replace_file(path, |file| {
        let mut write = |bytes: &[u8]| {
            let padding = padding(bytes.len() as u64);
            file.write_all(bytes).and_then(|()| file.write_all(&padding)).map_err(|e| Error::io(path, e))
        };
        write(&header(&metadata, &infos))?;
        for info in &infos {
            let bytes = numbers(source, info)?;
            write(&bytes)?;
            progress(info.offset + bytes.len() as u64, total);
        }
        Ok(())
    })
}

/// All tensors that llama.cpp expects, absent biases included, and how many bytes their numbers take.
fn infos(config: &Config, dtype: Dtype) -> (Vec<Info>, u64) {
    let mut offset = 0;
    let mut infos = Vec::new();
    for spec in specs_with_absent(config) {
        let Some(theirs) = their_name(&spec.name) else { continue };
        let mut shape = spec.shape;
        if is_turned(&spec.name, &shape) {
            shape.reverse();
        }
        let dtype = number_type(&spec.name, &shape, dtype);
        let bytes = shape.iter().product::<usize>() / dtype.block_size() * dtype.type_size();
        infos.push(Info { ours: spec.name, theirs, shape, dtype, offset });
        offset += (bytes as u64).next_multiple_of(ALIGNMENT);
    }
    (infos, offset)
}

/// The type of a tensor: blocks lie within rows, so a row that they do not fill is written with more bits.
fn number_type(name: &str, shape: &[usize], dtype: Dtype) -> GgmlDType {
    let [_, row] = shape[..] else { return GgmlDType::F32 };
    match dtype {
        _ if name == "wpe.weight" => GgmlDType::F32,
        Dtype::F32 => GgmlDType::F32,
        Dtype::Q4K if row.is_multiple_of(256) => GgmlDType::Q4K,
        Dtype::Q4K | Dtype::Q8_0 if row.is_multiple_of(32) => GgmlDType::Q8_0,
        Dtype::F16 | Dtype::Q8_0 | Dtype::Q4K => GgmlDType::F16,
    }
}

fn numbers(source: Source, info: &Info) -> candle_core::Result<Vec<u8>> {
    let tensor = match source.tensors.plain(&info.ours)? {
        Some(tensor) if is_turned(&info.ours, &info.shape) => tensor.t()?,
        Some(tensor) => tensor,
        None => Tensor::zeros(&info.shape[..], DType::F32, &Device::Cpu)?,
    };
    let tensor = tensor.detach().to_device(&Device::Cpu)?.contiguous()?;
    Ok(QTensor::quantize(&tensor, info.dtype)?.data()?.into_owned())
}

fn metadata(config: &Config, dtype: Dtype) -> Vec<(String, Meta)> {
    let file_type = match dtype {
        Dtype::F32 => 0,
        Dtype::F16 => 1,
        Dtype::Q8_0 => 7,
        Dtype::Q4K => 14,
    };
    let number = |number: usize| Meta::U32(u32::try_from(number).unwrap_or(u32::MAX));
    let inner = config.n_inner.unwrap_or(4 * config.n_embd);
    let known = [
        ("general.architecture", Meta::Str("gpt2".to_owned())),
        ("general.name", Meta::Str("MiniGPT".to_owned())),
        ("general.file_type", Meta::U32(file_type)),
        ("general.quantization_version", Meta::U32(2)),
        ("gpt2.context_length", number(config.block_size)),
        ("gpt2.embedding_length", number(config.n_embd)),
        ("gpt2.feed_forward_length", number(inner)),
        ("gpt2.block_count", number(config.n_layer)),
        ("gpt2.attention.head_count", number(config.n_head)),
        ("gpt2.attention.layer_norm_epsilon", Meta::F32(config.layer_norm_epsilon as f32)),
    ];
    known.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn header(metadata: &[(String, Meta)], infos: &[Info]) -> Vec<u8> {
    let mut out = b"GGUF".to_vec();
    out.extend(3u32.to_le_bytes());
    out.extend((infos.len() as u64).to_le_bytes());
    out.extend((metadata.len() as u64).to_le_bytes());
    for (name, value) in metadata {
        text(&mut out, name);
        meta(&mut out, value);
    }
    for info in infos {
        text(&mut out, &info.theirs);
        out.extend((info.shape.len() as u32).to_le_bytes());
        info.shape.iter().rev().for_each(|&size| out.extend((size as u64).to_le_bytes()));
        out.extend(type_number(info.dtype).to_le_bytes());
        out.extend(info.offset.to_le_bytes());
    }
    out
}

fn type_number(dtype: GgmlDType) -> u32 {
    match dtype {
        GgmlDType::F16 => 1,
        GgmlDType::Q8_0 => 8,
        GgmlDType::Q4K => 12,
        _ => 0,
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn meta(out: &mut Vec<u8>, value: &Meta) {
    let [u32_kind, i32_kind, f32_kind, bool_kind, str_kind, list_kind] = [4u32, 5, 6, 7, 8, 9];
    let mut list = |kind: u32, count: usize| {
        out.extend(list_kind.to_le_bytes());
        out.extend(kind.to_le_bytes());
        out.extend((count as u64).to_le_bytes());
    };
    match value {
        Meta::U32(number) => {
            out.extend(u32_kind.to_le_bytes());
            out.extend(number.to_le_bytes());
        }
        Meta::F32(number) => {
            out.extend(f32_kind.to_le_bytes());
            out.extend(number.to_le_bytes());
        }
        Meta::Bool(yes) => {
            out.extend(bool_kind.to_le_bytes());
            out.push(u8::from(*yes));
        }
        Meta::Str(string) => {
            out.extend(str_kind.to_le_bytes());
            text(out, string);
        }
        Meta::Strs(strings) => {
            list(str_kind, strings.len());
            strings.iter().for_each(|string| text(out, string));
        }
        Meta::I32s(numbers) => {
            list(i32_kind, numbers.len());
            numbers.iter().for_each(|number| out.extend(number.to_le_bytes()));
        }
    }
}

/// Zeros up to the next place where numbers may begin.
fn padding(length: u64) -> Vec<u8> {
    vec![0; (length.next_multiple_of(ALIGNMENT) - length) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::quantized::gguf_file::Content;
    use minigpt_model::Gpt;
    use std::fs::File;

    fn model(n_embd: usize) -> Gpt {
        let config =
            Config { n_layer: 2, n_head: 2, n_embd, block_size: 16, vocab_size: 40, ..Config::default() };
        Gpt::new(config.with_bias(false), 1, &Device::Cpu).unwrap()
    }

    /// A model as candle's own reader finds it.
    fn written(gpt: &Gpt, dtype: Dtype) -> (Content, File) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        let tokens = ("tokenizer.ggml.tokens".to_owned(), Meta::Strs(vec!["a".into(), "你".into()]));
        save(gpt.source(), vec![tokens], dtype, &path, &mut |_, _| {}).unwrap();
        let mut file = File::open(&path).unwrap();
        (Content::read(&mut file).unwrap(), file)
    }

    #[test]
    fn another_reader_finds_every_number() {
        let gpt = model(24);
        let (content, mut file) = written(&gpt, Dtype::F32);
        assert_eq!(content.metadata["gpt2.block_count"].to_u32().unwrap(), 2);
        assert_eq!(content.metadata["tokenizer.ggml.tokens"].to_vec().unwrap().len(), 2);
        for parameter in gpt.parameters() {
            let theirs = their_name(&parameter.name).unwrap();
            let got =
                content.tensor(&mut file, &theirs, &Device::Cpu).unwrap().dequantize(&Device::Cpu).unwrap();
            let turned = parameter.name.starts_with("h.") && parameter.tensor.rank() == 2;
            let want = if turned { parameter.tensor.t().unwrap() } else { parameter.tensor };
            let (got, want) = (got.flatten_all().unwrap(), want.contiguous().unwrap().flatten_all().unwrap());
            assert_eq!(got.to_vec1::<f32>().unwrap(), want.to_vec1::<f32>().unwrap(), "{theirs}");
        }
        let zeros = content.tensor(&mut file, "blk.1.ffn_up.bias", &Device::Cpu).unwrap();
        assert_eq!(zeros.dequantize(&Device::Cpu).unwrap().to_vec1::<f32>().unwrap(), vec![0.0; 96]);
    }

    #[test]
    fn fewer_bits_are_used_where_their_blocks_fit() {
        let types = |n_embd, dtype| {
            let (content, _) = written(&model(n_embd), dtype);
            ["token_embd.weight", "blk.0.ffn_down.weight", "blk.0.attn_norm.weight"]
                .map(|name| content.tensor_infos[name].ggml_dtype)
        };
        assert_eq!(types(64, Dtype::Q4K), [GgmlDType::Q8_0, GgmlDType::Q4K, GgmlDType::F32]);
        assert_eq!(types(64, Dtype::Q8_0), [GgmlDType::Q8_0, GgmlDType::Q8_0, GgmlDType::F32]);
        assert_eq!(types(24, Dtype::Q8_0), [GgmlDType::F16, GgmlDType::Q8_0, GgmlDType::F32]);
        assert_eq!(types(24, Dtype::F16), [GgmlDType::F16, GgmlDType::F16, GgmlDType::F32]);
    }
}
