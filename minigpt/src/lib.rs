//! MiniGPT as a library: the crates below this one under a single name.

pub use minigpt_tokenizer as tokenizer;
