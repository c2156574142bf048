//! GPT-2's original pair of files: `vocab.json`, tokens with their ids, and `merges.txt`, one merge per line.

use super::unique_map::UniqueMap;
use super::{ids, read, read_json, spelt};
use crate::error::{Error, FileProblem, Quote, Result};
use crate::tokenizer::Tokenizer;
use std::collections::HashSet;
use std::path::Path;

/// Opens both; `<names>` that no merge makes, such as `<|endoftext|>`, are special.
pub(super) fn open(vocab_path: &Path, merges_path: &Path) -> Result<Tokenizer> {
    let vocab: UniqueMap<u32> = read_json(vocab_path)?;
    let tokens = ids::in_order(vocab_path, vocab.0)?;
    let merges = read_merges(merges_path)?;
    let made: HashSet<String> = merges.iter().map(|(left, right)| format!("{left}{right}")).collect();
    let is_special = |token: &str| {
        token.len() > 2 && token.starts_with('<') && token.ends_with('>') && !made.contains(token)
    };
    let specials: Vec<String> = tokens.iter().filter(|token| is_special(token)).cloned().collect();
    spelt::bpe(vocab_path, &tokens, &merges, &specials).map(Tokenizer::Bpe)
}

fn read_merges(path: &Path) -> Result<Vec<(String, String)>> {
    let malformed = |problem| Error::Malformed { path: path.to_owned(), problem };
    let text = String::from_utf8(read(path)?)
        .map_err(|error| malformed(FileProblem::NotUtf8(error.utf8_error().valid_up_to())))?;
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with("#version"))
        .map(|(number, line)| {
            let problem = || FileProblem::MergeLine { line: number + 1, text: Quote::new(line) };
            split_merge(line).ok_or_else(|| malformed(problem()))
        })
        .collect()
}

/// `Ġ t` is two tokens with one space between them.
pub(super) fn split_merge(line: &str) -> Option<(String, String)> {
    let (left, right) = line.split_once(' ')?;
    (!left.is_empty() && !right.is_empty() && !right.contains(' '))
        .then(|| (left.to_owned(), right.to_owned()))
}
