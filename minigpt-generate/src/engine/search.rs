//! Beam search: several continuations followed side by side, the best of them kept, as Hugging Face's `generate` does.
//!
//! In each step every running beam is extended by every token. The best extensions, twice as many as there are beams,
//! are looked at in order: those that end are put aside if they are among the first `num_beams`, and the best of the
//! others run on. It is over when no running beam promises more than the worst text put aside.

use super::writer::check;
use crate::completion::{Completion, FinishReason};
use crate::config::{ContextRule, EarlyStopping, GenerationConfig};
use crate::error::{Error, Result};
use crate::probabilities::log_softmax;
use crate::processors::process;
use crate::text::TextStream;
use minigpt_tokenizer::Tokenizer;
use std::sync::Arc;

/// The search for the best continuations of one prompt, a step at a time. It says which texts it wants to know more about,
/// and is told the logits behind them.
#[derive(Debug)]
pub(crate) struct Search {
    config: GenerationConfig,
    logit_bias: Arc<[(u32, f32)]>,
    prompt_length: usize,
    /// Best first.
    running: Vec<Beam>,
    /// Best first, no more than `num_beams`.
    finished: Vec<Beam>,
    done: bool,
}

/// A text, running or finished.
#[derive(Debug, Clone)]
struct Beam {
    /// Prompt and all that was written.
    ids: Vec<u32>,
    logprobs: Vec<f64>,
    /// The sum of processed log-probabilities; over a power of the length once it is finished.
    score: f64,
    finish_reason: Option<FinishReason>,
}

/// A running beam with one token more.
#[derive(Debug, Clone, Copy)]
struct Extension {
    parent: usize,
    id: u32,
    logprob: f64,
    score: f64,
}

impl Search {
    pub fn new(
        prompt: Vec<u32>,
        mut config: GenerationConfig,
        logit_bias: Arc<[(u32, f32)]>,
        context: usize,
    ) -> Self {
        if config.context == ContextRule::Stop {
            config.max_new_tokens = config.max_new_tokens.min(context.saturating_sub(prompt.len()));
        }
        let prompt_length = prompt.len();
        let running = vec![Beam { ids: prompt, logprobs: Vec::new(), score: 0.0, finish_reason: None }];
        Self { config, logit_bias, prompt_length, running, finished: Vec::new(), done: false }
    }

    /// The texts that run on.
    pub fn texts(&self) -> impl Iterator<Item = &[u32]> {
        self.running.iter().map(|beam| &beam.ids[..])
    }

    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Makes every running beam a token longer, given the logits behind each. Returns the place of each new beam's parent
    /// among those before.
    pub fn advance(&mut self, logits: &[Vec<f32>], tokenizer: Option<&Tokenizer>) -> Result<Vec<usize>> {
        let (mut parents, mut running) = (Vec::new(), Vec::new());
        for (rank, extension) in self.extensions(logits)?.into_iter().enumerate() {
            let beam = self.extend(&extension, tokenizer);
            if beam.finish_reason.is_some() {
                // The others are there in case all of the best end, and no text ends with them.
                if rank < self.config.num_beams {
                    self.put_aside(beam);
                }
            } else if running.len() < self.config.num_beams {
                parents.push(extension.parent);
                running.push(beam);
            }
        }
        self.running = running;
        self.done = self.is_over();
        Ok(parents)
    }

    /// The best texts found. If the search was left early and too few are finished, running ones follow as they are.
    pub fn completions(&self, tokenizer: Option<&Tokenizer>) -> Vec<Completion> {
        let unfinished = self.running.iter().map(|beam| self.scored(beam.clone()));
        let beams = self.finished.iter().cloned().chain(unfinished);
        beams.take(self.config.num_return_sequences).map(|beam| self.completion(beam, tokenizer)).collect()
    }

    /// The best extensions of all running beams, best first: enough of them that `num_beams` can run on even if every
    /// beam is also extended by every stop token.
    fn extensions(&self, logits: &[Vec<f32>]) -> Result<Vec<Extension>> {
        let position = self.running.first().map_or(0, |beam| beam.ids.len());
        let kept = self.config.num_beams.saturating_mul((1 + self.config.eos_token_id.len()).max(2));
        let mut extensions = Vec::new();
        for (parent, logits) in logits.iter().enumerate() {
            check(logits, position)?;
            extensions.extend(best(self.extensions_of(parent, logits), kept));
        }
        if extensions.is_empty() { Err(Error::NoToken { position }) } else { Ok(best(extensions, kept)) }
    }

    /// Every extension of one beam. The processors see log-probabilities here, not logits.
    fn extensions_of(&self, parent: usize, logits: &[f32]) -> Vec<Extension> {
        let beam = &self.running[parent];
        let logprobs = log_softmax(logits);
        let mut processed: Vec<f32> = logprobs.iter().map(|&x| x as f32).collect();
        self.logit_bias.iter().for_each(|&(id, bias)| processed[id as usize] += bias);
        process(&mut processed, &beam.ids, beam.logprobs.len(), &self.config);
        let extension = |(id, (&processed, &logprob)): (usize, (&f32, &f64))| {
            let score = beam.score + f64::from(processed);
            Extension { parent, id: id as u32, logprob, score }
        };
        let all = processed.iter().zip(&logprobs).enumerate().map(extension);
        all.filter(|extension| extension.score > f64::NEG_INFINITY).collect()
    }

    /// A beam with one token more, which may be its last one.
    fn extend(&self, extension: &Extension, tokenizer: Option<&Tokenizer>) -> Beam {
        let mut beam = self.running[extension.parent].clone();
        beam.ids.push(extension.id);
        beam.logprobs.push(extension.logprob);
        beam.score = extension.score;
        let stops = self.config.eos_token_id.contains(&extension.id) || self.stop_string(&beam, tokenizer);
        let full = beam.logprobs.len() >= self.config.max_new_tokens;
        beam.finish_reason = match (stops, full) {
            (true, _) => Some(FinishReason::Stop),
            (false, true) => Some(FinishReason::Length),
            (false, false) => None,
        };
        beam
    }

    fn stop_string(&self, beam: &Beam, tokenizer: Option<&Tokenizer>) -> bool {
        let Some(tokenizer) = tokenizer.filter(|_| !self.config.stop_strings.is_empty()) else {
            return false;
        };
        let mut stream = TextStream::new(tokenizer, &self.config.stop_strings);
        beam.ids[self.prompt_length..].iter().for_each(|&id| drop(stream.push(id)));
        stream.stopped()
    }

    /// Keeps a finished text if it is among the `num_beams` best.
    fn put_aside(&mut self, beam: Beam) {
        let beam = self.scored(beam);
        let place = self.finished.partition_point(|other| other.score >= beam.score);
        self.finished.insert(place, beam);
        self.finished.truncate(self.config.num_beams);
    }

    fn scored(&self, beam: Beam) -> Beam {
        Beam { score: self.normalised(beam.score, beam.logprobs.len()), ..beam }
    }

    fn normalised(&self, score: f64, length: usize) -> f64 {
        score / (length as f64).powf(self.config.length_penalty)
    }

    fn is_over(&self) -> bool {
        let (Some(best), Some(worst)) = (self.running.first(), self.finished.last()) else {
            return self.running.is_empty();
        };
        if self.finished.len() < self.config.num_beams {
            return false;
        }
        let length = match self.config.early_stopping {
            EarlyStopping::Always => return true,
            EarlyStopping::Never if self.config.length_penalty > 0.0 => self.config.max_new_tokens,
            EarlyStopping::Never | EarlyStopping::Heuristic => best.logprobs.len(),
        };
        self.normalised(best.score, length) <= worst.score
    }

    fn completion(&self, beam: Beam, tokenizer: Option<&Tokenizer>) -> Completion {
        let ids = beam.ids[self.prompt_length..].to_vec();
        let text = tokenizer.map(|tokenizer| {
            let mut stream = TextStream::new(tokenizer, &self.config.stop_strings);
            let shown = ids.iter().filter(|id| !self.config.eos_token_id.contains(id));
            let text: String = shown.map(|&id| stream.push(id)).collect();
            text + &stream.finish()
        });
        let Beam { logprobs, score, finish_reason, .. } = beam;
        let explanations = Vec::new();
        Completion { prompt: 0, ids, text, finish_reason, logprobs, explanations, score: Some(score) }
    }
}

/// The `n` best extensions, best first; of equals those of the earlier beam and the lower id.
fn best(mut extensions: Vec<Extension>, n: usize) -> Vec<Extension> {
    let better = |a: &Extension, b: &Extension| {
        b.score.total_cmp(&a.score).then((a.parent, a.id).cmp(&(b.parent, b.id)))
    };
    if n < extensions.len() {
        extensions.select_nth_unstable_by(n, better);
        extensions.truncate(n);
    }
    extensions.sort_unstable_by(better);
    extensions
}
