//! Writing token by token: an iterator that a caller may leave at any point. The command line, chat, batches and
//! servers all use this one.

use crate::completion::{Completion, FinishReason};
use crate::config::{ContextRule, GenerationConfig};
use crate::error::{Error, Result};
use crate::explain::Explanation;
use crate::probabilities::logprob;
use crate::processors::process;
use crate::prompt;
use crate::sampling::{Sampler, argmax};
use crate::text::TextStream;
use crate::window::Window;
use minigpt_model::Gpt;
use minigpt_tokenizer::Tokenizer;

/// Continues prompts, all of them at once. Each step yields the next token of every text that is not done. Nothing is
/// computed before the first step.
///
/// The key/value cache holds what the model has seen. Each prompt is prefilled once, however many texts continue it; a
/// text that is done leaves the cache. A text does not depend on the others beside it.
#[derive(Debug)]
pub struct Generator<'a> {
    config: GenerationConfig,
    window: Window<'a>,
    rows: Vec<Row<'a>>,
    /// The rows that are not done, as they stand in the window.
    live: Vec<usize>,
    prefilled: bool,
    alternatives: Option<usize>,
}

/// The next token of one text.
#[derive(Debug, Clone, PartialEq)]
pub struct Token {
    /// The text: that of prompt `row / num_return_sequences`.
    pub row: usize,
    /// The token.
    pub id: u32,
    /// The logarithm of its probability in the model's own eyes, before all filters.
    pub logprob: f64,
    /// What can be shown of the text now: whole characters, nothing of a stop string. Empty without a tokenizer.
    pub text: String,
    /// Why the text ends with this token, if it does.
    pub finish_reason: Option<FinishReason>,
    /// How it was chosen, if [`Generator::with_alternatives`] asked for it.
    pub explanation: Option<Explanation>,
}

/// One text.
#[derive(Debug)]
struct Row<'a> {
    prompt: usize,
    prompt_length: usize,
    /// Prompt and all that was written.
    ids: Vec<u32>,
    logprobs: Vec<f64>,
    explanations: Vec<Explanation>,
    sampler: Sampler,
    stream: Option<TextStream<'a>>,
    text: String,
    finish_reason: Option<FinishReason>,
}

impl<'a> Generator<'a> {
    /// Continuations of prompts: `num_return_sequences` rows for the first, then as many for the second, and so on.
    /// With a tokenizer there is text beside the tokens; stop strings need one.
    pub fn new(
        gpt: &'a Gpt,
        prompts: &[Vec<u32>],
        config: &GenerationConfig,
        tokenizer: Option<&'a Tokenizer>,
    ) -> Result<Self> {
        Self::numbered_from(0, gpt, prompts, config, tokenizer)
    }

    /// The same for prompts that are not the first of all: `first_row` texts are written elsewhere, and draws go on behind theirs.
    pub(crate) fn numbered_from(
        first_row: usize,
        gpt: &'a Gpt,
        prompts: &[Vec<u32>],
        config: &GenerationConfig,
        tokenizer: Option<&'a Tokenizer>,
    ) -> Result<Self> {
        config.validate_for(gpt.config().vocab_size)?;
        if config.num_beams > 1 {
            return Err(Error::config("num_beams", "must be 1 to write token by token; beams are a search"));
        }
        let prompts = prompt::check(prompts, config, gpt.config())?;
        let longest = prompts.iter().map(Vec::len).max().unwrap_or(0).saturating_add(config.max_new_tokens);
        let window = Window::new(gpt, prompts.len(), longest, config.context)?;
        let texts = prompts.iter().enumerate();
        let texts = texts.flat_map(|text| std::iter::repeat_n(text, config.num_return_sequences));
        let rows =
            texts.enumerate().map(|(row, (i, ids))| Row::new(first_row + row, i, ids, config, tokenizer));
        let rows: Vec<Row> = rows.collect::<Result<_>>()?;
        let live = (0..rows.len()).collect();
        Ok(Self { config: config.clone(), window, rows, live, prefilled: false, alternatives: None })
    }

    /// Has each token say how it was chosen, with the `k` likeliest alternatives.
    pub fn with_alternatives(self, k: usize) -> Self {
        Self { alternatives: Some(k), ..self }
    }

    /// How many texts there are, done or not.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// All texts as far as they have come.
    pub fn into_completions(self) -> Vec<Completion> {
        self.rows.into_iter().map(Row::into_completion).collect()
    }

    fn step(&mut self) -> Result<Vec<Token>> {
        let logits = self.forward()?;
        let mut tokens = Vec::with_capacity(self.live.len());
        for (place, logits) in logits.iter().enumerate() {
            tokens.push(self.write(place, logits)?);
        }
        self.retire()?;
        Ok(tokens)
    }

    /// Prefills the prompts at first, then decodes one token a row; returns the logits of every live row.
    fn forward(&mut self) -> Result<Vec<Vec<f32>>> {
        if self.prefilled {
            let texts: Vec<&[u32]> = self.live.iter().map(|&row| &self.rows[row].ids[..]).collect();
            return self.window.next_logits(&texts);
        }
        self.prefilled = true;
        let prompts = self.rows.iter().step_by(self.config.num_return_sequences);
        let logits = self.window.next_logits(&prompts.map(|row| &row.ids[..]).collect::<Vec<_>>())?;
        let copies: Vec<usize> = self.rows.iter().map(|row| row.prompt).collect();
        self.window.select(&copies)?;
        Ok(copies.into_iter().map(|prompt| logits[prompt].clone()).collect())
    }

    /// Chooses the next token of the live row at `place`.
    fn write(&mut self, place: usize, model: &[f32]) -> Result<Token> {
        let number = self.live[place];
        let row = &mut self.rows[number];
        let mut processed = model.to_vec();
        process(&mut processed, &row.ids, row.logprobs.len(), &self.config);
        let id = match self.config.is_greedy() {
            true => argmax(&processed),
            false => row.sampler.draw(&processed),
        };
        let id = id.ok_or(Error::NoToken { position: row.ids.len() })?;
        let context_full = self.config.context == ContextRule::Stop && self.window.is_full(place);
        let logprob = logprob(model, id);
        let text = row.push(id, logprob, context_full, &self.config);
        let explanation = self.alternatives.map(|k| Explanation::new(model, &processed, id, k));
        row.explanations.extend(explanation.clone());
        Ok(Token { row: number, id, logprob, text, finish_reason: row.finish_reason, explanation })
    }

    /// Lets go of the rows that are done.
    fn retire(&mut self) -> Result<()> {
        let places = 0..self.live.len();
        let kept: Vec<usize> =
            places.filter(|&place| self.rows[self.live[place]].finish_reason.is_none()).collect();
        self.live = kept.iter().map(|&place| self.live[place]).collect();
        match kept.is_empty() {
            true => Ok(()),
            false => self.window.select(&kept),
        }
    }
}

impl Iterator for Generator<'_> {
    type Item = Result<Vec<Token>>;

    /// The next token of every text that is not done; after an error there are no more.
    fn next(&mut self) -> Option<Self::Item> {
        if self.live.is_empty() {
            return None;
        }
        let step = self.step();
        if step.is_err() {
            self.live.clear();
        }
        Some(step)
    }
}

impl<'a> Row<'a> {
    fn new(
        row: usize,
        prompt: usize,
        ids: &[u32],
        config: &GenerationConfig,
        tokenizer: Option<&'a Tokenizer>,
    ) -> Result<Self> {
        Ok(Self {
            prompt,
            prompt_length: ids.len(),
            ids: ids.to_vec(),
            logprobs: Vec::new(),
            explanations: Vec::new(),
            sampler: Sampler::new(config.seed, row as u64),
            stream: TextStream::open(tokenizer, config)?,
            text: String::new(),
            finish_reason: None,
        })
    }

    /// Takes the next token, notes whether it is the last one, and gives the text that can be shown now.
    fn push(&mut self, id: u32, logprob: f64, context_full: bool, config: &GenerationConfig) -> String {
        self.ids.push(id);
        self.logprobs.push(logprob);
        let ends = config.eos_token_id.contains(&id);
        let mut text = String::new();
        if let (Some(stream), false) = (&mut self.stream, ends) {
            text = stream.push(id);
        }
        let stopped = ends || self.stream.as_ref().is_some_and(TextStream::stopped);
        if stopped {
            self.finish_reason = Some(FinishReason::Stop);
        } else if context_full || self.logprobs.len() >= config.max_new_tokens {
            self.finish_reason = Some(FinishReason::Length);
        }
        if let (Some(stream), Some(_)) = (&mut self.stream, self.finish_reason) {
            text += &stream.finish();
        }
        self.text += &text;
        text
    }

    fn into_completion(mut self) -> Completion {
        let rest = self.stream.as_mut().map(TextStream::finish);
        Completion {
            prompt: self.prompt,
            ids: self.ids.split_off(self.prompt_length),
            text: rest.map(|rest| self.text + &rest),
            finish_reason: self.finish_reason,
            logprobs: self.logprobs,
            explanations: self.explanations,
            score: None,
        }
    }
}
