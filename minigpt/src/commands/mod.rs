//! One subcommand a file: its arguments, and what it does with them.

pub mod data;
pub mod generate;
pub mod inspect;
pub mod plan;
pub mod plot;
pub mod tokenizer;
pub mod train;
