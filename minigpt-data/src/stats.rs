//! Statistics of a data set: its size, the lengths of its examples, and the fit of the vocabulary.

use crate::bad_lines::BadLines;
use crate::builtin;
use crate::error::{Result, Unsuitable};
use crate::lengths::Lengths;
use crate::name::DataName;
use crate::prepared::{Prepared, TokenizerMeta};
use crate::qa_encoder::QaEncoder;
use crate::record::Record;
use crate::record_file::ReadOptions;
use crate::source::Source;
use crate::text_parts::count_text;
use crate::text_reader::Cleaned;
use crate::text_source::{TextChunk, TextSource};
use crate::tokenizer_choice::TokenizerChoice;
use crate::tokens::{IdWidth, Tokens};
use minigpt_tokenizer::{CharBuilder, Tokenizer, UNK};
use serde::Serialize;
use std::path::Path;

/// Statistics, by the kind of data.
#[derive(Debug, Clone)]
pub enum Stats {
    /// Question/answer lines.
    Qa(QaStats),
    /// Plain text.
    Text(TextStats),
    /// Prepared tokens.
    Tokens(TokenStats),
}

/// About question/answer data.
#[derive(Debug, Clone)]
pub struct QaStats {
    /// Where it is.
    pub name: DataName,
    /// How the ids are made.
    pub tokenizer: TokenizerMeta,
    /// Lengths of whole sequences, separators included.
    pub lengths: Lengths,
    /// Lengths of what the model says, separators included.
    pub answers: Lengths,
    /// Examples of more than two turns.
    pub conversations: u64,
    /// Ids that stand for characters the vocabulary lacks.
    pub unknown: u64,
    /// Characters that were not of the encoding of their file, and are U+FFFD now.
    pub replaced: u64,
    /// Lines that were skipped.
    pub bad: BadLines,
}

/// About plain text.
#[derive(Debug, Clone)]
pub struct TextStats {
    /// Where it is.
    pub name: DataName,
    /// Files read.
    pub files: u64,
    /// Files of the folder that were left out.
    pub left_out: u64,
    /// Bytes on the disk.
    pub bytes: u64,
    /// Characters, after cleaning.
    pub characters: u64,
    /// Different characters.
    pub distinct: u64,
    /// Ids, made with the tokenizer.
    pub tokens: u64,
    /// How the ids are made.
    pub tokenizer: TokenizerMeta,
    /// Characters of each line, without its line end.
    pub lines: Lengths,
    /// What was changed on the way.
    pub cleaned: Cleaned,
}

/// About prepared tokens.
#[derive(Debug, Clone, Serialize)]
pub struct TokenStats {
    /// The folder.
    pub name: DataName,
    /// How wide an id is.
    pub dtype: IdWidth,
    /// Ids for training.
    pub train: u64,
    /// Ids for validation.
    pub val: u64,
    /// The largest id of both.
    pub largest_id: u32,
    /// How the ids were made, where the folder says.
    pub tokenizer: Option<TokenizerMeta>,
}

/// Measures what is at a path.
///
/// # Errors
/// Data that can't be read.
pub fn stats(
    path: &Path,
    read: &ReadOptions,
    tokenizer: Option<&TokenizerChoice>,
    limit: Option<u64>,
) -> Result<Stats> {
    stats_of(Source::open(path, None, read)?, tokenizer, limit)
}

fn stats_of(source: Source, tokenizer: Option<&TokenizerChoice>, limit: Option<u64>) -> Result<Stats> {
    let choice = tokenizer.unwrap_or(&TokenizerChoice::Char);
    match source {
        Source::BuiltIn => {
            let pairs = builtin::train().into_iter().chain(builtin::held_out());
            let limit = limit.map_or(usize::MAX, |limit| limit as usize);
            let records: Vec<Record> = pairs.take(limit).map(Record::from).collect();
            record_stats(&builtin::NAME.into(), &records, choice).map(Stats::Qa)
        }
        Source::Random => Err(Unsuitable::RandomStats.into()),
        Source::Tokens(folder) => token_stats(&folder, tokenizer, limit).map(Stats::Tokens),
        Source::Text(text) => text_stats(&text, choice, limit).map(Stats::Text),
        // The part that is learned from.
        Source::Parts { train, .. } => stats_of(*train, tokenizer, limit),
        Source::Records(file) => {
            let tokenizer = choice.for_lines(&file, limit)?;
            let mut counting = Counting::new(file.name(), &tokenizer)?;
            let summary = file.read(limit, &mut |_, record| counting.add(&record))?;
            Ok(Stats::Qa(QaStats { bad: summary.bad, replaced: file.replaced(), ..counting.stats }))
        }
    }
}

/// Measures records in memory.
///
/// # Errors
/// A character that the vocabulary lacks.
pub fn record_stats(name: &DataName, records: &[Record], choice: &TokenizerChoice) -> Result<QaStats> {
    let tokenizer = choice.for_records(records)?;
    let mut counting = Counting::new(name, &tokenizer)?;
    records.iter().try_for_each(|record| counting.add(record))?;
    Ok(counting.stats)
}

struct Counting<'a> {
    encoder: QaEncoder<'a>,
    unknown: Option<u32>,
    stats: QaStats,
}

impl<'a> Counting<'a> {
    fn new(name: &DataName, tokenizer: &'a Tokenizer) -> Result<Self> {
        let stats = QaStats {
            name: name.clone(),
            tokenizer: TokenizerMeta::of(tokenizer),
            lengths: Lengths::default(),
            answers: Lengths::default(),
            conversations: 0,
            unknown: 0,
            replaced: 0,
            bad: BadLines::default(),
        };
        Ok(Counting { encoder: QaEncoder::new(tokenizer)?, unknown: tokenizer.special_id(UNK), stats })
    }

    fn add(&mut self, record: &Record) -> Result<()> {
        let encoded = self.encoder.encode(record)?;
        let stats = &mut self.stats;
        stats.lengths.add(encoded.ids.len() as u64);
        stats.answers.add(encoded.answer.iter().filter(|&&answer| answer).count() as u64);
        stats.conversations += u64::from(record.turns.len() > 2);
        stats.unknown += encoded.ids.iter().filter(|&&id| Some(id) == self.unknown).count() as u64;
        Ok(())
    }
}

fn text_stats(source: &TextSource, choice: &TokenizerChoice, limit: Option<u64>) -> Result<TextStats> {
    let ready = match choice {
        TokenizerChoice::Bpe(_) => Some(count_text(source, choice, limit, &mut |_| {})?.tokenizer),
        choice => choice.ready()?,
    };
    let mut builder = CharBuilder::new(&[]);
    let mut encoder = ready.as_ref().map(Tokenizer::encoder);
    let (mut ids, mut tokens) = (Vec::new(), 0);
    let mut lines = LineLengths::default();
    let summary = source.read(limit, &mut |chunk| {
        let TextChunk::Text(text) = chunk else { return Ok(()) };
        builder.push(text);
        lines.push(text);
        if let Some(encoder) = &mut encoder {
            encoder.push(text, &mut ids)?;
            tokens += ids.len() as u64;
            ids.clear();
        }
        Ok(())
    })?;
    if let Some(encoder) = encoder {
        encoder.finish(&mut ids)?;
        tokens += ids.len() as u64;
    } else {
        tokens = summary.characters;
    }
    let characters = Tokenizer::Char(builder.finish()?);
    Ok(TextStats {
        name: source.name().clone(),
        files: summary.files,
        left_out: summary.left_out,
        bytes: source.bytes(),
        characters: summary.characters,
        distinct: characters.vocab_size() as u64,
        tokens,
        tokenizer: TokenizerMeta::of(ready.as_ref().unwrap_or(&characters)),
        lines: lines.finish(),
        cleaned: summary.cleaned,
    })
}

/// Lengths of the lines of a text that comes in chunks.
#[derive(Default)]
struct LineLengths {
    lengths: Lengths,
    current: u64,
    open: bool,
}

impl LineLengths {
    fn push(&mut self, text: &str) {
        for chunk in text.split_inclusive('\n') {
            self.current += chunk.chars().count() as u64;
            self.open = !chunk.ends_with('\n');
            if !self.open {
                self.lengths.add(self.current - 1);
                self.current = 0;
            }
        }
    }

    fn finish(mut self) -> Lengths {
        if self.open {
            self.lengths.add(self.current);
        }
        self.lengths
    }
}

fn token_stats(folder: &Path, choice: Option<&TokenizerChoice>, limit: Option<u64>) -> Result<TokenStats> {
    let Prepared { train, val, tokenizer, meta } = Prepared::open(folder)?;
    let (train, val) = (train.limited(limit), val.limited(limit));
    let given = match choice {
        Some(choice) => choice.ready()?,
        None => None,
    };
    let tokenizer = given.or(tokenizer);
    let check = |tokens: &Tokens| tokenizer.as_ref().map_or(Ok(()), |it| tokens.check(it.vocab_size()));
    check(&train)?;
    check(&val)?;
    Ok(TokenStats {
        name: folder.into(),
        dtype: meta.map_or(IdWidth::U16, |meta| meta.dtype),
        train: train.len(),
        val: val.len(),
        largest_id: train.largest()?.max(val.largest()?),
        tokenizer: tokenizer.as_ref().map(TokenizerMeta::of),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn qa(text: &str) -> QaStats {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("qa.jsonl");
        std::fs::write(&path, text).unwrap();
        match stats(&path, &ReadOptions::default(), None, None).unwrap() {
            Stats::Qa(stats) => stats,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lengths_count_separators() {
        let stats = qa("{\"question\":\"ab\",\"answer\":\"中\"}\nbad\n");
        assert_eq!(stats.lengths.summary().max, 5);
        assert_eq!(stats.answers.summary().max, 2);
        assert_eq!((stats.tokenizer.vocab_size, stats.tokenizer.kind.as_str()), (6, "char"));
        assert_eq!((stats.bad.total, stats.unknown, stats.conversations), (1, 0, 0));
    }

    #[test]
    fn lines_of_text_are_counted_across_pieces() {
        let mut lines = LineLengths::default();
        ["ab", "c\n\nd", "", "\nlast"].iter().for_each(|chunk| lines.push(chunk));
        let lengths = lines.finish();
        assert_eq!((lengths.count(), lengths.summary().total, lengths.summary().max), (4, 8, 4));
    }

    #[test]
    fn text_is_measured_with_any_tokenizer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text.txt");
        std::fs::write(&path, "Hello, world!\n").unwrap();
        let of = |choice| match stats(&path, &ReadOptions::default(), Some(&choice), None).unwrap() {
            Stats::Text(stats) => {
                (stats.characters, stats.distinct, stats.tokens, stats.tokenizer.vocab_size)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(of(TokenizerChoice::Char), (14, 11, 14, 11));
        assert_eq!(of(TokenizerChoice::Gpt2), (14, 11, 5, 50257));
    }
}
