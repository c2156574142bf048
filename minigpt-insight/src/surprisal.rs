//! How much each token surprised the model: −log₂ p(token given those before), in bits.

use crate::error::Result;
use crate::subject::{LikelyToken, Subject, last_row, row};
use candle_core::Tensor;
use minigpt_model::{Hook, Recording};
use serde::Serialize;

/// How a model reads a text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reading {
    /// The tokens, each with how much it surprised.
    pub tokens: Vec<ReadToken>,
    /// The mean negative log-likelihood of the tokens behind the first, in nats; none for a single token.
    pub loss: Option<f64>,
    /// What may come next.
    pub top: Vec<LikelyToken>,
}

/// A token of a text in the eyes of the model. The first comes out of nowhere.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadToken {
    /// Its id.
    pub id: u32,
    /// Its name; none without a tokenizer.
    pub token: Option<String>,
    /// Its surprisal in bits.
    pub surprisal: Option<f64>,
    /// How likely it was.
    pub probability: Option<f64>,
    /// 1 if it was the likeliest of all.
    pub rank: Option<usize>,
}

/// How a model reads a text: the surprisal of every token, the loss, and what may come next.
pub fn reading(subject: &Subject, ids: &[u32], top: usize) -> Result<Reading> {
    reading_with(subject, ids, top, &mut Recording::default())
}

/// The same in a pass that a hook looks into, or changes.
pub fn reading_with(subject: &Subject, ids: &[u32], top: usize, hook: &mut dyn Hook) -> Result<Reading> {
    subject.check_text(ids)?;
    read_logits(subject, ids, top, &subject.logits(ids, hook)?)
}

/// The logits of what comes after a text.
pub fn next_logits(subject: &Subject, ids: &[u32]) -> Result<Vec<f32>> {
    subject.check_text(ids)?;
    last_row(&subject.logits(ids, &mut Recording::default())?)
}

/// The same from the logits of a pass that was made already.
///
/// # Shapes
/// - `logits`: (T, V)
pub fn read_logits(subject: &Subject, ids: &[u32], top: usize, logits: &Tensor) -> Result<Reading> {
    let mut tokens = Vec::with_capacity(ids.len());
    let mut nats = 0.0;
    for (at, &id) in ids.iter().enumerate() {
        let token = subject.name(id);
        if at == 0 {
            tokens.push(ReadToken { id, token, surprisal: None, probability: None, rank: None });
            continue;
        }
        let logits = row(logits, at - 1)?;
        let loss = -logprob(&logits, id);
        nats += loss;
        let rank = 1 + logits.iter().filter(|&&other| other > logits[id as usize]).count();
        tokens.push(ReadToken {
            id,
            token,
            surprisal: Some(loss / std::f64::consts::LN_2),
            probability: Some((-loss).exp()),
            rank: Some(rank),
        });
    }
    let loss = (ids.len() > 1).then(|| nats / (ids.len() - 1) as f64);
    Ok(Reading { tokens, loss, top: subject.likeliest(&last_row(logits)?, top) })
}

/// The logarithm of the probability of a token, in nats.
pub(crate) fn logprob(logits: &[f32], id: u32) -> f64 {
    let (most, log_sum) = minigpt_kernels::log_sum_exp(logits);
    f64::from(logits[id as usize]) - f64::from(most) - log_sum
}
