//! What another tool's files cannot express, and what changes on the way to them.

use crate::gguf::FileType;
use crate::nanogpt::DATASET;
use minigpt_kernels::ElementType;
use minigpt_model::config::{Activation, Config, NormPosition, PositionEmbedding};
use serde::{Serialize, Serializer};
use std::fmt;
use std::path::PathBuf;

/// Why a model or its tokenizer cannot be written for another tool.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what the variants and fields are")]
pub enum NotExpressible {
    #[error("transformers does not support {0}; use f32, f16 or bf16")]
    ElementType(ElementType),
    /// No row of the model's matrices fills a block of the element type.
    #[error(
        "no matrix of this model can be {element_type}: its blocks have {} elements, and the rows here \
         have {}; use {instead}",
        element_type.block_size(), listed(rows)
    )]
    NoMatrix { element_type: ElementType, rows: Vec<usize>, instead: FileType },
    #[error("{name} is too large")]
    TooLarge { name: String },
    #[error(
        "llama.cpp cannot tokenize single characters, as this model's vocabulary needs; train a model with a BPE instead"
    )]
    CharacterTokenizer,
    #[error(
        "only GPT-2's byte-level BPE can be written to GGUF files, and the model's tokenizer is another; llama.cpp's own \
         converter takes a Hugging Face folder"
    )]
    OtherTokenizer,
}

/// Parts of a model that another tool's decoder lacks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{decoder} does not support {}", listed(features))]
pub struct Unsupported {
    /// The decoder that lacks them.
    pub decoder: OtherDecoder,
    /// What it lacks, at least one.
    pub features: Vec<Feature>,
}

impl Unsupported {
    /// The features among these that a model has, if it has any.
    pub(crate) fn any(decoder: OtherDecoder, features: &[(bool, Feature)]) -> Option<Self> {
        let features: Vec<Feature> = features.iter().filter(|(has, _)| *has).map(|(_, f)| *f).collect();
        (!features.is_empty()).then_some(Self { decoder, features })
    }
}

/// A decoder of another tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherDecoder {
    /// nanoGPT's `model.py`.
    NanoGpt,
    /// The architecture `gpt2` of llama.cpp.
    Gguf,
}

impl fmt::Display for OtherDecoder {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::NanoGpt => "nanoGPT's model",
            Self::Gguf => "the gpt2 architecture of GGUF files",
        })
    }
}

/// A part of a model that not every decoder has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the texts below say what the variants are")]
pub enum Feature {
    PostNorm,
    OtherPositions,
    ScaledEmbeddings,
    HeadBias,
    Relu,
    UntiedHead,
    InnerWidth,
    SomeBiases,
}

impl Feature {
    /// The features that GPT-2 does not have, and whether a model has them.
    pub(crate) fn beyond_gpt2(config: &Config) -> [(bool, Self); 5] {
        [
            (config.norm_position == NormPosition::Post, Self::PostNorm),
            (config.position_embedding != PositionEmbedding::Learned, Self::OtherPositions),
            (config.scale_embeddings, Self::ScaledEmbeddings),
            (config.lm_head_bias, Self::HeadBias),
            (config.activation_function == Activation::Relu, Self::Relu),
        ]
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::PostNorm => "post-norm blocks (norm_position = \"post\")",
            Self::OtherPositions => "positions that are not learned",
            Self::ScaledEmbeddings => "scaled embeddings",
            Self::HeadBias => "a bias on the output head",
            Self::Relu => "ReLU",
            Self::UntiedHead => "an untied output head",
            Self::InnerWidth => "an n_inner other than 4 times n_embd",
            Self::SomeBiases => "some biases without others",
        })
    }
}

/// What a person should know about a conversion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConversionNote {
    /// nanoGPT looks for the characters in a folder of its own.
    PutMeta {
        /// The `meta.pkl` that was written.
        meta: PathBuf,
    },
    /// The checkpoint has no moments.
    NoOptimizer,
    /// nanoGPT computes GELU by another formula than the model.
    NanoGptGelu,
    /// llama.cpp computes GELU by another formula than the model.
    GgufGelu,
    /// Some matrices have another type than the one the file is named after.
    OtherTypes {
        /// Number of matrices with another type.
        others: usize,
        /// Number of matrices.
        matrices: usize,
        /// Names of the other types.
        types: Vec<&'static str>,
        /// Type of the file.
        file_type: FileType,
    },
}

impl fmt::Display for ConversionNote {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::PutMeta { meta } => write!(f, "put {} into nanoGPT's data/{DATASET}/", meta.display()),
            Self::NoOptimizer => f.write_str(
                "no optimizer state was written: if nanoGPT trains this further, AdamW starts afresh",
            ),
            Self::NanoGptGelu => f.write_str(
                "nanoGPT computes the exact GELU; this model was trained with the tanh approximation",
            ),
            Self::GgufGelu => f.write_str(
                "llama.cpp computes GELU by the tanh approximation; this model was trained with the exact one",
            ),
            Self::OtherTypes { others, matrices, types, file_type } => write!(
                f,
                "{others} of {matrices} matrices are {}: their rows do not fill the blocks of {file_type}",
                types.join(", ")
            ),
        }
    }
}

impl Serialize for ConversionNote {
    /// Writes the English text.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Items with commas between them.
fn listed<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}
