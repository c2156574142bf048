//! nanoGPT's `meta.pkl`: a vocabulary of characters as a pickle, read as data.

use anyhow::{Context, Result, ensure};
use minigpt_model::pickle::{self, Value};
use minigpt_tokenizer::{CharTokenizer, Tokenizer};
use std::fs;
use std::path::Path;

/// No vocabulary of characters is larger than this.
const LARGEST: u64 = 64 << 20;

/// The tokenizer of a vocabulary.
pub fn read_meta(path: &Path) -> Result<Tokenizer> {
    let size = fs::metadata(path).with_context(|| format!("{}: can't be read", path.display()))?.len();
    ensure!(size <= LARGEST, "{}: {size} bytes are too many for a vocabulary", path.display());
    let bytes = fs::read(path).with_context(|| format!("{}: can't be read", path.display()))?;
    let characters = pickle::read(&bytes).and_then(|meta| characters(&meta));
    let characters = characters.map_err(|e| anyhow::anyhow!("{}: {e}", path.display()))?;
    Ok(Tokenizer::Char(CharTokenizer::from_characters(&characters)?))
}

/// The characters in the order of their ids.
fn characters(meta: &Value) -> Result<Vec<char>, String> {
    let Some(Value::Dict(pairs)) = meta.get("stoi") else {
        return Err("has no stoi: not nanoGPT's".to_owned());
    };
    let mut characters = vec![None; pairs.len()];
    for (name, id) in pairs.iter() {
        let mut text = name.as_str().unwrap_or_default().chars();
        let place = id.as_size().and_then(|id| characters.get_mut(id));
        match (text.next(), text.next(), place) {
            (Some(character), None, Some(place)) => *place = Some(character),
            _ => return Err("stoi does not number single characters from 0 on".to_owned()),
        }
    }
    characters.into_iter().collect::<Option<_>>().ok_or_else(|| "stoi leaves out a number".to_owned())
}

/// nanoGPT's `meta.pkl` of a vocabulary: `{"vocab_size", "itos", "stoi"}` as a pickle.
pub fn nanogpt_meta(tokens: &[String]) -> Vec<u8> {
    let mut out = b"\x80\x02}(".to_vec();
    let text = |out: &mut Vec<u8>, text: &str| {
        out.push(b'X');
        out.extend((text.len() as u32).to_le_bytes());
        out.extend(text.as_bytes());
    };
    let number = |out: &mut Vec<u8>, number: usize| {
        out.push(b'J');
        out.extend((number as i32).to_le_bytes());
    };
    text(&mut out, "vocab_size");
    number(&mut out, tokens.len());
    for (name, by_id) in [("itos", true), ("stoi", false)] {
        text(&mut out, name);
        out.extend(b"}(");
        for (id, token) in tokens.iter().enumerate() {
            if by_id {
                number(&mut out, id);
                text(&mut out, token);
            } else {
                text(&mut out, token);
                number(&mut out, id);
            }
        }
        out.push(b'u');
    }
    out.extend(b"u.");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vocabulary_goes_to_nanogpt_and_back() {
        let tokens: Vec<String> = ["\n", "a", "你"].map(str::to_owned).to_vec();
        let meta = pickle::read(&nanogpt_meta(&tokens)).unwrap();
        assert_eq!(meta.get("vocab_size"), Some(&Value::Int(3)));
        assert_eq!(characters(&meta).unwrap(), ['\n', 'a', '你']);
        let strange = [("ab", 0), ("", 0)].map(|(name, _)| nanogpt_meta(&[name.to_owned()]));
        assert!(strange.iter().all(|meta| characters(&pickle::read(meta).unwrap()).is_err()));
    }
}
