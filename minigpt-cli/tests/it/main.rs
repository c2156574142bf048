//! The command line as a person types it, on small models.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod accepted;
mod architecture;
mod bench;
mod chinese;
mod config;
mod data;
mod data_workflows;
mod dependencies;
mod export;
mod fine_tuning;
mod generate;
mod hostile;
mod hub;
mod import;
mod inside;
mod model;
mod own_data;
mod plot;
mod ranks;
mod run_folder;
mod scaling;
mod serve;
mod support;
mod talk;
mod tokenizer;
mod train;
mod workflows;
