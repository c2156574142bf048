//! What llama.cpp wants to know about a model's tokens.

use anyhow::{Result, bail};
use minigpt_data::SEP;
use minigpt_model::gguf::Meta;
use minigpt_tokenizer::{END_OF_TEXT, Tokenizer};

/// The kinds of tokens in a GGUF file.
const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
const UNUSED: i32 = 5;

/// The metadata of a byte-level BPE, for a model with room for `vocab_size` tokens.
///
/// # Errors
/// A vocabulary of characters: llama.cpp has no such tokenizer.
pub fn gguf_tokens(tokenizer: &Tokenizer, vocab_size: usize) -> Result<Vec<(String, Meta)>> {
    let Tokenizer::Bpe(bpe) = tokenizer else {
        bail!(
            "the model's vocabulary is one of characters, which llama.cpp can't tokenize; train it with a BPE"
        );
    };
    let mut tokens = bpe.spelt_tokens();
    let is_special = |token: &String| tokenizer.special_id(token).is_some();
    let mut kinds: Vec<i32> =
        tokens.iter().map(|token| if is_special(token) { CONTROL } else { NORMAL }).collect();
    // A model may have room for more tokens than there are.
    tokens.extend((tokens.len()..vocab_size).map(|id| format!("[unused{id}]")));
    kinds.resize(tokens.len(), UNUSED);
    let end = tokenizer.special_id(END_OF_TEXT).or_else(|| tokenizer.special_id(SEP));
    let mut metadata = vec![
        ("tokenizer.ggml.model", Meta::Str("gpt2".to_owned())),
        ("tokenizer.ggml.pre", Meta::Str("gpt-2".to_owned())),
        ("tokenizer.ggml.tokens", Meta::Strs(tokens)),
        ("tokenizer.ggml.token_type", Meta::I32s(kinds)),
        ("tokenizer.ggml.merges", Meta::Strs(bpe.spelt_merges())),
        ("tokenizer.ggml.add_bos_token", Meta::Bool(false)),
    ];
    if let Some(end) = end {
        let ids =
            ["tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.unknown_token_id"];
        metadata.extend(ids.map(|name| (name, Meta::U32(end))));
    }
    Ok(metadata.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
