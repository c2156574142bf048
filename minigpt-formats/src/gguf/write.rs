//! Writing a GGUF file, one tensor in memory at a time.

use super::{ABSENT_BIASES, ALIGNMENT, FileType, TYPES, refusal, their_name};
use crate::Progress;
use crate::error::{Error, Result};
use crate::other_tools::{ConversionNote, NotExpressible};
use candle_core::quantized::QTensor;
use candle_core::{DType, Device, Tensor};
use minigpt_files::replace_file;
use minigpt_kernels::ElementType;
use minigpt_model::ModelView;
use minigpt_model::config::Config;
use minigpt_model::parameters::{Spec, specs_with_absent};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

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
    spec: Spec,
    /// llama.cpp's name.
    name: String,
    /// Rows first, as we write shapes; GGUF has them the other way round.
    shape: Vec<usize>,
    /// What a matrix should be, if its rows fill whole blocks.
    wanted: Option<ElementType>,
    element_type: ElementType,
    offset: u64,
}

/// Writes a model with the metadata of its tokenizer. The file appears whole or not at all.
///
/// # Errors
/// The format does not support the model, or no matrix can have the element type that the file type is named after.
pub fn save(
    model: ModelView,
    tokenizer: Vec<(String, Meta)>,
    file_type: FileType,
    path: &Path,
    progress: Progress,
) -> Result<()> {
    if let Some(problem) = refusal(model.config) {
        return Err(Error::bad(path, problem));
    }
    let (infos, total) = infos(model.config, file_type)?;
    check_blocks(&infos, file_type)?;
    let mut metadata = metadata(model.config, file_type);
    metadata.extend(tokenizer);
    replace_file(path, |file| {
        let mut write = |bytes: &[u8]| {
            let padding = padding(bytes.len() as u64);
            file.write_all(bytes).and_then(|()| file.write_all(&padding)).map_err(|e| Error::io(path, e))
        };
        write(&header(&metadata, &infos))?;
        for info in &infos {
            let bytes = elements(model, info)?;
            write(&bytes)?;
            progress(info.offset + bytes.len() as u64, total);
        }
        Ok(())
    })
}

/// Returns an error if no matrix would have the element type of the file type.
fn check_blocks(infos: &[Info], file_type: FileType) -> Result<()> {
    let named = file_type.element_type();
    let fits = |info: &&Info| info.wanted.is_some() && info.element_type.block_size() == named.block_size();
    if infos.iter().any(|info| fits(&info)) {
        return Ok(());
    }
    let rows: BTreeSet<usize> = infos
        .iter()
        .filter(|info| info.wanted.is_some())
        .filter_map(|info| info.shape.last().copied())
        .collect();
    let fits_q8_0 = rows.iter().any(|row| row.is_multiple_of(32));
    let instead = if fits_q8_0 { FileType::Q8_0 } else { FileType::F16 };
    let rows = rows.into_iter().collect();
    Err(NotExpressible::NoMatrix { element_type: named, rows, instead }.into())
}

/// A note on matrices whose rows do not fill the blocks of the file's type, if there are any.
pub(crate) fn fallback(config: &Config, file_type: FileType) -> Result<Option<ConversionNote>> {
    let (infos, _) = infos(config, file_type)?;
    let matrices: Vec<&Info> = infos.iter().filter(|info| info.wanted.is_some()).collect();
    let others: Vec<&&Info> = matrices.iter().filter(|info| info.wanted != Some(info.element_type)).collect();
    let types: BTreeSet<&str> = others.iter().map(|info| info.element_type.name()).collect();
    Ok((!others.is_empty()).then(|| ConversionNote::OtherTypes {
        others: others.len(),
        matrices: matrices.len(),
        types: types.into_iter().collect(),
        file_type,
    }))
}

/// All tensors that llama.cpp expects, absent biases included, and how many bytes their elements take.
fn infos(config: &Config, file_type: FileType) -> Result<(Vec<Info>, u64)> {
    let mut offset = 0;
    let mut infos = Vec::new();
    for spec in specs_with_absent(config) {
        let Some(name) = their_name(&spec.name) else { continue };
        let mut shape = spec.shape.clone();
        if spec.is_linear_weight() {
            shape.reverse();
        }
        let wanted = spec
            .is_quantizable()
            .then(|| file_type.of_matrix(&name, config.n_layer, config.tie_word_embeddings));
        let element_type = match (wanted, &shape[..]) {
            (Some(wanted), [_, row]) => wanted.for_rows_of(*row),
            _ => ElementType::F32,
        };
        let bytes = element_type.bytes(shape.iter().product());
        let bytes = bytes.ok_or_else(|| NotExpressible::TooLarge { name: spec.name.clone() })?;
        infos.push(Info { spec, name, shape, wanted, element_type, offset });
        offset += (bytes as u64).next_multiple_of(ALIGNMENT);
    }
    Ok((infos, offset))
}

fn elements(model: ModelView, info: &Info) -> candle_core::Result<Vec<u8>> {
    let tensor = match model.tensors.plain(&info.spec.name)? {
        Some(tensor) if info.spec.is_linear_weight() => tensor.t()?,
        Some(tensor) => tensor,
        None => Tensor::zeros(&info.shape[..], DType::F32, &Device::Cpu)?,
    };
    let tensor = tensor.detach().to_device(&Device::Cpu)?.contiguous()?;
    let Some(dtype) = info.element_type.ggml() else {
        candle_core::bail!("{} can't be written as {}", info.name, info.element_type);
    };
    Ok(QTensor::quantize(&tensor, dtype)?.data()?.into_owned())
}

fn metadata(config: &Config, file_type: FileType) -> Vec<(String, Meta)> {
    let number = |number: usize| Meta::U32(u32::try_from(number).unwrap_or(u32::MAX));
    let inner = config.n_inner.unwrap_or(4 * config.n_embd);
    let known = [
        ("general.architecture", Meta::Str("gpt2".to_owned())),
        ("general.name", Meta::Str("MiniGPT".to_owned())),
        ("general.file_type", Meta::U32(file_type.number())),
        ("general.quantization_version", Meta::U32(2)),
        ("gpt2.context_length", number(config.block_size)),
        ("gpt2.embedding_length", number(config.n_embd)),
        ("gpt2.feed_forward_length", number(inner)),
        ("gpt2.block_count", number(config.n_layer)),
        ("gpt2.attention.head_count", number(config.n_head)),
        ("gpt2.attention.layer_norm_epsilon", Meta::F32(config.layer_norm_epsilon as f32)),
        // The file has them as zeros.
        (ABSENT_BIASES, Meta::Strs(absent_biases(config))),
    ];
    known.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The switches of the biases that the model is made without.
fn absent_biases(config: &Config) -> Vec<String> {
    let switches: BTreeSet<&str> =
        specs_with_absent(config).into_iter().filter_map(|spec| spec.absent).collect();
    switches.into_iter().map(str::to_owned).collect()
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
        text(&mut out, &info.name);
        out.extend((info.shape.len() as u32).to_le_bytes());
        info.shape.iter().rev().for_each(|&size| out.extend((size as u64).to_le_bytes()));
        out.extend(type_number(info.element_type).to_le_bytes());
        out.extend(info.offset.to_le_bytes());
    }
    out
}

fn type_number(element_type: ElementType) -> u32 {
    TYPES.iter().find(|(_, known)| *known == element_type).map_or(0, |(number, _)| *number)
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

/// Zeros up to the next place where a tensor may begin.
fn padding(length: u64) -> Vec<u8> {
    vec![0; (length.next_multiple_of(ALIGNMENT) - length) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::quantized::GgmlDType;
    use candle_core::quantized::gguf_file::Content;
    use minigpt_model::Gpt;
    use minigpt_model::parameters::specs;
    use std::fs::File;

    fn model(n_embd: usize) -> Gpt {
        let config =
            Config { n_layer: 2, n_head: 2, n_embd, block_size: 16, vocab_size: 40, ..Config::default() };
        Gpt::new(config.with_bias(false), 1, &Device::Cpu).unwrap()
    }

    /// A model as candle's own reader finds it.
    fn written(gpt: &Gpt, file_type: FileType) -> (Content, File) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        let tokens = ("tokenizer.ggml.tokens".to_owned(), Meta::Strs(vec!["a".into(), "你".into()]));
        save(gpt.view(), vec![tokens], file_type, &path, &mut |_, _| {}).unwrap();
        let mut file = File::open(&path).unwrap();
        (Content::read(&mut file).unwrap(), file)
    }

    #[test]
    fn another_reader_finds_every_element() {
        let gpt = model(24);
        let (content, mut file) = written(&gpt, FileType::F32);
        assert_eq!(content.metadata["gpt2.block_count"].to_u32().unwrap(), 2);
        assert_eq!(content.metadata["tokenizer.ggml.tokens"].to_vec().unwrap().len(), 2);
        for (parameter, spec) in gpt.parameters().into_iter().zip(specs(gpt.config())) {
            let theirs = their_name(&parameter.name).unwrap();
            let got =
                content.tensor(&mut file, &theirs, &Device::Cpu).unwrap().dequantize(&Device::Cpu).unwrap();
            let want = if spec.is_linear_weight() { parameter.tensor.t().unwrap() } else { parameter.tensor };
            let (got, want) = (got.flatten_all().unwrap(), want.contiguous().unwrap().flatten_all().unwrap());
            assert_eq!(got.to_vec1::<f32>().unwrap(), want.to_vec1::<f32>().unwrap(), "{theirs}");
        }
        let zeros = content.tensor(&mut file, "blk.1.ffn_up.bias", &Device::Cpu).unwrap();
        assert_eq!(zeros.dequantize(&Device::Cpu).unwrap().to_vec1::<f32>().unwrap(), vec![0.0; 96]);
    }

    #[test]
    fn fewer_bits_are_used_where_their_blocks_fit() {
        let types = |n_embd, file_type| {
            let (content, _) = written(&model(n_embd), file_type);
            ["token_embd.weight", "blk.0.ffn_down.weight", "blk.0.attn_norm.weight"]
                .map(|name| content.tensor_infos[name].ggml_dtype)
        };
        assert_eq!(types(64, FileType::Q4KS), [GgmlDType::Q8_0, GgmlDType::Q4K, GgmlDType::F32]);
        assert_eq!(types(64, FileType::Q8_0), [GgmlDType::Q8_0, GgmlDType::Q8_0, GgmlDType::F32]);
        assert_eq!(types(24, FileType::Q8_0), [GgmlDType::F16, GgmlDType::Q8_0, GgmlDType::F32]);
        assert_eq!(types(24, FileType::F16), [GgmlDType::F16, GgmlDType::F16, GgmlDType::F32]);
        let said = fallback(model(64).config(), FileType::Q4KS).unwrap().unwrap().to_string();
        assert_eq!(said, "7 of 9 matrices are q5_0, q5_1, q8_0: their rows do not fill the blocks of q4_k_s");
        assert_eq!(fallback(model(64).config(), FileType::Q8_0).unwrap(), None);
    }

    #[test]
    fn a_file_without_a_matrix_of_its_type_is_refused() {
        let refused = |n_embd, file_type| {
            let path = tempfile::tempdir().unwrap().keep().join("model.gguf");
            let error = save(model(n_embd).view(), Vec::new(), file_type, &path, &mut |_, _| {}).unwrap_err();
            assert!(!path.exists());
            error.to_string()
        };
        let error = refused(96, FileType::Q4KM);
        assert!(
            error.contains("blocks have 256 elements, and the rows here have 96, 384; use q8_0"),
            "{error}"
        );
        assert!(refused(12, FileType::Q8_0).contains("use f16"));
    }

    #[test]
    fn the_type_of_the_file_is_told_and_biases_that_it_lacks_too() {
        let (content, _) = written(&model(64), FileType::Q5KM);
        assert_eq!(content.metadata["general.file_type"].to_u32().unwrap(), 17);
        assert_eq!(content.metadata[ABSENT_BIASES].to_vec().unwrap().len(), 4);
    }
}
