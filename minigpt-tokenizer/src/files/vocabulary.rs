//! The character vocabulary file `{"word2id": {"a": 3, …}, "id2word": {"3": "a", …}}`.

use super::ids;
use super::unique_map::UniqueMap;
use super::write::write_json;
use crate::characters::CharTokenizer;
use crate::error::{Error, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Checks that both halves say the same, and makes a tokenizer of them.
pub(super) fn from_maps(
    path: &Path,
    word2id: Option<UniqueMap<u32>>,
    id2word: Option<UniqueMap<String>>,
) -> Result<CharTokenizer> {
    let malformed = |what| Error::Malformed { path: path.to_owned(), what };
    let missing = |name| malformed(format!("a vocabulary file needs {name:?}, and this one has none"));
    let word2id = word2id.ok_or_else(|| missing("word2id"))?;
    let id2word = id2word.ok_or_else(|| missing("id2word"))?;
    let tokens = ids::in_order(path, word2id.0)?;
    let mut named = 0;
    for (key, word) in &id2word.0 {
        let id: u32 = key
            .parse()
            .ok()
            .filter(|id: &u32| id.to_string() == *key)
            .ok_or_else(|| malformed(format!("id2word: {key:?} is not an id")))?;
        match tokens.get(id as usize) {
            Some(token) if token == word => named += 1,
            Some(token) => {
                return Err(malformed(format!("id {id} is {token:?} in word2id and {word:?} in id2word")));
            }
            None => return Err(malformed(format!("id2word has {word:?} with id {id}, which word2id lacks"))),
        }
    }
    if named < tokens.len() {
        let known: std::collections::HashSet<&str> = id2word.0.iter().map(|(key, _)| key.as_str()).collect();
        let id = (0..tokens.len()).find(|id| !known.contains(id.to_string().as_str())).unwrap_or_default();
        return Err(malformed(format!("word2id has {:?} with id {id}, which id2word lacks", tokens[id])));
    }
    let specials: Vec<String> = tokens.iter().filter(|token| is_special(token)).cloned().collect();
    if let Some((id, word)) =
        tokens.iter().enumerate().find(|(_, token)| !is_special(token) && !is_character(token))
    {
        let what =
            format!("the word {word:?} (id {id}) is neither one character nor a special token such as <sep>");
        return Err(malformed(what));
    }
    CharTokenizer::from_tokens(tokens, &specials)
}

fn is_character(token: &str) -> bool {
    token.chars().count() == 1
}

/// `<sep>`, `<|endoftext|>` or `[PAD]`: the file does not mark special tokens, their form does.
fn is_special(token: &str) -> bool {
    let inner = token.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
    let inner = inner.or_else(|| token.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')));
    inner.is_some_and(|name| !name.is_empty() && !name.contains(char::is_whitespace))
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
    write_json(path, &File { word2id, id2word })
}
