//! What decoding gives: texts that are done, and why they ended.

use crate::beam::BeamSearch;
use crate::config::GenerationConfig;
use crate::error::Result;
use crate::generator::Generator;
use minigpt_model::Gpt;
use minigpt_tokenizer::Tokenizer;
use serde::Serialize;

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
/// of the first prompt, then those of the second, and so on.
pub fn generate(
    gpt: &Gpt,
    prompts: &[Vec<u32>],
    config: &GenerationConfig,
    tokenizer: Option<&Tokenizer>,
) -> Result<Vec<Completion>> {
    if config.num_beams == 1 {
        let mut generator = Generator::new(gpt, prompts, config, tokenizer)?;
        generator.try_for_each(|step| step.map(|_| ()))?;
        return Ok(generator.into_completions());
    }
    let mut completions = Vec::new();
    for (i, search) in BeamSearch::all(gpt, prompts, config, tokenizer)?.into_iter().enumerate() {
        let found = search.run()?;
        completions.extend(found.into_iter().map(|completion| Completion { prompt: i, ..completion }));
    }
    Ok(completions)
}
