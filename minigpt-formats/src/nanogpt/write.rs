//! Writing nanoGPT's `ckpt.pt`: what `torch.save` would have written, one tensor in memory at a time.

use super::MomentsProblem;
use crate::Progress;
use crate::error::{Error, Result};
use crate::other_tools::{Feature, OtherDecoder, Unsupported};
use crate::torch::{ArchiveWriter, PickleWriter};
use candle_core::{DType, Device, Tensor};
use minigpt_files::{Mapped, replace_file};
use minigpt_model::ModelView;
use minigpt_model::config::Config;
use minigpt_model::parameters::{Part, Spec, specs};
use safetensors::{Dtype, SafeTensors};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// How a model was trained, for training it further with nanoGPT.
#[derive(Debug, Clone, Default)]
pub struct NanoGptTraining {
    /// The number of steps.
    pub iter_num: u64,
    /// The best validation loss so far.
    pub best_val_loss: Option<f64>,
    /// The settings, under nanoGPT's names: numbers, switches and texts.
    pub settings: Map<String, Value>,
    /// AdamW's settings and moments; nanoGPT's own settings without moments if not set.
    pub optimizer: Option<OptimizerState>,
}

impl NanoGptTraining {
    fn moments(&self) -> Option<&Path> {
        self.optimizer.as_ref()?.moments.as_deref()
    }
}

/// AdamW's state.
#[derive(Debug, Clone)]
pub struct OptimizerState {
    /// A safetensors file with the moments of each parameter, `m.NAME` and `v.NAME`, in GPT-2's layout. If not set, the
    /// optimizer is written as one that has not made a step.
    pub moments: Option<PathBuf>,
    /// The learning rate.
    pub learning_rate: f64,
    /// The decay rates of the two moments.
    pub betas: (f64, f64),
    /// The term that keeps the division finite.
    pub eps: f64,
    /// The weight decay of matrices.
    pub weight_decay: f64,
}

/// Writes a checkpoint that nanoGPT's `sample.py` opens and its `train.py` resumes. `dataset` is the folder under `data/` with
/// the characters (`meta.pkl`); without it, nanoGPT uses GPT-2's tokens.
///
/// # Errors
/// nanoGPT does not support the model, or the moments are not those of this model.
pub fn save(
    model: ModelView,
    dataset: Option<&str>,
    training: &NanoGptTraining,
    path: &Path,
    progress: Progress,
) -> Result<()> {
    if let Some(problem) = refusal(model.config) {
        return Err(Error::bad(path, problem));
    }
    let tensors = tensors(model.config);
    let file = training.moments().map(Mapped::open).transpose()?;
    let moments = file.as_ref().map(|file| Moments::open(file.bytes(), &tensors)).transpose();
    let moments = moments.map_err(|problem| Error::bad(path, problem))?;
    let copies = if moments.is_some() { 3 } else { 1 };
    let total = copies * tensors.iter().map(TheirTensor::bytes).sum::<u64>();
    let pickle = pickle(model.config, dataset, training, &tensors);
    replace_file(path, |file| {
        let failed = |e| Error::io(path, e);
        let mut archive = ArchiveWriter::new(file);
        archive.add("data.pkl", &pickle).map_err(failed)?;
        archive.add("byteorder", b"little").map_err(failed)?;
        let mut written = 0;
        for (i, tensor) in tensors.iter().enumerate() {
            let value = model.tensors.need_plain(&tensor.spec.name)?;
            archive.add(&format!("data/{i}"), &tensor.elements(&value)?).map_err(failed)?;
            written += tensor.bytes();
            progress(written, total);
        }
        for (i, tensor) in tensors.iter().enumerate() {
            let Some(moments) = &moments else { break };
            for (part, place) in PARTS.into_iter().zip(1..) {
                let elements = tensor.elements(&moments.tensor(part, tensor)?)?;
                archive.add(&format!("data/{}", i + place * tensors.len()), &elements).map_err(failed)?;
                written += tensor.bytes();
                progress(written, total);
            }
            let step = (training.iter_num as f32).to_le_bytes();
            archive.add(&format!("data/{}", i + 3 * tensors.len()), &step).map_err(failed)?;
        }
        archive.add("version", b"3\n").map_err(failed)?;
        archive.finish().map_err(failed)?;
        Ok(())
    })
}

/// The parts of a model that nanoGPT does not support, if there are any.
pub fn refusal(config: &Config) -> Option<Unsupported> {
    let biases = [config.qkv_bias, config.attn_out_bias, config.mlp_bias, config.norm_bias];
    let further = [
        (!config.tie_word_embeddings, Feature::UntiedHead),
        (config.n_inner.is_some_and(|inner| inner != 4 * config.n_embd), Feature::InnerWidth),
        (biases.iter().any(|&bias| bias != biases[0]), Feature::SomeBiases),
    ];
    Unsupported::any(OtherDecoder::NanoGpt, &[&Feature::beyond_gpt2(config)[..], &further].concat())
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

    /// The bytes of a tensor that we have in GPT-2's layout.
    fn elements(&self, tensor: &Tensor) -> candle_core::Result<Vec<u8>> {
        let tensor = tensor.detach().to_dtype(DType::F32)?;
        let tensor = if self.spec.is_linear_weight() { tensor.t()?.contiguous()? } else { tensor };
        let mut bytes = Vec::with_capacity(self.bytes() as usize);
        tensor.write_bytes(&mut bytes)?;
        Ok(bytes)
    }
}

/// What AdamW's two moments are called in our files.
const PARTS: [&str; 2] = ["m", "v"];

/// The moments of every parameter.
struct Moments<'a>(SafeTensors<'a>);

impl<'a> Moments<'a> {
    fn open(bytes: &'a [u8], tensors: &[TheirTensor]) -> Result<Self, MomentsProblem> {
        let moments = SafeTensors::deserialize(bytes);
        let moments = Self(moments.map_err(|e| MomentsProblem::Malformed(e.to_string()))?);
        for tensor in tensors {
            for part in PARTS {
                let name = format!("{part}.{}", tensor.spec.name);
                let Ok(found) = moments.0.tensor(&name) else {
                    return Err(MomentsProblem::Missing { name });
                };
                if found.shape() != tensor.spec.shape || found.dtype() != Dtype::F32 {
                    return Err(MomentsProblem::Shape { name });
                }
            }
        }
        Ok(moments)
    }

    fn tensor(&self, part: &str, tensor: &TheirTensor) -> candle_core::Result<Tensor> {
        let found =
            self.0.tensor(&format!("{part}.{}", tensor.spec.name)).map_err(candle_core::Error::wrap)?;
        Tensor::from_raw_buffer(found.data(), DType::F32, found.shape(), &Device::Cpu)
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
fn pickle(
    config: &Config,
    dataset: Option<&str>,
    training: &NanoGptTraining,
    tensors: &[TheirTensor],
) -> Vec<u8> {
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
            out.text("optimizer");
            out.dict(|out| optimizer(out, training, tensors));
            out.text("iter_num");
            out.int(training.iter_num as usize);
            out.text("best_val_loss");
            // What nanoGPT begins with.
            out.float(training.best_val_loss.unwrap_or(1e9));
            out.text("config");
            out.dict(|out| settings(out, config, dataset, training));
        });
    })
}

/// The state of `torch.optim.AdamW` over nanoGPT's two groups: matrices, which decay, and the rest. Without moments it is
/// that of an optimizer that has not made a step.
fn optimizer(out: &mut PickleWriter, training: &NanoGptTraining, tensors: &[TheirTensor]) {
    let count = tensors.len();
    let (decaying, others): (Vec<usize>, Vec<usize>) = (0..count).partition(|&i| tensors[i].shape.len() >= 2);
    let numbered: Vec<usize> = decaying.iter().chain(&others).copied().collect();
    out.text("state");
    out.dict(|out| {
        for (number, &i) in numbered.iter().enumerate() {
            if training.moments().is_none() {
                break;
            }
            out.int(number);
            out.dict(|out| {
                for (name, place) in [("exp_avg", 1), ("exp_avg_sq", 2)] {
                    out.text(name);
                    out.tensor(i + place * count, &tensors[i].shape);
                }
                out.text("step");
                out.tensor(i + 3 * count, &[]);
            });
        }
    });
    let OptimizerState { learning_rate, betas, eps, weight_decay, .. } = match &training.optimizer {
        Some(state) => state.clone(),
        // nanoGPT's own.
        None => OptimizerState {
            moments: None,
            learning_rate: 6e-4,
            betas: (0.9, 0.95),
            eps: 1e-8,
            weight_decay: 0.1,
        },
    };
    out.text("param_groups");
    out.list(|out| {
        for (numbers, decay) in [(0..decaying.len(), weight_decay), (decaying.len()..count, 0.0)] {
            out.dict(|out| {
                for (name, value) in [("lr", learning_rate), ("eps", eps), ("weight_decay", decay)] {
                    out.text(name);
                    out.float(value);
                }
                out.text("betas");
                out.tuple(|out| [betas.0, betas.1].into_iter().for_each(|beta| out.float(beta)));
                for name in ["amsgrad", "maximize", "capturable", "differentiable"] {
                    out.text(name);
                    out.bool(false);
                }
                out.text("params");
                out.list(|out| numbers.for_each(|number| out.int(number)));
            });
        }
    });
}

/// The settings of the run, as nanoGPT keeps them.
fn settings(out: &mut PickleWriter, config: &Config, dataset: Option<&str>, training: &NanoGptTraining) {
    let sizes = json!({
        "n_layer": config.n_layer, "n_head": config.n_head, "n_embd": config.n_embd,
        "block_size": config.block_size, "bias": config.mlp_bias, "dropout": config.resid_pdrop,
    });
    let dataset = dataset.map(|dataset| ("dataset".to_owned(), Value::from(dataset)));
    let sizes = sizes.as_object().cloned().unwrap_or_default();
    for (name, value) in dataset.into_iter().chain(sizes).chain(training.settings.clone()) {
        out.text(&name);
        match value {
            Value::Bool(yes) => out.bool(yes),
            Value::Number(number) => match number.as_u64() {
                Some(whole) => out.int(whole as usize),
                None => out.float(number.as_f64().unwrap_or_default()),
            },
            other => out.text(other.as_str().unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;
    use crate::torch::{self, TorchArchive};
    use minigpt_model::{Activation, Gpt};

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
            save(gpt.view(), Some("x"), &NanoGptTraining::default(), &path, &mut |_, _| {}).unwrap();
            let read = load(&path, &Device::Cpu).unwrap().gpt;
            assert_eq!(read.config(), gpt.config());
            for (a, b) in read.parameters().iter().zip(gpt.parameters()) {
                let elements = |tensor: &Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
                assert_eq!(elements(&a.tensor), elements(&b.tensor), "{}", a.name);
            }
        }
    }

    #[test]
    fn the_state_of_training_goes_with_the_model() {
        let shape =
            Config { n_layer: 1, n_head: 1, n_embd: 4, block_size: 8, vocab_size: 5, ..Config::default() };
        let gpt =
            Gpt::new(Config { activation_function: Activation::Gelu, ..shape }, 3, &Device::Cpu).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let moments: std::collections::HashMap<String, Tensor> = gpt
            .parameters()
            .into_iter()
            .flat_map(|p| [("m", 0.5), ("v", 0.25)].map(|(part, x)| (part, x, p.clone())))
            .map(|(part, x, p)| (format!("{part}.{}", p.name), (p.tensor.detach() * x).unwrap()))
            .collect();
        candle_core::safetensors::save(&moments, folder.path().join("o")).unwrap();
        let settings = json!({"max_iters": 50, "min_lr": 1e-4, "decay_lr": true});
        let training = NanoGptTraining {
            iter_num: 7,
            best_val_loss: Some(1.5),
            settings: settings.as_object().unwrap().clone(),
            optimizer: Some(OptimizerState {
                moments: Some(folder.path().join("o")),
                learning_rate: 1e-3,
                betas: (0.9, 0.99),
                eps: 1e-8,
                weight_decay: 0.2,
            }),
        };
        let path = folder.path().join("ckpt.pt");
        save(gpt.view(), Some("x"), &training, &path, &mut |_, _| {}).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let read = TorchArchive::open(&bytes).unwrap();
        let part = |name: &str| read.root.get(name).unwrap();
        assert_eq!(part("iter_num").as_size(), Some(7));
        assert_eq!(part("best_val_loss"), &torch::Value::Float(1.5));
        assert_eq!(part("config").get("max_iters").unwrap().as_size(), Some(50));
        let groups = part("optimizer").get("param_groups").unwrap().as_list().unwrap();
        let count = |group: usize| groups[group].get("params").unwrap().as_list().unwrap().len();
        // Two tables and four matrices; four biases of theirs, and weight and bias of three norms.
        assert_eq!((count(0), count(1)), (6, 10));
        let torch::Value::Dict(state) = part("optimizer").get("state").unwrap() else { panic!() };
        assert_eq!(state.len(), 16);
        // The third matrix is c_attn, whose layout is the other way round there.
        let moment = read.tensor(state[2].1.get("exp_avg").unwrap()).unwrap().unwrap();
        assert_eq!(moment.shape, [12, 4]);
        assert_eq!(crate::nanogpt::dataset(&bytes).as_deref(), Some("x"));
        // Without moments the settings are still those of the run.
        let mut begun = training;
        begun.optimizer.as_mut().unwrap().moments = None;
        save(gpt.view(), None, &begun, &path, &mut |_, _| {}).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let optimizer = TorchArchive::open(&bytes).unwrap().root.get("optimizer").unwrap().clone();
        assert_eq!(optimizer.get("state"), Some(&torch::Value::Dict([].into())));
        let group = &optimizer.get("param_groups").unwrap().as_list().unwrap()[0];
        let float = |name: &str| group.get(name).unwrap().clone();
        assert_eq!(float("lr"), torch::Value::Float(1e-3));
        assert_eq!(float("weight_decay"), torch::Value::Float(0.2));
        let betas = group.get("betas").unwrap().as_list().unwrap().to_vec();
        assert_eq!(betas, [0.9, 0.99].map(torch::Value::Float));
    }

    #[test]
    fn what_nanogpt_can_not_be_is_refused() {
        for (preset, reason) in [("textbook", "ReLU"), ("qa", "some biases")] {
            let config = Config::preset(preset).unwrap();
            assert!(refusal(&config).unwrap().to_string().contains(reason), "{preset}");
        }
        assert_eq!(refusal(&Config::preset("shakespeare-char").unwrap()), None);
    }
}
