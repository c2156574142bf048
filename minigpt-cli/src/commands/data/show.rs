//! `minigpt data show`: examples as they are written, or one as the model gets it.

use super::reading::ReadingArgs;
use super::skipped;
use crate::arguments::numbers;
use crate::language::local;
use crate::language::messages::counts;
use crate::language::messages::data as message;
use crate::{output, screen};
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use minigpt::tokenizer_beside;
use minigpt_charts::{Table, count, cut};
use minigpt_data::{
    Corpus, CorpusOptions, CorpusParts, Dataset, LossOn, Padding, QaDataset, QaOptions, Record, Role, Source,
    TextChunk, TextDataset, TokenizerChoice, builtin,
};
use minigpt_tokenizer::Tokenizer;
use serde::Serialize;
use std::path::PathBuf;

#[derive(Args)]
pub(super) struct ShowArgs {
    /// `builtin`, questions and answers in any format, text, a prepared folder, or - for standard input.
    #[arg(value_name = "FILE|FOLDER|-")]
    file: PathBuf,
    /// Show row N as the model sees it: tokens, targets, and which of them count for the loss.
    #[arg(long, value_name = "N", value_parser = numbers::whole::<usize>)]
    row: Option<usize>,
    /// Number of rows to show.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = numbers::whole::<usize>)]
    count: usize,
    /// First row to show.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = numbers::whole::<usize>)]
    start: usize,
    /// Part to show, of data that comes in two parts.
    #[arg(long, value_enum, default_value = "train")]
    part: PartName,
    /// With --row: tokenizer (`char`, `bpe:2000`, `gpt2`, a tokenizer file, or a model folder).
    #[arg(long, value_name = "char|bpe:N|gpt2|PATH")]
    tokenizer: Option<TokenizerChoice>,
    /// With --row: truncate or pad to this many tokens.
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = numbers::whole::<usize>)]
    max_length: usize,
    /// With --row: tokens that count for the loss.
    #[arg(long, value_enum, default_value = "all")]
    loss_on: LossOnName,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Print JSON: a list of rows, or {"ids", "mask", "input", "target", "counts", …} of one row.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PartName {
    Train,
    Val,
}

#[derive(Clone, Copy, ValueEnum)]
enum LossOnName {
    All,
    Answer,
}

pub(super) fn run(args: &ShowArgs) -> Result<()> {
    match args.row {
        Some(row) => show_row(args, row),
        None => show_examples(args),
    }
}

/// What was said in one example, or its text.
#[derive(Serialize)]
struct Shown {
    row: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<Vec<Message>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

#[derive(Serialize)]
struct Message {
    role: Role,
    content: String,
}

impl Shown {
    fn record(row: usize, record: Record) -> Self {
        let message = |turn: minigpt_data::Turn| Message { role: turn.role, content: turn.text };
        Self { row, messages: Some(record.turns.into_iter().map(message).collect()), text: None }
    }
}

fn show_examples(args: &ShowArgs) -> Result<()> {
    ensure!(args.start > 0, message::StartZero);
    let source = Source::open(&args.file, None, &args.reading.options())?;
    output::note(format!("{}: {}", args.file.display(), local(&source.describe()?)));
    source.damage(&args.file)?.iter().for_each(|damage| output::note(local(damage)));
    let shown = examples(in_part(source, args)?, args)?;
    ensure!(!shown.is_empty(), "{}", message::StartBeyondEnd { start: &args.start });
    if args.json {
        return output::json(&shown);
    }
    for one in &shown {
        output::text(in_words(one))?;
    }
    Ok(())
}

/// The part to show of data in two parts; other data is its training part.
fn in_part(source: Source, args: &ShowArgs) -> Result<Source> {
    let part = match (source, args.part) {
        (Source::Parts { train, .. }, PartName::Train) => Some(*train),
        (Source::Parts { val, .. }, PartName::Val) => val.map(|val| *val),
        (Source::Text(_) | Source::Records(_), PartName::Val) => None,
        (source, _) => Some(source),
    };
    part.with_context(|| message::NoValidationPart { file: &args.file.display() }.to_string())
}

fn examples(source: Source, args: &ShowArgs) -> Result<Vec<Shown>> {
    let (skipped, wanted) = (args.start - 1, args.count);
    let last = skipped.saturating_add(wanted);
    let mut shown = Vec::new();
    match source {
        Source::BuiltIn => {
            let pairs = if args.part == PartName::Train { builtin::train() } else { builtin::held_out() };
            let pairs = pairs.into_iter().enumerate().skip(skipped).take(wanted);
            shown.extend(pairs.map(|(i, pair)| Shown::record(i + 1, pair.into())));
        }
        Source::Records(file) => {
            let mut row = 0;
            let summary = file.read(Some(last as u64), &mut |_, record| {
                row += 1;
                if row > skipped {
                    shown.push(Shown::record(row, record));
                }
                Ok(())
            })?;
            skipped::report(&local(file.name()), &summary.bad);
        }
        Source::Text(text) => {
            let mut all = String::new();
            let summary = text.read(Some(last as u64 * LINE), &mut |chunk| {
                if let TextChunk::Text(chunk) = chunk {
                    all.push_str(chunk);
                }
                Ok(())
            })?;
            if summary.bad_rows > 0 {
                let skipped = counts::BadLines { n: summary.bad_rows }.to_string();
                output::note(message::SkippedRows { skipped: &skipped });
            }
            let lines = all.lines().enumerate().skip(skipped).take(wanted);
            shown.extend(lines.map(|(i, line)| Shown {
                row: i + 1,
                messages: None,
                text: Some(line.to_owned()),
            }));
        }
        Source::Parts { train, .. } => return examples(*train, args),
        Source::Tokens(_) | Source::Random => bail!(message::IdsNotText),
    }
    Ok(shown)
}

/// Characters of a text that are read for each line of it.
const LINE: u64 = 10_000;

fn in_words(shown: &Shown) -> String {
    let mut table = Table::default();
    let number = count(shown.row as u64);
    if let Some(text) = &shown.text {
        table.row([&number, text]);
    }
    for (i, message) in shown.messages.iter().flatten().enumerate() {
        let role = match message.role {
            Role::System => message::System.text(),
            Role::User => message::User.text(),
            Role::Assistant => message::Assistant.text(),
        };
        let number = if i == 0 { number.as_str() } else { "" };
        for (j, line) in message.content.lines().enumerate() {
            let [number, role] = if j == 0 { [number, role] } else { ["", ""] };
            table.row([number, role, line]);
        }
    }
    table.draw_within(screen::table_columns())
}

/// One row as the model gets it.
#[derive(Serialize)]
struct RowAnswer {
    row: usize,
    rows: u64,
    /// The example, padded to `max_length`.
    ids: Vec<u32>,
    /// For each id whether it is of the example (1) or padding (0).
    mask: Vec<u8>,
    /// All but the last.
    input: Vec<u32>,
    /// All but the first.
    target: Vec<u32>,
    /// For each target whether predicting it counts.
    counts: Vec<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_text: Option<String>,
}

fn show_row(args: &ShowArgs, row: usize) -> Result<()> {
    ensure!(row > 0, message::RowZero);
    ensure!(args.max_length > 1, "{}", message::MaxLengthTooSmall { length: &args.max_length });
    let loss_on = match args.loss_on {
        LossOnName::All => LossOn::All,
        LossOnName::Answer => LossOn::Answer,
    };
    let beside = tokenizer_beside(&args.file)?.map(TokenizerChoice::Ready);
    let options = CorpusOptions {
        tokenizer: args.tokenizer.clone().or(beside),
        val_fraction: 0.0,
        read: args.reading.options(),
        qa: QaOptions { max_length: args.max_length, loss_on, padding: Padding::MaxLength },
        ..CorpusOptions::default()
    };
    let corpus = Corpus::open(&args.file, &options)?;
    output::note(format!("{}: {}", args.file.display(), local(&corpus.read_as)));
    let pad = corpus.tokenizer.as_ref().and_then(|tokenizer| tokenizer.special_id(minigpt_tokenizer::PAD));
    if let CorpusParts::Qa { bad, .. } = &corpus.parts {
        skipped::report(&args.file.display().to_string(), bad);
    }
    let (ids, counts, rows) = match (corpus.parts, args.part) {
        (CorpusParts::Qa { train, .. }, PartName::Train) => of_examples(&train, row)?,
        (CorpusParts::Qa { val: Some(val), .. }, PartName::Val) => of_examples(&val, row)?,
        (CorpusParts::Qa { .. }, PartName::Val) => {
            bail!("{}", message::NoValidationPart { file: &args.file.display() })
        }
        (CorpusParts::Text { train, val }, part) => {
            ensure!(
                matches!(loss_on, LossOn::All),
                "{}",
                message::TextHasNoAnswers { file: &args.file.display() }
            );
            let tokens = if part == PartName::Train { train } else { val };
            ensure!(
                part == PartName::Train || !tokens.is_empty(),
                "{}",
                message::NoValidationPart { file: &args.file.display() }
            );
            let vocab_size = corpus.tokenizer.as_ref().map_or(usize::MAX, Tokenizer::vocab_size);
            let data = TextDataset::consecutive(tokens, args.max_length - 1, vocab_size)?;
            let rows = data.examples();
            ensure!(row as u64 <= rows, "{}", message::TooFewRows { rows: &count(rows) });
            let batch = data.collate(&[row as u64 - 1])?;
            let targets = batch.targets.iter().take_while(|&&id| id != minigpt_data::IGNORE);
            let ids: Vec<u32> = batch.inputs.first().copied().into_iter().chain(targets.copied()).collect();
            let counts = vec![true; ids.len()];
            (ids, counts, rows)
        }
    };
    let answer =
        row_answer(row, rows, ids, &counts, pad.unwrap_or(0), args.max_length, corpus.tokenizer.as_ref())?;
    if args.json {
        return output::json(&answer);
    }
    output::text(row_in_words(&answer, corpus.tokenizer.as_ref()))
}

fn of_examples(data: &QaDataset, row: usize) -> Result<(Vec<u32>, Vec<bool>, u64)> {
    let rows = data.examples();
    ensure!(row as u64 <= rows, "{}", message::TooFewRows { rows: &count(rows) });
    let (ids, learned) = data.example(row - 1);
    Ok((ids.to_vec(), learned.to_vec(), rows))
}

fn row_answer(
    row: usize,
    rows: u64,
    mut ids: Vec<u32>,
    learned: &[bool],
    pad: u32,
    max_length: usize,
    tokenizer: Option<&Tokenizer>,
) -> Result<RowAnswer> {
    let length = ids.len();
    ids.resize(length.max(max_length), pad);
    let mask = (0..ids.len()).map(|i| u8::from(i < length)).collect();
    let (input, target) = (ids[..ids.len() - 1].to_vec(), ids[1..].to_vec());
    let counts = (1..ids.len()).map(|i| u8::from(learned.get(i) == Some(&true))).collect();
    let text = |ids: &[u32]| tokenizer.map(|tokenizer| tokenizer.decode(ids)).transpose();
    let (input_text, target_text) = (text(&ids[..length - 1])?, text(&ids[1..length])?);
    Ok(RowAnswer { row, rows, ids, mask, input, target, counts, input_text, target_text })
}

fn row_in_words(answer: &RowAnswer, tokenizer: Option<&Tokenizer>) -> String {
    /// Columns of a text.
    const WIDE: usize = 90;
    let mut about = Table::default();
    let length = answer.mask.iter().filter(|&&mask| mask == 1).count();
    let padding = answer.mask.len() - length;
    let counted = answer.counts.iter().filter(|&&counts| counts == 1).count();
    about.row([
        message::Row.text(),
        &message::RowOf { row: &count(answer.row as u64), rows: &count(answer.rows) }.to_string(),
    ]);
    for (name, text) in
        [(message::Input.text(), &answer.input_text), (message::Target.text(), &answer.target_text)]
    {
        if let Some(text) = text {
            about.row([name, &cut(&text.replace('\n', "⏎"), WIDE)]);
        }
    }
    about.row([
        message::Tokens.text(),
        &message::Padded { length: &length, padding: &padding, counted: &counted }.to_string(),
    ]);
    let mut table = Table::new(&[0, 1, 3]);
    table.row(["", message::Input.text(), "", message::Target.text(), "", message::InLoss.text()]);
    let name = |id: u32| {
        let token = tokenizer.and_then(|tokenizer| tokenizer.token(id));
        token.map_or_else(String::new, |token| output::visible(&token))
    };
    let shown = length.saturating_add(2).min(answer.input.len());
    for i in 0..shown {
        let (input, target) = (answer.input[i], answer.target[i]);
        let counts = if answer.counts[i] == 1 { "✓" } else { "" };
        let [i, from, to] = [i as u32, input, target].map(|number| number.to_string());
        table.row([&i, &from, &name(input), &to, &name(target), counts]);
    }
    if shown < answer.input.len() {
        table.row([
            "…",
            "",
            &message::MorePadding { left: &(answer.input.len() - shown) }.to_string(),
            "",
            "",
            "",
        ]);
    }
    format!("{}\n{}", about.draw_within(screen::table_columns()), table.draw_within(screen::table_columns()))
}
