//! What a question about a model may say. Every route takes what it needs.

use super::state::InspectedModel;
use crate::problem::Problem;
use serde::Deserialize;
use std::collections::HashSet;
use utoipa::ToSchema;

/// A question about a model, and a text in it.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct InspectQuestion {
    /// The model; the first where none is named; `run:NAME/STEP` for a snapshot.
    pub model: Option<String>,
    /// The text; the names of special tokens in it are meant.
    pub text: Option<String>,
    /// Its ids, instead of a text.
    pub ids: Option<Vec<u32>>,
    /// A position; the last where none is given.
    pub at: Option<usize>,
    /// A layer.
    pub layer: Option<usize>,
    /// A head.
    pub head: Option<usize>,
    /// A token.
    pub token: Option<u32>,
    /// How many candidates.
    pub top: Option<usize>,
    /// Cells of a small map of attention, along one side.
    pub size: Option<usize>,
    /// Parts to switch off: `3.1`, `mlp.3`, `attn.3`, `layer.3`.
    pub off: Option<Vec<String>>,
    /// Replace them by their mean over the text, not by zero.
    pub mean: Option<bool>,
    /// How many tokens the text goes on after an ablation.
    pub continuation: Option<usize>,
    /// How many tokens the text goes on.
    pub tokens: Option<usize>,
    /// Ids of the clean text of a patching.
    pub clean: Option<Vec<u32>>,
    /// Ids of the corrupted one.
    pub corrupt: Option<Vec<u32>>,
}

/// The fields of a route that is asked about a text.
macro_rules! of_a_text {
    ($($field:literal),*) => { &["text", "ids", $($field),*] };
}
pub(super) use of_a_text;

impl InspectQuestion {
    /// Refuses what a route does not use.
    pub fn check(&self, used: &[&str]) -> Result<(), Problem> {
        let given = [
            ("text", self.text.is_some()),
            ("ids", self.ids.is_some()),
            ("at", self.at.is_some()),
            ("layer", self.layer.is_some()),
            ("head", self.head.is_some()),
            ("token", self.token.is_some()),
            ("top", self.top.is_some()),
            ("size", self.size.is_some()),
            ("off", self.off.is_some()),
            ("mean", self.mean.is_some()),
            ("continuation", self.continuation.is_some()),
            ("tokens", self.tokens.is_some()),
            ("clean", self.clean.is_some()),
            ("corrupt", self.corrupt.is_some()),
        ];
        match given.iter().find(|(field, given)| *given && !used.contains(field)) {
            Some((field, _)) => {
                Err(Problem::field(field, format!("{field} has no effect here: leave it out")))
            }
            None => Ok(()),
        }
    }

    /// The ids that are asked about, at least one.
    pub fn ids(&self, model: &InspectedModel) -> Result<Vec<u32>, Problem> {
        let ids = match (&self.ids, &self.text) {
            (Some(_), Some(_)) => return Err(Problem::field("ids", "give a text or ids, not both")),
            (Some(ids), None) => ids.clone(),
            (None, Some(text)) => {
                let none = || Problem::field("text", "this model has no tokenizer: give token ids");
                let tokenizer = model.tokenizer.as_ref().ok_or_else(none)?;
                tokenizer
                    .encode_with_special(text)
                    .map_err(|error| Problem::field("text", error.to_string()))?
            }
            (None, None) => return Err(Problem::field("text", "give a text, or ids")),
        };
        let context = model.gpt.config().block_size;
        match ids.len() {
            0 => Err(Problem::field("text", "there is no token to look at")),
            tokens if tokens > context => Err(Problem::too_long(tokens, context)),
            _ => Ok(ids),
        }
    }

    /// The characters of the text that the vocabulary lacks, each once, in the order in which they appear; nothing if no text is
    /// asked about.
    pub fn unknown(&self, model: &InspectedModel) -> Option<Vec<char>> {
        let (text, tokenizer) = (self.text.as_ref()?, model.tokenizer.as_ref()?);
        let mut unknown = tokenizer.unknown_beside_special(text);
        let mut seen = HashSet::new();
        unknown.retain(|&character| seen.insert(character));
        Some(unknown)
    }

    /// The position that is asked about, in a text of so many tokens.
    pub fn position(&self, tokens: usize) -> Result<usize, Problem> {
        let last = tokens.saturating_sub(1);
        match self.at.unwrap_or(last) {
            at if at <= last => Ok(at),
            at => Err(Problem::field("at", format!("there is no position {at}: there are 0 to {last}"))),
        }
    }

    /// How many candidates, within reason.
    pub fn top(&self, otherwise: usize) -> usize {
        self.top.unwrap_or(otherwise).clamp(1, 100)
    }
}
