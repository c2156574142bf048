//! Text and ids that come a piece at a time: decoding that never shows half a character, encoding that never needs
//! the whole text, both with the same result as all at once.

use crate::bpe::{BpeState, BpeTokenizer};
use crate::characters::CharTokenizer;
use crate::error::{Error, Result};
use crate::tokenizer::Tokenizer;
use std::fmt;

/// Turns ids into text one at a time.
#[derive(Debug)]
pub struct StreamDecoder<'a> {
    tokenizer: &'a Tokenizer,
    /// The beginning of a character whose end has not come: three bytes at most.
    pending: Vec<u8>,
    position: usize,
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
        Self { tokenizer, pending: Vec::new(), position: 0 }
    }

    /// Takes one id and gives the characters that are now whole; bytes that are no UTF-8 become U+FFFD.
    pub fn push(&mut self, id: u32) -> Result<String> {
        let Some(bytes) = self.tokenizer.token_bytes(id) else {
            let vocab_size = self.tokenizer.vocab_size();
            return Err(Error::UnknownId { id, position: self.position, vocab_size });
        };
        self.position += 1;
        self.pending.extend_from_slice(bytes);
        let whole = self.pending.len() - unfinished(&self.pending);
        let text = String::from_utf8_lossy(&self.pending[..whole]).into_owned();
        self.pending.drain(..whole);
        Ok(text)
    }

    /// Ends the stream; what was incomplete, if anything.
    pub fn finish(self) -> Option<Incomplete> {
        (!self.pending.is_empty()).then_some(Incomplete { bytes: self.pending })
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
    Bpe(Box<BpeStream<'a>>),
}

impl<'a> StreamEncoder<'a> {
    pub(crate) fn new(tokenizer: &'a Tokenizer) -> Self {
        Self(match tokenizer {
            Tokenizer::Char(tokenizer) => Kind::Char { tokenizer, position: 0 },
            Tokenizer::Bpe(tokenizer) => Kind::Bpe(Box::new(BpeStream::new(tokenizer))),
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
            Kind::Bpe(stream) => stream.push(text, ids),
        }
    }

    /// Ends the text and appends the ids that were waiting for more of it.
    pub fn finish(self, ids: &mut Vec<u32>) -> Result<()> {
        match self.0 {
            Kind::Char { .. } => Ok(()),
            Kind::Bpe(stream) => stream.finish(ids),
        }
    }
}

/// Text gathers until there is a good deal of it; then all but its last piece is encoded.
#[derive(Debug)]
struct BpeStream<'a> {
    tokenizer: &'a BpeTokenizer,
    state: BpeState,
    pending: String,
    position: usize,
    /// Encode when this much has gathered: twice what remained, so that one enormous piece is not scanned
    /// again and again.
    enough: usize,
}

/// The least text worth encoding.
const GATHER: usize = 1 << 16;

impl<'a> BpeStream<'a> {
    fn new(tokenizer: &'a BpeTokenizer) -> Self {
        Self { tokenizer, state: BpeState::default(), pending: String::new(), position: 0, enough: GATHER }
    }

    fn push(&mut self, text: &str, ids: &mut Vec<u32>) -> Result<()> {
        self.pending.push_str(text);
        if self.pending.len() >= self.enough {
            let done = self
                .tokenizer
                .encode_settled(&self.pending, &mut self.state, ids)
                .map_err(|error| error.moved(self.position, 0))?;
            self.position += done;
            self.pending.drain(..done);
            self.enough = GATHER.max(2 * self.pending.len());
        }
        Ok(())
    }

    fn finish(mut self, ids: &mut Vec<u32>) -> Result<()> {
        self.tokenizer
            .encode_into(&self.pending, &mut self.state, ids)
            .map_err(|error| error.moved(self.position, 0))
    }
}
