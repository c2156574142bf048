//! GGUF, the file format of llama.cpp: its architecture `gpt2`, its names, reading and writing.
//!
//! A file is a header, then key/value metadata, then the names, shapes and places of all tensors, then their elements.

mod file_type;
mod problem;
mod read;
mod tokens;
mod write;

pub use file_type::{FileType, UnknownFileType};
pub use problem::{GgufProblem, GgufSyntaxProblem};
pub use read::{Contents, Value};
pub use tokens::{tokenizer, tokenizer_metadata};
pub(crate) use write::fallback;
pub use write::{Meta, save};

use crate::other_tools::{ConversionNote, Feature, OtherDecoder, Unsupported};
use minigpt_kernels::ElementType;
use minigpt_model::config::{Activation, Config};

/// The alignment of tensors in a file, unless its metadata says otherwise.
const ALIGNMENT: u64 = 32;

/// The metadata key for the biases that the model lacks, by their switches. Only MiniGPT writes it.
const ABSENT_BIASES: &str = "minigpt.absent_biases";

/// Whether a file begins like one of these.
pub fn is_gguf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"GGUF")
}

/// The numbers that GGUF files have for element types.
const TYPES: [(u32, ElementType); 14] = [
    (0, ElementType::F32),
    (1, ElementType::F16),
    (2, ElementType::Q4_0),
    (3, ElementType::Q4_1),
    (6, ElementType::Q5_0),
    (7, ElementType::Q5_1),
    (8, ElementType::Q8_0),
    (10, ElementType::Q2K),
    (11, ElementType::Q3K),
    (12, ElementType::Q4K),
    (13, ElementType::Q5K),
    (14, ElementType::Q6K),
    (28, ElementType::F64),
    (30, ElementType::Bf16),
];

/// The parts of a model that the architecture `gpt2` of GGUF files does not support, if there are any.
pub fn refusal(config: &Config) -> Option<Unsupported> {
    Unsupported::any(OtherDecoder::Gguf, &Feature::beyond_gpt2(config))
}

/// What llama.cpp computes differently, though the model can be written.
pub fn approximation(config: &Config) -> Option<ConversionNote> {
    (config.activation_function == Activation::Gelu).then_some(ConversionNote::GgufGelu)
}

/// Our names and llama.cpp's, of what there is once and of the parts of a layer.
const ONCE: [(&str, &str); 5] = [
    ("wte.weight", "token_embd.weight"),
    ("wpe.weight", "position_embd.weight"),
    ("ln_f.weight", "output_norm.weight"),
    ("ln_f.bias", "output_norm.bias"),
    ("lm_head.weight", "output.weight"),
];
const PARTS: [(&str, &str); 6] = [
    ("ln_1", "attn_norm"),
    ("attn.c_attn", "attn_qkv"),
    ("attn.c_proj", "attn_output"),
    ("ln_2", "ffn_norm"),
    ("mlp.c_fc", "ffn_up"),
    ("mlp.c_proj", "ffn_down"),
];

/// The name that llama.cpp has for a tensor.
fn their_name(ours: &str) -> Option<String> {
    if let Some((_, theirs)) = ONCE.iter().find(|(once, _)| *once == ours) {
        return Some((*theirs).to_owned());
    }
    let (layer, rest) = ours.strip_prefix("h.")?.split_once('.')?;
    let (part, kind) = rest.rsplit_once('.')?;
    let (_, theirs) = PARTS.iter().find(|(ours, _)| *ours == part)?;
    Some(format!("blk.{layer}.{theirs}.{kind}"))
}

/// The name that we have for one of llama.cpp's tensors.
fn our_name(theirs: &str) -> Option<String> {
    if let Some((ours, _)) = ONCE.iter().find(|(_, once)| *once == theirs) {
        return Some((*ours).to_owned());
    }
    let (layer, rest) = theirs.strip_prefix("blk.")?.split_once('.')?;
    let (part, kind) = rest.rsplit_once('.')?;
    let (ours, _) = PARTS.iter().find(|(_, theirs)| *theirs == part)?;
    Some(format!("h.{layer}.{ours}.{kind}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use minigpt_model::parameters::specs;

    #[test]
    fn every_tensor_of_gpt2_has_a_name_there_and_no_two_the_same() {
        let config = Config { n_layer: 3, tie_word_embeddings: false, ..Config::default() };
        let names: std::collections::BTreeSet<_> =
            specs(&config).iter().map(|spec| their_name(&spec.name).unwrap()).collect();
        assert_eq!(names.len(), specs(&config).len());
        assert!(names.contains("blk.2.attn_qkv.bias") && names.contains("output.weight"));
        assert_eq!(their_name("h.0.attn.rotary"), None);
        for spec in specs(&config) {
            assert_eq!(our_name(&their_name(&spec.name).unwrap()), Some(spec.name));
        }
        assert_eq!(our_name("blk.0.ffn_gate.weight"), None);
    }

    #[test]
    fn what_can_not_be_expressed_is_refused_with_every_reason() {
        assert_eq!(refusal(&Config::preset("gpt2").unwrap()), None);
        let refused = refusal(&Config::preset("textbook").unwrap()).unwrap().to_string();
        assert!(
            refused.contains("post") && refused.contains("ReLU") && refused.contains("bias"),
            "{refused}"
        );
        assert!(approximation(&Config::preset("shakespeare-char").unwrap()).is_some());
    }
}
