//! One text that is written token by token.

use super::event::{EngineEvent, StoppedBy, TokenLogprobs, Usage, top_logprobs};
use super::request::Request;
use super::sequence::Sequence;
use crate::completion::FinishReason;
use crate::config::ContextRule;
use crate::constraint::{self, Allowed, Constraint, ConstraintState};
use crate::error::{Error, Result};
use crate::explain::Explanation;
use crate::probabilities::logprob;
use crate::processors::process;
use crate::sampling::{Sampler, argmax};
use crate::text::TextState;
use minigpt_tokenizer::Tokenizer;

/// Why a text ends, and the stop token or string that came, if one did.
type Ending = (FinishReason, Option<StoppedBy>);

/// A text with all that decides over its next token.
#[derive(Debug)]
pub(crate) struct Writer {
    pub request: Request,
    pub sequence: Sequence,
    pub usage: Usage,
    sampler: Sampler,
    constraint: Option<ConstraintState>,
    text: Option<TextState>,
    prompt_logprobs: Vec<TokenLogprobs>,
    pub prompt_read: bool,
}

impl Writer {
    pub fn new(request: Request, sequence: Sequence, cached_tokens: usize, has_tokenizer: bool) -> Self {
        let prompt_tokens = request.prompt.len();
        let first = TokenLogprobs { id: request.prompt[0], logprob: None, top: Vec::new() };
        Self {
            sampler: Sampler::new(request.config.seed, request.stream),
            constraint: request.config.constraint.as_ref().map(Constraint::begin),
            text: has_tokenizer.then(|| TextState::new(&request.config.stop_strings)),
            prompt_logprobs: if request.prompt_logprobs { vec![first] } else { Vec::new() },
            usage: Usage { prompt_tokens, cached_tokens, completion_tokens: 0 },
            prompt_read: false,
            request,
            sequence,
        }
    }

    /// Whether what other texts have read of the same prompt is as good as reading it: not where logits behind each of its
    /// tokens are wanted, nor where it was asked for otherwise.
    pub fn shares_prefix(&self) -> bool {
        self.request.keep_prefix && !self.request.prompt_logprobs && !self.prompt_read
    }

    /// Takes logits behind tokens of the prompt, for their log-probabilities.
    pub fn take_prompt_logits(&mut self, logits: &[Vec<f32>]) -> Result<()> {
        for logits in logits {
            let at = self.prompt_logprobs.len();
            let Some(&id) = self.request.prompt.get(at) else { break };
            check(logits, at)?;
            let k = self.request.top_logprobs.unwrap_or(0);
            self.prompt_logprobs.push(TokenLogprobs::new(id, logits, k));
        }
        Ok(())
    }

    /// Chooses the next token from the logits behind the text. True if the text is done.
    pub fn write(
        &mut self,
        logits: &[f32],
        context: usize,
        tokenizer: Option<&Tokenizer>,
        events: &mut Vec<EngineEvent>,
    ) -> Result<bool> {
        if !self.prompt_read {
            self.prompt_read = true;
            let logprobs = std::mem::take(&mut self.prompt_logprobs);
            events.push(EngineEvent::Prompt { logprobs, cached_tokens: self.usage.cached_tokens });
        }
        check(logits, self.sequence.ids.len())?;
        if self.request.config.max_new_tokens == 0 {
            events.push(self.done(FinishReason::Length, None));
            return Ok(true);
        }
        let Some((id, explanation)) = self.choose(logits)? else {
            events.push(self.done(FinishReason::Stop, None));
            return Ok(true);
        };
        let (text, end) = self.push(id, context, tokenizer)?;
        let (logprob, top) = (logprob(logits, id), top_logprobs(logits, self.request.top_logprobs));
        events.push(EngineEvent::Token { id, logprob, top, text, explanation });
        let done = end.map(|(reason, stop)| self.done(reason, stop));
        let is_done = done.is_some();
        events.extend(done);
        Ok(is_done)
    }

    /// The next token; none if the text follows its grammar and nothing can be added.
    fn choose(&mut self, model: &[f32]) -> Result<Option<(u32, Option<Explanation>)>> {
        let Request { config, logit_bias, explain, ignore_eos, .. } = &self.request;
        let mut processed = model.to_vec();
        logit_bias.iter().for_each(|&(id, bias)| processed[id as usize] += bias);
        if let Some(constraint) = &mut self.constraint {
            match constraint.allowed()? {
                Allowed::End => return Ok(None),
                Allowed::Tokens { tokens, end } => {
                    constraint::mask(&mut processed, &tokens, &config.eos_token_id, end && !ignore_eos);
                }
            }
        }
        process(&mut processed, &self.sequence.ids, self.usage.completion_tokens, config);
        let id = if config.is_greedy() { argmax(&processed) } else { self.sampler.draw(&processed) };
        let id = id.ok_or(Error::NoToken { position: self.sequence.ids.len() })?;
        Ok(Some((id, explain.map(|k| Explanation::new(model, &processed, id, k)))))
    }

    /// Takes the next token; the text that can be shown now, and why it ends, if it does.
    fn push(
        &mut self,
        id: u32,
        context: usize,
        tokenizer: Option<&Tokenizer>,
    ) -> Result<(String, Option<Ending>)> {
        self.sequence.ids.push(id);
        self.usage.completion_tokens += 1;
        let config = &self.request.config;
        let ends = !self.request.ignore_eos && config.eos_token_id.contains(&id);
        if let (Some(constraint), false) = (&mut self.constraint, ends) {
            constraint.commit(id)?;
        }
        let complete = self.constraint.as_ref().is_some_and(ConstraintState::is_complete);
        let mut shown = String::new();
        if let (Some(text), Some(tokenizer), false) = (&mut self.text, tokenizer, ends) {
            shown = text.push(tokenizer, id);
        }
        let by_text = || Some(StoppedBy::Text(self.text.as_ref()?.stopped_by()?.to_owned()));
        let stop = if ends { Some(StoppedBy::Token(id)) } else { by_text() };
        let full = config.context == ContextRule::Stop && self.sequence.ids.len() >= context;
        let end = match stop {
            Some(stop) => Some((FinishReason::Stop, Some(stop))),
            None if complete => Some((FinishReason::Stop, None)),
            None if full || self.usage.completion_tokens >= config.max_new_tokens => {
                Some((FinishReason::Length, None))
            }
            None => None,
        };
        Ok((shown, end))
    }

    fn done(&mut self, reason: FinishReason, stop: Option<StoppedBy>) -> EngineEvent {
        EngineEvent::Done { reason, rest: self.held_text(), usage: self.usage, stop }
    }

    /// What waits because it could become a stop string.
    pub fn held_text(&mut self) -> String {
        self.text.as_mut().map(TextState::finish).unwrap_or_default()
    }
}

/// Minus infinity is a token that can't come; anything else that is no number is a broken model.
pub(crate) fn check(logits: &[f32], position: usize) -> Result<()> {
    let broken = logits.iter().position(|x| x.is_nan() || *x == f32::INFINITY);
    let broken = broken.or(logits.iter().all(|x| x.is_infinite()).then_some(0));
    match broken {
        Some(id) => Err(Error::NotFinite { position, id, value: logits[id] }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_that_are_no_numbers_are_an_error_that_says_so() {
        check(&[1.0, f32::NEG_INFINITY], 3).unwrap();
        let complaint = |logits: &[f32]| check(logits, 3).unwrap_err().to_string();
        assert!(complaint(&[1.0, f32::NAN]).starts_with("after 3 tokens the model gives NaN for token 1"));
        assert!(complaint(&[f32::INFINITY, 1.0]).contains("gives inf for token 0"));
        assert!(complaint(&[f32::NEG_INFINITY; 2]).contains("gives -inf for token 0"));
    }
}
