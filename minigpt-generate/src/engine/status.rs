//! What the engine is doing, for whoever watches it.

use super::request::RequestId;
use std::time::Duration;

/// The state of an engine between two steps.
#[derive(Debug, Clone, Default)]
pub struct EngineStatus {
    /// Each slot.
    pub slots: Vec<SlotStatus>,
    /// Texts that wait for a slot.
    pub queued: usize,
    /// Requests that wait for the slot of their first text.
    pub waiting: usize,
    /// What has been done since the start.
    pub counters: EngineCounters,
    /// The memory of all keys and values, which never changes.
    pub memory_bytes: usize,
    /// How many tokens of a text fit a slot.
    pub context: usize,
}

/// What a slot is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlotState {
    /// Nothing; it keeps what it has read.
    Free,
    /// Reading a prompt.
    Reading,
    /// Writing.
    Writing,
}

/// A slot.
#[derive(Debug, Clone)]
pub struct SlotStatus {
    /// What it is doing.
    pub state: SlotState,
    /// For which request.
    pub request: Option<RequestId>,
    /// How many tokens it holds: those that the model has in view, or that the next prompt may begin with.
    pub n_past: usize,
    /// How many tokens the request's prompt has.
    pub prompt_tokens: usize,
    /// How many it has written.
    pub completion_tokens: usize,
}

/// What an engine has done since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct EngineCounters {
    /// Tokens of prompts that were read.
    pub prompt_tokens: u64,
    /// Tokens of prompts that slots held already.
    pub cached_tokens: u64,
    /// Tokens that were written.
    pub generated_tokens: u64,
    /// Steps in which something was computed.
    pub steps: u64,
    /// How long all steps took.
    pub busy: Duration,
    /// The longest step.
    pub longest_step: Duration,
    /// Requests that ended, failed ones among them.
    pub finished: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that were cancelled.
    pub cancelled: u64,
}
