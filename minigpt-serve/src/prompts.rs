//! What a text goes on from: strings or ids, one or several.

use crate::body::aside;
use crate::problem::Problem;
use crate::record::Account;
use crate::served_model::ServedModel;
use crate::settings::MOST_TEXTS;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use utoipa::ToSchema;

/// A text from this size on is encoded where it keeps nobody waiting.
const LONG: usize = 16 << 10;

/// A prompt or several, as text or as ids.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(
    untagged,
    expecting = "expected a string, a list of strings, a list of ids, or a list of lists of ids"
)]
pub(crate) enum Prompts {
    Text(String),
    Ids(Vec<u32>),
    Texts(Vec<String>),
    ManyIds(Vec<Vec<u32>>),
}

impl Prompts {
    /// The ids of each. In these texts the names of special tokens mean those tokens. An empty prompt is replaced by the token
    /// that a text begins with. Characters that the vocabulary lacks are noted in the account.
    pub async fn encode(self, model: &Arc<ServedModel>, account: &Account) -> Result<Vec<Vec<u32>>, Problem> {
        let prompts = match self {
            Self::Text(text) => texts(model, account, vec![text]).await?,
            Self::Texts(many) => texts(model, account, many).await?,
            // `[]` is a list of no strings too; both mean that there is nothing.
            Self::Ids(ids) if ids.is_empty() => return Err(none()),
            Self::Ids(ids) => vec![ids],
            Self::ManyIds(many) => many,
        };
        if prompts.is_empty() {
            return Err(none());
        }
        if prompts.len() > MOST_TEXTS {
            return Err(too_many(prompts.len()));
        }
        prompts.into_iter().map(|prompt| check(model, prompt)).collect()
    }
}

/// A prompt whose ids are in the vocabulary and that has at least one.
pub(crate) fn check(model: &ServedModel, mut prompt: Vec<u32>) -> Result<Vec<u32>, Problem> {
    let vocab_size = model.gpt.config().vocab_size;
    if let Some(at) = prompt.iter().position(|&id| id as usize >= vocab_size) {
        let message = format!(
            "the prompt has id {} at position {at}, outside of the vocabulary of {vocab_size} tokens",
            prompt[at]
        );
        return Err(Problem::field("prompt", message));
    }
    if prompt.is_empty() {
        let nothing = || Problem::field("prompt", "the prompt is empty: there must be a token to begin with");
        prompt.push(model.first_token().ok_or_else(nothing)?);
    }
    if prompt.len() > model.context {
        return Err(Problem::too_long(prompt.len(), model.context));
    }
    Ok(prompt)
}

async fn texts(
    model: &Arc<ServedModel>,
    account: &Account,
    texts: Vec<String>,
) -> Result<Vec<Vec<u32>>, Problem> {
    if texts.len() > MOST_TEXTS {
        return Err(too_many(texts.len()));
    }
    let tokenizer = Arc::clone(model.need_tokenizer()?);
    let long = texts.iter().map(String::len).sum::<usize>() >= LONG;
    let encode = move || {
        let ids = texts.iter().map(|text| encode(&tokenizer, text)).collect::<Result<_, _>>()?;
        let unknown = texts.iter().flat_map(|text| tokenizer.unknown_beside_special(text));
        Ok((ids, unknown.collect::<BTreeSet<char>>()))
    };
    let (ids, unknown) = if long { aside(encode).await } else { encode() }?;
    account.note_unknown(unknown);
    Ok(ids)
}

/// The ids of a text in which the names of special tokens mean those tokens.
pub(crate) fn encode(tokenizer: &minigpt_tokenizer::Tokenizer, text: &str) -> Result<Vec<u32>, Problem> {
    tokenizer.encode_with_special(text).map_err(|error| Problem::field("prompt", error.to_string()))
}

fn none() -> Problem {
    Problem::field("prompt", "there is no prompt")
}

fn too_many(count: usize) -> Problem {
    Problem::field("prompt", format!("{count} prompts are too many at once; {MOST_TEXTS} is the most"))
}

impl Prompts {
    /// Whether a list of answers is expected.
    pub fn are_several(&self) -> bool {
        matches!(self, Self::Texts(_) | Self::ManyIds(_))
            && !matches!(self, Self::ManyIds(many) if many.len() == 1)
    }
}
