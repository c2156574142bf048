//! `minigpt tokenizer train`: learn a vocabulary from text.

use crate::arguments::{self, numbers};
use crate::commands::data::reading::ReadingArgs;
use crate::language::local;
use crate::language::messages::tokenizer as message;
use crate::output;
use crate::progress::Progress;
use anyhow::{Context, Result, bail};
use clap::error::ErrorKind;
use clap::{Args, ValueEnum};
use minigpt_data::{CorpusKind, QA_SPECIALS, RecordFile, Source, TextChunk, TextSource, builtin};
use minigpt_files::OutputFolder;
use minigpt_tokenizer::{BpeTrainer, CharBuilder, Tokenizer};
use serde::Serialize;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// What a tokenizer's folder may hold, and `--force` may replace.
const FILES: &[&str] = &["tokenizer.json", "tokenizer_config.json", VOCABULARY];
/// A character vocabulary as `word2id` and `id2word`.
const VOCABULARY: &str = "vocabulary.json";

#[derive(Args)]
pub(super) struct TrainArgs {
    /// Training text: files, folders, or - for standard input; of examples, their questions and answers.
    #[arg(required = true, value_name = "FILE|FOLDER|-")]
    input: Vec<PathBuf>,
    /// Byte-pair encoding, or one token per character.
    #[arg(long, value_enum, default_value = "bpe")]
    kind: Kind,
    /// Vocabulary size, including the 256 bytes and the special tokens.
    #[arg(long, value_name = "N", value_parser = numbers::whole::<usize>)]
    vocab_size: Option<usize>,
    /// Special token such as <pad>; the first gets id 0. Can be repeated. Default: <pad>, <unk> and <sep> for questions
    /// and answers.
    #[arg(long = "special", value_name = "TOKEN")]
    specials: Vec<String>,
    /// Merge only pairs that occur at least N times.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = numbers::whole::<u64>)]
    min_frequency: u64,
    /// Output folder.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Replace the tokenizer in that folder.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Print {"vocab_size", …} as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Bpe,
    Char,
}

#[derive(Serialize)]
struct Answer<'a> {
    out: &'a Path,
    kind: &'static str,
    vocab_size: usize,
    fingerprint: String,
}

pub(super) fn run(args: &TrainArgs) -> Result<()> {
    let given: Vec<&str> = args.specials.iter().map(String::as_str).collect();
    // Wrong options are said before anything is read.
    Learner::new(args, &given)?;
    let read = args.reading.options();
    let open = |path: &PathBuf| Ok(Source::open(path, None, &read)?);
    let sources = args.input.iter().map(open).collect::<Result<Vec<_>>>()?;
    for (source, path) in sources.iter().zip(&args.input) {
        source.damage(path)?.iter().for_each(|damage| output::note(local(damage)));
    }
    // What questions and answers are trained with, unless somebody knows better.
    let asks = sources.iter().any(|source| source.kind() == CorpusKind::Qa);
    let specials = if given.is_empty() && asks { QA_SPECIALS.to_vec() } else { given };
    let folder = OutputFolder::create(&args.out, args.force, FILES)?;
    let tokenizer = Learner::new(args, &specials)?.learn(sources, args, specials.len())?;
    tokenizer.save(folder.path())?;
    if let Tokenizer::Char(characters) = &tokenizer {
        characters.save_vocabulary(&folder.path().join(VOCABULARY))?;
    }
    folder.finish()?;
    let kind = match args.kind {
        Kind::Bpe => "bpe",
        Kind::Char => "char",
    };
    let vocab_size = tokenizer.vocab_size();
    if let Some(asked) = args.vocab_size.filter(|&asked| asked > vocab_size) {
        output::note(message::FewerTokens { vocab_size: &vocab_size, wanted: &asked });
    }
    if args.json {
        return output::json(&Answer {
            out: &args.out,
            kind,
            vocab_size,
            fingerprint: tokenizer.fingerprint(),
        });
    }
    output::text(message::Trained { kind: &kind, vocab_size: &vocab_size, out: &args.out.display() })
}

/// What is being learnt.
enum Learner {
    Bpe(Box<BpeTrainer>),
    Char(CharBuilder),
}

impl Learner {
    /// Checks the options before anything is read.
    fn new(args: &TrainArgs, specials: &[&str]) -> Result<Self> {
        match (args.kind, args.vocab_size) {
            (Kind::Bpe, Some(size)) => {
                let trainer = BpeTrainer::new(size, specials).map_err(|error| usage(error.to_string()))?;
                Ok(Self::Bpe(Box::new(trainer.min_frequency(args.min_frequency))))
            }
            (Kind::Bpe, None) => Err(usage(message::VocabSizeMissing)),
            (Kind::Char, None) => {
                let builder = CharBuilder::new(specials);
                builder.clone().finish().map_err(|error| usage(error.to_string()))?;
                Ok(Self::Char(builder))
            }
            (Kind::Char, Some(_)) => Err(usage(message::VocabSizeForCharacters)),
        }
    }

    fn learn(mut self, sources: Vec<Source>, args: &TrainArgs, specials: usize) -> Result<Tokenizer> {
        for source in sources {
            self.read(source)?;
        }
        match self {
            Self::Char(builder) => Ok(Tokenizer::Char(builder.finish()?)),
            Self::Bpe(trainer) => {
                let merges = args.vocab_size.unwrap_or_default().saturating_sub(256 + specials);
                let mut progress = Progress::of_steps(message::Learning.text(), merges as u64);
                let tokenizer = trainer.train(|_| progress.advance(1)).context(message::TrainingFailed)?;
                progress.finish();
                Ok(Tokenizer::Bpe(tokenizer))
            }
        }
    }

    fn read(&mut self, source: Source) -> Result<()> {
        match source {
            Source::Text(text) => self.read_text(&text),
            Source::Records(records) => self.read_records(&records),
            Source::Parts { train, .. } => self.read(*train),
            Source::BuiltIn => {
                for pair in builtin::train() {
                    self.push_turn(&pair.question);
                    self.push_turn(&pair.answer);
                }
                Ok(())
            }
            Source::Tokens(_) | Source::Random => bail!(message::IdsNotText),
        }
    }

    fn read_text(&mut self, source: &TextSource) -> Result<()> {
        source.check_visible(None)?;
        let mut progress = Progress::of_bytes(message::Reading.text(), source.bytes());
        let summary = source.read(None, &mut |piece| {
            match piece {
                TextChunk::Text(text) => {
                    self.push(text);
                    progress.advance(text.len() as u64);
                }
                TextChunk::NextFile => self.end_of_text(),
            }
            Ok(())
        })?;
        self.end_of_text();
        progress.finish();
        if summary.left_out > 0 {
            let count = summary.left_out;
            output::note(message::FilesSkipped { count: &count, name: &local(source.name()) });
        }
        Ok(())
    }

    /// Questions and answers, each a text of its own.
    fn read_records(&mut self, file: &RecordFile) -> Result<()> {
        let summary = file.read(None, &mut |_, record| {
            record.turns.iter().for_each(|turn| self.push_turn(&turn.text));
            Ok(())
        })?;
        if summary.bad.total > 0 {
            output::note(message::LinesSkipped { total: &summary.bad.total, name: &local(file.name()) });
            summary.bad.first.iter().for_each(|bad| output::note(format!("  {}", local(bad))));
        }
        Ok(())
    }

    fn push_turn(&mut self, text: &str) {
        self.push(text);
        self.end_of_text();
    }

    fn push(&mut self, text: &str) {
        match self {
            Self::Bpe(trainer) => trainer.push(text),
            Self::Char(builder) => builder.push(text),
        }
    }

    fn end_of_text(&mut self) {
        if let Self::Bpe(trainer) = self {
            trainer.end_of_text();
        }
    }
}

fn usage(message: impl Display) -> anyhow::Error {
    arguments::wrong(ErrorKind::ValueValidation, message.to_string()).into()
}
