//! Decoding: from a model and prompts to texts. Ids go in and come out; a tokenizer adds text.
//!
//! This crate never does I/O: no files, nothing printed; only the engine's pace looks at a clock. Begin reading with
//! [`engine`], which everybody who generates uses. In the order data flows: [`config`] (what to do; [`style`] for those who
//! don't think in temperatures) → `prompt` (checked) → [`engine`] (requests in, tokens out; [`constraint`]: only tokens that a
//! grammar allows) → [`processors`] (what changes
//! the logits) → [`sampling`] (one token) → [`text`] (as it can be shown). [`generator`] and [`beam`] are thin views of
//! the engine for whoever has all prompts at hand, and [`completion`] is what comes out. Beside them: `probabilities` and
//! [`explain`], for looking at a choice, and [`repetition`], for noticing that a text goes round in circles.
//!
//! Names, meanings, order and results are those of Hugging Face's `generate`.
//!
//! ```no_run
//! use minigpt_generate::{GenerationConfig, generate};
//!
//! # fn example(gpt: &minigpt_model::Gpt) -> Result<(), minigpt_generate::Error> {
//! let config = GenerationConfig { max_new_tokens: 20, ..GenerationConfig::default() };
//! let completions = generate(gpt, &[vec![15496, 11]], &config, None)?;
//! assert!(completions[0].ids.len() <= 20);
//! # Ok(())
//! # }
//! ```

pub mod beam;
pub mod completion;
pub mod config;
pub mod constraint;
mod constraint_error;
pub mod engine;
mod error;
pub mod explain;
mod gbnf;
pub mod generator;
mod probabilities;
pub mod processors;
mod prompt;
pub mod repetition;
pub mod sampling;
pub mod style;
pub mod text;

pub use beam::BeamSearch;
pub use completion::{Completion, FinishReason, generate, generate_explained, generate_watched};
pub use config::{ContextRule, EarlyStopping, GenerationConfig, IgnoredSetting};
pub use constraint::{Constraint, Grammar, GrammarCompiler};
pub use constraint_error::{ConstraintProblem, GbnfError, GbnfProblem};
pub use engine::{
    Engine, EngineConfig, EngineCounters, EngineEvent, EngineStatus, EngineThread, Refused, Request,
    RequestId, SlotState, SlotStatus, StoppedBy, Ticket, TokenLogprobs, Usage,
};
pub use error::{Error, PromptProblem, Result, SettingLimit, SettingProblem, SettingRange, WhichPrompt};
pub use explain::{Alternative, Explanation};
pub use generator::{Generator, Token};
pub use probabilities::{Candidate, candidates, log_softmax, logprob};
pub use sampling::Sampler;
pub use style::Style;
pub use text::TextStream;
