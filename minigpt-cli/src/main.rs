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
use arguments::Understood;
use clap::error::{ContextKind, ErrorKind};
use clap::{Parser, Subcommand};
use language::Language;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Train, understand and use a GPT on your own machine.
#[derive(Parser)]
#[command(name = "minigpt", version, subcommand_required = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// How many threads compute; all cores when absent.
    #[arg(short, long, global = true, value_name = "N", value_parser = threads::number)]
    threads: Option<u16>,
    /// The language of messages and help; that of the locale when absent.
    #[arg(long, global = true, value_enum)]
    lang: Option<Language>,
}

#[derive(Subcommand)]
enum Command {
    /// Train a small model on the built-in questions and answers, score it, and talk with it: start here.
    Demo(commands::demo::DemoArgs),
    /// Find, fetch, prepare, split and measure data.
    Data(commands::data::DataArgs),
    /// Train a tokenizer, or turn text into ids and back.
    Tokenizer(commands::tokenizer::TokenizerArgs),
    /// Show ready configurations, and every setting there is.
    Config(commands::config::ConfigArgs),
    /// Train a model, or go on training it.
    Train(commands::train::TrainArgs),
    /// Say how well a model predicts data: loss, perplexity, questions answered.
    Eval(commands::eval::EvalArgs),
    /// Let a model go on with a text.
    Generate(commands::generate::GenerateArgs),
    /// Talk with a model.
    Chat(commands::chat::ChatArgs),
    /// Talk with a model, or have it answer one prompt.
    Run(commands::run::RunArgs),
    /// Serve models over HTTP, as OpenAI's and llama.cpp's clients know it.
    Serve(commands::serve::ServeArgs),
    /// Look inside a model: tokens, probabilities, attention.
    Inspect(commands::inspect::InspectArgs),
    /// Turn a model that another tool wrote into a model folder.
    Import(commands::import::ImportArgs),
    /// Turn a model folder into what another tool reads.
    Export(commands::export::ExportArgs),
    /// Measure how fast a model trains and writes here, beside what this machine could do.
    Bench(commands::bench::BenchArgs),
    /// Say what a model costs: parameters, memory, arithmetic, time.
    Plan(commands::plan::PlanArgs),
    /// Draw the losses of one or several training runs.
    Plot(commands::plot::PlotArgs),
    /// Find out what more text or a larger model would buy: a scaling law from your own runs.
    Scaling(commands::scaling::ScalingArgs),
}

fn main() -> ExitCode {
    // First of all: anything else may be compiled to instructions that this CPU lacks.
    match cpu::missing() {
        None => run(),
        Some(feature) => refuse(feature),
    }
}

/// Everything but the first look at the CPU; not inlined, so that `main` holds no instruction that it may lack.
#[inline(never)]
fn run() -> ExitCode {
    allocator::keep_memory();
    threads::choose();
    let typed: Vec<_> = std::env::args_os().collect();
    language::choose(&typed);
    let Understood { cli, notes } = match arguments::parse(typed) {
        Ok(understood) => understood,
        Err(error) => return usage(&error),
    };
    notes.iter().for_each(|note| output::note(note));
    match prepare(cli.threads).and_then(|()| cli.command.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

/// What the system may do to any command is made an error in words.
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

/// Prints help, or what is wrong with what was typed, as clap has laid it out.
fn usage(error: &clap::Error) -> ExitCode {
    let printed = match (language::current(), error.use_stderr()) {
        (Language::En, _) => error.print().map_err(Into::into),
        (Language::Zh, true) => {
            output::quote(language::page(&error.render().to_string()).trim_end());
            Ok(())
        }
        (Language::Zh, false) => output::text(&language::page(&error.render().to_string())),
    };
    let missing = error.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
    if error.kind() == ErrorKind::MissingRequiredArgument && missing.contains("<MODEL>") {
        output::note("a model is, for example, runs/demo: `minigpt demo` makes it");
    }
    match printed {
        Ok(()) => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
        Err(_) => ExitCode::FAILURE,
    }
}

/// Prints the whole chain of causes on standard error. A reader that went away (`| head`) is not an error; options
/// that make no sense together are wrong usage.
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
    output::quote(&language::error(error));
    if let Some(hint) = hint(error) {
        output::note(&hint);
    }
    ExitCode::FAILURE
}

/// What to type instead, where an error of the library has an answer among the options.
fn hint(error: &anyhow::Error) -> Option<String> {
    let hint = error.chain().find_map(|cause| match (file_error(cause), cause.downcast_ref()) {
        (Some(minigpt_files::Error::Exists { .. }), _) => {
            Some("choose another place, or pass --force to replace it")
        }
        (_, Some(minigpt::Error::NoTokenizer(_))) => Some(
            "`minigpt import MODEL --out FOLDER --tokenizer FILE` gives it one; some commands take token ids with --ids",
        ),
        _ if matches!(data_error(cause), Some(minigpt_data::Error::NoValidLine { bad: 1.., .. })) => Some(
            "other names of columns are told with --columns question=NAME,answer=NAME, or with data.columns in a configuration",
        ),
        _ if is_other_data(cause) => Some(
            "leave the data out to go on with the run's own; `minigpt train DATA --from RUN` trains the run's model further on other data",
        ),
        _ if is_taken(cause) => Some("another program listens there: --port N takes another one, --port 0 any that is free"),
        _ if has_no_guess(cause) => Some("`minigpt config settings` shows every setting"),
        _ if is_offline(cause) => {
            Some("a mirror is named with HF_ENDPOINT=URL, or with --endpoint URL of `minigpt data download`")
        }
        _ => None,
    });
    hint.map(str::to_owned).or_else(|| download(error))
}

/// What fetches a public set whose file is missing.
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
    Some(format!("`minigpt data download {}{out}` fetches it", set.name))
}

/// The file that is missing, if that is what a cause says.
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

/// Whether a server could not be reached, which another crate may say as its own error.
fn is_offline(cause: &(dyn std::error::Error + 'static)) -> bool {
    matches!(data_error(cause), Some(minigpt_data::Error::Offline { .. }))
}

/// Whether a run was asked to go on with other data than its own.
fn is_other_data(cause: &(dyn std::error::Error + 'static)) -> bool {
    let inside = match cause.downcast_ref() {
        Some(minigpt::Error::Train(error)) => Some(error),
        _ => cause.downcast_ref(),
    };
    matches!(inside, Some(minigpt_train::Error::OtherData { .. }))
}

/// Whether somebody else has the server's address.
fn is_taken(cause: &(dyn std::error::Error + 'static)) -> bool {
    let source = match cause.downcast_ref() {
        Some(minigpt_serve::Error::Bind { source, .. }) => source,
        _ => return false,
    };
    source.kind() == std::io::ErrorKind::AddrInUse
}

/// Whether a setting does not exist and none has nearly its name.
fn has_no_guess(cause: &(dyn std::error::Error + 'static)) -> bool {
    let boxed = || cause.downcast_ref::<Box<minigpt::Error>>().map(Box::as_ref);
    match cause.downcast_ref().or_else(boxed) {
        Some(minigpt::Error::Place { cause, .. }) => {
            matches!(**cause, minigpt::Error::NoSetting { near: None, .. })
        }
        Some(minigpt::Error::NoSetting { near, .. }) => near.is_none(),
        _ => false,
    }
}

/// The error of the data inside that of another crate, whose text it is.
fn data_error<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a minigpt_data::Error> {
    match cause.downcast_ref() {
        Some(minigpt::Error::Dataset(error)) => Some(error),
        _ => cause.downcast_ref(),
    }
}

/// The error of a file inside that of another crate, whose text it is.
fn file_error<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a minigpt_files::Error> {
    if let Some(minigpt_data::Error::File(error)) = data_error(cause) {
        return Some(error);
    }
    if let Some(minigpt_formats::Error::File(error)) = cause.downcast_ref() {
        return Some(error);
    }
    cause.downcast_ref()
}
