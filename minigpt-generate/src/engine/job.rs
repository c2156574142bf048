//! A request that runs: one text, or a search with several beams, each of them a text in a slot.

use super::event::{EngineEvent, Usage};
use super::search::Search;
use super::sequence::Sequence;
use super::slots::Slots;
use super::writer::Writer;
use crate::completion::FinishReason;
use crate::config::ContextRule;
use crate::error::Result;
use minigpt_tokenizer::Tokenizer;

/// What a request that holds slots does.
#[derive(Debug)]
pub(super) enum Job {
    Text(Box<Writer>),
    Search(Box<Beams>),
}

/// A search with the slots of its beams.
#[derive(Debug)]
pub(super) struct Beams {
    pub search: Search,
    pub sequences: Vec<Sequence>,
    pub slots: Vec<usize>,
    pub rule: ContextRule,
    pub usage: Usage,
    pub steps: usize,
}

impl Job {
    pub fn sequences(&self) -> &[Sequence] {
        match self {
            Self::Text(writer) => std::slice::from_ref(&writer.sequence),
            Self::Search(beams) => &beams.sequences,
        }
    }

    pub fn sequences_mut(&mut self) -> (&mut [Sequence], ContextRule) {
        match self {
            Self::Text(writer) => (std::slice::from_mut(&mut writer.sequence), writer.request.config.context),
            Self::Search(beams) => (&mut beams.sequences, beams.rule),
        }
    }

    /// Whether logits behind tokens of the prompt are wanted, too.
    pub fn wants_prompt_logits(&self) -> bool {
        matches!(self, Self::Text(writer) if writer.request.prompt_logprobs && !writer.prompt_read)
    }

    pub fn slots(&self) -> Vec<usize> {
        match self {
            Self::Text(writer) => vec![writer.sequence.slot],
            Self::Search(beams) => beams.slots.clone(),
        }
    }

    pub fn usage(&self) -> Usage {
        match self {
            Self::Text(writer) => writer.usage,
            Self::Search(beams) => beams.usage,
        }
    }
}

impl Beams {
    /// Makes every beam a token longer. True if the search is over.
    pub fn advance(
        &mut self,
        slots: &mut Slots,
        tokenizer: Option<&Tokenizer>,
        events: &mut Vec<EngineEvent>,
    ) -> Result<bool> {
        let logits: Vec<Vec<f32>> =
            self.sequences.iter_mut().map(|sequence| sequence.logits.take().unwrap_or_default()).collect();
        if self.steps == 0 {
            let cached_tokens = self.usage.cached_tokens;
            events.push(EngineEvent::Prompt { logprobs: Vec::new(), cached_tokens });
        }
        let parents = self.search.advance(&logits, tokenizer)?;
        self.steps += 1;
        if self.search.is_done() {
            let found = self.search.completions(tokenizer);
            let reason = found.first().and_then(|best| best.finish_reason).unwrap_or(FinishReason::Length);
            self.usage.completion_tokens = found.first().map_or(0, |best| best.ids.len());
            events.push(EngineEvent::Found(found));
            events.push(EngineEvent::Done { reason, rest: String::new(), usage: self.usage, stop: None });
            return Ok(true);
        }
        self.sequences = self.children(&parents, slots)?;
        Ok(false)
    }

    /// The sequences of the new beams: the first child of a beam goes on in its slot, the others copy it.
    fn children(&self, parents: &[usize], slots: &mut Slots) -> Result<Vec<Sequence>> {
        let in_use: Vec<usize> = parents.iter().map(|&parent| self.sequences[parent].slot).collect();
        let mut spare = self.slots.iter().filter(|slot| !in_use.contains(slot)).copied();
        let mut children = Vec::with_capacity(parents.len());
        for (i, (ids, &parent)) in self.search.texts().zip(parents).enumerate() {
            let sequence = &self.sequences[parent];
            let mut slot = sequence.slot;
            if parents[..i].contains(&parent) {
                slot = spare.next().unwrap_or(slot);
                slots.copy(sequence.slot, slot, slots.ids(sequence.slot).len())?;
            }
            children.push(sequence.extended(ids.to_vec(), slot));
        }
        Ok(children)
    }
}
