//! A first look at data: its size and kind, estimated from a sample.

use crate::builtin;
use crate::corpus::CorpusKind;
use crate::error::{Error, Result, Unsuitable};
use crate::prepared::Prepared;
use crate::record_file::RecordFile;
use crate::source::Source;
use crate::text_reader::is_blank;
use crate::text_source::{TextChunk, TextSource};
use std::collections::HashSet;

/// Characters that are sampled.
const SAMPLE: u64 = 1 << 20;
/// Examples that are sampled.
const EXAMPLES: u64 = 20_000;

/// Size and kind of data, estimated from a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glance {
    /// Whether it is running text or examples.
    pub kind: CorpusKind,
    /// Estimated number of characters; 0 if there are only tokens.
    pub characters: u64,
    /// Number of tokens, if the data was prepared.
    pub tokens: Option<u64>,
    /// Different characters in the sample.
    pub distinct: usize,
    /// Whether most of it is written without spaces between words, as Chinese is.
    pub unspaced: bool,
    /// Examples in all; 0 of a text.
    pub examples: u64,
    /// Characters that 95 of 100 examples don't exceed.
    pub long: u64,
    /// Its first words, or its first question.
    pub beginning: String,
}

impl Glance {
    /// Looks at what was opened.
    ///
    /// # Errors
    /// Data that can't be read.
    pub fn of(source: &Source) -> Result<Self> {
        match source {
            Source::Text(text) => Self::of_text(text),
            Source::Records(records) => Self::of_records(records),
            Source::Parts { train, .. } => Self::of(train),
            Source::BuiltIn => {
                let pairs = builtin::train();
                let mut look = Look::default();
                pairs.iter().for_each(|pair| look.example([pair.question.as_str(), &pair.answer]));
                Ok(look.glance(CorpusKind::Qa, 1.0))
            }
            Source::Tokens(folder) => {
                let Prepared { train, tokenizer, .. } = Prepared::open(folder)?;
                let distinct = tokenizer.map_or(0, |tokenizer| tokenizer.vocab_size());
                let look = Look::default().glance(CorpusKind::Text, 1.0);
                Ok(Self { tokens: Some(train.len()), distinct, ..look })
            }
            Source::Random => Err(Unsuitable::RandomGlance.into()),
        }
    }

    /// The same with at most this many examples, tokens or characters.
    pub fn limited(self, most: u64) -> Self {
        let share = |all: u64| most.min(all) as f64 / all.max(1) as f64;
        match (self.kind, self.tokens) {
            (CorpusKind::Qa, _) => {
                let characters = (self.characters as f64 * share(self.examples)) as u64;
                Self { characters, examples: self.examples.min(most), ..self }
            }
            (CorpusKind::Text, Some(tokens)) => Self { tokens: Some(tokens.min(most)), ..self },
            (CorpusKind::Text, None) => Self { characters: self.characters.min(most), ..self },
        }
    }

    fn of_text(text: &TextSource) -> Result<Self> {
        let (mut look, mut bytes, mut blank) = (Look::default(), 0, true);
        text.read(Some(SAMPLE), &mut |chunk| {
            if let TextChunk::Text(text) = chunk {
                bytes += text.len() as u64;
                blank = blank && is_blank(text);
                look.text(text);
            }
            Ok(())
        })?;
        if blank && look.characters < SAMPLE {
            return Err(Error::OnlyWhiteSpace { name: text.name().clone() });
        }
        // The whole sample is the whole text, but for what was cleaned away.
        let whole = if look.characters < SAMPLE { 1.0 } else { text.bytes() as f64 / bytes.max(1) as f64 };
        Ok(look.glance(CorpusKind::Text, whole.max(1.0)))
    }

    fn of_records(records: &RecordFile) -> Result<Self> {
        let (mut look, mut bytes) = (Look::default(), 0u64);
        records.read(Some(EXAMPLES), &mut |_, record| {
            bytes += record.turns.iter().map(|turn| turn.text.len() as u64 + 16).sum::<u64>();
            look.example(record.turns.iter().map(|turn| turn.text.as_str()));
            Ok(())
        })?;
        let all = (look.lengths.len() as u64) < EXAMPLES;
        let whole = if all { 1.0 } else { records.bytes() as f64 / bytes.max(1) as f64 };
        Ok(look.glance(CorpusKind::Qa, whole.max(1.0)))
    }
}

/// Counts over the sample.
#[derive(Default)]
struct Look {
    characters: u64,
    unspaced: u64,
    distinct: HashSet<char>,
    lengths: Vec<u64>,
    beginning: String,
}

impl Look {
    fn text(&mut self, text: &str) {
        if self.beginning.is_empty() {
            self.beginning = first_words(text);
        }
        for c in text.chars() {
            self.characters += 1;
            self.unspaced += u64::from(is_unspaced(c));
            self.distinct.insert(c);
        }
    }

    fn example<'a>(&mut self, turns: impl IntoIterator<Item = &'a str>) {
        let before = self.characters;
        let mut turns = turns.into_iter().peekable();
        if self.lengths.is_empty() {
            self.beginning = turns.peek().map_or_else(String::new, |first| first.trim().to_owned());
        }
        turns.for_each(|turn| self.text(turn));
        self.lengths.push(self.characters - before);
    }

    /// The estimate for data `whole` times as large as the sample.
    fn glance(mut self, kind: CorpusKind, whole: f64) -> Glance {
        self.lengths.sort_unstable();
        let long = self.lengths.get(self.lengths.len() * 95 / 100).copied().unwrap_or(0);
        let scaled = |count: u64| (count as f64 * whole).round() as u64;
        Glance {
            kind,
            characters: scaled(self.characters),
            tokens: None,
            distinct: self.distinct.len(),
            unspaced: 3 * self.unspaced > self.characters,
            examples: scaled(self.lengths.len() as u64),
            long,
            beginning: self.beginning,
        }
    }
}

/// The first words of the first line that is not blank, or its first characters if it has no spaces.
fn first_words(text: &str) -> String {
    /// Characters at most.
    const FEW: usize = 16;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let end = line.char_indices().nth(FEW).map_or(line.len(), |(at, _)| at);
    let end = if end < line.len() { line[..end].rfind(' ').unwrap_or(end) } else { end };
    line[..end].to_owned()
}

/// Characters of scripts that put no spaces between words: Chinese, Japanese, Thai, Lao, Khmer, Burmese.
fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c), 0x0e00..=0x0eff | 0x1000..=0x109f | 0x1780..=0x17ff | 0x3000..=0x30ff | 0x3400..=0x9fff | 0xf900..=0xfaff | 0x2_0000..=0x3_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record_file::ReadOptions;
    use std::fs;

    fn glance(name: &str, text: &str) -> Glance {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        Glance::of(&Source::open(&path, None, &ReadOptions::default()).unwrap()).unwrap()
    }

    #[test]
    fn a_text_is_counted_and_its_script_recognised() {
        let english = glance("a.txt", "To be, or not to be\n");
        assert_eq!((english.kind, english.characters, english.unspaced), (CorpusKind::Text, 20, false));
        assert_eq!(english.beginning, "To be, or not");
        let chinese = glance("b.txt", "话说天下大势，分久必合，合久必分。\n");
        assert!(chinese.unspaced);
        assert_eq!(chinese.characters, 18);
    }

    #[test]
    fn a_text_of_white_space_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("blank.txt");
        for text in [" \n\t\n", "\u{200b}", "\u{3000}\u{feff}\u{200d}\n"] {
            fs::write(&path, text.repeat(50)).unwrap();
            let source = Source::open(&path, None, &ReadOptions::default()).unwrap();
            let error = Glance::of(&source).unwrap_err().to_string();
            assert!(error.contains("blank.txt contains only white space"), "{error}");
        }
    }

    #[test]
    fn no_more_is_counted_than_is_trained_on() {
        let text = glance("a.txt", &"abcdefgh ".repeat(100));
        assert_eq!((text.clone().limited(90).characters, text.limited(1 << 40).characters), (90, 900));
        let lines = "{\"question\": \"abc\", \"answer\": \"defg\"}\n".repeat(100);
        let examples = glance("a.jsonl", &lines).limited(10);
        assert_eq!((examples.examples, examples.characters), (10, 70));
    }

    #[test]
    fn what_lies_behind_the_sample_is_guessed_from_its_size() {
        let long = glance("a.txt", &"abcdefgh ".repeat(300_000));
        assert!((2_600_000..2_800_000).contains(&long.characters), "{}", long.characters);
    }

    #[test]
    fn examples_are_counted_with_their_length() {
        let lines: String = (0..100)
            .map(|i| format!("{{\"question\": \"{}\", \"answer\": \"b\"}}\n", "a".repeat(i)))
            .collect();
        let seen = glance("a.jsonl", &lines[lines.find('\n').unwrap() + 1..]);
        assert_eq!((seen.kind, seen.examples, seen.long), (CorpusKind::Qa, 99, 96));
    }
}
