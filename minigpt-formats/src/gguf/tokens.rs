//! The tokenizer in the metadata of GGUF files.

use crate::error::{Error, Result};
use crate::gguf::{Contents, GgufProblem, Meta, Value};
use crate::other_tools::NotExpressible;
use minigpt_tokenizer::{BpeTokenizer, END_OF_TEXT, PAD, SEP, Tokenizer};
use std::path::Path;

/// The kinds of tokens in a GGUF file.
const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;

/// The metadata of a byte-level BPE, for a model with room for `vocab_size` tokens. `turn_end` ends what the model says in a
/// chat.
///
/// # Errors
/// The tokenizer is not a byte-level BPE.
pub fn tokenizer_metadata(
    tokenizer: &Tokenizer,
    vocab_size: usize,
    turn_end: Option<u32>,
) -> Result<Vec<(String, Meta)>> {
    let bpe = match tokenizer {
        Tokenizer::Bpe(bpe) => bpe,
        Tokenizer::Char(_) => return Err(NotExpressible::CharacterTokenizer.into()),
        Tokenizer::Pipeline(_) => return Err(NotExpressible::OtherTokenizer.into()),
    };
    let mut tokens = bpe.spelt_tokens();
    let is_special = |token: &String| tokenizer.special_id(token).is_some();
    let mut kinds: Vec<i32> =
        tokens.iter().map(|token| if is_special(token) { CONTROL } else { NORMAL }).collect();
    // A model may have room for more tokens than there are.
    tokens.extend((tokens.len()..vocab_size).map(|id| format!("[unused{id}]")));
    kinds.resize(tokens.len(), UNUSED);
    // llama.cpp stops at the end of a turn and at that of a text. The latter is another token where there is one: our prompts
    // end with `<sep>` too, and llama-cpp-python takes a text that ends with its end for finished before it has begun.
    let special = |names: &[&str]| names.iter().find_map(|name| tokenizer.special_id(name));
    let end =
        special(&[END_OF_TEXT]).or_else(|| special(if turn_end.is_some() { &[PAD, SEP] } else { &[SEP] }));
    let end = end.or(turn_end);
    let mut metadata = vec![
        ("tokenizer.ggml.model", Meta::Str("gpt2".to_owned())),
        ("tokenizer.ggml.pre", Meta::Str("gpt-2".to_owned())),
        ("tokenizer.ggml.tokens", Meta::Strs(tokens)),
        ("tokenizer.ggml.token_type", Meta::I32s(kinds)),
        ("tokenizer.ggml.merges", Meta::Strs(bpe.spelt_merges())),
        ("tokenizer.ggml.add_bos_token", Meta::Bool(false)),
    ];
    metadata.extend(turn_end.map(|id| ("tokenizer.ggml.eot_token_id", Meta::U32(id))));
    if let Some(end) = end {
        let ids =
            ["tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.unknown_token_id"];
        metadata.extend(ids.map(|name| (name, Meta::U32(end))));
    }
    Ok(metadata.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// The tokenizer in a GGUF file, if there is one; `path` is for messages.
///
/// # Errors
/// The tokenizer is not GPT-2's kind of BPE, or the metadata is inconsistent.
pub fn tokenizer(bytes: &[u8], path: &Path) -> Result<Option<Tokenizer>> {
    let contents = Contents::read(bytes).map_err(|problem| Error::bad(path, problem))?;
    let Some(kind) = contents.text("tokenizer.ggml.model") else { return Ok(None) };
    let pre = contents.text("tokenizer.ggml.pre").unwrap_or("gpt-2");
    if kind != "gpt2" || pre != "gpt-2" {
        let (kind, pre) = (kind.to_owned(), pre.to_owned());
        return Err(Error::bad(path, GgufProblem::Tokenizer { kind, pre }));
    }
    let texts = |name: &str| match contents.value(name) {
        Some(Value::Strs(texts)) => Ok(&texts[..]),
        _ => Err(Error::bad(path, GgufProblem::Missing(name.to_owned()))),
    };
    let (tokens, merges) = (texts("tokenizer.ggml.tokens")?, texts("tokenizer.ggml.merges")?);
    let kind = |id: usize| match contents.value("tokenizer.ggml.token_type") {
        Some(Value::Ints(kinds)) => kinds.get(id).copied().unwrap_or(NORMAL.into()),
        _ => NORMAL.into(),
    };
    // Room that the model has for more tokens is not a part of the tokenizer.
    let used = (0..tokens.len()).rev().find(|&id| kind(id) != i64::from(UNUSED)).map_or(0, |last| last + 1);
    let is_special = |id: &usize| kind(*id) == i64::from(CONTROL) || kind(*id) == i64::from(USER_DEFINED);
    let specials: Vec<String> = (0..used).filter(is_special).map(|id| tokens[id].clone()).collect();
    Ok(Some(Tokenizer::Bpe(BpeTokenizer::from_spelt(path, &tokens[..used], merges, &specials)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf;
    use minigpt_model::{Config, Device, Gpt};

    /// A file with these tokens, for a model with room for `vocab_size`.
    fn file(metadata: Vec<(String, Meta)>, vocab_size: usize) -> Vec<u8> {
        let config =
            Config { vocab_size, block_size: 4, n_layer: 1, n_head: 1, n_embd: 8, ..Config::default() };
        let gpt = Gpt::new(config, 1, &Device::Cpu).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        gguf::save(gpt.view(), metadata, gguf::FileType::F32, &path, &mut |_, _| {}).unwrap();
        std::fs::read(path).unwrap()
    }

    #[test]
    fn tokens_come_back_as_they_were() {
        let gpt2 = Tokenizer::gpt2();
        let bytes = file(tokenizer_metadata(&gpt2, 50_304, None).unwrap(), 50_304);
        let read = tokenizer(&bytes, Path::new("x")).unwrap().unwrap();
        assert_eq!(read.vocab_size(), 50_257);
        let text = "Hello, 世界! <|endoftext|> it's   fine\n";
        assert_eq!(read.encode(text).unwrap(), gpt2.encode(text).unwrap());
        assert_eq!(read.encode_with_special(text).unwrap(), gpt2.encode_with_special(text).unwrap());
    }

    #[test]
    fn tokenizers_that_are_not_ours_are_refused_and_none_is_none() {
        let with = |name: &str, value: &str| {
            let mut metadata = tokenizer_metadata(&Tokenizer::gpt2(), 50_257, None).unwrap();
            metadata.retain(|(key, _)| key != name);
            metadata.push((name.to_owned(), Meta::Str(value.to_owned())));
            tokenizer(&file(metadata, 50_257), Path::new("x")).unwrap_err().to_string()
        };
        assert!(with("tokenizer.ggml.model", "llama").contains("\"llama\""));
        assert!(with("tokenizer.ggml.pre", "qwen2").contains("\"qwen2\""));
        assert!(with("tokenizer.ggml.merges", "x").contains("merges is missing"));
        assert!(tokenizer(&file(Vec::new(), 9), Path::new("x")).unwrap().is_none());
        let twice = vec![
            ("tokenizer.ggml.model".to_owned(), Meta::Str("gpt2".to_owned())),
            ("tokenizer.ggml.tokens".to_owned(), Meta::Strs(vec!["a".to_owned(), "a".to_owned()])),
            ("tokenizer.ggml.merges".to_owned(), Meta::Strs(Vec::new())),
        ];
        let error = tokenizer(&file(twice, 9), Path::new("x")).unwrap_err().to_string();
        assert!(error.contains("appears twice"), "{error}");
    }
}
