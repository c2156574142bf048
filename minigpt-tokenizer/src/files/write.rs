//! Writing a tokenizer as Hugging Face tools expect it, each file whole or not at all.

use super::tokenizer_json::EVERY_CHARACTER;
use crate::bpe::BpeTokenizer;
use crate::characters::{CharTokenizer, UNK};
use crate::error::{Error, Result};
use crate::gpt2::END_OF_TEXT;
use crate::special::Specials;
use crate::tokenizer::Tokenizer;
use minigpt_files::write_file;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Writes `tokenizer.json` and `tokenizer_config.json` into a folder, creating it if needed.
pub(crate) fn save(tokenizer: &Tokenizer, folder: &Path) -> Result<()> {
    let failed = |source| Error::CreateFolder { path: folder.to_owned(), source };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let description = match tokenizer {
        Tokenizer::Char(tokenizer) => characters(tokenizer),
        Tokenizer::Bpe(tokenizer) => bpe(tokenizer),
        Tokenizer::Pipeline(tokenizer) => {
            write_file(&folder.join("tokenizer.json"), tokenizer.file())?;
            let path = folder.join("tokenizer_config.json");
            return match tokenizer.config() {
                Some(config) => Ok(write_file(&path, config)?),
                None => write_json(&path, &config(tokenizer.specials())),
            };
        }
    };
    write_json(&folder.join("tokenizer.json"), &description)?;
    write_json(&folder.join("tokenizer_config.json"), &config(tokenizer.specials()))
}

/// Writes JSON into a file, whole or not at all.
pub(super) fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let failed = |source| Error::Write { path: path.to_owned(), source };
    let mut text = serde_json::to_vec_pretty(value).map_err(|e| failed(e.into()))?;
    text.push(b'\n');
    Ok(write_file(path, &text)?)
}

fn bpe(tokenizer: &BpeTokenizer) -> Value {
    let tokens = tokenizer.spelt_tokens().into_iter().zip(0u32..);
    let vocab: Map<String, Value> = tokens.map(|(token, id)| (token, id.into())).collect();
    let merges = tokenizer.spelt_merges();
    let byte_level = json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true
    });
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added_tokens(tokenizer.specials()),
        "normalizer": null,
        "pre_tokenizer": byte_level,
        "post_processor": null,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "ignore_merges": false,
            "vocab": vocab,
            "merges": merges
        }
    })
}

fn characters(tokenizer: &CharTokenizer) -> Value {
    let vocab: Map<String, Value> =
        tokenizer.tokens().iter().enumerate().map(|(id, token)| (token.clone(), id.into())).collect();
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added_tokens(tokenizer.specials()),
        "normalizer": null,
        "pre_tokenizer": {
            "type": "Split", "pattern": {"Regex": EVERY_CHARACTER}, "behavior": "Isolated", "invert": false
        },
        "post_processor": null,
        "decoder": {"type": "Fuse"},
        // The format requires a name. If the vocabulary lacks it, an unknown character is an error there too.
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": UNK}
    })
}

fn added_tokens(specials: &Specials) -> Vec<Value> {
    let token = |(content, id): (&str, u32)| {
        json!({
            "id": id,
            "content": content,
            "single_word": false,
            "lstrip": false,
            "rstrip": false,
            "normalized": false,
            "special": true
        })
    };
    specials.iter().map(token).collect()
}

/// The part that `transformers` reads beside `tokenizer.json`: which special token has which role.
fn config(specials: &Specials) -> Value {
    let mut config = Map::new();
    config.insert("tokenizer_class".to_owned(), "PreTrainedTokenizerFast".into());
    config.insert("clean_up_tokenization_spaces".to_owned(), false.into());
    let roles = [
        ("bos_token", END_OF_TEXT),
        ("eos_token", END_OF_TEXT),
        ("unk_token", UNK),
        ("pad_token", "<pad>"),
        ("sep_token", "<sep>"),
    ];
    for (role, token) in roles {
        if specials.id(token).is_some() {
            config.insert(role.to_owned(), token.into());
        }
    }
    config.into()
}
