//! What the engine says about a request, in order: the prompt has been read, token after token, the end.

use crate::completion::{Completion, FinishReason};
use crate::error::Error;
use crate::explain::Explanation;
use crate::probabilities::{candidates, logprob};

/// What happened to a request. [`EngineEvent::Done`] and [`EngineEvent::Failed`] are the last.
#[derive(Debug)]
#[non_exhaustive]
pub enum EngineEvent {
    /// The prompt has been read.
    Prompt {
        /// Those of the prompt's own tokens, if they were asked for.
        logprobs: Vec<TokenLogprobs>,
        /// How many of its tokens did not have to be read, because a slot held them.
        cached_tokens: usize,
    },
    /// The next token.
    Token {
        /// The token.
        id: u32,
        /// The logarithm of its probability in the model's own eyes, before all filters.
        logprob: f64,
        /// The likeliest tokens in the model's own eyes with their log-probabilities, as many as were asked for.
        top: Vec<(u32, f64)>,
        /// What can be shown of the text now: whole characters, nothing of a stop string. Empty without a tokenizer.
        text: String,
        /// How it was chosen, if that was asked for.
        explanation: Option<Explanation>,
    },
    /// What a beam search found, best first. It writes no tokens one by one.
    Found(Vec<Completion>),
    /// The text is whole.
    Done {
        /// Why it ended.
        reason: FinishReason,
        /// What was held back because it could have become a stop string.
        rest: String,
        /// What it took.
        usage: Usage,
        /// Which stop token or string came, if one did.
        stop: Option<StoppedBy>,
    },
    /// Something went wrong with this request; the others go on.
    Failed(Error),
}

/// A token of a prompt with its probability.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprobs {
    /// The token.
    pub id: u32,
    /// The logarithm of its probability; the first token of a text has none.
    pub logprob: Option<f64>,
    /// The likeliest tokens in its place with theirs.
    pub top: Vec<(u32, f64)>,
}

/// How many tokens a request took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Those of the prompt.
    pub prompt_tokens: usize,
    /// Those of the prompt that did not have to be read.
    pub cached_tokens: usize,
    /// Those that were written.
    pub completion_tokens: usize,
}

/// What ended a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoppedBy {
    /// A stop token.
    Token(u32),
    /// A stop string.
    Text(String),
}

impl TokenLogprobs {
    /// What the logits before a token say about it.
    pub(crate) fn new(id: u32, logits: &[f32], k: usize) -> Self {
        Self { id, logprob: Some(logprob(logits, id)), top: top_logprobs(logits, Some(k)) }
    }
}

/// The `k` likeliest tokens with their log-probabilities.
pub(crate) fn top_logprobs(logits: &[f32], k: Option<usize>) -> Vec<(u32, f64)> {
    let k = k.unwrap_or(0);
    if k == 0 {
        return Vec::new();
    }
    candidates(logits, k).into_iter().map(|candidate| (candidate.id, candidate.logprob)).collect()
}
