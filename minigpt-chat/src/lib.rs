//! How a model is spoken to: what was said becomes the ids that make it answer.
//!
//! A crate of its own, because the command line's chat and the server both talk with models, and the server must not know
//! training, which the crate above knows. Begin with [`Format`]. A chat template is a program from outside: `template` renders it
//! within bounds, and `guarded` sees to it that only the template writes special tokens. [`Transcript`] is a conversation with all that
//! a template may look at, such as tools; [`ToolParser`] finds the calls in an answer.
//!
//! ```
//! use minigpt_chat::Format;
//! use minigpt_data::{Role, Turn};
//! use minigpt_tokenizer::{CharTokenizer, SEP, Tokenizer};
//!
//! let tokenizer = Tokenizer::Char(CharTokenizer::from_text(&[SEP], "who?".chars())?);
//! let format = Format::choose(None, Some(&tokenizer)); // its separator tells that it knows questions
//! let turns = [Turn { role: Role::User, text: "who?".into() }];
//! assert_eq!(format.render(&tokenizer, &turns)?, "who?<sep>");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod format;
mod guarded;
mod template;
mod tools;
mod transcript;

pub use error::{ConversationProblem, Error, Result, TemplateCause, TemplateFailure, TemplateProblem};
pub use format::{Format, role_name};
pub use template::today;
pub use tools::{AnswerPart, ToolCall, ToolForm, ToolParser};
pub use transcript::{Message, Transcript, TranscriptEnd};
