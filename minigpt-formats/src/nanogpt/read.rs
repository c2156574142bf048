//! nanoGPT's `ckpt.pt`: its names and layouts, and what its `model_args` say.

use super::NanoGptProblem;
use crate::layout::LinearWeights;
use crate::mapped_model::our_name;
use crate::state_dict::StateDict;
use crate::tensor_view::TensorView;
use crate::torch::{TorchArchive, Value};
use minigpt_model::config::{Activation, Config};
use std::path::{Component, Path};

/// The model of a checkpoint.
pub fn read(bytes: &[u8]) -> Result<(Config, Vec<(String, TensorView<'_>)>), NanoGptProblem> {
    let checkpoint = TorchArchive::open(bytes)?;
    let part = |name: &str| checkpoint.root.get(name);
    let (Some(model), Some(arguments)) = (part("model"), part("model_args")) else {
        return Err(match StateDict::read(bytes) {
            Ok(_) => NanoGptProblem::Incomplete,
            Err(problem) => NanoGptProblem::NotACheckpoint { state_dict: Box::new(problem) },
        });
    };
    let config = config(arguments)?;
    let linear = LinearWeights::of(&config);
    let tensors = checkpoint.tensors(model)?.into_iter().map(|(name, tensor)| {
        // A compiled model puts this before every name.
        let name = our_name(name.strip_prefix("_orig_mod.").unwrap_or(&name)).to_owned();
        let tensor = linear.in_gpt2_layout(&name, tensor);
        (name, tensor)
    });
    Ok((config, tensors.collect()))
}

/// The folder under nanoGPT's `data/` that a checkpoint was trained on, if it says so: a name, and no way out of `data/`.
pub fn dataset(bytes: &[u8]) -> Option<String> {
    let checkpoint = TorchArchive::open(bytes).ok()?;
    let name = checkpoint.root.get("config")?.get("dataset")?.as_str()?.to_owned();
    let is_name = Path::new(&name).components().all(|part| matches!(part, Component::Normal(_)));
    (is_name && !name.is_empty()).then_some(name)
}

fn config(arguments: &Value) -> Result<Config, NanoGptProblem> {
    let size = |name: &'static str| {
        let value = arguments.get(name).and_then(Value::as_size);
        value.ok_or(NanoGptProblem::Argument(name))
    };
    // Checkpoints from before the switch have all biases, and no word about them.
    let bias = !matches!(arguments.get("bias"), Some(Value::Bool(false)));
    let dropout = match arguments.get("dropout") {
        Some(Value::Float(dropout)) => *dropout,
        _ => 0.0,
    };
    let config = Config {
        vocab_size: size("vocab_size")?,
        block_size: size("block_size")?,
        n_layer: size("n_layer")?,
        n_head: size("n_head")?,
        n_embd: size("n_embd")?,
        activation_function: Activation::Gelu,
        ..Config::default()
    };
    let config = config.with_bias(bias).with_dropout(dropout);
    config.validate()?;
    Ok(config)
}
