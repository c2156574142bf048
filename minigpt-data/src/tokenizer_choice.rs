//! Which tokenizer a data set is read with: characters of the data itself, GPT-2's, or one from a file.

use crate::error::Result;
use crate::jsonl::JsonlFile;
use crate::record::Record;
use minigpt_tokenizer::{CharBuilder, Tokenizer, UNK};
use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

/// Fills the rows of a batch.
pub const PAD: &str = "<pad>";
/// Ends a question, and an answer.
pub const SEP: &str = "<sep>";
/// What question/answer data needs beside characters: ids 0, 1 and 2, as in the vocabulary files people have.
const QA_SPECIALS: [&str; 3] = [PAD, UNK, SEP];

/// A tokenizer by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenizerChoice {
    /// One token a character, the vocabulary made from the data.
    Char,
    /// GPT-2's byte-level BPE.
    Gpt2,
    /// A vocabulary file, a `tokenizer.json`, or a folder that has one.
    File(PathBuf),
}

impl FromStr for TokenizerChoice {
    type Err = Infallible;

    fn from_str(name: &str) -> Result<Self, Infallible> {
        Ok(match name {
            "char" => TokenizerChoice::Char,
            "gpt2" => TokenizerChoice::Gpt2,
            path => TokenizerChoice::File(path.into()),
        })
    }
}

impl TokenizerChoice {
    /// The tokenizer, or `None` where it is to be made from the data.
    pub fn ready(&self) -> Result<Option<Tokenizer>> {
        Ok(match self {
            TokenizerChoice::Char => None,
            TokenizerChoice::Gpt2 => Some(Tokenizer::gpt2()),
            TokenizerChoice::File(path) => Some(Tokenizer::open(path)?),
        })
    }

    /// The tokenizer for a file of question/answer lines: one pass over it where characters must be collected.
    pub fn for_lines(&self, file: &JsonlFile, limit: Option<u64>) -> Result<Tokenizer> {
        if let Some(tokenizer) = self.ready()? {
            return Ok(tokenizer);
        }
        let mut builder = CharBuilder::new(&QA_SPECIALS);
        file.read(limit, &mut |_, record| {
            push(&mut builder, &record);
            Ok(())
        })?;
        Ok(Tokenizer::Char(builder.finish()?))
    }

    /// The tokenizer for records in memory.
    pub fn for_records<'a>(&self, records: impl IntoIterator<Item = &'a Record>) -> Result<Tokenizer> {
        if let Some(tokenizer) = self.ready()? {
            return Ok(tokenizer);
        }
        let mut builder = CharBuilder::new(&QA_SPECIALS);
        records.into_iter().for_each(|record| push(&mut builder, record));
        Ok(Tokenizer::Char(builder.finish()?))
    }
}

fn push(builder: &mut CharBuilder, record: &Record) {
    record.turns.iter().for_each(|turn| builder.push(&turn.text));
}
