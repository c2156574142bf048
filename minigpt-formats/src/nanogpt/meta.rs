//! nanoGPT's `meta.pkl`: a vocabulary of characters as a pickle, read as data.

use crate::error::{Error, Result};
use crate::torch::{self, PickleWriter, Value};
use minigpt_tokenizer::{CharTokenizer, Tokenizer};
use std::path::Path;

/// No vocabulary of characters is larger than this.
const LARGEST: u64 = 64 << 20;

/// The tokenizer of a vocabulary.
pub fn read_meta(path: &Path) -> Result<Tokenizer> {
    let bytes = minigpt_files::read_file(path, LARGEST)?;
    let words = torch::read(&bytes).and_then(|meta| words(&meta));
    let words = words.map_err(|message| Error::bad(path, message))?;
    let tokenizer = CharTokenizer::from_words(words).map_err(|e| Error::bad(path, e.to_string()))?;
    Ok(Tokenizer::Char(tokenizer))
}

/// The words in the order of their ids.
fn words(meta: &Value) -> Result<Vec<String>, String> {
    let Some(Value::Dict(pairs)) = meta.get("stoi") else {
        return Err("has no stoi: not nanoGPT's".to_owned());
    };
    let mut words = vec![None; pairs.len()];
    for (name, id) in pairs.iter() {
        match (name.as_str(), id.as_size().and_then(|id| words.get_mut(id))) {
            (Some(word), Some(place)) => *place = Some(word.to_owned()),
            _ => return Err("stoi does not number characters from 0 on".to_owned()),
        }
    }
    words.into_iter().collect::<Option<_>>().ok_or_else(|| "stoi leaves out a number".to_owned())
}

/// nanoGPT's `meta.pkl` of a vocabulary: `{"vocab_size", "itos", "stoi"}` as a pickle.
pub fn meta_pkl(tokens: &[String]) -> Vec<u8> {
    PickleWriter::pickle(|out| {
        out.dict(|out| {
            out.text("vocab_size");
            out.int(tokens.len());
            out.text("itos");
            out.dict(|out| {
                for (id, token) in tokens.iter().enumerate() {
                    out.int(id);
                    out.text(token);
                }
            });
            out.text("stoi");
            out.dict(|out| {
                for (id, token) in tokens.iter().enumerate() {
                    out.text(token);
                    out.int(id);
                }
            });
        });
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A vocabulary that went to nanoGPT and came back.
    fn back(words: &[&str]) -> Result<Tokenizer> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("meta.pkl");
        fs::write(&path, meta_pkl(&words)).unwrap();
        read_meta(&path)
    }

    #[test]
    fn a_vocabulary_goes_to_nanogpt_and_back() {
        assert_eq!(back(&["\n", "a", "你"]).unwrap().encode("你a\n").unwrap(), [2, 1, 0]);
        let special = back(&["<pad>", "<sep>", "你"]).unwrap();
        assert_eq!(special.encode_with_special("你<sep>").unwrap(), [2, 1]);
        assert_eq!(
            torch::read(&meta_pkl(&["a".to_owned()])).unwrap().get("vocab_size"),
            Some(&Value::Int(1))
        );
        for strange in [&["ab"][..], &[""], &["a", "a"]] {
            assert!(back(strange).is_err(), "{strange:?}");
        }
    }
}
