//! Text and ids that come a piece at a time: decoding that never shows half a character, encoding that never needs
//! the whole text, both with the same result as all at once.

use crate::bpe::{BpeState, BpeTokenizer};
use crate::characters::CharTokenizer;
use crate::error::{Error, Result};
use crate::piece_stream::PieceStream;
use crate::pipeline::{PipelineStream, PipelineTokenizer};
use crate::tokenizer::Tokenizer;
use std::borrow::Cow;
use std::fmt;

/// Turns ids into text one at a time.
#[derive(Debug)]
pub struct StreamDecoder<'a> {
    tokenizer: &'a Tokenizer,
    pending: PendingBytes,
    position: usize,
}

/// The beginning of a character whose end has not come: three bytes at most. What decoding piece by piece has to remember,
/// for whoever keeps the tokenizer elsewhere.
#[derive(Debug, Clone, Default)]
pub struct PendingBytes(Vec<u8>);

impl PendingBytes {
    /// Takes one id and gives the characters that are now whole; bytes that are no UTF-8 become U+FFFD. `None` if the
    /// tokenizer does not know the id.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> Option<String> {
        let bytes = tokenizer.token_bytes(id)?;
        Some(self.add(tokenizer, bytes))
    }

    fn add(&mut self, tokenizer: &Tokenizer, bytes: &[u8]) -> String {
        self.0.extend_from_slice(bytes);
        let whole = self.0.len() - unfinished(&self.0).max(tokenizer.held_at_end(&self.0));
        let text = String::from_utf8_lossy(&self.0[..whole]).into_owned();
        self.0.drain(..whole);
        text
    }
}

/// Bytes at the end of a stream that begin a character and don't finish it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incomplete {
    /// The bytes: one to three.
    pub bytes: Vec<u8>,
}

impl Incomplete {
    /// What decoding the whole stream at once shows in their place.
    pub fn text(&self) -> &'static str {
        "\u{FFFD}"
    }
}

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the text ends inside a character, after the bytes")?;
        self.bytes.iter().try_for_each(|byte| write!(f, " {byte:02X}"))
    }
}

impl<'a> StreamDecoder<'a> {
    pub(crate) fn new(tokenizer: &'a Tokenizer) -> Self {
        Self { tokenizer, pending: PendingBytes::default(), position: 0 }
    }

    /// Takes one id and gives the characters that are now whole; bytes that are no UTF-8 become U+FFFD.
    pub fn push(&mut self, id: u32) -> Result<String> {
        let bytes = match self.position {
            0 => self.tokenizer.first_token_bytes(id),
            _ => self.tokenizer.token_bytes(id).map(Cow::from),
        };
        let Some(bytes) = bytes else {
            let vocab_size = self.tokenizer.vocab_size();
            return Err(Error::UnknownId { id, position: self.position, vocab_size });
        };
        self.position += 1;
        Ok(self.pending.add(self.tokenizer, &bytes))
    }

    /// Ends the stream; what was incomplete, if anything.
    pub fn finish(self) -> Option<Incomplete> {
        let held = self.tokenizer.held_at_end(&self.pending.0);
        (self.pending.0.len() > held).then_some(Incomplete { bytes: self.pending.0 })
    }
}

/// How many bytes at the end begin a character that more bytes could finish.
fn unfinished(bytes: &[u8]) -> usize {
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    (0..tail.len())
        .map(|start| &tail[start..])
        .find(|rest| {
            std::str::from_utf8(rest)
                .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
        })
        .map_or(0, <[u8]>::len)
}

/// Turns text into ids a piece at a time; however the text is cut, the ids are those of the whole.
#[derive(Debug)]
pub struct StreamEncoder<'a>(Kind<'a>);

#[derive(Debug)]
enum Kind<'a> {
    Char { tokenizer: &'a CharTokenizer, position: usize },
    Bpe { tokenizer: &'a BpeTokenizer, pieces: PieceStream, state: Box<BpeState> },
    Pipeline { tokenizer: &'a PipelineTokenizer, stream: PipelineStream },
}

impl<'a> StreamEncoder<'a> {
    pub(crate) fn new(tokenizer: &'a Tokenizer) -> Self {
        Self(match tokenizer {
            Tokenizer::Char(tokenizer) => Kind::Char { tokenizer, position: 0 },
            Tokenizer::Bpe(tokenizer) => {
                Kind::Bpe { tokenizer, pieces: PieceStream::default(), state: Box::default() }
            }
            Tokenizer::Pipeline(tokenizer) => Kind::Pipeline { tokenizer, stream: PipelineStream::default() },
        })
    }

    /// Takes the next piece of text and appends the ids that are certain by now.
    pub fn push(&mut self, text: &str, ids: &mut Vec<u32>) -> Result<()> {
        match &mut self.0 {
            Kind::Char { tokenizer, position } => {
                let start = ids.len();
                tokenizer.encode_into(text, ids).map_err(|error| error.moved(0, *position))?;
                *position += ids.len() - start;
                Ok(())
            }
            Kind::Bpe { tokenizer, pieces, state } => {
                pieces.push(text, |piece, position| tokenizer.encode_piece(piece, position, state, ids))
            }
            Kind::Pipeline { tokenizer, stream } => stream.push(tokenizer, text, ids),
        }
    }

    /// Ends the text and appends the ids that were waiting for more of it.
    pub fn finish(self, ids: &mut Vec<u32>) -> Result<()> {
        match self.0 {
            Kind::Char { .. } => Ok(()),
            Kind::Bpe { tokenizer, mut pieces, mut state } => {
                pieces.finish(|piece, position| tokenizer.encode_piece(piece, position, &mut state, ids))
            }
            Kind::Pipeline { tokenizer, stream } => stream.finish(tokenizer, ids),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stream(tokenizer: &Tokenizer, ids: &[u32]) -> (Vec<String>, Option<Incomplete>) {
        let mut decoder = tokenizer.decoder();
        let parts = ids.iter().map(|&id| decoder.push(id).unwrap()).collect();
        (parts, decoder.finish())
    }

    #[test]
    fn a_character_appears_when_its_last_byte_has_come() {
        let (parts, rest) = stream(&Tokenizer::gpt2(), &[19526, 254, 25001, 121]);
        assert_eq!(parts, ["", "你", "", "好"]);
        assert_eq!(rest, None);
    }

    #[test]
    fn the_end_says_what_was_incomplete() {
        let (parts, rest) = stream(&Tokenizer::gpt2(), &[64, 19526]);
        assert_eq!(parts, ["a", ""]);
        let rest = rest.unwrap();
        assert_eq!(rest.bytes, [0xE4, 0xBD]);
        assert_eq!(rest.to_string(), "the text ends inside a character, after the bytes E4 BD");
    }

    #[test]
    fn an_id_beyond_the_vocabulary_is_named_with_its_position() {
        let gpt2 = Tokenizer::gpt2();
        let mut decoder = gpt2.decoder();
        decoder.push(0).unwrap();
        let error = decoder.push(50_257).unwrap_err().to_string();
        assert_eq!(error, "id 50257 at position 1 is outside the vocabulary of 50257 tokens");
        assert_eq!(gpt2.decode(&[0, 50_257]).unwrap_err().to_string(), error);
    }

    #[test]
    fn positions_of_errors_count_from_the_start_of_the_stream() {
        let tokenizer = Tokenizer::Char(CharTokenizer::from_text(&[], "你好".chars()).unwrap());
        let mut encoder = tokenizer.encoder();
        let mut ids = Vec::new();
        encoder.push("你好你", &mut ids).unwrap();
        let error = encoder.push("好!", &mut ids).unwrap_err().to_string();
        assert!(error.starts_with("character 5 of the text is '!'"), "{error}");
    }

    proptest! {
        #[test]
        fn streamed_decoding_equals_decoding_at_once(ids in prop::collection::vec(0_u32..50_257, 0..40)) {
            let gpt2 = Tokenizer::gpt2();
            let (parts, rest) = stream(&gpt2, &ids);
            let text = parts.concat() + rest.as_ref().map_or("", Incomplete::text);
            prop_assert_eq!(text, gpt2.decode(&ids).unwrap());
        }

        /// The first 256 ids are single bytes, so that characters are torn in every way.
        #[test]
        fn torn_bytes_decode_as_at_once(ids in prop::collection::vec(0_u32..256, 0..40)) {
            let gpt2 = Tokenizer::gpt2();
            let (parts, rest) = stream(&gpt2, &ids);
            let text = parts.concat() + rest.as_ref().map_or("", Incomplete::text);
            prop_assert_eq!(text, gpt2.decode(&ids).unwrap());
        }
    }
}
