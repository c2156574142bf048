//! Log-probabilities in the two forms that OpenAI has for them.

use crate::served_model::ServedModel;
use crate::writing::Written;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// Of a text: four lists of the same length.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LogprobLists {
    /// The tokens; a part of a character is `bytes:\xe4\xbd`.
    pub tokens: Vec<String>,
    /// The model's own log-probability of each; null for the first of a prompt, which nothing predicts.
    pub token_logprobs: Vec<Option<f64>>,
    /// The likeliest tokens in its place, and the token itself.
    #[schema(value_type = Vec<Option<std::collections::BTreeMap<String, f64>>>)]
    pub top_logprobs: Vec<Option<Map<String, Value>>>,
    /// Characters of the text before each.
    pub text_offset: Vec<usize>,
}

impl LogprobLists {
    pub fn new(model: &ServedModel, tokens: &[Written]) -> Self {
        let top = |token: &Written| {
            let own = (token.id, token.logprob?);
            let others = token.top.iter().copied().filter(|(id, _)| *id != token.id);
            Some(named(model, std::iter::once(own).chain(others)))
        };
        Self {
            tokens: tokens.iter().map(|token| model.token_name(token.id)).collect(),
            token_logprobs: tokens.iter().map(|token| token.logprob).collect(),
            top_logprobs: tokens.iter().map(top).collect(),
            text_offset: tokens.iter().map(|token| token.offset).collect(),
        }
    }
}

/// Tokens by name. Two that are spelt alike get their ids too, so that none overwrites the other; the first keeps its name.
fn named(model: &ServedModel, tokens: impl Iterator<Item = (u32, f64)>) -> Map<String, Value> {
    let mut map = Map::new();
    for (id, logprob) in tokens {
        let mut name = model.token_name(id);
        if map.contains_key(&name) {
            name = format!("{name}<{id}>");
        }
        map.insert(name, logprob.into());
    }
    map
}

/// Of a message: an entry for each token.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChatLogprobs {
    pub content: Vec<TokenEntry>,
    /// Always null: these models refuse nothing.
    pub refusal: Option<Vec<TokenEntry>>,
}

/// A token with the likeliest in its place.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokenEntry {
    #[serde(flatten)]
    #[schema(inline)]
    token: TokenLogprob,
    top_logprobs: Vec<TokenLogprob>,
}

/// A token and how likely it was.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokenLogprob {
    /// Its id, which OpenAI has not.
    id: u32,
    /// Its text; a part of a character is `bytes:\xe4\xbd`.
    token: String,
    /// The model's own log-probability.
    logprob: f64,
    /// Its bytes.
    bytes: Option<Vec<u8>>,
}

impl ChatLogprobs {
    pub fn new(model: &ServedModel, tokens: &[Written]) -> Self {
        Self { content: entries(model, tokens), refusal: None }
    }
}

/// Tokens that were written, each with the likeliest in its place.
pub(crate) fn entries(model: &ServedModel, tokens: &[Written]) -> Vec<TokenEntry> {
    let one = |id, logprob| TokenLogprob {
        id,
        token: model.token_name(id),
        logprob,
        bytes: model.token_bytes(id).map(<[u8]>::to_vec),
    };
    let entry = |token: &Written| TokenEntry {
        token: one(token.id, token.logprob.unwrap_or(0.0)),
        top_logprobs: token.top.iter().map(|&(id, logprob)| one(id, logprob)).collect(),
    };
    tokens.iter().map(entry).collect()
}
