//! `minigpt eval`: how well a model predicts data, and how many questions it answers.

use crate::arguments::numbers;
use crate::commands::data::reading::ReadingArgs;
use crate::language::local;
use crate::language::messages::counts;
use crate::language::messages::eval as message;
use crate::models::{LoadArgs, ModelArg};
use crate::progress::Progress;
use crate::{output, screen};
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use minigpt::{Answered, ModelFolder, answer_all};
use minigpt_charts::{Table, count};
use minigpt_data::{
    BadLines, Corpus, CorpusKind, CorpusOptions, CorpusParts, Damage, Dataset, Loader, LossOn, Order,
    Padding, Prepared, QaDataset, QaOptions, QaSummary, Sampling, Source, TextDataset, TokenizerChoice,
    builtin,
};
use minigpt_train::{Evaluation, Workers, evaluate};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Evaluate a model: loss, perplexity, questions answered.
#[derive(Args)]
pub struct EvalArgs {
    #[command(flatten)]
    model: ModelArg,
    /// Data: text, questions and answers in any format, a folder of either, a prepared folder, or `builtin`.
    #[arg(long, value_name = "FILE", required_unless_present = "in_position")]
    data: Option<PathBuf>,
    // `eval MODEL DATA`.
    #[arg(hide = true, value_name = "DATA", conflicts_with = "data")]
    in_position: Option<PathBuf>,
    /// Part to evaluate on, as training split it. Default: all of a file, and the validation part of data that has one
    /// (`builtin`, a prepared folder).
    #[arg(long, value_enum)]
    part: Option<Part>,
    /// With --part: fraction of the file that training kept for validation. Default: 0.1.
    #[arg(long, value_name = "X", value_parser = numbers::number)]
    val_fraction: Option<f64>,
    /// With --part, for questions and answers: random seed of the training run. Default: 1337.
    #[arg(long, value_name = "N", value_parser = numbers::seed)]
    seed: Option<u64>,
    /// Kind of data. Default: by its name.
    #[arg(long, value_enum)]
    kind: Option<KindName>,
    /// For questions and answers: tokens that count for the loss, all or those of the answers.
    #[arg(long, value_enum, default_value = "all")]
    loss_on: LossOnName,
    /// Use only the first N characters of text, or questions.
    #[arg(long, value_name = "N", value_parser = numbers::whole::<u64>)]
    limit: Option<u64>,
    /// Batch size.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = numbers::whole::<usize>)]
    batch_size: usize,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Print one JSON value.
    #[arg(long)]
    json: bool,
}

impl EvalArgs {
    /// The data, which clap requires in one of two ways.
    pub fn data(&self) -> &Path {
        self.data.as_deref().or(self.in_position.as_deref()).unwrap_or(Path::new(""))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Train,
    Val,
}

#[derive(Clone, Copy, ValueEnum)]
enum KindName {
    Text,
    Qa,
}

#[derive(Clone, Copy, ValueEnum)]
enum LossOnName {
    All,
    Answer,
}

#[derive(Serialize)]
struct Report {
    loss: f64,
    perplexity: f64,
    tokens: u64,
    bits_per_byte: Option<f64>,
    #[serde(flatten)]
    cut: Option<Cut>,
    #[serde(flatten)]
    answers: Option<Answers>,
}

/// What of questions and answers the loss could not see, because it is beyond the context.
#[derive(Clone, Copy, Default, Serialize)]
struct Cut {
    /// Examples that were read, at least in part.
    #[serde(skip)]
    examples: u64,
    /// Examples of which the end is missing.
    cut: u64,
    /// Examples left out, because no answer is within the context.
    left_out: u64,
}

#[derive(Serialize)]
struct Answers {
    /// The part of the questions that was answered word for word.
    exact_match: f64,
    questions: usize,
    right: Vec<Answered>,
    wrong: Vec<Answered>,
}

/// What a training run keeps for validation, and draws it by, unless it is told otherwise.
const VAL_FRACTION: f64 = 0.1;
const SEED: u64 = 1337;

/// Examples to show: of wrong answers more, for they say more.
const RIGHT: usize = 3;
const WRONG: usize = 5;

/// Runs the command.
pub fn run(args: &EvalArgs) -> Result<()> {
    ensure!(args.batch_size > 0, message::BatchSizeZero);
    let model = args.load.open(&args.model.model)?;
    let block_size = model.gpt.config().block_size;
    let loss_on = match args.loss_on {
        LossOnName::All => LossOn::All,
        LossOnName::Answer => LossOn::Answer,
    };
    // One token of a sequence is only a target, so a context of T holds T + 1 of them.
    let (opened, damage) = open(args, &model, loss_on, block_size + 1)?;
    damage.iter().for_each(|damage| output::note(local(damage)));
    let report = match opened {
        Opened::Text(tokens) => {
            check_of_text(args)?;
            let vocab_size = model.gpt.config().vocab_size;
            predict(args, &model, TextDataset::consecutive(tokens, block_size, vocab_size)?, None)?
        }
        Opened::Qa(data, bad) => {
            if bad.total > 0 {
                let skipped = counts::BadLines { n: bad.total }.to_string();
                output::note(message::Skipped { skipped: &skipped });
            }
            // Answers are compared whole, however much of them the loss could see.
            let whole = match open(args, &model, LossOn::Answer, 1 << 20)?.0 {
                Opened::Qa(whole, _) => whole,
                Opened::Text(_) => data.clone(),
            };
            let QaSummary { examples, cut, nothing_to_learn: left_out, .. } = data.summary();
            let answers = answer(&model, &whole)?;
            Report {
                cut: Some(Cut { examples, cut, left_out }),
                ..predict(args, &model, data, Some(answers))?
            }
        }
    };
    if args.json { output::json(&report) } else { output::text(describe(args, &report)) }
}

/// Refuses options that say nothing about running text: it has no answers, and its validation part is its end, without a draw.
fn check_of_text(args: &EvalArgs) -> Result<()> {
    let given = [("--loss-on", matches!(args.loss_on, LossOnName::Answer)), ("--seed", args.seed.is_some())];
    match given.into_iter().find(|(_, given)| *given) {
        Some((option, _)) => {
            bail!("{}", message::NeedsQuestions { option: &option, data: &args.data().display() })
        }
        None => Ok(()),
    }
}

enum Opened {
    Text(minigpt_data::Tokens),
    Qa(QaDataset, BadLines),
}

/// Opens the data; also says what is damaged in it.
fn open(
    args: &EvalArgs,
    model: &ModelFolder,
    loss_on: LossOn,
    max_length: usize,
) -> Result<(Opened, Vec<Damage>)> {
    let prepared = Prepared::is_at(args.data());
    if !prepared {
        model.need_tokenizer()?;
    }
    let is_folder = || Source::open(args.data(), None, &args.reading.options());
    let in_parts = args.data().is_dir() && matches!(is_folder(), Ok(Source::Parts { val: Some(_), .. }));
    let comes_in_parts = prepared || in_parts || args.data().as_os_str() == builtin::NAME;
    let part = args.part.or(comes_in_parts.then_some(Part::Val));
    if comes_in_parts {
        let given = [("--val-fraction", args.val_fraction.is_some()), ("--seed", args.seed.is_some())];
        if let Some((option, _)) = given.into_iter().find(|(_, given)| *given) {
            bail!("{}", message::AlreadySplit { option: &option, data: &args.data().display() });
        }
    }
    let val_fraction = if part.is_some() { args.val_fraction.unwrap_or(VAL_FRACTION) } else { 0.0 };
    ensure!(
        (0.0..1.0).contains(&val_fraction),
        "{}",
        message::ValFractionOutOfRange { val_fraction: &val_fraction }
    );
    let options = CorpusOptions {
        kind: args.kind.map(|kind| match kind {
            KindName::Text => CorpusKind::Text,
            KindName::Qa => CorpusKind::Qa,
        }),
        tokenizer: model.tokenizer.clone().map(TokenizerChoice::Ready),
        val_fraction,
        seed: args.seed.unwrap_or(SEED),
        read: args.reading.options(),
        limit: args.limit,
        qa: QaOptions { max_length, loss_on, padding: Padding::Longest },
        format: model.example_format()?,
        ..CorpusOptions::default()
    };
    let corpus = Corpus::open(args.data(), &options).context(message::DataUnreadable)?;
    if let Some(note) = corpus.tokenizer.as_ref().and_then(|tokenizer| corpus.unknown.note(tokenizer)) {
        output::note(local(&note));
    }
    let nothing = || message::NoSuchPart { data: &args.data().display() }.to_string();
    let opened = match (corpus.parts, part) {
        (CorpusParts::Text { val, .. }, Some(Part::Val)) => Opened::Text(val),
        (CorpusParts::Text { train, .. }, _) => Opened::Text(train),
        (CorpusParts::Qa { val, bad, .. }, Some(Part::Val)) => Opened::Qa(val.with_context(nothing)?, bad),
        (CorpusParts::Qa { train, bad, .. }, _) => Opened::Qa(train, bad),
    };
    Ok((opened, corpus.damage))
}

fn answer(model: &ModelFolder, data: &QaDataset) -> Result<Answers> {
    let questions = data.summary().examples;
    let mut progress = Progress::of_steps(message::Answering.text(), questions);
    let answered = answer_all(&model.gpt, model.need_tokenizer()?, data, |done| progress.advance(done))?;
    progress.finish();
    let (right, wrong): (Vec<_>, Vec<_>) = answered.into_iter().partition(Answered::is_right);
    let questions = right.len() + wrong.len();
    let exact_match = right.len() as f64 / questions.max(1) as f64;
    Ok(Answers { exact_match, questions, right: spread(right, RIGHT), wrong: spread(wrong, WRONG) })
}

/// A few items from all over a list.
fn spread<T>(items: Vec<T>, count: usize) -> Vec<T> {
    let step = (items.len() / count).max(1);
    items.into_iter().step_by(step).take(count).collect()
}

fn predict(
    args: &EvalArgs,
    model: &ModelFolder,
    data: impl Dataset,
    answers: Option<Answers>,
) -> Result<Report> {
    let sampling = Sampling {
        batch_size: args.batch_size.min(data.examples().max(1) as usize),
        order: Order::Sequential,
        seed: SEED,
        drop_last: false,
    };
    let mut loader = Loader::new(data, sampling)?;
    let mut progress = Progress::of_steps(message::Reading.text(), loader.batches_per_epoch());
    let mut bytes = 0;
    let workers = Workers::for_model(&model.gpt)?;
    let evaluation = evaluate(&model.gpt, &mut loader, u64::MAX, &workers, |batch| {
        if let Some(tokenizer) = &model.tokenizer {
            bytes += batch.targets.iter().map(|&id| tokenizer.byte_length(id)).sum::<usize>();
        }
        progress.advance(1);
    })?;
    progress.finish();
    let Evaluation { sum, tokens } = evaluation;
    let loss = evaluation
        .loss()
        .with_context(|| message::NothingToPredict { data: &args.data().display() }.to_string())?;
    ensure!(loss.is_finite(), "{}", message::LossNotFinite { loss: &loss });
    let bits_per_byte = (bytes > 0).then(|| sum / std::f64::consts::LN_2 / bytes as f64);
    Ok(Report { loss, perplexity: loss.exp(), tokens, bits_per_byte, cut: None, answers })
}

fn describe(args: &EvalArgs, report: &Report) -> String {
    let mut table = Table::default();
    let of = match (&report.answers, args.loss_on) {
        (Some(_), LossOnName::Answer) => message::AnswersOnlySuffix.text(),
        _ => "",
    };
    table.row([message::Loss.text(), &format!("{:.4}{of}", report.loss)]);
    table.row([message::Perplexity.text(), &format!("{:.3}", report.perplexity)]);
    if let Some(bits) = report.bits_per_byte {
        table.row([message::BitsPerByte.text(), &format!("{bits:.4}")]);
    }
    table.row([message::Tokens.text(), &count(report.tokens)]);
    let Cut { examples, cut, left_out } = report.cut.unwrap_or_default();
    if cut > 0 {
        let words = message::LongerThanContext {
            cut: &count(cut),
            examples: &(counts::Examples { n: examples }.to_string()),
        }
        .to_string();
        table.row([message::Cut.text(), &words]);
    }
    if left_out > 0 {
        let examples = counts::Examples { n: left_out }.to_string();
        table.row([
            message::LeftOut.text(),
            &message::AnswerBeyondContext { examples: &examples }.to_string(),
        ]);
    }
    let Some(answers) = &report.answers else { return table.draw_within(screen::table_columns()) };
    let right = (answers.exact_match * answers.questions as f64).round() as u64;
    let percent = 100.0 * answers.exact_match;
    let questions = counts::Questions { n: answers.questions as u64 }.to_string();
    table.row([
        message::ExactMatch.text(),
        &message::ShareOf { percent: &percent, right: &count(right), questions: &questions }.to_string(),
    ]);
    let mut text = table.draw_within(screen::table_columns());
    for (title, examples) in
        [(message::Right.text(), &answers.right), (message::Wrong.text(), &answers.wrong)]
    {
        for example in examples {
            text.push_str(&format!("\n  {title}: {}\n", line(&example.question)));
            text.push_str(&format!("      → {}\n", line(&example.answer)));
            if !example.is_right() {
                text.push_str(&message::ExpectedAnswer { expected: &line(&example.expected) }.to_string());
            }
        }
    }
    text
}

/// A text as one line.
fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
