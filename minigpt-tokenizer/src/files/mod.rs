//! Tokenizers on disk: which file is which, and the care that files from outside need.
//!
//! Whatever a file holds, opening it takes memory and time in proportion to its size, and the size is limited.

mod gpt2_pair;
mod ids;
mod shapes;
mod spelt;
mod tokenizer_json;
mod unique_map;
mod vocabulary;
mod write;

pub(crate) use vocabulary::save_vocabulary;
pub(crate) use write::save;

use crate::bpe::BpeTokenizer;
use crate::error::{Error, Excerpt, FileProblem, Quote, Result};
use crate::tokenizer::Tokenizer;
use foldhash::fast::RandomState;
use hashbrown::HashSet;
use minigpt_files::is_there;
use serde::de::DeserializeOwned;
use std::path::Path;

/// The largest files of this kind have 40 MB.
const LIMIT: u64 = 64 << 20;

/// Opens a `tokenizer.json`, a `{"word2id", "id2word"}` vocabulary, or the folder of a tokenizer.
pub(crate) fn open(path: &Path) -> Result<Tokenizer> {
    if path.is_dir() {
        return open_folder(path);
    }
    let merges = path.with_file_name("merges.txt");
    if path.file_name().is_some_and(|name| name == "vocab.json") && merges.is_file() {
        return gpt2_pair::open(path, &merges);
    }
    tokenizer_json::open(path)
}

fn open_folder(folder: &Path) -> Result<Tokenizer> {
    let whole = folder.join("tokenizer.json");
    let vocab = folder.join("vocab.json");
    if is_there(&whole)? {
        tokenizer_json::open(&whole)
    } else if is_there(&vocab)? {
        open(&vocab)
    } else {
        Err(Error::Malformed { path: folder.to_owned(), problem: FileProblem::EmptyFolder })
    }
}

/// A BPE from tokens and merges as files spell them, each merge in one text.
pub(crate) fn bpe_from_spelt(
    path: &Path,
    tokens: &[String],
    merges: &[String],
    specials: &[String],
) -> Result<BpeTokenizer> {
    let malformed = |problem| Error::Malformed { path: path.to_owned(), problem };
    let mut seen: HashSet<&str, RandomState> = HashSet::default();
    if let Some(token) = tokens.iter().find(|token| !seen.insert(token)) {
        return Err(malformed(FileProblem::DuplicateToken(Quote::new(token))));
    }
    let split = |merge: &String| {
        gpt2_pair::split_merge(merge).ok_or_else(|| malformed(FileProblem::Merge(Quote::new(merge))))
    };
    let merges: Vec<_> = merges.iter().map(split).collect::<Result<_>>()?;
    spelt::bpe(path, tokens, &merges, specials)
}

/// Reads a file that holds JSON of this form.
fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    parse(path, &read(path)?)
}

fn parse<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| Error::Malformed {
        path: path.to_owned(),
        problem: FileProblem::Json(Excerpt::new(&error)),
    })
}

/// Reads a file of at most [`LIMIT`] bytes, without a byte-order mark.
fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = minigpt_files::read_file(path, LIMIT)?;
    if bytes.starts_with(b"\xEF\xBB\xBF") {
        bytes.drain(..3);
    }
    Ok(bytes)
}
