//! `minigpt demo`: a model learns the built-in questions and answers in front of you, is scored, and can be talked to.

mod view;

use crate::arguments::numbers;
use crate::commands::{chat, serve, train::announce};
use crate::input::{self, MOST_TEXT};
use crate::language::messages::demo as message;
use crate::progress::Progress;
use crate::{output, screen, shell, stop};
use anyhow::{Context, Result, bail};
use clap::Args;
use minigpt::{Answered, ModelFolder, Place, Run, RunConfig, answer_all};
use minigpt_charts::{Table, count};
use minigpt_data::{LossOn, Padding, QaDataset, QaOptions, Record, builtin};
use minigpt_model::Device;
use minigpt_train::record::{self, StepRecord};
use minigpt_train::{Ended, Report, checkpoint};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use view::View;

/// Train a small model on built-in questions and answers, score it and chat with it.
#[derive(Args)]
pub struct DemoArgs {
    /// Run folder.
    #[arg(long, value_name = "FOLDER", default_value = "runs/demo")]
    out: PathBuf,
    /// Start a new run, in another folder if this one exists.
    #[arg(long)]
    fresh: bool,
    /// Show the training live in a browser (a server for this machine only, until the demo ends).
    #[arg(long)]
    serve: bool,
    /// Change a setting of the configuration `builtin`, such as train.epochs=2.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE", value_parser = numbers::change)]
    changes: Vec<String>,
}

const CONFIG: &str = include_str!("../../../../configs/builtin.toml");

/// Asked again and again while the model learns. None of them is trained on in these words.
pub const QUESTIONS: [&str; 3] =
    ["智利的首都是哪里？", "谁最先登上月球？", "How many colors are in a rainbow?"];

/// Whether the model has learned: from then on Ctrl-C means something else.
static LEARNED: AtomicBool = AtomicBool::new(false);
/// Whether there is a chat, in which Ctrl-C stops an answer.
static CHATTING: AtomicBool = AtomicBool::new(false);

/// Runs the command.
pub fn run(args: &DemoArgs) -> Result<()> {
    let config = RunConfig::parse(CONFIG, &args.changes)?;
    let out = if args.fresh { unused(&args.out)? } else { args.out.clone() };
    let choice = choose(&out)?;
    stop::watch_with(ctrl_c)?;
    let _shown = args.serve.then(|| serve::show_run(&out)).transpose()?;
    let model = match choice {
        Choice::Quit => return Ok(()),
        Choice::Chat => best(&out),
        Choice::Train { resume } => {
            let run = if resume {
                Run::resume(&out, &args.changes, &Device::Cpu)?
            } else {
                Run::start(config, Place { out: &out, from: None, input: None }, &Device::Cpu)?
            };
            announce(&run.changes);
            // The curve goes on where it was; one that can't be read is only not drawn.
            let earlier = record::read(&out.join("metrics.jsonl")).unwrap_or_default().records;
            let report = learn(run, earlier)?;
            if report.ended == Ended::Stopped {
                let step = count(report.step);
                output::note(message::Stopped { step: &step });
                return next_steps(&report.model, Some(&out));
            }
            score(&report.model)?;
            report.model
        }
    };
    if !at_terminal() {
        return next_steps(&model, None);
    }
    CHATTING.store(true, Ordering::Relaxed);
    chat::open(&model)
}

/// What to do with the folder.
enum Choice {
    Train { resume: bool },
    Chat,
    Quit,
}

/// A new folder is trained in; one with a run in it is asked about at a terminal, and gone on with elsewhere.
fn choose(out: &Path) -> Result<Choice> {
    if !checkpoint::exists(&out.join("last"))? {
        return Ok(Choice::Train { resume: false });
    }
    let out = out.display();
    if !at_terminal() {
        output::note(message::FoundContinue { out: &out });
        return Ok(Choice::Train { resume: true });
    }
    output::note(message::FoundAsk { out: &out });
    loop {
        output::text("> ")?;
        std::io::stdout().flush()?;
        let Some(line) = input::line(&mut std::io::stdin().lock(), MOST_TEXT)? else {
            return Ok(Choice::Quit);
        };
        match String::from_utf8_lossy(&line).trim().to_lowercase().as_str() {
            "" | "c" | "chat" => return Ok(Choice::Chat),
            "r" | "resume" => return Ok(Choice::Train { resume: true }),
            "q" | "quit" => return Ok(Choice::Quit),
            _ => output::note(message::AnswerCRQ),
        }
    }
}

/// A folder beside `out` that does not exist yet.
fn unused(out: &Path) -> Result<PathBuf> {
    let name = out.file_name().context(message::OutNotFolder)?.to_string_lossy().into_owned();
    let numbered = (2..10_000).map(|i| out.with_file_name(format!("{name}-{i}")));
    match std::iter::once(out.to_owned()).chain(numbered).find(|folder| !folder.exists()) {
        Some(folder) => Ok(folder),
        None => bail!("{}", message::NamesTaken { out: &out.display() }),
    }
}

fn at_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

fn ctrl_c() {
    if CHATTING.load(Ordering::Relaxed) {
        chat::stop_answer();
    } else if LEARNED.load(Ordering::Relaxed) {
        std::process::exit(130);
    } else {
        stop::ctrl_c(Some(stop::note()));
    }
}

/// The better of the two model folders of a run.
fn best(run: &Path) -> PathBuf {
    let best = run.join("best");
    if best.exists() { best } else { run.join("last") }
}

fn learn(run: Run, earlier: Vec<StepRecord>) -> Result<Report> {
    let Run { mut trainer, config, tokenizer, .. } = run;
    let tokenizer = tokenizer.context(message::NoTokenizer)?;
    let mut view = View::new(&config, tokenizer, earlier, std::io::stderr().is_terminal());
    let report = trainer.run(&mut view, stop::requested());
    view.finish();
    let report = report?;
    LEARNED.store(true, Ordering::Relaxed);
    stop::nothing_to_save();
    output::note(message::Learned { seconds: &report.seconds, step: &count(report.step) });
    Ok(report)
}

/// How many questions it answers that it never saw in these words, and how many it rightly gives up on.
fn score(model: &Path) -> Result<()> {
    let model = ModelFolder::open(model)?;
    let known = answer(&model, message::AskingHeldOut.text(), builtin::held_out())?;
    let unknown = answer(&model, message::AskingUnknowable.text(), builtin::unseen())?;
    let rate = |answered: &[Answered]| {
        let right = answered.iter().filter(|one| one.is_right()).count();
        let percent = 100.0 * right as f64 / answered.len().max(1) as f64;
        message::Share {
            percent: &percent,
            right: &count(right as u64),
            asked: &(count(answered.len() as u64)),
        }
        .to_string()
    };
    let mut table = Table::default();
    table.row([message::HeldOut.text(), &rate(&known), message::AnsweredExactly.text()]);
    table.row([message::Unknowable.text(), &rate(&unknown), message::AdmittedIgnorance.text()]);
    output::text(format!("\n{}", table.draw_within(screen::table_columns())))?;
    for wrong in known.iter().filter(|one| !one.is_right()).take(3) {
        output::text(message::WrongAnswer { question: &wrong.question, answer: &wrong.answer })?;
    }
    output::text("\n")
}

fn answer(model: &ModelFolder, task: &'static str, pairs: Vec<builtin::Pair>) -> Result<Vec<Answered>> {
    let records: Vec<Record> = pairs.into_iter().map(Record::from).collect();
    let options = QaOptions { max_length: 1 << 20, loss_on: LossOn::Answer, padding: Padding::Longest };
    let tokenizer = model.need_tokenizer()?;
    let data = QaDataset::from_records(&records, tokenizer, options, None)?;
    let mut progress = Progress::of_steps(task, records.len() as u64);
    let answered = answer_all(&model.gpt, tokenizer, &data, |done| progress.advance(done))?;
    progress.finish();
    Ok(answered)
}

fn next_steps(model: &Path, unfinished: Option<&Path>) -> Result<()> {
    let mut table = Table::default();
    if let Some(run) = unfinished {
        table.row([message::ResumeIt.text(), &format!("minigpt demo --out {}", shell::path(run))]);
    }
    let model = shell::path(model);
    table.row([message::Chat.text(), &format!("minigpt chat --model {model}")]);
    table.row([
        message::LookInside.text(),
        &format!("minigpt inspect --model {model} --prompt '{}<sep>'", QUESTIONS[0]),
    ]);
    output::text(table.draw_within(screen::table_columns()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_questions_are_held_out() {
        let held_out = builtin::held_out();
        for question in QUESTIONS {
            assert!(held_out.iter().any(|pair| pair.question == question), "{question}");
        }
    }
}
