//! The engine: requests come and go, one loop computes. Command line, chat, evaluation, samples and servers all use it.
//!
//! A **step** takes one token for every text that is being written, and tokens of prompts as far as the step's time allows,
//! shared round-robin to the texts that are still being read. Texts join and leave between steps. **Slots** hold keys and
//! values, allocated once; a slot keeps what it has read, and the next prompt that begins alike is not read again.
//!
//! **The promise**: tokens and log-probabilities of a request are the same to the bit alone or beside others, with the prompt
//! read at once or in chunks, from a slot's prefix or anew, with any number of threads. The kernels keep it
//! (`minigpt-kernels`), and nothing here that decides over a token looks at a clock or a neighbour.
//!
//! In the order data flows: `request` (what is asked, checked) → `scheduler` (the loop) with `slots` (what has been read),
//! `sequence` (what of a text is in view), `pace` and `share` (how much is read in a step) → `job`: a `writer` (one token after
//! another) or a `search` (beams) → `event` (what is said about it). `thread` runs all that on a thread of its own.

mod event;
mod job;
mod pace;
mod request;
mod scheduler;
mod search;
mod sequence;
mod share;
mod slots;
mod status;
mod thread;
mod writer;

pub use event::{EngineEvent, StoppedBy, TokenLogprobs, Usage};
pub use request::{EngineConfig, Refused, Request, RequestId};
pub(crate) use scheduler::Scheduler;
pub use status::{EngineCounters, EngineStatus, SlotState, SlotStatus};
pub use thread::{EngineThread, Ticket};

use crate::error::Result;
use minigpt_model::Gpt;
use minigpt_tokenizer::Tokenizer;
use std::sync::Arc;
use std::time::Duration;

/// The engine itself, without a thread of its own: whoever owns it calls [`Engine::step`].
#[derive(Debug)]
pub struct Engine {
    scheduler: Scheduler,
    tokenizer: Option<Arc<Tokenizer>>,
}

impl Engine {
    /// An engine for a model. With a tokenizer there is text beside the tokens; stop strings need one.
    pub fn new(gpt: Gpt, tokenizer: Option<Arc<Tokenizer>>, config: &EngineConfig) -> Result<Self> {
        Ok(Self { scheduler: Scheduler::new(gpt, tokenizer.is_some(), config)?, tokenizer })
    }

    /// Takes a request, which waits until it finds a slot.
    pub fn submit(&mut self, request: Request) -> std::result::Result<RequestId, Refused> {
        self.scheduler.submit(request)
    }

    /// Lets go of a request: it is not in the next step. Nothing more is said about it.
    pub fn cancel(&mut self, id: RequestId) {
        self.scheduler.cancel(id);
    }

    /// Computes one step and says what happened to whom. Nothing happens when it is idle.
    pub fn step(&mut self) -> Vec<(RequestId, EngineEvent)> {
        self.scheduler.step(self.tokenizer.as_deref())
    }

    /// Whether there is nothing to do.
    pub fn is_idle(&self) -> bool {
        self.scheduler.is_idle()
    }

    /// What it is doing.
    pub fn status(&self) -> EngineStatus {
        self.scheduler.status()
    }

    /// The memory of all keys and values: all that grows with texts, taken at the start.
    pub fn memory_bytes(&self) -> usize {
        self.scheduler.memory_bytes()
    }
}

impl EngineConfig {
    /// For texts of our own, of which nobody waits for another: a prompt is read at once, and others beside it as far as
    /// memory for what a pass leaves on its way is no concern.
    pub(crate) fn for_texts(slots: usize, longest: usize) -> Self {
        const AT_ONCE: usize = 2048;
        let (max_queue, fixed_chunk) = (usize::MAX, Some(longest.max(AT_ONCE)));
        Self { slots, context: longest.max(1), max_queue, step: Duration::MAX, fixed_chunk }
    }
}
