//! The command line: parse, run, and turn errors into a message and an exit code.

mod commands;
mod output;
mod progress;
mod table;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Train, understand and use a GPT on your own machine.
#[derive(Parser)]
#[command(name = "minigpt", version, subcommand_required = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Find, fetch, prepare, split and measure data.
    Data(commands::data::DataArgs),
    /// Train a tokenizer, or turn text into ids and back.
    Tokenizer(commands::tokenizer::TokenizerArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done: anyhow::Result<()> = match cli.command {
        Command::Data(args) => commands::data::run(&args),
        Command::Tokenizer(args) => commands::tokenizer::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

/// Prints the whole chain of causes on standard error. A reader that went away (`| head`) is not an error; options
/// that make no sense together are wrong usage.
fn fail(error: &anyhow::Error) -> ExitCode {
    if let Some(usage) = error.downcast_ref::<clap::Error>() {
        return if usage.print().is_ok() { ExitCode::from(2) } else { ExitCode::FAILURE };
    }
    let closed = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(closed) {
        return ExitCode::SUCCESS;
    }
    #[expect(clippy::print_stderr, reason = "this is where errors reach the person")]
    {
        eprintln!("error: {error:#}");
    }
    ExitCode::FAILURE
}
