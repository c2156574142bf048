//! Models that other tools wrote, and whether they are still the same models here.

use anyhow::{Context, Result, bail, ensure};
use minigpt_data::TokenizerChoice;
use minigpt_model::pickle::{self, Value};
use minigpt_model::{Device, Gpt, folder};
use minigpt_tokenizer::{CharTokenizer, Tokenizer};
use std::fs;
use std::path::Path;

/// A model from elsewhere.
#[derive(Debug)]
pub struct Foreign {
    /// What it was.
    pub kind: &'static str,
    /// The decoder.
    pub gpt: Gpt,
    /// Its tokenizer, and where that came from.
    pub tokenizer: Option<(Tokenizer, String)>,
}

/// GPT-2's tokens; nanoGPT rounds their number up.
const GPT2_TOKENS: [usize; 2] = [50_257, 50_304];
/// No vocabulary of characters is larger than this.
const LARGEST_META: u64 = 64 << 20;

impl Foreign {
    /// Opens a Hugging Face folder or a checkpoint of nanoGPT. The tokenizer is the one that is named (`gpt2`, a file, a
    /// folder, nanoGPT's `meta.pkl`), or the one that lies beside the model.
    pub fn open(source: &Path, tokenizer: Option<&str>, device: &Device) -> Result<Self> {
        ensure!(source.exists(), "{}: there is no such file or folder", source.display());
        let (kind, gpt) = match source.is_dir() {
            true => ("Hugging Face folder", folder::load(source, device)?),
            false => ("nanoGPT checkpoint", folder::load_nanogpt(source, device)?),
        };
        let tokenizer = match tokenizer {
            Some(name) => Some((named(name)?, name.to_owned())),
            None => beside(source, &gpt)?,
        };
        if let Some((tokenizer, name)) = &tokenizer {
            let (tokens, vocab_size) = (tokenizer.vocab_size(), gpt.config().vocab_size);
            ensure!(
                tokens <= vocab_size,
                "{name} has {tokens} tokens, but the model was made for {vocab_size}: these do not belong together"
            );
        }
        Ok(Self { kind, gpt, tokenizer })
    }
}

fn named(name: &str) -> Result<Tokenizer> {
    let path = Path::new(name);
    if path.extension().is_some_and(|end| end == "pkl") {
        return meta(path);
    }
    match name.parse() {
        Ok(choice @ (TokenizerChoice::Gpt2 | TokenizerChoice::File(_))) => {
            choice.ready()?.context("there is no such tokenizer")
        }
        _ => bail!("--tokenizer {name}: a model that is there needs the tokenizer that it was trained with"),
    }
}

/// The tokenizer in a model's folder, or the vocabulary beside a checkpoint, or GPT-2's if the number of tokens is its.
fn beside(source: &Path, gpt: &Gpt) -> Result<Option<(Tokenizer, String)>> {
    if source.is_dir() {
        let held = ["tokenizer.json", "vocab.json"].iter().find(|name| source.join(name).exists());
        return match held {
            Some(name) => Ok(Some((Tokenizer::open(source)?, (*name).to_owned()))),
            None => Ok(None),
        };
    }
    let path = source.with_file_name("meta.pkl");
    if path.exists() {
        return Ok(Some((meta(&path)?, "meta.pkl".to_owned())));
    }
    let is_gpt2 = GPT2_TOKENS.contains(&gpt.config().vocab_size);
    Ok(is_gpt2.then(|| (Tokenizer::gpt2(), "gpt2, by its number of tokens".to_owned())))
}

/// nanoGPT's vocabulary of characters.
fn meta(path: &Path) -> Result<Tokenizer> {
    let size = fs::metadata(path).with_context(|| format!("{}: can't be read", path.display()))?.len();
    ensure!(size <= LARGEST_META, "{}: {size} bytes are too many for a vocabulary", path.display());
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

/// The largest difference between the logits of two models for a fixed prompt, and the largest logit.
pub fn compare_logits(one: &Gpt, other: &Gpt) -> Result<(f32, f32)> {
    let config = one.config();
    let length = config.block_size.min(32);
    let ids: Vec<u32> = (0..length).map(|i| ((i * 7919 + 11) % config.vocab_size) as u32).collect();
    let logits =
        |gpt: &Gpt| -> Result<Vec<f32>> { Ok(gpt.logits(&gpt.ids(&[&ids])?)?.flatten_all()?.to_vec1()?) };
    let (one, other) = (logits(one)?, logits(other)?);
    ensure!(one.len() == other.len(), "the two models have different vocabularies");
    let difference = one.iter().zip(&other).fold(0f32, |most, (a, b)| most.max((a - b).abs()));
    Ok((difference, one.iter().fold(0f32, |most, a| most.max(a.abs()))))
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
