//! The character vocabulary file `{"word2id": {"a": 3, …}, "id2word": {"3": "a", …}}`, or with a list as `id2word`.

use super::ids;
use super::shapes::Words;
use super::unique_map::UniqueMap;
use crate::characters::CharTokenizer;
use crate::error::{Error, FileProblem, Quote, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Checks that both halves say the same, and makes a tokenizer of them.
pub(super) fn from_maps(
    path: &Path,
    word2id: Option<UniqueMap<u32>>,
    id2word: Option<Words>,
) -> Result<CharTokenizer> {
    let malformed = |problem| Error::Malformed { path: path.to_owned(), problem };
    let missing = |key| malformed(FileProblem::MissingKey(key));
    let word2id = word2id.ok_or_else(|| missing("word2id"))?;
    let id2word = id2word.ok_or_else(|| missing("id2word"))?;
    let words = ids::in_order(path, word2id.0)?;
    agree(&words, &id2word.0).map_err(malformed)?;
    CharTokenizer::from_words(words).map_err(|error| malformed(FileProblem::Contents(Box::new(error))))
}

/// Whether `id2word` has exactly these words, each with its place as its id.
fn agree(words: &[String], id2word: &[(String, String)]) -> Result<(), FileProblem> {
    let mut named = vec![false; words.len()];
    for (key, word) in id2word {
        let id = key.parse::<usize>().ok().filter(|id| id.to_string() == *key);
        let id = id.ok_or_else(|| FileProblem::NotAnId(Quote::new(key)))?;
        match words.get(id) {
            Some(other) if other == word => named[id] = true,
            Some(other) => {
                let (in_word2id, in_id2word) = (Quote::new(other), Quote::new(word));
                return Err(FileProblem::WordsDisagree { id, in_word2id, in_id2word });
            }
            None => return Err(FileProblem::NotInWord2Id { word: Quote::new(word), id }),
        }
    }
    match named.iter().position(|named| !named) {
        Some(id) => Err(FileProblem::NotInId2Word { word: Quote::new(&words[id]), id }),
        None => Ok(()),
    }
}

/// Writes a character vocabulary in this form.
pub(crate) fn save_vocabulary(tokenizer: &CharTokenizer, path: &Path) -> Result<()> {
    #[derive(Serialize)]
    struct File<'a> {
        word2id: serde_json::Map<String, serde_json::Value>,
        id2word: BTreeMap<usize, &'a str>,
    }
    let tokens = tokenizer.tokens();
    let word2id = tokens.iter().enumerate().map(|(id, token)| (token.clone(), id.into())).collect();
    let id2word = tokens.iter().map(String::as_str).enumerate().collect();
    let failed = |error: serde_json::Error| Error::Write { path: path.to_owned(), source: error.into() };
    let mut text = Vec::new();
    // As Python writes it with indent=4 and ensure_ascii=False: the same bytes.
    let indented = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut to = serde_json::Serializer::with_formatter(&mut text, indented);
    File { word2id, id2word }.serialize(&mut to).map_err(failed)?;
    Ok(minigpt_files::write_file(path, &text)?)
}
