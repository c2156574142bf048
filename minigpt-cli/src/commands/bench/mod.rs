//! `minigpt bench`: how fast a model trains, reads and writes on this machine, and how much of the machine that is.

mod decode;
mod limit;
mod model;
mod prefill;
mod report;
mod times;
mod train;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Measure how fast a model trains and writes here, beside what this machine could do.
#[derive(Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Steps of training: forward, backward, clipping and the optimiser, as `minigpt train` makes them.
    Train(train::TrainArgs),
    /// Tokens written one after another, as `minigpt generate` writes them, without the reading of the prompt.
    Decode(decode::DecodeArgs),
    /// The reading of a prompt, up to its first new token.
    Prefill(prefill::PrefillArgs),
    /// What the machine can do, and nothing else.
    Limit(limit::LimitArgs),
}

/// Below the options of every subcommand.
const NOTES: &str = "Weights and tokens are random, from a fixed seed. Figures are those of the fastest repeat, with \
    the median beside them; speeds drift, so the machine's limit is measured in the same run.\n\
    Of attention, what its mask hides is not computed, and not counted.\n\
    All cores are used; --threads N limits that.";

/// What all that is random comes from.
const SEED: u64 = 1337;

/// Runs one of the subcommands.
pub fn run(args: &BenchArgs) -> Result<()> {
    match &args.command {
        Command::Train(args) => train::run(args),
        Command::Decode(args) => decode::run(args),
        Command::Prefill(args) => prefill::run(args),
        Command::Limit(args) => limit::run(args),
    }
}

/// Prompts of one length, each of other tokens.
fn random_prompts(rows: usize, length: usize, vocab_size: usize) -> Vec<Vec<u32>> {
    minigpt::random_ids(rows * length, vocab_size).chunks(length).map(<[u32]>::to_vec).collect()
}
