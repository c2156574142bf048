//! Conversations as ids: what is said, each turn ended by a separator.
//!
//! A pair is `question <sep> answer <sep>`; longer conversations go on in the same way. A vocabulary without
//! `<sep>` uses its `<|endoftext|>` in that place.

use crate::error::{Error, FormatError, Result, Unsuitable};
use crate::record::{Record, Role, Turn};
use minigpt_tokenizer::{END_OF_TEXT, Tokenizer};
use minigpt_tokenizer::{PAD, SEP};
use std::fmt;
use std::sync::Arc;

/// Encodes records with one tokenizer.
#[derive(Debug, Clone, Copy)]
pub struct QaEncoder<'a> {
    tokenizer: &'a Tokenizer,
    separator: u32,
    pad: u32,
}

/// A record as ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EncodedRecord {
    /// All turns, each with its separator.
    pub ids: Vec<u32>,
    /// For each id, whether the model says it: only these count if only answers are learned.
    pub answer: Vec<bool>,
}

impl<'a> QaEncoder<'a> {
    /// Finds the special tokens.
    ///
    /// # Errors
    /// A vocabulary with neither `<sep>` nor `<|endoftext|>`.
    pub fn new(tokenizer: &'a Tokenizer) -> Result<Self> {
        let separator = tokenizer.special_id(SEP).or_else(|| tokenizer.special_id(END_OF_TEXT));
        let separator = separator.ok_or(Unsuitable::NoSeparator)?;
        // Padding is never learned and never looked at: any id will do.
        let pad = tokenizer.special_id(PAD).unwrap_or(separator);
        Ok(QaEncoder { tokenizer, separator, pad })
    }

    /// The id that ends a turn: what generation stops at.
    pub fn separator(&self) -> u32 {
        self.separator
    }

    /// The id that fills rows.
    pub fn pad(&self) -> u32 {
        self.pad
    }

    /// The same as a chat template in Jinja, for other tools: of single questions only the last is told, of conversations
    /// all that was said.
    pub fn template(&self, conversations: bool) -> String {
        let separator = self.tokenizer.token(self.separator).unwrap_or_default();
        if conversations {
            format!("{{% for message in messages %}}{{{{ message['content'] }}}}{separator}{{% endfor %}}")
        } else {
            format!("{{{{ messages[-1]['content'] }}}}{separator}")
        }
    }

    /// A whole conversation.
    pub fn encode(&self, record: &Record) -> Result<EncodedRecord> {
        let mut encoded = EncodedRecord::default();
        for turn in &record.turns {
            encoded.ids.extend(self.tokenizer.encode(&turn.text)?);
            encoded.ids.push(self.separator);
            encoded.answer.resize(encoded.ids.len(), turn.role == Role::Assistant);
        }
        Ok(encoded)
    }

    /// What the model is given to make it answer: the turns so far.
    pub fn prompt(&self, turns: &[Turn]) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        for turn in turns {
            ids.extend(self.tokenizer.encode(&turn.text)?);
            ids.push(self.separator);
        }
        Ok(ids)
    }
}

/// Encodes a record, or says why it can't be written in this format.
pub type EncodeRecord = dyn Fn(&Record) -> Result<EncodedRecord, FormatError> + Send + Sync;

/// Another way to write examples as ids, for example with the chat template of a model that is trained further.
#[derive(Clone)]
pub struct ExampleFormat {
    /// How a record is written.
    pub encode: Arc<EncodeRecord>,
    /// The ids that end an answer.
    pub ends: Vec<u32>,
}

impl fmt::Debug for ExampleFormat {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("ExampleFormat").field("ends", &self.ends).finish_non_exhaustive()
    }
}

/// How the examples of a data set are encoded.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Encoder<'a> {
    Questions(QaEncoder<'a>),
    Format(&'a ExampleFormat),
}

impl<'a> Encoder<'a> {
    /// In the given format, or else as question, separator, answer, separator.
    pub fn new(tokenizer: &'a Tokenizer, format: Option<&'a ExampleFormat>) -> Result<Self> {
        match format {
            Some(format) => Ok(Self::Format(format)),
            None => QaEncoder::new(tokenizer).map(Self::Questions),
        }
    }

    pub fn encode(&self, record: &Record) -> Result<EncodedRecord> {
        match self {
            Self::Questions(encoder) => encoder.encode(record),
            Self::Format(format) => (format.encode)(record).map_err(Error::Format),
        }
    }

    /// The ids that end an answer.
    pub fn ends(&self) -> Vec<u32> {
        match self {
            Self::Questions(encoder) => vec![encoder.separator()],
            Self::Format(format) => format.ends.clone(),
        }
    }

    /// The id that fills rows. Padding is never learned and never looked at, so any id will do.
    pub fn pad(&self) -> u32 {
        match self {
            Self::Questions(encoder) => encoder.pad(),
            Self::Format(format) => format.ends.first().copied().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer_choice::TokenizerChoice;
    use minigpt_tokenizer::CharTokenizer;

    #[test]
    fn a_pair_is_question_sep_answer_sep() {
        let pair = Record::pair("ab", "c");
        let tokenizer = TokenizerChoice::Char.for_records([&pair]).unwrap();
        let encoder = QaEncoder::new(&tokenizer).unwrap();
        let encoded = encoder.encode(&pair).unwrap();
        assert_eq!(encoded.ids, [3, 4, 2, 5, 2]);
        assert_eq!(encoded.answer, [false, false, false, true, true]);
        assert_eq!(encoder.prompt(&pair.turns[..1]).unwrap(), encoded.ids[..3]);
        assert_eq!((encoder.pad(), encoder.separator()), (0, 2));
    }

    #[test]
    fn gpt2_separates_with_its_end_of_text() {
        let tokenizer = Tokenizer::gpt2();
        let encoder = QaEncoder::new(&tokenizer).unwrap();
        let encoded = encoder.encode(&Record::pair("Hi", "<sep>")).unwrap();
        assert_eq!((encoded.ids[1], *encoded.ids.last().unwrap()), (50256, 50256));
        assert!(encoded.ids.len() > 4, "a separator's name in the text is only text");
        assert_eq!(encoder.pad(), 50256);
    }

    #[test]
    fn a_vocabulary_without_a_separator_is_refused() {
        let tokenizer = Tokenizer::Char(CharTokenizer::from_text(&[], "ab".chars()).unwrap());
        let error = QaEncoder::new(&tokenizer).unwrap_err().to_string();
        assert!(error.contains("neither <sep> nor <|endoftext|>"), "{error}");
    }
}
