//! Beam search as a thing of its own: a thin view of the engine with one request, a step at a time.

use crate::completion::Completion;
use crate::config::GenerationConfig;
use crate::engine::{EngineConfig, EngineEvent, Request, RequestId, Scheduler};
use crate::error::Result;
use crate::prompt;
use minigpt_model::Gpt;
use minigpt_tokenizer::Tokenizer;

/// The search for the best continuations of one prompt, a step at a time: a caller may leave it at any point.
#[derive(Debug)]
pub struct BeamSearch<'a> {
    scheduler: Scheduler,
    tokenizer: Option<&'a Tokenizer>,
    id: RequestId,
    found: Option<Vec<Completion>>,
}

impl<'a> BeamSearch<'a> {
    /// A search for `num_return_sequences` continuations of a prompt.
    pub fn new(
        gpt: &'a Gpt,
        prompt: &[u32],
        config: &GenerationConfig,
        tokenizer: Option<&'a Tokenizer>,
    ) -> Result<Self> {
        let mut prompts = prompt::check(&[prompt.to_vec()], config, gpt.config())?;
        let prompt = prompts.remove(0);
        let longest = prompt.len().saturating_add(config.max_new_tokens);
        let engine = EngineConfig::for_texts(config.num_beams, longest);
        let mut scheduler = Scheduler::new(gpt.clone(), tokenizer.is_some(), &engine)?;
        let id = scheduler.submit_search(Request::new(prompt, config.clone()))?;
        Ok(Self { scheduler, tokenizer, id, found: None })
    }

    /// Searches to the end.
    pub fn run(mut self) -> Result<Vec<Completion>> {
        while self.step()? {}
        Ok(self.into_completions())
    }

    /// Makes every running beam a token longer; false once the search is over.
    pub fn step(&mut self) -> Result<bool> {
        let before = self.scheduler.search_length(self.id);
        while !self.scheduler.is_idle() && self.scheduler.search_length(self.id) == before {
            for (_, event) in self.scheduler.step(self.tokenizer) {
                match event {
                    EngineEvent::Found(found) => self.found = Some(found),
                    EngineEvent::Failed(error) => return Err(error),
                    _ => (),
                }
            }
        }
        Ok(!self.scheduler.is_idle())
    }

    /// The best texts found. If the search was left early and too few are finished, running ones follow as they are.
    pub fn into_completions(self) -> Vec<Completion> {
        self.found.unwrap_or_else(|| self.scheduler.search_so_far(self.id, self.tokenizer))
    }
}
