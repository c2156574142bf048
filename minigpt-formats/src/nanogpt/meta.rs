//! nanoGPT's `meta.pkl`: a vocabulary of characters as a pickle, read as data.

use super::MetaProblem;
use crate::error::{Error, Result};
use crate::torch::{self, PickleWriter, Value};
use minigpt_tokenizer::{CharTokenizer, Tokenizer};
use std::collections::HashMap;
use std::path::Path;

/// No vocabulary of characters is larger than this.
const LARGEST: u64 = 64 << 20;

/// The tokenizer of a vocabulary.
pub fn read_meta(path: &Path) -> Result<Tokenizer> {
    let bytes = minigpt_files::read_file(path, LARGEST)?;
    Ok(Tokenizer::Char(characters(&bytes).map_err(|problem| Error::bad(path, problem))?))
}

fn characters(bytes: &[u8]) -> Result<CharTokenizer, MetaProblem> {
    Ok(CharTokenizer::from_words(words(&torch::read(bytes)?)?)?)
}

/// The words in the order of their ids.
fn words(meta: &Value) -> Result<Vec<String>, MetaProblem> {
    let Some(Value::Dict(pairs)) = meta.get("stoi") else { return Err(MetaProblem::NoStoi) };
    let mut words = vec![None; pairs.len()];
    for (name, id) in pairs.iter() {
        match (name.as_str(), id.as_size().and_then(|id| words.get_mut(id))) {
            (Some(word), Some(place)) => *place = Some(word.to_owned()),
            _ => return Err(MetaProblem::Numbering),
        }
    }
    let words: Option<Vec<String>> = words.into_iter().collect();
    let words = words.ok_or(MetaProblem::Gap)?;
    agree(meta, &words)?;
    Ok(words)
}

/// Checks the vocabulary the other way round: nanoGPT encodes with `stoi`, decodes with `itos` and makes a model of
/// `vocab_size` tokens.
fn agree(meta: &Value, words: &[String]) -> Result<(), MetaProblem> {
    if let Some(size) = meta.get("vocab_size")
        && size.as_size() != Some(words.len())
    {
        return Err(MetaProblem::VocabSize { characters: words.len() });
    }
    let listed: HashMap<usize, &str> = match meta.get("itos") {
        // There is no need of it here: stoi says it all.
        None => return Ok(()),
        Some(Value::Dict(pairs)) => {
            pairs.iter().filter_map(|(id, word)| Some((id.as_size()?, word.as_str()?))).collect()
        }
        Some(words) => {
            let words = words.as_list().ok_or(MetaProblem::Itos)?;
            words.iter().enumerate().filter_map(|(id, word)| Some((id, word.as_str()?))).collect()
        }
    };
    if listed.len() != words.len() {
        return Err(MetaProblem::Counts { stoi: words.len(), itos: listed.len() });
    }
    let known = |id: usize| listed.get(&id).copied();
    match words.iter().enumerate().find(|(id, word)| known(*id) != Some(word.as_str())) {
        Some((id, word)) => {
            Err(MetaProblem::Disagree { id, word: word.clone(), other: known(id).map(str::to_owned) })
        }
        None => Ok(()),
    }
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

    /// What is said of a vocabulary whose `itos` and `vocab_size` are these.
    fn said(itos: &[(usize, &str)], vocab_size: usize) -> String {
        let bytes = PickleWriter::pickle(|out| {
            out.dict(|out| {
                out.text("vocab_size");
                out.int(vocab_size);
                out.text("stoi");
                out.dict(|out| {
                    for (id, word) in ["a", "b"].iter().enumerate() {
                        out.text(word);
                        out.int(id);
                    }
                });
                out.text("itos");
                out.dict(|out| {
                    for (id, word) in itos {
                        out.int(*id);
                        out.text(word);
                    }
                });
            });
        });
        let words = words(&torch::read(&bytes).unwrap());
        words.err().map_or(String::new(), |problem| problem.to_string())
    }

    #[test]
    fn a_vocabulary_whose_halves_disagree_is_refused_with_the_character() {
        assert_eq!(said(&[(0, "a"), (1, "b")], 2), "");
        assert_eq!(
            said(&[(0, "b"), (1, "a")], 2),
            "stoi and itos disagree: 0 is \"a\" in stoi and \"b\" in itos"
        );
        assert_eq!(
            said(&[(0, "a"), (7, "b")], 2),
            "stoi and itos disagree: 1 is \"b\" in stoi and nothing in itos"
        );
        assert_eq!(said(&[(0, "a")], 2), "stoi has 2 characters, itos has 1");
        assert!(said(&[(0, "a"), (1, "b")], 3).contains("vocab_size is not the number of characters"));
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
