//! Tokens for the page: their name, and their bytes, so that parts of one character can be joined there.

use super::state::InspectedModel;
use crate::problem::Problem;
use minigpt_insight::Reading;
use minigpt_tokenizer::Tokenizer;
use serde_json::{Value, json};

/// A token's text; of one that is a part of a character its bytes, `⟨E4 BD⟩`.
pub(super) fn name(tokenizer: &Tokenizer, id: u32) -> Option<String> {
    let bytes = tokenizer.token_bytes(id)?;
    Some(match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => {
            format!("⟨{}⟩", bytes.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(" "))
        }
    })
}

/// The bytes of a token in hexadecimal digits.
fn bytes(model: &InspectedModel, id: u32) -> Option<String> {
    let bytes = model.tokenizer.as_ref()?.token_bytes(id)?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Tokens with their names and bytes.
pub(super) fn names(model: &InspectedModel, ids: &[u32]) -> Vec<Value> {
    let token = |id: u32| model.tokenizer.as_ref().and_then(|tokenizer| name(tokenizer, id));
    ids.iter()
        .take(1 << 16)
        .map(|&id| json!({ "id": id, "token": token(id), "bytes": bytes(model, id) }))
        .collect()
}

/// A reading with the ids and the bytes of its tokens.
pub(super) fn read_tokens(model: &InspectedModel, ids: &[u32], reading: &Reading) -> Result<Value, Problem> {
    let mut value = serde_json::to_value(reading).map_err(|error| Problem::internal(error.to_string()))?;
    if let Some(tokens) = value["tokens"].as_array_mut() {
        for (token, &id) in tokens.iter_mut().zip(ids) {
            token["bytes"] = json!(bytes(model, id));
        }
    }
    value["ids"] = json!(ids);
    Ok(value)
}
