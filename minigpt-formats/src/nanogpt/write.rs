//! Writing nanoGPT's `ckpt.pt`: what `torch.save` would have written, one tensor in memory at a time.

use super::nanogpt::TURNED;
use super::save::Progress;
use super::{io, problem};
use crate::error::Result;
use candle_core::DType;
use minigpt_files::replace_file;
use minigpt_model::Source;
use minigpt_model::config::{Activation, Config, NormPosition, PositionEmbedding};
use minigpt_model::parameters::{Spec, specs};
use std::io::Write;
use std::path::Path;

/// An archive of the simple kind holds no more.
const LARGEST: u64 = u32::MAX as u64 - (1 << 24);

/// Writes a checkpoint that nanoGPT's `sample.py` opens. `dataset` names the folder under `data/` in which it looks for
/// the characters (`meta.pkl`); without it, it takes GPT-2's tokens.
pub fn save_nanogpt(source: Source, dataset: Option<&str>, path: &Path, progress: Progress) -> Result<()> {
    if let Some(reason) = refusal(source.config) {
        return Err(problem(path, reason));
    }
    let tensors = tensors(source.config);
    let total: u64 = tensors.iter().map(Named::bytes).sum();
    if total > LARGEST {
        return Err(problem(path, "the model is too large: such an archive holds 4 GB at most"));
    }
    let pickle = pickle(source.config, dataset, &tensors);
    replace_file(path, |file| {
        let failed = |e| io(path, e);
        let mut archive = Archive::new(file);
        archive.file("archive/data.pkl", &pickle).map_err(failed)?;
        archive.file("archive/byteorder", b"little").map_err(failed)?;
        let mut written = 0;
        for (i, named) in tensors.iter().enumerate() {
            archive.file(&format!("archive/data/{i}"), &numbers(source, named)?).map_err(failed)?;
            written += named.bytes();
            progress(written, total);
        }
        archive.file("archive/version", b"3\n").and_then(|()| archive.finish()).map_err(failed)
    })
}

/// Why nanoGPT's model can't be this one, if it can't.
fn refusal(config: &Config) -> Option<String> {
    let biases = [config.qkv_bias, config.attn_out_bias, config.mlp_bias, config.norm_bias];
    let reasons = [
        (config.norm_position == NormPosition::Post, "norms after the layers"),
        (config.position_embedding != PositionEmbedding::Learned, "positions that are not learned"),
        (config.scale_embeddings, "scaled embeddings"),
        (config.lm_head_bias, "a bias on the output head"),
        (config.activation_function == Activation::Relu, "ReLU"),
        (!config.tie_word_embeddings, "an output head of its own"),
        (
            config.n_inner.is_some_and(|inner| inner != 4 * config.n_embd),
            "an n_inner other than 4 times n_embd",
        ),
        (biases.iter().any(|&bias| bias != biases[0]), "some biases without others"),
    ];
    let reasons: Vec<&str> = reasons.into_iter().filter(|(is, _)| *is).map(|(_, what)| what).collect();
    (!reasons.is_empty()).then(|| format!("nanoGPT's model can't have {}", reasons.join(", or ")))
}

/// A tensor under nanoGPT's name, in its layout.
struct Named {
    ours: String,
    theirs: String,
    shape: Vec<usize>,
    turned: bool,
}

impl Named {
    fn bytes(&self) -> u64 {
        4 * self.shape.iter().map(|&size| size as u64).product::<u64>()
    }
}

/// All tensors but the head, which is the token table once more by name.
fn tensors(config: &Config) -> Vec<Named> {
    let named = |spec: Spec| {
        let turned = TURNED.iter().any(|end| spec.name.ends_with(end));
        let mut shape = spec.shape;
        if turned {
            shape.reverse();
        }
        Named { theirs: format!("transformer.{}", spec.name), ours: spec.name, shape, turned }
    };
    specs(config).into_iter().map(named).collect()
}

fn numbers(source: Source, named: &Named) -> candle_core::Result<Vec<u8>> {
    let tensor = source.tensors.need_plain(&named.ours)?.detach().to_dtype(DType::F32)?;
    let tensor = if named.turned { tensor.t()?.contiguous()? } else { tensor };
    let mut bytes = Vec::with_capacity(named.bytes() as usize);
    tensor.write_bytes(&mut bytes)?;
    Ok(bytes)
}

/// The instructions that put the checkpoint together.
fn pickle(config: &Config, dataset: Option<&str>, tensors: &[Named]) -> Vec<u8> {
    let mut out = Pickle(b"\x80\x02".to_vec());
    out.dict(|out| {
        out.text("model");
        out.dict(|out| {
            for (i, named) in tensors.iter().enumerate() {
                out.text(&named.theirs);
                out.tensor(i, &named.shape);
            }
            if let Some(table) = tensors.iter().position(|named| named.ours == "wte.weight") {
                out.text("lm_head.weight");
                out.tensor(table, &tensors[table].shape);
            }
        });
        out.text("model_args");
        out.dict(|out| {
            let sizes = [
                ("n_layer", config.n_layer),
                ("n_head", config.n_head),
                ("n_embd", config.n_embd),
                ("block_size", config.block_size),
                ("vocab_size", config.vocab_size),
            ];
            for (name, size) in sizes {
                out.text(name);
                out.int(size);
            }
            out.text("bias");
            out.0.push(if config.mlp_bias { 0x88 } else { 0x89 });
            out.text("dropout");
            out.0.push(b'G');
            out.0.extend(config.resid_pdrop.to_be_bytes());
        });
        out.text("iter_num");
        out.int(0);
        out.text("config");
        out.dict(|out| {
            if let Some(dataset) = dataset {
                out.text("dataset");
                out.text(dataset);
            }
        });
    });
    out.0.push(b'.');
    out.0
}

/// A pickle that is being written.
struct Pickle(Vec<u8>);

impl Pickle {
    fn text(&mut self, text: &str) {
        self.0.push(b'X');
        self.0.extend((text.len() as u32).to_le_bytes());
        self.0.extend(text.as_bytes());
    }

    fn int(&mut self, number: usize) {
        self.0.extend([0x8a, 8]);
        self.0.extend((number as i64).to_le_bytes());
    }

    fn dict(&mut self, fill: impl FnOnce(&mut Self)) {
        self.0.extend(b"}(");
        fill(self);
        self.0.push(b'u');
    }

    fn tuple(&mut self, numbers: impl IntoIterator<Item = usize>) {
        self.0.push(b'(');
        numbers.into_iter().for_each(|number| self.int(number));
        self.0.push(b't');
    }

    /// `_rebuild_tensor_v2(storage, 0, shape, strides, False, OrderedDict())`, the numbers being in file `i`.
    fn tensor(&mut self, i: usize, shape: &[usize]) {
        self.0.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((");
        self.text("storage");
        self.0.extend(b"ctorch\nFloatStorage\n");
        self.text(&i.to_string());
        self.text("cpu");
        self.int(shape.iter().product());
        self.0.extend(b"tQ");
        self.int(0);
        self.tuple(shape.iter().copied());
        let strides = (0..shape.len()).map(|dim| shape[dim + 1..].iter().product());
        self.tuple(strides.collect::<Vec<_>>());
        self.0.extend(b"\x89ccollections\nOrderedDict\n)RtR");
    }
}

/// A zip archive of files that are not compressed, each beginning at a multiple of 64 as PyTorch likes it.
struct Archive<W> {
    out: W,
    at: u32,
    directory: Vec<u8>,
    files: u16,
}

impl<W: Write> Archive<W> {
    fn new(out: W) -> Self {
        Self { out, at: 0, directory: Vec::new(), files: 0 }
    }

    fn file(&mut self, name: &str, data: &[u8]) -> std::io::Result<()> {
        const HEADER: usize = 30;
        let too_large = || std::io::Error::other("the archive is too large");
        let size = u32::try_from(data.len()).map_err(|_| too_large())?;
        let (header_at, names) = (self.at, name.len() as u16);
        let unpadded = self.at as usize + HEADER + name.len() + 4;
        let filling = vec![b'Z'; unpadded.next_multiple_of(64) - unpadded];
        let mut extra = b"FB".to_vec();
        extra.extend((filling.len() as u16).to_le_bytes());
        extra.extend(&filling);
        // What the header of a file and its entry in the directory have in common.
        let mut common = Vec::new();
        for short in [20u16, 0, 0, 0, 0x21] {
            common.extend(short.to_le_bytes()); // version, flags, not compressed, midnight, 1 January 1980
        }
        for long in [crc32fast::hash(data), size, size] {
            common.extend(long.to_le_bytes());
        }
        common.extend(names.to_le_bytes());
        let mut header = b"PK\x03\x04".to_vec();
        header.extend(&common);
        header.extend((extra.len() as u16).to_le_bytes());
        header.extend(name.as_bytes());
        header.extend(&extra);
        self.out.write_all(&header)?;
        self.out.write_all(data)?;
        self.directory.extend(b"PK\x01\x02\x14\x00");
        self.directory.extend(&common);
        // No extra field, no comment, disk 0, no attributes.
        self.directory.extend([0; 12]);
        self.directory.extend(header_at.to_le_bytes());
        self.directory.extend(name.as_bytes());
        let length = u32::try_from(header.len()).ok().and_then(|length| length.checked_add(size));
        self.at = length.and_then(|length| self.at.checked_add(length)).ok_or_else(too_large)?;
        self.files = self.files.checked_add(1).ok_or_else(too_large)?;
        Ok(())
    }

    fn finish(mut self) -> std::io::Result<()> {
        self.out.write_all(&self.directory)?;
        let mut end = b"PK\x05\x06\0\0\0\0".to_vec();
        end.extend([self.files, self.files].map(u16::to_le_bytes).concat());
        end.extend((self.directory.len() as u32).to_le_bytes());
        end.extend(self.at.to_le_bytes());
        end.extend([0, 0]);
        self.out.write_all(&end)?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::super::load;
    use super::*;
    use candle_core::{Device, Tensor};
    use minigpt_model::Gpt;

    #[test]
    fn what_is_written_is_read_again() {
        for bias in [false, true] {
            let shape = Config {
                n_layer: 2,
                n_head: 2,
                n_embd: 12,
                block_size: 8,
                vocab_size: 30,
                ..Config::default()
            };
            let shape =
                Config { activation_function: Activation::Gelu, ..shape }.with_bias(bias).with_dropout(0.25);
            let gpt = Gpt::new(shape, 3, &Device::Cpu).unwrap();
            let path = tempfile::tempdir().unwrap().keep().join("ckpt.pt");
            save_nanogpt(gpt.source(), Some("x"), &path, &mut |_, _| {}).unwrap();
            let read = load(&path, &Device::Cpu).unwrap();
            assert_eq!(read.config(), gpt.config());
            for (a, b) in read.parameters().iter().zip(gpt.parameters()) {
                let numbers = |tensor: &Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
                assert_eq!(numbers(&a.tensor), numbers(&b.tensor), "{}", a.name);
            }
        }
    }

    #[test]
    fn what_nanogpt_can_not_be_is_refused() {
        for (preset, reason) in [("textbook", "ReLU"), ("qa", "some biases")] {
            let config = Config::preset(preset).unwrap();
            assert!(refusal(&config).unwrap().contains(reason), "{preset}");
        }
        assert_eq!(refusal(&Config::preset("shakespeare-char").unwrap()), None);
    }
}
