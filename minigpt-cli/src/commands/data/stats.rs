//! `minigpt data stats`: how much data there is, how long its examples are, and what follows from that.

use super::prepare::cleaned;
use super::reading::ReadingArgs;
use super::{skipped, usage};
use crate::arguments::numbers;
use crate::language::local;
use crate::language::messages::counts;
use crate::language::messages::data as message;
use crate::{output, screen};
use anyhow::{Context, Result};
use clap::Args;
use minigpt_charts::{Table, bytes, count};
use minigpt_data::{
    BadLines, Cleaned, DataName, Histogram, LengthSummary, Lengths, QaStats, Stats, TextStats, TokenStats,
    TokenizerChoice, TokenizerMeta, length_chart, stats,
};
use minigpt_files::write_file;
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct StatsArgs {
    /// `builtin`, questions and answers in any format, text (a file, a folder, - for standard input), or a prepared
    /// folder.
    #[arg(value_name = "FILE|FOLDER|-")]
    file: PathBuf,
    /// Tokenizer: `char` (the data's characters), `bpe:2000` (BPE trained on the data), `gpt2`, or a tokenizer.json, a
    /// vocabulary file, or a folder with one.
    #[arg(long, value_name = "char|bpe:N|gpt2|PATH")]
    tokenizer: Option<TokenizerChoice>,
    /// Count the examples that are longer than N tokens and would be truncated.
    #[arg(long, value_name = "N", value_parser = numbers::whole::<u64>)]
    max_length: Option<u64>,
    /// Use only the first N examples, characters or tokens.
    #[arg(long, value_name = "N", value_parser = numbers::whole::<u64>)]
    limit: Option<u64>,
    /// Plot the lengths to an SVG file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Print everything as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &StatsArgs) -> Result<()> {
    match stats(&args.file, &args.reading.options(), args.tokenizer.as_ref(), args.limit)? {
        Stats::Qa(stats) => qa(&stats, args),
        Stats::Text(stats) => text(&stats, args),
        Stats::Tokens(stats) => tokens(&stats, args),
    }
}

#[derive(Serialize)]
struct QaAnswer<'a> {
    kind: &'static str,
    name: &'a DataName,
    examples: u64,
    conversations: u64,
    bad: &'a BadLines,
    tokenizer: &'a TokenizerMeta,
    unknown: u64,
    replaced: u64,
    lengths: LengthSummary,
    answers: LengthSummary,
    suggested_max_length: u64,
    cut: Cut,
    histogram: Histogram,
}

/// What a `max_length` does.
#[derive(Serialize)]
struct Cut {
    max_length: u64,
    examples: u64,
    tokens: u64,
}

impl Cut {
    fn at(lengths: &Lengths, max_length: u64) -> Self {
        let (examples, tokens) = lengths.beyond(max_length);
        Cut { max_length, examples, tokens }
    }
}

fn qa(stats: &QaStats, args: &StatsArgs) -> Result<()> {
    let suggested = stats.lengths.suggested_max_length();
    let max_length = args.max_length.unwrap_or(suggested);
    if let Some(path) = &args.svg {
        let title = format!("Lengths in {}", base_name(&stats.name.to_string()));
        draw(path, &length_chart(&stats.lengths, &title, "tokens", Some(max_length)).svg())?;
    }
    skipped::report(&local(&stats.name), &stats.bad);
    minigpt_data::Damage::of(stats.name.clone(), stats.replaced)
        .iter()
        .for_each(|damage| output::note(local(damage)));
    let answer = QaAnswer {
        kind: "qa",
        name: &stats.name,
        examples: stats.lengths.count(),
        conversations: stats.conversations,
        bad: &stats.bad,
        tokenizer: &stats.tokenizer,
        unknown: stats.unknown,
        replaced: stats.replaced,
        lengths: stats.lengths.summary(),
        answers: stats.answers.summary(),
        suggested_max_length: suggested,
        cut: Cut::at(&stats.lengths, max_length),
        histogram: Histogram::of(&stats.lengths),
    };
    if args.json {
        return output::json(&answer);
    }
    output::text(qa_in_words(&answer, stats))
}

fn qa_in_words(answer: &QaAnswer<'_>, stats: &QaStats) -> String {
    let examples = match answer.conversations {
        0 => count(answer.examples),
        talks => message::ExamplesAndConversations {
            examples: &count(answer.examples),
            conversations: &count(talks),
        }
        .to_string(),
    };
    let mut table = Table::new(&[]);
    table
        .row([message::Examples.text(), &examples])
        .row([message::Skipped.text(), &skipped::in_short(answer.bad)])
        .row([message::Tokenizer.text(), &vocabulary(answer.tokenizer)])
        .row([message::Tokens.text(), &count(answer.lengths.total)]);
    if answer.unknown > 0 {
        table.row([
            message::Unknown.text(),
            &message::UnknownTokens { unknown: &count(answer.unknown) }.to_string(),
        ]);
    }
    let mut text =
        message::QaReport { name: &local(answer.name), table: &table.draw_within(screen::table_columns()) }
            .to_string();
    text.push_str(&lengths(&[
        (message::Whole.text(), &answer.lengths),
        (message::Answers.text(), &answer.answers),
    ]));
    text.push_str(&format!("\n{}\n", answer.histogram.chart().terminal(screen::picture_columns())));
    let suggested = Cut::at(&stats.lengths, answer.suggested_max_length);
    text.push_str(&message::Suggested { cut: &cut_in_words(&suggested, answer.examples) }.to_string());
    if answer.cut.max_length != suggested.max_length {
        text.push_str(&message::AtLength { cut: &cut_in_words(&answer.cut, answer.examples) }.to_string());
    }
    text
}

fn cut_in_words(cut: &Cut, examples: u64) -> String {
    let whole = 100.0 * (1.0 - cut.examples as f64 / examples.max(1) as f64);
    let (max, tokens) = (cut.max_length, count(cut.tokens));
    let cut = counts::Examples { n: cut.examples }.to_string();
    message::CutAt { length: &max, whole: &whole, cut: &cut, tokens: &tokens }.to_string()
}

#[derive(Serialize)]
struct TextAnswer<'a> {
    kind: &'static str,
    name: &'a DataName,
    files: u64,
    left_out: u64,
    bytes: u64,
    characters: u64,
    distinct_characters: u64,
    tokens: u64,
    tokenizer: &'a TokenizerMeta,
    cleaned: Cleaned,
    line_characters: LengthSummary,
    histogram: Histogram,
}

fn text(stats: &TextStats, args: &StatsArgs) -> Result<()> {
    if args.max_length.is_some() {
        return Err(usage(message::NoMaxLengthForText));
    }
    if let Some(path) = &args.svg {
        let title = format!("Lines of {}", base_name(&stats.name.to_string()));
        draw(path, &length_chart(&stats.lines, &title, message::CharactersPerLine.text(), None).svg())?;
    }
    let answer = TextAnswer {
        kind: "text",
        name: &stats.name,
        files: stats.files,
        left_out: stats.left_out,
        bytes: stats.bytes,
        characters: stats.characters,
        distinct_characters: stats.distinct,
        tokens: stats.tokens,
        tokenizer: &stats.tokenizer,
        cleaned: stats.cleaned,
        line_characters: stats.lines.summary(),
        histogram: Histogram::of(&stats.lines),
    };
    if args.json {
        return output::json(&answer);
    }
    output::text(text_in_words(&answer))
}

fn text_in_words(answer: &TextAnswer<'_>) -> String {
    let mut files = counts::Files { n: answer.files }.to_string();
    if answer.left_out > 0 {
        files.push_str(
            &message::LeftOutSuffix { left_out: &(counts::OtherFiles { n: answer.left_out }.to_string()) }
                .to_string(),
        );
    }
    files.push_str(&cleaned(&answer.cleaned));
    let each = answer.bytes as f64 / answer.tokens.max(1) as f64;
    let mut table = Table::new(&[]);
    table
        .row([message::Files.text(), &files])
        .row([
            message::Size.text(),
            &message::SizeAndBytes { size: &bytes(answer.bytes), bytes: &count(answer.bytes) }.to_string(),
        ])
        .row([
            message::Characters.text(),
            &message::CharactersAndDistinct {
                characters: &count(answer.characters),
                distinct: &count(answer.distinct_characters),
            }
            .to_string(),
        ])
        .row([message::Tokenizer.text(), &vocabulary(answer.tokenizer)])
        .row([
            message::Tokens.text(),
            &message::TokensAndBytes { tokens: &count(answer.tokens), each: &each }.to_string(),
        ])
        .row([message::Lines.text(), &count(answer.line_characters.count)]);
    let lengths = lengths(&[(message::CharactersPerLine.text(), &answer.line_characters)]);
    message::TextReport {
        name: &local(answer.name),
        table: &table.draw_within(screen::table_columns()),
        lengths: &lengths,
        histogram: &answer.histogram.chart().terminal(screen::picture_columns()),
    }
    .to_string()
}

fn tokens(stats: &TokenStats, args: &StatsArgs) -> Result<()> {
    if args.svg.is_some() || args.max_length.is_some() {
        return Err(usage(message::NoLengthsInTokens));
    }
    if args.json {
        #[derive(Serialize)]
        struct Answer<'a> {
            kind: &'static str,
            #[serde(flatten)]
            stats: &'a TokenStats,
        }
        return output::json(&Answer { kind: "tokens", stats });
    }
    let tokenizer = stats.tokenizer.as_ref().map_or(message::NotInFolder.text().to_owned(), vocabulary);
    let mut table = Table::new(&[]);
    table
        .row([message::Tokenizer.text(), &tokenizer])
        .row([message::Training.text(), &message::TrainTokens { train: &count(stats.train) }.to_string()])
        .row([message::Validation.text(), &message::ValTokens { val: &count(stats.val) }.to_string()])
        .row([message::LargestId.text(), &count(u64::from(stats.largest_id))]);
    output::text(message::PreparedReport {
        name: &local(&stats.name),
        table: &table.draw_within(screen::table_columns()),
    })
}

fn vocabulary(tokenizer: &TokenizerMeta) -> String {
    message::TokenizerAndSize { kind: &tokenizer.kind, vocab_size: &count(tokenizer.vocab_size as u64) }
        .to_string()
}

/// Lengths side by side.
fn lengths(of: &[(&str, &LengthSummary)]) -> String {
    let mut table = Table::new(&[1, 2, 3, 4, 5, 6, 7]);
    table.row([
        message::Length.text(),
        message::Mean.text(),
        message::Min.text(),
        "50 %",
        "90 %",
        "95 %",
        "99 %",
        message::Max.text(),
    ]);
    for (name, it) in of {
        let mean = format!("{:.1}", it.mean);
        let [min, p50, p90, p95, p99, max] = [it.min, it.p50, it.p90, it.p95, it.p99, it.max].map(count);
        table.row([name, &mean, &min, &p50, &p90, &p95, &p99, &max]);
    }
    table.draw_within(screen::table_columns())
}

fn draw(path: &Path, svg: &str) -> Result<()> {
    write_file(path, svg.as_bytes()).context(message::CouldNotDraw)
}

fn base_name(name: &str) -> String {
    Path::new(name).file_name().map_or_else(|| name.to_owned(), |name| name.to_string_lossy().into_owned())
}
