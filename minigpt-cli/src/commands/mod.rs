//! One subcommand a file: its arguments, and what it does with them.

pub mod bench;
pub mod chat;
mod cluster;
pub mod config;
pub mod data;
pub mod demo;
pub mod eval;
pub mod export;
pub mod generate;
pub mod import;
pub mod inspect;
pub mod plan;
pub mod plot;
pub mod run;
pub mod scaling;
pub mod serve;
pub mod tokenizer;
pub mod train;
