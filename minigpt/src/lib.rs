//! MiniGPT as a library: the crates below this one under a single name, and a model with its tokenizer.

mod model_folder;

pub use minigpt_data as data;
pub use minigpt_generate as generate;
pub use minigpt_model as model;
pub use minigpt_tokenizer as tokenizer;
pub use minigpt_train as train;

pub use model_folder::ModelFolder;

/// The example of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
