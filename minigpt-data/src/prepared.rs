//! A folder of prepared tokens: `train.bin`, `val.bin`, the tokenizer, and `meta.json` that describes them.
//!
//! A folder that nanoGPT made has neither description nor tokenizer: its files are then taken as 2-byte ids, and
//! the tokenizer must be named.

use crate::error::{Error, Result};
use crate::text_reader::Cleaned;
use crate::tokens::{IdWidth, Tokens, TokensProblem};
use minigpt_files::Action;
use minigpt_tokenizer::Tokenizer;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

pub(crate) const TRAIN: &str = "train.bin";
pub(crate) const VAL: &str = "val.bin";
pub(crate) const META: &str = "meta.json";
const FORMAT: &str = "minigpt-tokens";

/// A description is short: more is not one.
const META_LIMIT: u64 = 1 << 20;

/// What `meta.json` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparedMeta {
    /// `minigpt-tokens`.
    pub format: String,
    /// 1.
    pub version: u32,
    /// How wide an id is.
    pub dtype: IdWidth,
    /// Which tokenizer made the ids.
    pub tokenizer: TokenizerMeta,
    /// What is in `train.bin`.
    pub train: PartMeta,
    /// What is in `val.bin`.
    pub val: PartMeta,
    /// Where the text came from.
    pub source: SourceMeta,
}

/// Which tokenizer made the ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenizerMeta {
    /// `char` or `bpe`.
    pub kind: String,
    /// How many ids there are.
    pub vocab_size: usize,
    /// Tells tokenizers apart.
    pub fingerprint: String,
}

/// What is in one file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartMeta {
    /// Ids in the file.
    pub tokens: u64,
    /// Characters they were made from.
    pub characters: u64,
}

/// Where the text came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceMeta {
    /// The file or folder, or "standard input".
    pub name: String,
    /// Files read.
    pub files: u64,
    /// Files of the folder that were left out.
    pub left_out: u64,
    /// What was changed in the text.
    pub cleaned: Cleaned,
}

impl TokenizerMeta {
    /// Describes a tokenizer.
    pub fn of(tokenizer: &Tokenizer) -> Self {
        let kind = match tokenizer {
            Tokenizer::Char(_) => "char",
            Tokenizer::Bpe(_) => "bpe",
            Tokenizer::Pipeline(_) => "pipeline",
        };
        TokenizerMeta {
            kind: kind.to_owned(),
            vocab_size: tokenizer.vocab_size(),
            fingerprint: tokenizer.fingerprint(),
        }
    }
}

impl PreparedMeta {
    pub(crate) fn new(
        dtype: IdWidth,
        tokenizer: &Tokenizer,
        train: PartMeta,
        val: PartMeta,
        source: SourceMeta,
    ) -> Self {
        let tokenizer = TokenizerMeta::of(tokenizer);
        PreparedMeta { format: FORMAT.to_owned(), version: 1, dtype, tokenizer, train, val, source }
    }

    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(META);
        let mut json =
            serde_json::to_vec_pretty(self).map_err(|e| Error::io(Action::Write, &path, e.into()))?;
        json.push(b'\n');
        fs::write(&path, json).map_err(|e| Error::io(Action::Write, &path, e))
    }

    /// The description in a folder, if there is one.
    fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(META);
        let bad = |problem| Error::BadTokens { path: path.clone(), problem };
        let json = match minigpt_files::read_file(&path, META_LIMIT) {
            Err(error) if error.is_missing() => return Ok(None),
            json => json?,
        };
        let meta: PreparedMeta =
            serde_json::from_slice(&json).map_err(|e| bad(TokensProblem::BadMeta(e.to_string())))?;
        if meta.format != FORMAT || meta.version != 1 {
            return Err(bad(TokensProblem::OtherFormat { format: meta.format, version: meta.version }));
        }
        Ok(Some(meta))
    }
}

/// Prepared tokens, ready to be drawn from.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// To learn from.
    pub train: Tokens,
    /// To judge by; may be empty.
    pub val: Tokens,
    /// What made the ids, where the folder has it.
    pub tokenizer: Option<Tokenizer>,
    /// The description, where the folder has one.
    pub meta: Option<PreparedMeta>,
}

impl Prepared {
    /// Whether a folder holds prepared tokens.
    pub fn is_at(folder: &Path) -> bool {
        folder.join(TRAIN).is_file()
    }

    /// Opens a folder.
    ///
    /// # Errors
    /// Files that don't fit their description, or a tokenizer that did not make them.
    pub fn open(folder: &Path) -> Result<Self> {
        let meta = PreparedMeta::read(folder)?;
        let dtype = meta.as_ref().map_or(IdWidth::U16, |meta| meta.dtype);
        let train = part(folder, TRAIN, dtype, meta.as_ref().map(|meta| meta.train))?;
        let val = if meta.is_some() || minigpt_files::is_there(&folder.join(VAL))? {
            part(folder, VAL, dtype, meta.as_ref().map(|meta| meta.val))?
        } else {
            Tokens::from(Vec::new())
        };
        let tokenizer = match &meta {
            Some(meta) => Some(tokenizer(folder, &meta.tokenizer)?),
            None => None,
        };
        Ok(Prepared { train, val, tokenizer, meta })
    }
}

fn part(folder: &Path, name: &str, dtype: IdWidth, described: Option<PartMeta>) -> Result<Tokens> {
    let path = folder.join(name);
    let tokens = Tokens::open(&path, dtype)?;
    match described {
        Some(described) if described.tokens != tokens.len() => {
            let problem = TokensProblem::OtherCount { tokens: tokens.len(), described: described.tokens };
            Err(Error::BadTokens { path, problem })
        }
        _ => Ok(tokens),
    }
}

fn tokenizer(folder: &Path, described: &TokenizerMeta) -> Result<Tokenizer> {
    let tokenizer = Tokenizer::open(folder)?;
    if tokenizer.fingerprint() != described.fingerprint {
        let problem = TokensProblem::ChangedTokenizer;
        return Err(Error::BadTokens { path: folder.to_owned(), problem });
    }
    Ok(tokenizer)
}
