//! The character vocabulary file `{"word2id": {"a": 3, …}, "id2word": {"3": "a", …}}`, or with a list as `id2word`.

use super::ids;
use super::shapes::Words;
use super::unique_map::UniqueMap;
use crate::characters::CharTokenizer;
use crate::error::{Error, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Checks that both halves say the same, and makes a tokenizer of them.
pub(super) fn from_maps(
    path: &Path,
    word2id: Option<UniqueMap<u32>>,
    id2word: Option<Words>,
) -> Result<CharTokenizer> {
    let malformed = |what| Error::Malformed { path: path.to_owned(), what };
    let missing = |name| malformed(format!("a vocabulary file needs {name:?}, and this one has none"));
    let word2id = word2id.ok_or_else(|| missing("word2id"))?;
    let id2word = id2word.ok_or_else(|| missing("id2word"))?;
    let words = ids::in_order(path, word2id.0)?;
    agree(&words, &id2word.0).map_err(malformed)?;
    CharTokenizer::from_words(words).map_err(|error| malformed(error.to_string()))
}

/// Whether `id2word` has exactly these words, each with its place as its id.
fn agree(words: &[String], id2word: &[(String, String)]) -> Result<(), String> {
    let mut named = vec![false; words.len()];
    for (key, word) in id2word {
        let id = key.parse::<usize>().ok().filter(|id| id.to_string() == *key);
        let id = id.ok_or_else(|| format!("id2word: {key:?} is not an id"))?;
        match words.get(id) {
            Some(other) if other == word => named[id] = true,
            Some(other) => return Err(format!("id {id} is {other:?} in word2id and {word:?} in id2word")),
            None => return Err(format!("id2word has {word:?} with id {id}, which word2id lacks")),
        }
    }
    match named.iter().position(|named| !named) {
        Some(id) => Err(format!("word2id has {:?} with id {id}, which id2word lacks", words[id])),
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
    let mut text = Vec::new();
    // As Python writes it with indent=4 and ensure_ascii=False: who has such a file has the very same bytes.
    let indented = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut to = serde_json::Serializer::with_formatter(&mut text, indented);
    File { word2id, id2word }.serialize(&mut to).map_err(|e| Error::Invalid(e.to_string()))?;
    Ok(minigpt_files::write_file(path, &text)?)
}
