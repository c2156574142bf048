//! Writing token by token: an iterator that a caller may leave at any point. A thin view of the engine for whoever has all
//! prompts at hand.

use crate::completion::{Completion, FinishReason};
use crate::config::GenerationConfig;
use crate::engine::{EngineConfig, EngineEvent, Request, RequestId, Scheduler};
use crate::error::{Error, Result, SettingProblem};
use crate::explain::Explanation;
use crate::prompt;
use minigpt_model::Gpt;
use minigpt_tokenizer::Tokenizer;

/// Continues prompts, all of them at once. Each step yields the next token of every text whose prompt has been read and that
/// is not done. Nothing is computed before the first step.
///
/// A prompt is prefilled once, however many texts continue it; a text that is done makes room. A text does not depend on
/// the others beside it.
#[derive(Debug)]
pub struct Generator<'a> {
    scheduler: Scheduler,
    tokenizer: Option<&'a Tokenizer>,
    rows: Vec<Row>,
    requests: Vec<Request>,
    alternatives: Option<usize>,
    failed: bool,
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
    /// The text that can be shown now: whole characters, no part of a stop string. Empty without a tokenizer.
    pub text: String,
    /// Why the text ends with this token, if it does.
    pub finish_reason: Option<FinishReason>,
    /// How it was chosen, if [`Generator::with_alternatives`] asked for it.
    pub explanation: Option<Explanation>,
}

/// One text as far as it has come.
#[derive(Debug)]
struct Row {
    request: Option<RequestId>,
    completion: Completion,
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
        let rows = prompts.len().saturating_mul(config.num_return_sequences);
        Self::at_once(rows, gpt, prompts, config, tokenizer)
    }

    /// The same with no more than `most` texts in memory at once.
    pub(crate) fn at_once(
        most: usize,
        gpt: &'a Gpt,
        prompts: &[Vec<u32>],
        config: &GenerationConfig,
        tokenizer: Option<&'a Tokenizer>,
    ) -> Result<Self> {
        config.validate_for(gpt.config().vocab_size)?;
        if config.num_beams > 1 {
            return Err(Error::config("num_beams", SettingProblem::StreamedBeams));
        }
        if !config.stop_strings.is_empty() && tokenizer.is_none() {
            return Err(Error::config("stop_strings", SettingProblem::NoTokenizer));
        }
        let prompts = prompt::check(prompts, config, gpt.config())?;
        let longest = prompts.iter().map(Vec::len).max().unwrap_or(0).saturating_add(config.max_new_tokens);
        let texts = prompts.len().saturating_mul(config.num_return_sequences);
        let engine = EngineConfig::for_texts(texts.min(most), longest);
        let scheduler = Scheduler::new(gpt.clone(), tokenizer.is_some(), &engine)?;
        let number = |prompt: usize| std::iter::repeat_n(prompt, config.num_return_sequences);
        let numbers: Vec<usize> = (0..prompts.len()).flat_map(number).collect();
        let request = |(stream, &prompt): (usize, &usize)| Request {
            stream: stream as u64,
            ..Request::new(prompts[prompt].clone(), config.clone())
        };
        let requests: Vec<Request> = numbers.iter().enumerate().map(request).collect();
        let rows = numbers.into_iter().map(|prompt| Row::new(prompt, tokenizer.is_some())).collect();
        Ok(Self { scheduler, tokenizer, rows, requests, alternatives: None, failed: false })
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
    pub fn into_completions(mut self) -> Vec<Completion> {
        for row in &mut self.rows {
            if let (Some(id), Some(text)) = (row.request, &mut row.completion.text) {
                *text += &self.scheduler.held_text(id);
            }
        }
        self.rows.into_iter().map(|row| row.completion).collect()
    }

    /// Hands the texts to the engine, once.
    fn submit(&mut self) -> Result<()> {
        for (row, request) in self.rows.iter_mut().zip(self.requests.drain(..)) {
            let request = Request { explain: self.alternatives, ..request };
            row.request = Some(self.scheduler.submit(request)?);
        }
        Ok(())
    }

    /// Steps until there are tokens; none when all texts are done.
    fn step(&mut self) -> Result<Vec<Token>> {
        self.submit()?;
        let mut tokens = Vec::new();
        while tokens.is_empty() && !self.scheduler.is_idle() {
            for (id, event) in self.scheduler.step(self.tokenizer) {
                let row = id.0 as usize;
                self.rows[row].take(row, event, &mut tokens)?;
            }
        }
        Ok(tokens)
    }
}

impl Iterator for Generator<'_> {
    type Item = Result<Vec<Token>>;

    /// The next token of every text that is being written; after an error there are no more.
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        match self.step() {
            Ok(tokens) if tokens.is_empty() => None,
            Ok(tokens) => Some(Ok(tokens)),
            Err(error) => {
                self.failed = true;
                Some(Err(error))
            }
        }
    }
}

impl Row {
    fn new(prompt: usize, has_text: bool) -> Self {
        let completion = Completion {
            prompt,
            ids: Vec::new(),
            text: has_text.then(String::new),
            finish_reason: None,
            logprobs: Vec::new(),
            explanations: Vec::new(),
            score: None,
        };
        Self { request: None, completion }
    }

    /// Notes what happened to this text, as a token or as the end of the last one.
    fn take(&mut self, row: usize, event: EngineEvent, tokens: &mut Vec<Token>) -> Result<()> {
        let Completion { ids, logprobs, text: whole, explanations, .. } = &mut self.completion;
        let mut shown = |text: &str| {
            if let Some(whole) = whole {
                whole.push_str(text);
            }
        };
        match event {
            EngineEvent::Token { id, logprob, text, explanation, .. } => {
                ids.push(id);
                logprobs.push(logprob);
                shown(&text);
                explanations.extend(explanation.clone());
                tokens.push(Token { row, id, logprob, text, finish_reason: None, explanation });
            }
            EngineEvent::Done { reason, rest, .. } => {
                shown(&rest);
                self.completion.finish_reason = Some(reason);
                self.request = None;
                if let Some(token) = tokens.iter_mut().rev().find(|token| token.row == row) {
                    token.finish_reason = Some(reason);
                    token.text += &rest;
                }
            }
            EngineEvent::Failed(error) => return Err(error),
            EngineEvent::Prompt { .. } | EngineEvent::Found(_) => (),
        }
        Ok(())
    }
}
