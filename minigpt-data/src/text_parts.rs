//! A text as two rows of ids: its first part for training, the rest for validation.

use crate::error::{Error, OptionError, Result};
use crate::text_reader::is_blank;
use crate::text_source::{TextChunk, TextSource, TextSummary, first_characters};
use crate::tokenizer_choice::{Builder, TokenizerChoice};
use crate::tokens::TokenWriter;
use crate::unknown::Unknown;
use minigpt_tokenizer::{END_OF_TEXT, Error as TokenizerError, StreamEncoder, Tokenizer};
use std::mem;

/// Where ids go.
pub(crate) trait TokenSink {
    fn write(&mut self, ids: &[u32]) -> Result<()>;
}

impl TokenSink for TokenWriter {
    fn write(&mut self, ids: &[u32]) -> Result<()> {
        TokenWriter::write(self, ids)
    }
}

impl TokenSink for Vec<u32> {
    fn write(&mut self, ids: &[u32]) -> Result<()> {
        self.extend_from_slice(ids);
        Ok(())
    }
}

/// A first pass: how much text there is, and the tokenizer, made from it where none is ready.
pub(crate) fn count_text(
    source: &TextSource,
    choice: &TokenizerChoice,
    limit: Option<u64>,
    progress: &mut dyn FnMut(u64),
) -> Result<Counted> {
    let ready = choice.ready()?;
    // Documents are ended by this token, which a BPE would have in the vocabulary.
    let specials: &[&str] = if matches!(choice, TokenizerChoice::Bpe(_)) { &[END_OF_TEXT] } else { &[] };
    let mut builder = Builder::new(choice, specials)?;
    let mut unknown = Unknown::default();
    let (mut done, mut blank) = (0, true);
    let summary = source.read(limit, &mut |chunk| {
        if let TextChunk::Text(text) = chunk {
            match &ready {
                None => builder.push(text),
                Some(tokenizer) => unknown.add(tokenizer, text),
            }
            blank = blank && is_blank(text);
            done += text.len() as u64;
            progress(done);
        }
        Ok(())
    })?;
    if blank {
        return Err(Error::OnlyWhiteSpace { name: source.name().clone() });
    }
    let tokenizer = match ready {
        Some(tokenizer) => tokenizer,
        None => builder.finish()?,
    };
    Ok(Counted { summary, tokenizer, unknown })
}

/// The result of a first pass over a text.
pub(crate) struct Counted {
    pub summary: TextSummary,
    pub tokenizer: Tokenizer,
    pub unknown: Unknown,
}

/// How many characters are for training: nanoGPT's `int(n * 0.9)`.
pub(crate) fn train_characters(source: &TextSource, summary: &TextSummary, val_fraction: f64) -> Result<u64> {
    if !(0.0..1.0).contains(&val_fraction) {
        return Err(OptionError::ValFraction(val_fraction).into());
    }
    match (summary.characters as f64 * (1.0 - val_fraction)) as u64 {
        0 => Err(Error::Empty { name: source.name().training_part() }),
        train => Ok(train),
    }
}

/// Encodes text into one sink until its characters are used up, then into the other.
pub(crate) struct TextParts<'a, S> {
    tokenizer: &'a Tokenizer,
    encoder: StreamEncoder<'a>,
    /// Characters before those of this encoder.
    before: u64,
    characters: u64,
    between_files: Option<u32>,
    /// Characters that still go to training.
    train_left: u64,
    train: S,
    val: S,
    ids: Vec<u32>,
}

impl<'a, S: TokenSink> TextParts<'a, S> {
    pub(crate) fn new(tokenizer: &'a Tokenizer, train_characters: u64, train: S, val: S) -> Self {
        TextParts {
            tokenizer,
            encoder: tokenizer.encoder(),
            before: 0,
            characters: 0,
            between_files: tokenizer.special_id(END_OF_TEXT),
            train_left: train_characters,
            train,
            val,
            ids: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, chunk: TextChunk<'_>) -> Result<()> {
        let TextChunk::Text(text) = chunk else {
            self.end()?;
            self.ids.extend(self.between_files);
            return self.write();
        };
        let (now, count) = first_characters(text, self.train_left);
        if count > 0 {
            self.encode(now, count)?;
            if self.train_left == count {
                // What follows is validation: the last training tokens must not reach into it.
                self.end()?;
            }
            self.train_left -= count;
        }
        let rest = &text[now.len()..];
        if rest.is_empty() { Ok(()) } else { self.encode(rest, rest.chars().count() as u64) }
    }

    /// Ends both parts.
    pub(crate) fn finish(mut self) -> Result<(S, S)> {
        self.end()?;
        Ok((self.train, self.val))
    }

    fn encode(&mut self, text: &str, characters: u64) -> Result<()> {
        let before = self.before;
        self.encoder.push(text, &mut self.ids).map_err(|e| in_whole_text(e, before))?;
        self.characters += characters;
        self.write()
    }

    /// Writes the ids of what the encoder still holds back.
    fn end(&mut self) -> Result<()> {
        let encoder = mem::replace(&mut self.encoder, self.tokenizer.encoder());
        let before = self.before;
        encoder.finish(&mut self.ids).map_err(|e| in_whole_text(e, before))?;
        self.before = self.characters;
        self.write()
    }

    fn write(&mut self) -> Result<()> {
        let part = if self.train_left > 0 { &mut self.train } else { &mut self.val };
        part.write(&self.ids)?;
        self.ids.clear();
        Ok(())
    }
}

/// An encoder counts from where it began: make that from the beginning of the text.
fn in_whole_text(error: TokenizerError, before: u64) -> Error {
    Error::Tokenizer(match error {
        TokenizerError::UnknownCharacter { character, position } => {
            TokenizerError::UnknownCharacter { character, position: position + before as usize }
        }
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use minigpt_tokenizer::CharTokenizer;
    use proptest::prelude::*;

    fn split(tokenizer: &Tokenizer, chunks: &[TextChunk<'_>], train: u64) -> Result<(Vec<u32>, Vec<u32>)> {
        let mut parts = TextParts::new(tokenizer, train, Vec::new(), Vec::new());
        chunks.iter().try_for_each(|&chunk| parts.push(chunk))?;
        parts.finish()
    }

    #[test]
    fn files_are_parted_by_end_of_text_where_there_is_one() {
        let chunks = [TextChunk::Text("Hello\n"), TextChunk::NextFile, TextChunk::Text("world")];
        let (train, val) = split(&Tokenizer::gpt2(), &chunks, 11).unwrap();
        assert_eq!(train, [15496, 198, 50256, 6894]);
        assert!(val.is_empty());
        let characters = Tokenizer::Char(CharTokenizer::from_text(&[], "Helo\nwrd".chars()).unwrap());
        assert_eq!(split(&characters, &chunks, 11).unwrap().0.len(), 11);
    }

    #[test]
    fn a_character_without_a_token_is_counted_from_the_beginning() {
        let tokenizer = Tokenizer::Char(CharTokenizer::from_text(&[], "ab\n".chars()).unwrap());
        let chunks =
            [TextChunk::Text("ab\n"), TextChunk::NextFile, TextChunk::Text("abab"), TextChunk::Text("aé")];
        let error = split(&tokenizer, &chunks, 5).unwrap_err().to_string();
        assert!(error.starts_with("character 9 of the text is 'é'"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn each_part_is_encoded_as_if_alone_however_the_text_is_cut(
            text in "[a-c '\n中é]{1,60}", cut in 0_usize..60, train in 0.0..=1.0,
        ) {
            let count = text.chars().count();
            let at = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
            let train = (count as f64 * train) as usize;
            let (first, second) = text.split_at(at(cut.min(count)));
            for tokenizer in [
                Tokenizer::gpt2(),
                Tokenizer::Char(CharTokenizer::from_text(&[], text.chars()).unwrap()),
            ] {
                let parts = split(&tokenizer, &[TextChunk::Text(first), TextChunk::Text(second)], train as u64).unwrap();
                prop_assert_eq!(parts.0, tokenizer.encode(&text[..at(train)]).unwrap());
                prop_assert_eq!(parts.1, tokenizer.encode(&text[at(train)..]).unwrap());
            }
        }
    }
}
