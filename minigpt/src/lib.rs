//! MiniGPT as a library: a model with its tokenizer, talking with it, scoring its answers, training runs from a file, and
//! models of the hub; and the crates below under a single name.
//!
//! It never prints, parses a command line or names an option in an error: a program that uses it decides what people see.
//!
//! ```no_run
//! use minigpt::ModelFolder;
//!
//! let model = ModelFolder::open("runs/demo")?; // or a model folder, a GGUF file, "hf:openai-community/gpt2"
//! println!("{}", model.generate("Who was the first person on the moon?")?);
//! for piece in model.stream("What is the capital of Chile?")? {
//!     print!("{}", piece?);
//! }
//! # Ok::<(), minigpt::Error>(())
//! ```
//!
//! Training on data in memory, in a few lines ([`Training`]):
//!
//! ```
//! use minigpt::Training;
//!
//! let text = "the cat sat on the mat. ".repeat(40); // or Training::on_questions([("Who sat?", "The cat."), …])
//! let trained = Training::on_text(text).steps(2).train()?; // without `steps`, about five minutes
//! println!("{}", trained.model.generate("the cat")?);
//! # Ok::<(), minigpt::Error>(())
//! ```
//!
//! From a file such as those in `configs/`:
//!
//! ```
//! # let folder = tempfile::tempdir().unwrap();
//! # let (file, out) = (folder.path().join("run.toml"), folder.path().join("run"));
//! # let text = folder.path().join("book.txt");
//! # std::fs::write(&text, "the cat sat on the mat. ".repeat(40)).unwrap();
//! # let small = "[model]\nn_layer = 1\nn_head = 1\nn_embd = 8\nblock_size = 8\n[train]\nmax_iters = 1\nbatch_size = 2\n";
//! # std::fs::write(&file, format!("{small}[data]\npath = {text:?}\n")).unwrap();
//! let report = minigpt::train(file, out)?; // for example ("run.toml", "runs/book")
//! let model = minigpt::ModelFolder::open(report.model)?;
//! assert!(!model.generate("the cat")?.is_empty());
//! # Ok::<(), minigpt::Error>(())
//! ```
//!
//! Then [`Conversation`] and [`ChatSettings`] to talk with a model, [`Run`] and [`RunConfig`] to watch a training run, to go
//! on with one or to fine-tune, and [`answer_all`] to score. `examples/` has each of these on a page.

mod chat_settings;
mod cluster;
mod conversation;
mod error;
mod hub;
mod hub_cache;
mod hub_error;
mod hub_listing;
mod inside;
pub mod limit;
pub mod machine;
mod model_folder;
mod model_place;
mod questions;
mod ready_configs;
mod recipe;
mod run;
mod run_config;
mod run_plan;
pub mod settings;
mod step_time;
mod suggestion;
pub mod sweep;
mod training;
mod writing;

pub use minigpt_charts as charts;
pub use minigpt_chat as chat;
pub use minigpt_data as data;
pub use minigpt_formats as formats;
pub use minigpt_generate as generate;
pub use minigpt_insight as insight;
pub use minigpt_model as model;
pub use minigpt_scaling as scaling;
pub use minigpt_tokenizer as tokenizer;
pub use minigpt_train as train;

pub use chat_settings::{ChatSettingError, ChatSettings};
pub use cluster::{ClusterPlan, ClusterSpeed, Network, UnknownNetwork};
pub use conversation::{Conversation, ConversationError};
pub use error::{Error, Result};
pub use hub::Hub;
pub use hub_error::{CacheProblem, HubError};
pub use inside::{Snapshot, snapshots};
pub use minigpt_chat::Format;
pub use minigpt_generate::GenerationConfig;
pub use minigpt_model::attention::scaled_dot_product_attention;
pub use minigpt_model::{Block, CausalSelfAttention, LayerNorm, Linear, Mlp, MultiHeadAttention, Pass};
pub use minigpt_settings::{Allowed, Section, SettingInfo};
pub use model_folder::{ModelFolder, TokenizerMismatch, tokenizer_mismatch};
pub use model_place::{Missing, ModelPlace, NoModel, NotAModel, list};
pub use questions::{Answered, answer_all};
pub use ready_configs::{READY_CONFIGS, ReadyConfig};
pub use run::{EvalSet, Place, Run, RunError, RunEvaluation, RunNote, Score, SetSource, decided_by_model};
pub use run_config::{DataConfig, ExampleStyle, RunConfig, SampleConfig};
pub use run_plan::{RunPlan, damage};
pub use settings::{SECTIONS, SETTINGS, SettingError};
pub use step_time::{StepTimer, random_ids, step_time};
pub use suggestion::{Further, MINUTES, MOST_MINUTES, Suggestion};
pub use training::{Trained, Training, train};
pub use writing::{Generated, TextPieces};

// For the command line, which looks at data without training on it.
#[doc(hidden)]
pub use run::tokenizer_beside;

/// The example of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
