//! The two decoders: how their state dictionaries are told apart, and what model their tensors make.

use super::StateDictNote;
use crate::layout::LinearWeights;
use crate::tensor_view::TensorView;
use minigpt_model::parameters::specs;
use minigpt_model::{Config, PositionEmbedding, sinusoid};
use std::collections::BTreeMap;
use std::fmt;

/// A decoder that people write themselves, whose state dictionaries can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// The question answering model: pre-norm, learned positions, exact GELU, tied head.
    QuestionAnswering,
    /// The textbook's decoder: post-norm, ReLU, embeddings scaled by the root of the width, untied head.
    Textbook,
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::QuestionAnswering => "question answering model",
            Self::Textbook => "textbook's model",
        })
    }
}

/// What a model is, what was assumed of it, and its tensors by GPT-2's names.
type Described<'a> = (Config, Vec<StateDictNote>, Vec<(String, TensorView<'a>)>);

impl Architecture {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::QuestionAnswering, Self::Textbook];

    /// The settings that no tensor tells, and that are therefore taken as such a model has them: the number of heads above
    /// all.
    pub const ASSUMED: [&'static str; 6] = [
        "n_head",
        "norm_position",
        "activation_function",
        "scale_embeddings",
        "layer_norm_epsilon",
        "resid_pdrop",
    ];

    /// The ends of names that only its files have.
    fn only_here(self) -> [&'static str; 2] {
        match self {
            Self::QuestionAnswering => ["wte.weight", ".attn.qkv_proj.weight"],
            Self::Textbook => ["embedding.weight", ".attention.w_q.weight"],
        }
    }

    /// Names of tensors that tell its files apart: `wte.weight, ….attn.qkv_proj.weight, …`.
    pub fn signature(self) -> String {
        let [table, projection] = self.only_here();
        format!("{table}, …{projection}, …")
    }

    /// Whose tensors have these names.
    pub(super) fn of(names: &[&str]) -> Option<Self> {
        let has = |end: &&str| names.iter().any(|name| name.ends_with(end));
        Self::ALL.into_iter().find(|architecture| architecture.only_here().iter().all(has))
    }

    fn preset(self) -> &'static str {
        match self {
            Self::QuestionAnswering => "qa",
            Self::Textbook => "textbook",
        }
    }

    /// The model that the tensors make. Sizes, biases and whether the head is tied follow from them; heads, norms,
    /// activation, scale, epsilon and dropout are the preset's. What is missing goes into the list, in their names.
    pub(super) fn describe<'a>(
        self,
        mut tensors: BTreeMap<String, TensorView<'a>>,
        missing: &mut Vec<String>,
    ) -> minigpt_model::Result<Described<'a>> {
        let preset = Config::preset(self.preset())?;
        let mut notes = Vec::new();
        let has = |name: &str| tensors.keys().any(|ours| ours.ends_with(name));
        let size =
            |name: &str, dim: usize| tensors.get(name).and_then(|tensor| tensor.shape.get(dim)).copied();
        let layer = |name: &String| name.strip_prefix("h.")?.split_once('.')?.0.parse().ok();
        let n_layer = tensors.keys().filter_map(layer).max().map_or(0, |last: usize| last.saturating_add(1));
        let n_embd = size("wte.weight", 1).unwrap_or(preset.n_embd);
        let tied = match (tensors.get("lm_head.weight"), tensors.get("wte.weight")) {
            (Some(head), Some(table)) => head == table,
            _ => self == Self::QuestionAnswering,
        };
        let config = Config {
            vocab_size: size("wte.weight", 0).unwrap_or(preset.vocab_size),
            n_layer,
            n_embd,
            n_inner: size("h.0.mlp.c_fc.weight", 0).filter(|&inner| inner != 4 * n_embd),
            qkv_bias: has(".attn.c_attn.bias"),
            attn_out_bias: has(".attn.c_proj.bias"),
            mlp_bias: has(".mlp.c_fc.bias") || has(".mlp.c_proj.bias"),
            norm_bias: has(".ln_1.bias") || has(".ln_2.bias"),
            lm_head_bias: has("lm_head.bias"),
            tie_word_embeddings: tied,
            ..preset
        };
        let config = self.with_positions(config, &mut tensors, &mut notes);
        // Names of tensors are asked of it below: how many there may be must be certain.
        check_sizes(&config)?;
        let wanted = specs(&config);
        let lacking = wanted.iter().filter(|spec| !tensors.contains_key(&spec.name));
        missing.extend(lacking.map(|spec| self.their_name(&spec.name)));
        let linear = LinearWeights::of(&config);
        let tensors = tensors.into_iter().map(|(name, tensor)| {
            let tensor = linear.in_gpt2_layout(&name, tensor);
            (name, tensor)
        });
        Ok((config, notes, tensors.collect()))
    }

    /// The context, and how positions are told. The textbook's table (1, T, C) may be the sines and cosines, which are not
    /// learned; a file without a table was made by a model that computes them.
    fn with_positions(
        self,
        config: Config,
        tensors: &mut BTreeMap<String, TensorView>,
        notes: &mut Vec<StateDictNote>,
    ) -> Config {
        if self == Self::Textbook
            && let Some(table) = tensors.remove("wpe.weight")
        {
            tensors.insert("wpe.weight".to_owned(), table.without_leading_one());
        }
        let Some(table) = tensors.get("wpe.weight") else {
            if self == Self::QuestionAnswering {
                return config;
            }
            notes.push(StateDictNote::NoPositions { block_size: config.block_size });
            return Config { position_embedding: PositionEmbedding::Sinusoidal, ..config };
        };
        let block_size = table.shape.first().copied().unwrap_or(0);
        let config = Config { block_size, ..config };
        if self == Self::Textbook && is_sinusoidal(table) {
            notes.push(StateDictNote::SinusoidalTable);
            tensors.remove("wpe.weight");
            return Config { position_embedding: PositionEmbedding::Sinusoidal, ..config };
        }
        config
    }
}

fn check_sizes(config: &Config) -> minigpt_model::Result<()> {
    // All but the number of heads, which the import may still change.
    Config { n_head: 1, ..config.clone() }.validate()
}

/// Whether a table of positions holds what would be computed.
fn is_sinusoidal(table: &TensorView) -> bool {
    let &[rows, width] = &table.shape[..] else { return false };
    let Some(values) = table.floats() else { return false };
    let expected = (0..rows).flat_map(|p| (0..width).map(move |j| sinusoid(p, j, width)));
    values.len() == rows * width && values.iter().zip(expected).all(|(got, want)| (got - want).abs() < 1e-4)
}
