//! What decoding gives: texts that are done, and why they ended.

use crate::beam::BeamSearch;
use crate::config::GenerationConfig;
use crate::error::Result;
use crate::explain::Explanation;
use crate::generator::Generator;
use crate::prompt;
use minigpt_model::Gpt;
use minigpt_tokenizer::Tokenizer;
use serde::Serialize;

/// Texts that are written at once: each has keys and values of its own, so others wait until there is room.
const TEXTS_AT_ONCE: usize = 32;

/// Why a text ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FinishReason {
    /// A stop token or a stop string came.
    Stop,
    /// There were `max_new_tokens`, or the context was full.
    Length,
}

/// The continuation of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Completion {
    /// The number of its prompt.
    pub prompt: usize,
    /// The tokens that were written. A stop token at their end is among them, and so are the tokens of a stop string.
    pub ids: Vec<u32>,
    /// Their text, without stop token and stop string and without half a character at its end; none without a tokenizer.
    pub text: Option<String>,
    /// Why it ended; none if the caller stopped it.
    pub finish_reason: Option<FinishReason>,
    /// The logarithm of the probability that the model itself, before all filters, gave to each token.
    pub logprobs: Vec<f64>,
    /// How each token was chosen, if [`generate_explained`] or [`Generator::with_alternatives`] asked for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub explanations: Vec<Explanation>,
    /// What a beam search ranks by: log-probability after the penalties, over length to the power of `length_penalty`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

impl Completion {
    /// The logarithm of the whole text's probability.
    pub fn logprob(&self) -> f64 {
        self.logprobs.iter().sum()
    }
}

/// Continues prompts to their end, by beam search or token by token as the settings say: `num_return_sequences` texts
/// of the first prompt, then those of the second, and so on. Any number of prompts: a few of them are in memory at once.
pub fn generate(
    gpt: &Gpt,
    prompts: &[Vec<u32>],
    config: &GenerationConfig,
    tokenizer: Option<&Tokenizer>,
) -> Result<Vec<Completion>> {
    complete(gpt, prompts, config, tokenizer, None, |_| ())
}

/// The same with, for each token, the `k` likeliest alternatives. Beams choose no token by itself, so theirs have none.
pub fn generate_explained(
    gpt: &Gpt,
    prompts: &[Vec<u32>],
    config: &GenerationConfig,
    tokenizer: Option<&Tokenizer>,
    k: usize,
) -> Result<Vec<Completion>> {
    complete(gpt, prompts, config, tokenizer, Some(k), |_| ())
}

/// The same, with alternatives if there is a `k`; `step` is called with the number of new tokens after each step, but not for
/// beams.
pub fn generate_watched(
    gpt: &Gpt,
    prompts: &[Vec<u32>],
    config: &GenerationConfig,
    tokenizer: Option<&Tokenizer>,
    k: Option<usize>,
    step: impl FnMut(usize),
) -> Result<Vec<Completion>> {
    complete(gpt, prompts, config, tokenizer, k, step)
}

fn complete(
    gpt: &Gpt,
    prompts: &[Vec<u32>],
    config: &GenerationConfig,
    tokenizer: Option<&Tokenizer>,
    alternatives: Option<usize>,
    mut step: impl FnMut(usize),
) -> Result<Vec<Completion>> {
    config.validate_for(gpt.config().vocab_size)?;
    // All of them before the first is computed.
    let prompts = prompt::check(prompts, config, gpt.config())?;
    if config.num_beams > 1 {
        return search(gpt, &prompts, config, tokenizer);
    }
    let mut generator = Generator::at_once(TEXTS_AT_ONCE, gpt, &prompts, config, tokenizer)?;
    if let Some(k) = alternatives {
        generator = generator.with_alternatives(k);
    }
    generator.try_for_each(|tokens| tokens.map(|tokens| step(tokens.len())))?;
    Ok(generator.into_completions())
}

fn search(
    gpt: &Gpt,
    prompts: &[Vec<u32>],
    config: &GenerationConfig,
    tokenizer: Option<&Tokenizer>,
) -> Result<Vec<Completion>> {
    let mut completions = Vec::new();
    for (prompt, ids) in prompts.iter().enumerate() {
        let found = BeamSearch::new(gpt, ids, config, tokenizer)?.run()?;
        completions.extend(found.into_iter().map(|completion| Completion { prompt, ..completion }));
    }
    Ok(completions)
}
