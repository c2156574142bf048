//! Writing nanoGPT's `ckpt.pt`: what `torch.save` would have written, one tensor in memory at a time.

use crate::Progress;
use crate::error::{Error, Result};
use crate::torch::{ArchiveWriter, PickleWriter};
use candle_core::DType;
use minigpt_files::replace_file;
use minigpt_model::ModelView;
use minigpt_model::config::{Activation, Config, NormPosition, PositionEmbedding};
use minigpt_model::parameters::{Part, Spec, specs};
use std::path::Path;

/// Writes a checkpoint that nanoGPT's `sample.py` opens. `dataset` names the folder under `data/` in which it looks for
/// the characters (`meta.pkl`); without it, it takes GPT-2's tokens.
pub fn save(model: ModelView, dataset: Option<&str>, path: &Path, progress: Progress) -> Result<()> {
    if let Some(reason) = refusal(model.config) {
        return Err(Error::bad(path, reason));
    }
    let tensors = tensors(model.config);
    let total: u64 = tensors.iter().map(TheirTensor::bytes).sum();
    let pickle = pickle(model.config, dataset, &tensors);
    replace_file(path, |file| {
        let failed = |e| Error::io(path, e);
        let mut archive = ArchiveWriter::new(file);
        archive.add("data.pkl", &pickle).map_err(failed)?;
        archive.add("byteorder", b"little").map_err(failed)?;
        let mut written = 0;
        for (i, tensor) in tensors.iter().enumerate() {
            archive.add(&format!("data/{i}"), &tensor.elements(model)?).map_err(failed)?;
            written += tensor.bytes();
            progress(written, total);
        }
        archive.add("version", b"3\n").map_err(failed)?;
        archive.finish().map_err(failed)?;
        Ok(())
    })
}

/// Why nanoGPT's model can't be this one, if it can't.
pub fn refusal(config: &Config) -> Option<String> {
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

/// A tensor in nanoGPT's layout: the weights of linear layers are (out, in).
struct TheirTensor {
    spec: Spec,
    shape: Vec<usize>,
}

impl TheirTensor {
    fn bytes(&self) -> u64 {
        4 * self.spec.count()
    }

    fn elements(&self, model: ModelView) -> candle_core::Result<Vec<u8>> {
        let tensor = model.tensors.need_plain(&self.spec.name)?.detach().to_dtype(DType::F32)?;
        let tensor = if self.spec.is_linear_weight() { tensor.t()?.contiguous()? } else { tensor };
        let mut bytes = Vec::with_capacity(self.bytes() as usize);
        tensor.write_bytes(&mut bytes)?;
        Ok(bytes)
    }
}

/// All tensors but the head, which is the token table once more by name.
fn tensors(config: &Config) -> Vec<TheirTensor> {
    let theirs = |spec: Spec| {
        let mut shape = spec.shape.clone();
        if spec.is_linear_weight() {
            shape.reverse();
        }
        TheirTensor { spec, shape }
    };
    specs(config).into_iter().map(theirs).collect()
}

/// The pickle that puts the checkpoint together.
fn pickle(config: &Config, dataset: Option<&str>, tensors: &[TheirTensor]) -> Vec<u8> {
    let model = |out: &mut PickleWriter| {
        for (i, tensor) in tensors.iter().enumerate() {
            out.text(&format!("transformer.{}", tensor.spec.name));
            out.tensor(i, &tensor.shape);
        }
        let is_table = |tensor: &TheirTensor| tensor.spec.part == Part::TokenEmbedding;
        if let Some(table) = tensors.iter().position(is_table) {
            out.text("lm_head.weight");
            out.tensor(table, &tensors[table].shape);
        }
    };
    let model_args = |out: &mut PickleWriter| {
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
        out.bool(config.mlp_bias);
        out.text("dropout");
        out.float(config.resid_pdrop);
    };
    PickleWriter::pickle(|out| {
        out.dict(|out| {
            out.text("model");
            out.dict(model);
            out.text("model_args");
            out.dict(model_args);
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
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;
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
            save(gpt.view(), Some("x"), &path, &mut |_, _| {}).unwrap();
            let read = load(&path, &Device::Cpu).unwrap().gpt;
            assert_eq!(read.config(), gpt.config());
            for (a, b) in read.parameters().iter().zip(gpt.parameters()) {
                let elements = |tensor: &Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
                assert_eq!(elements(&a.tensor), elements(&b.tensor), "{}", a.name);
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
