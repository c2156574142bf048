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

/// Measure the speed of training and generation on this machine, compared with its limits.
#[derive(Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Training steps: forward, backward, clipping and optimizer, as in `minigpt train`.
    Train(train::TrainArgs),
    /// Generating tokens one after another, as in `minigpt generate`, without the prompt.
    Decode(decode::DecodeArgs),
    /// Processing a prompt, up to the first new token.
    Prefill(prefill::PrefillArgs),
    /// The limits of this machine.
    Limit(limit::LimitArgs),
}

/// Below the options of every subcommand.
const NOTES: &str = "Weights and tokens are random, from a fixed seed. Figures are those of the fastest repeat, next to \
    the median; speeds drift, so the machine's limits are measured in the same run.\n\
    Attention that the causal mask hides is neither computed nor counted.\n\
    Uses all cores; --threads N limits them.";

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
