//! The command line: parse, run, and turn errors into a message and an exit code.

mod allocator;
mod arguments;
mod commands;
mod config_file;
mod cpu;
mod device;
#[cfg(test)]
mod docs;
mod dtype;
mod examples;
mod ids;
mod input;
mod language;
mod models;
mod output;
mod progress;
mod sampling;
mod screen;
mod shell;
#[cfg(test)]
mod sources;
mod stop;
mod structured;
mod tensors;
mod threads;

use anyhow::Result;
use arguments::Parsed;
use clap::error::{ContextKind, ErrorKind};
use clap::{Parser, Subcommand};
use language::Language;
use language::messages::main as message;
use minigpt::SettingError;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Train, understand and use a GPT on your own machine.
#[derive(Parser)]
#[command(name = "minigpt", version, subcommand_required = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Number of threads. Default: one per core.
    #[arg(short, long, global = true, value_name = "N", value_parser = threads::number)]
    threads: Option<u16>,
    /// Language of messages and help. Default: from the locale.
    #[arg(long, global = true, value_enum)]
    lang: Option<Language>,
}

#[derive(Subcommand)]
enum Command {
    /// Train a small model on built-in questions and answers, score it and chat with it: start here.
    Demo(commands::demo::DemoArgs),
    /// Find, download, prepare, split and measure data.
    Data(commands::data::DataArgs),
    /// Train a tokenizer, or convert between text and token ids.
    Tokenizer(commands::tokenizer::TokenizerArgs),
    /// Show built-in configurations and all settings.
    Config(commands::config::ConfigArgs),
    /// Train a model, or resume training.
    Train(commands::train::TrainArgs),
    /// Evaluate a model: loss, perplexity, questions answered.
    Eval(commands::eval::EvalArgs),
    /// Generate text from a prompt.
    Generate(commands::generate::GenerateArgs),
    /// Chat with a model.
    Chat(commands::chat::ChatArgs),
    /// Chat with a model, or get one answer.
    Run(commands::run::RunArgs),
    /// Serve models over HTTP with OpenAI's and llama.cpp's APIs.
    Serve(commands::serve::ServeArgs),
    /// Look inside a model: tokens, probabilities, attention.
    Inspect(commands::inspect::InspectArgs),
    /// Import a model from another tool.
    Import(commands::import::ImportArgs),
    /// Export a model for another tool.
    Export(commands::export::ExportArgs),
    /// Measure the speed of training and generation on this machine, compared with its limits.
    Bench(commands::bench::BenchArgs),
    /// Estimate what a model needs: parameters, memory, compute, time.
    Plan(commands::plan::PlanArgs),
    /// Plot the losses of one or more training runs.
    Plot(commands::plot::PlotArgs),
    /// Fit a scaling law to your own runs: what more data or a larger model would bring.
    Scaling(commands::scaling::ScalingArgs),
}

fn main() -> ExitCode {
    // First: everything else may be compiled to instructions that this CPU lacks.
    match cpu::missing() {
        None => run(),
        Some(feature) => refuse(feature),
    }
}

/// The program after the CPU check; not inlined, so that `main` has no instruction that the CPU may lack.
#[inline(never)]
fn run() -> ExitCode {
    allocator::keep_memory();
    threads::choose();
    let typed: Vec<_> = std::env::args_os().collect();
    language::choose(&typed);
    let Parsed { cli, notes } = match arguments::parse(typed) {
        Ok(parsed) => parsed,
        Err(error) => return usage(&error),
    };
    notes.iter().for_each(output::note);
    match prepare(cli.threads).and_then(|()| cli.command.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

/// Turns fatal signals (SIGBUS, SIGXFSZ) into ordinary errors, and starts the threads.
fn prepare(threads: Option<u16>) -> Result<()> {
    stop::never_on_large_files()?;
    stop::with_words_on_cut_files()?;
    threads::start(threads.map(usize::from))
}

impl Command {
    fn run(&self) -> Result<()> {
        match self {
            Self::Demo(args) => commands::demo::run(args),
            Self::Data(args) => commands::data::run(args),
            Self::Tokenizer(args) => commands::tokenizer::run(args),
            Self::Config(args) => commands::config::run(args),
            Self::Train(args) => commands::train::run(args),
            Self::Eval(args) => commands::eval::run(args),
            Self::Generate(args) => commands::generate::run(args),
            Self::Chat(args) => commands::chat::run(args),
            Self::Run(args) => commands::run::run(args),
            Self::Serve(args) => commands::serve::run(args),
            Self::Inspect(args) => commands::inspect::run(args),
            Self::Import(args) => commands::import::run(args),
            Self::Export(args) => commands::export::run(args),
            Self::Bench(args) => commands::bench::run(args),
            Self::Plan(args) => commands::plan::run(args),
            Self::Plot(args) => commands::plot::run(args),
            Self::Scaling(args) => commands::scaling::run(args),
        }
    }
}

#[inline(never)]
#[expect(clippy::print_stderr, reason = "this is where errors reach the person")]
fn refuse(feature: &str) -> ExitCode {
    eprintln!("error: this build of minigpt needs a CPU with {feature}, which this one lacks");
    eprintln!("build it for any CPU: RUSTFLAGS='-C target-cpu=x86-64' cargo build --release");
    ExitCode::FAILURE
}

/// Prints a page of help or a usage error, and returns the exit code.
fn usage(error: &clap::Error) -> ExitCode {
    let printed = match (language::current(), error.use_stderr()) {
        (Language::En, _) => error.print().map_err(Into::into),
        (Language::Zh, true) => {
            output::note(language::page(&language::clap_error(error)).trim_end());
            Ok(())
        }
        (Language::Zh, false) => output::text(language::page(&language::clap_error(error))),
    };
    let missing = error.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
    if error.kind() == ErrorKind::MissingRequiredArgument && missing.contains("<MODEL>") {
        output::note(message::ModelExample);
    }
    match printed {
        Ok(()) => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
        Err(_) => ExitCode::FAILURE,
    }
}

/// Prints an error with its causes on standard error. A closed pipe (`| head`) is not an error; a conflict of options is a
/// usage error.
fn fail(error: &anyhow::Error) -> ExitCode {
    if let Some(usage) = error.downcast_ref::<clap::Error>() {
        return self::usage(usage);
    }
    let closed = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(closed) {
        return ExitCode::SUCCESS;
    }
    output::note(language::error(error));
    if let Some(hint) = hint(error) {
        output::note(&hint);
    }
    ExitCode::FAILURE
}

/// A hint at the options that solve an error of a library.
fn hint(error: &anyhow::Error) -> Option<String> {
    let hint = error.chain().find_map(|cause| match (file_error(cause), cause.downcast_ref()) {
        (Some(minigpt_files::Error::Exists { .. }), _) => Some(message::PlaceTaken.text()),
        (_, Some(minigpt::Error::NoTokenizer(_))) => Some(message::GiveTokenizer.text()),
        _ if matches!(data_error(cause), Some(minigpt_data::Error::NoValidLine { bad: 1.., .. })) => {
            Some(message::OtherColumns.text())
        }
        _ if is_other_data(cause) => Some(message::OtherData.text()),
        _ if is_taken(cause) => Some(message::PortTaken.text()),
        _ if has_no_guess(cause) => Some(message::AllSettings.text()),
        _ if is_offline(cause) => Some(message::Mirror.text()),
        _ => None,
    });
    hint.map(str::to_owned).or_else(|| download(error))
}

/// The command that downloads a public data set whose file is missing.
fn download(error: &anyhow::Error) -> Option<String> {
    let missing = error.chain().find_map(missing_file)?;
    let name = missing.file_name()?.to_str()?;
    // Its file, or its name, as nanoGPT calls it too.
    let is_called = |set: &&minigpt_data::PublicSet| {
        [set.file, set.name].contains(&name) || name == format!("{}_char", set.name)
    };
    let set = minigpt_data::PUBLIC_SETS.iter().find(is_called)?;
    let out = match missing.parent().and_then(Path::to_str) {
        Some("data") | None => String::new(),
        Some("") => " --out .".to_owned(),
        Some(folder) => format!(" {}", shell::option("--out", folder)),
    };
    Some(message::Download { set: set.name, out }.to_string())
}

/// The file whose absence caused an error.
fn missing_file(cause: &(dyn std::error::Error + 'static)) -> Option<PathBuf> {
    let not_found = |source: &std::io::Error| source.kind() == std::io::ErrorKind::NotFound;
    if let Some(minigpt_files::Error::Io { path, source, .. }) = file_error(cause) {
        return not_found(source).then(|| path.clone());
    }
    match data_error(cause) {
        Some(minigpt_data::Error::Io { name, source, .. }) => {
            not_found(source).then(|| name.to_string().into())
        }
        _ => None,
    }
}

/// Whether a server could not be reached; another crate may wrap the error.
fn is_offline(cause: &(dyn std::error::Error + 'static)) -> bool {
    matches!(data_error(cause), Some(minigpt_data::Error::Offline { .. }))
}

/// Whether a run was resumed with data that is not its own.
fn is_other_data(cause: &(dyn std::error::Error + 'static)) -> bool {
    let inside = match cause.downcast_ref() {
        Some(minigpt::Error::Train(error)) => Some(error),
        _ => cause.downcast_ref(),
    };
    matches!(inside, Some(minigpt_train::Error::OtherData { .. }))
}

/// Whether another program listens on the server's address.
fn is_taken(cause: &(dyn std::error::Error + 'static)) -> bool {
    let source = match cause.downcast_ref() {
        Some(minigpt_serve::Error::Bind { source, .. }) => source,
        _ => return false,
    };
    source.kind() == std::io::ErrorKind::AddrInUse
}

/// Whether a setting is unknown and no other has a similar name.
fn has_no_guess(cause: &(dyn std::error::Error + 'static)) -> bool {
    let boxed = || cause.downcast_ref::<Box<minigpt::Error>>().map(Box::as_ref);
    match cause.downcast_ref().or_else(boxed) {
        Some(minigpt::Error::Place { cause, .. }) => {
            matches!(**cause, SettingError::Unknown { near: None, .. })
        }
        Some(minigpt::Error::Setting(error)) => matches!(error, SettingError::Unknown { near: None, .. }),
        _ => false,
    }
}

/// The data error that an error of another crate wraps.
fn data_error<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a minigpt_data::Error> {
    match cause.downcast_ref() {
        Some(minigpt::Error::Dataset(error)) => Some(error),
        _ => cause.downcast_ref(),
    }
}

/// The file error that an error of another crate wraps.
fn file_error<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a minigpt_files::Error> {
    if let Some(minigpt_data::Error::File(error)) = data_error(cause) {
        return Some(error);
    }
    if let Some(minigpt_formats::Error::File(error)) = cause.downcast_ref() {
        return Some(error);
    }
    cause.downcast_ref()
}
