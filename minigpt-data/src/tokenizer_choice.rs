//! Which tokenizer a data set is read with: one made from the data itself, GPT-2's, or one from a file.

use crate::error::{Error, Result};
use crate::record::Record;
use crate::record_file::RecordFile;
use minigpt_tokenizer::{BpeTrainer, CharBuilder, PAD, SEP, Tokenizer, UNK};
use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

/// What question/answer data needs beside characters: ids 0, 1 and 2, as in the vocabulary files people have.
pub const QA_SPECIALS: [&str; 3] = [PAD, UNK, SEP];

/// A tokenizer by name.
#[derive(Debug, Clone)]
pub enum TokenizerChoice {
    /// One token a character, the vocabulary made from the data.
    Char,
    /// A byte-level BPE with this many tokens, learned from the data.
    Bpe(usize),
    /// GPT-2's byte-level BPE.
    Gpt2,
    /// A vocabulary file, a `tokenizer.json`, or a folder that has one.
    File(PathBuf),
    /// One that is there already.
    Ready(Tokenizer),
}

impl FromStr for TokenizerChoice {
    type Err = Infallible;

    fn from_str(name: &str) -> Result<Self, Infallible> {
        let learnt = || name.strip_prefix("bpe:")?.parse().ok().map(TokenizerChoice::Bpe);
        Ok(match name {
            "char" => TokenizerChoice::Char,
            "gpt2" => TokenizerChoice::Gpt2,
            path => learnt().unwrap_or_else(|| TokenizerChoice::File(path.into())),
        })
    }
}

impl TokenizerChoice {
    /// The tokenizer, or `None` where it is to be made from the data.
    pub fn ready(&self) -> Result<Option<Tokenizer>> {
        Ok(match self {
            TokenizerChoice::Char | TokenizerChoice::Bpe(_) => None,
            TokenizerChoice::Gpt2 => Some(Tokenizer::gpt2()),
            TokenizerChoice::File(path) if !path.exists() => return Err(Error::NoTokenizer(path.clone())),
            TokenizerChoice::File(path) => Some(Tokenizer::open(path)?),
            TokenizerChoice::Ready(tokenizer) => Some(tokenizer.clone()),
        })
    }

    /// The tokenizer for a file of question/answer lines: one pass over it where it must be made.
    pub fn for_lines(&self, file: &RecordFile, limit: Option<u64>) -> Result<Tokenizer> {
        if let Some(tokenizer) = self.ready()? {
            return Ok(tokenizer);
        }
        let mut builder = Builder::new(self, &QA_SPECIALS)?;
        file.read(limit, &mut |_, record| {
            builder.push_record(&record);
            Ok(())
        })?;
        builder.finish()
    }

    /// The tokenizer for records in memory.
    pub fn for_records<'a>(&self, records: impl IntoIterator<Item = &'a Record>) -> Result<Tokenizer> {
        if let Some(tokenizer) = self.ready()? {
            return Ok(tokenizer);
        }
        let mut builder = Builder::new(self, &QA_SPECIALS)?;
        records.into_iter().for_each(|record| builder.push_record(record));
        builder.finish()
    }
}

/// A tokenizer that is made from data.
pub(crate) enum Builder {
    Char(CharBuilder),
    Bpe(Box<BpeTrainer>),
}

impl Builder {
    /// A BPE or characters, as chosen.
    pub fn new(choice: &TokenizerChoice, specials: &[&str]) -> Result<Self> {
        Ok(match choice {
            TokenizerChoice::Bpe(size) => Builder::Bpe(Box::new(BpeTrainer::new(*size, specials)?)),
            _ => Builder::Char(CharBuilder::new(specials)),
        })
    }

    /// Takes the next chunk of a text.
    pub fn push(&mut self, text: &str) {
        match self {
            Builder::Char(builder) => builder.push(text),
            Builder::Bpe(trainer) => trainer.push(text),
        }
    }

    fn push_record(&mut self, record: &Record) {
        for turn in &record.turns {
            self.push(&turn.text);
            if let Builder::Bpe(trainer) = self {
                trainer.end_of_text();
            }
        }
    }

    pub fn finish(self) -> Result<Tokenizer> {
        Ok(match self {
            Builder::Char(builder) => Tokenizer::Char(builder.finish()?),
            Builder::Bpe(trainer) => Tokenizer::Bpe(trainer.train(|_| {})?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn names_are_understood_and_everything_else_is_a_path() {
        let choice = |name: &str| name.parse::<TokenizerChoice>().unwrap();
        assert!(matches!(choice("char"), TokenizerChoice::Char));
        assert!(matches!(choice("gpt2"), TokenizerChoice::Gpt2));
        assert!(matches!(choice("bpe:700"), TokenizerChoice::Bpe(700)));
        for path in ["bpe:x", "a/b.json"] {
            assert!(matches!(choice(path), TokenizerChoice::File(file) if file == Path::new(path)));
        }
    }

    #[test]
    fn a_bpe_is_learnt_from_the_data_turn_by_turn() {
        let records = [Record::pair("天空", "蓝色"), Record::pair("天空", "the sky")];
        let tokenizer = TokenizerChoice::Bpe(270).for_records(&records).unwrap();
        assert_eq!(tokenizer.vocab_size(), 270);
        assert_eq!([PAD, UNK, SEP].map(|name| tokenizer.special_id(name)), [Some(0), Some(1), Some(2)]);
        assert_eq!(tokenizer.encode("天空").unwrap().len(), 1);
        assert!(TokenizerChoice::Bpe(7).for_records(&records).is_err(), "too few for the bytes");
    }
}
