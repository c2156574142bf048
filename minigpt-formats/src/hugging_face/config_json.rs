//! `config.json`: Hugging Face's names for a configuration, and MiniGPT's further keys for what GPT-2 can't express.

use super::HuggingFaceProblem;
use crate::error::Error;
use crate::mapped_model::ExtraKeys;
use crate::tensor_view::TensorView;
use minigpt_kernels::ElementType;
use minigpt_model::config::{Activation, Config, NormPosition, PositionEmbedding};
use minigpt_model::parameters::specs_with_absent;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// The end-of-text token that transformers assumes where a configuration names none.
const GPT2_END: u64 = 50_256;

/// Whether GPT-2's own `config.json` can say this. Absent biases can be written as zeros.
pub fn is_gpt2(config: &Config) -> bool {
    config.norm_position == NormPosition::Pre
        && config.position_embedding == PositionEmbedding::Learned
        && !config.scale_embeddings
        && !config.lm_head_bias
}

/// Reads a `config.json`: the configuration, and the keys that it does not know.
pub fn open(path: &Path) -> crate::Result<(Config, ExtraKeys)> {
    const LIMIT: u64 = 16 << 20;
    read(&minigpt_files::read_text(path, LIMIT)?).map_err(|problem| Error::bad(path, problem))
}

/// Parses `config.json`: the configuration, and the keys that it does not know, to be written back.
pub fn read(text: &str) -> Result<(Config, ExtraKeys), HuggingFaceProblem> {
    let mut keys: Map<String, Value> =
        serde_json::from_str(text).map_err(|e| HuggingFaceProblem::NotJson(e.to_string()))?;
    refuse_other_models(&keys)?;
    let gpt2 = Config::default();
    let mut keys = Keys(&mut keys);
    // n_ctx is an older name for n_positions.
    let block_size = keys.take("n_ctx", gpt2.block_size)?;
    let config = Config {
        vocab_size: keys.take("vocab_size", gpt2.vocab_size)?,
        block_size: keys.take("n_positions", block_size)?,
        n_layer: keys.take("n_layer", gpt2.n_layer)?,
        n_head: keys.take("n_head", gpt2.n_head)?,
        n_embd: keys.take("n_embd", gpt2.n_embd)?,
        n_inner: keys.take("n_inner", None)?,
        activation_function: keys.activation()?,
        norm_position: keys.take("norm_position", gpt2.norm_position)?,
        position_embedding: keys.take("position_embedding", gpt2.position_embedding)?,
        scale_embeddings: keys.take("scale_embeddings", gpt2.scale_embeddings)?,
        qkv_bias: keys.take("qkv_bias", gpt2.qkv_bias)?,
        attn_out_bias: keys.take("attn_out_bias", gpt2.attn_out_bias)?,
        mlp_bias: keys.take("mlp_bias", gpt2.mlp_bias)?,
        norm_bias: keys.take("norm_bias", gpt2.norm_bias)?,
        lm_head_bias: keys.take("lm_head_bias", gpt2.lm_head_bias)?,
        tie_word_embeddings: keys.take("tie_word_embeddings", gpt2.tie_word_embeddings)?,
        layer_norm_epsilon: keys.take("layer_norm_epsilon", gpt2.layer_norm_epsilon)?,
        embd_pdrop: keys.take("embd_pdrop", gpt2.embd_pdrop)?,
        attn_pdrop: keys.take("attn_pdrop", gpt2.attn_pdrop)?,
        resid_pdrop: keys.take("resid_pdrop", gpt2.resid_pdrop)?,
        initializer_range: keys.take("initializer_range", gpt2.initializer_range)?,
    };
    config.validate()?;
    Ok((config, std::mem::take(keys.0)))
}

/// Refuses what this decoder would compute wrongly.
fn refuse_other_models(keys: &Map<String, Value>) -> Result<(), HuggingFaceProblem> {
    match keys.get("model_type").map(Value::as_str) {
        None | Some(Some("gpt2" | "minigpt")) => {}
        Some(Some(other)) => return Err(HuggingFaceProblem::ModelType(other.to_owned())),
        Some(None) => return Err(HuggingFaceProblem::ModelTypeNotText),
    }
    for (key, supported) in [
        ("scale_attn_weights", true),
        ("scale_attn_by_inverse_layer_idx", false),
        ("add_cross_attention", false),
    ] {
        if let Some(value) = keys.get(key).filter(|value| **value != Value::Bool(supported)) {
            return Err(HuggingFaceProblem::NotSupported { key, value: short(value), supported });
        }
    }
    Ok(())
}

/// Known keys are taken out one by one; what is left is unknown.
struct Keys<'a>(&'a mut Map<String, Value>);

impl Keys<'_> {
    fn take<T: DeserializeOwned>(&mut self, key: &str, default: T) -> Result<T, HuggingFaceProblem> {
        match self.0.shift_remove(key) {
            None | Some(Value::Null) => Ok(default),
            Some(value) => serde_json::from_value(value.clone()).map_err(|e| HuggingFaceProblem::Value {
                key: key.to_owned(),
                value: short(&value),
                problem: e.to_string(),
            }),
        }
    }

    fn activation(&mut self) -> Result<Activation, HuggingFaceProblem> {
        match self.0.get("activation_function").and_then(Value::as_str) {
            // Another name for the same function.
            Some("gelu_pytorch_tanh") => {
                self.0.shift_remove("activation_function");
                Ok(Activation::GeluNew)
            }
            _ => self.take("activation_function", Activation::GeluNew),
        }
    }
}

/// A value's JSON, cut to a length that a message can hold.
fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// A GPT-2 folder carries every bias; the switches only say which of them the model was made without. Where such a
/// bias is not zero (somebody trained it with another tool), the model has it after all.
pub fn with_biases_in_use(
    mut config: Config,
    extra: &ExtraKeys,
    tensors: &BTreeMap<String, TensorView>,
) -> Config {
    if extra.get("model_type").and_then(Value::as_str) == Some("minigpt") {
        return config;
    }
    let in_use = |name: &str| tensors.get(name).is_some_and(|tensor| !tensor.is_zero());
    let absent = specs_with_absent(&config);
    for switch in absent.iter().filter(|spec| in_use(&spec.name)).filter_map(|spec| spec.absent) {
        match switch {
            "qkv_bias" => config.qkv_bias = true,
            "attn_out_bias" => config.attn_out_bias = true,
            "mlp_bias" => config.mlp_bias = true,
            _ => config.norm_bias = true,
        }
    }
    config
}

/// The `config.json` of a model whose weights are of a type, with the unknown keys of the file that it came from.
pub fn write(config: &Config, extra: &ExtraKeys, element_type: ElementType) -> Value {
    let dtype = match element_type {
        ElementType::F16 => "float16",
        ElementType::Bf16 => "bfloat16",
        _ => "float32",
    };
    let gpt2 = is_gpt2(config);
    let mut keys = extra.clone();
    keys.shift_remove("torch_dtype");
    let known = json!({
        "model_type": if gpt2 { "gpt2" } else { "minigpt" },
        "architectures": [if gpt2 { "GPT2LMHeadModel" } else { "MiniGPT" }],
        "dtype": dtype,
        "vocab_size": config.vocab_size,
        "n_positions": config.block_size,
        "n_layer": config.n_layer,
        "n_head": config.n_head,
        "n_embd": config.n_embd,
        "n_inner": config.n_inner,
        "activation_function": config.activation_function,
        "layer_norm_epsilon": config.layer_norm_epsilon,
        "tie_word_embeddings": config.tie_word_embeddings,
        "embd_pdrop": config.embd_pdrop,
        "attn_pdrop": config.attn_pdrop,
        "resid_pdrop": config.resid_pdrop,
        "initializer_range": config.initializer_range,
    });
    if let Value::Object(known) = known {
        keys.extend(known);
    }
    let further = json!({
        "norm_position": config.norm_position,
        "position_embedding": config.position_embedding,
        "scale_embeddings": config.scale_embeddings,
        "qkv_bias": config.qkv_bias,
        "attn_out_bias": config.attn_out_bias,
        "mlp_bias": config.mlp_bias,
        "norm_bias": config.norm_bias,
        "lm_head_bias": config.lm_head_bias,
    });
    if let (Value::Object(further), Ok(defaults)) = (further, serde_json::to_value(Config::default())) {
        // Only what differs from GPT-2: its own readers ignore these keys, but a person should not have to.
        keys.extend(further.into_iter().filter(|(key, value)| defaults.get(key) != Some(value)));
    }
    if config.vocab_size as u64 <= GPT2_END {
        for key in ["bos_token_id", "eos_token_id"] {
            keys.entry(key).or_insert(Value::Null);
        }
    }
    Value::Object(keys)
}

/// The `generation_config.json` that goes with a `config.json`: where generation begins and ends.
pub fn generation(config: &Value) -> Value {
    let mut keys = Map::new();
    for key in ["bos_token_id", "eos_token_id", "pad_token_id"] {
        match config.get(key) {
            Some(Value::Null) | None => {}
            Some(id) => {
                keys.insert(key.to_owned(), id.clone());
            }
        }
    }
    keys.insert("_from_model_config".to_owned(), Value::Bool(true));
    Value::Object(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn every_preset_survives_the_file() {
        for preset in minigpt_model::Preset::ALL {
            let config = preset.config();
            let text = write(&config, &Map::new(), ElementType::F32).to_string();
            let (read, _) = read(&text).unwrap();
            assert_eq!(read, config, "{}", preset.name());
        }
    }

    #[test]
    fn only_what_gpt2_cannot_express_is_called_minigpt() {
        let kind =
            |name| write(&Config::preset(name).unwrap(), &Map::new(), ElementType::F32)["model_type"].clone();
        assert_eq!([kind("gpt2"), kind("shakespeare-char"), kind("qa")], ["gpt2", "gpt2", "gpt2"]);
        assert_eq!(kind("textbook"), "minigpt");
    }

    #[test]
    fn unknown_keys_are_kept_and_written_back() {
        let (config, extra) =
            read(r#"{"n_layer": 2, "task_specific_params": {"a": 1}, "eos_token_id": 7}"#).unwrap();
        let written = write(&config, &extra, ElementType::F16);
        assert_eq!(written["dtype"], "float16");
        assert_eq!(written["task_specific_params"]["a"], 1);
        assert_eq!(written["eos_token_id"], 7);
        assert_eq!(generation(&written)["eos_token_id"], 7);
        assert!(written.get("norm_position").is_none());
    }

    #[test]
    fn what_would_be_computed_wrongly_is_refused_by_name() {
        assert!(refused(r#"{"model_type": "llama"}"#).contains("\"llama\""));
        assert!(refused(r#"{"scale_attn_weights": false}"#).starts_with("scale_attn_weights is false"));
        assert!(refused(r#"{"activation_function": "silu"}"#).contains("silu"));
        assert!(refused(r#"{"n_layer": -1}"#).starts_with("n_layer is -1"));
        assert!(refused(r#"{"n_embd": 100}"#).contains("n_embd 100 is not divisible by n_head 12"));
        assert!(refused("[1]").contains("not a JSON object"));
        assert!(refused("{").contains("not a JSON object"));
    }
}
