//! What a `tokenizer.json` describes, looked at before the `tokenizers` crate builds it.

use crate::error::{Quote, UnsupportedReason};
use serde_json::Value;

/// Refuses what the crate would do, but not as a decoder of a language model needs it, or not within bounds.
pub(super) fn check(described: &Value) -> Result<(), UnsupportedReason> {
    if described["model"]["dropout"].as_f64().is_some_and(|dropout| dropout != 0.0) {
        return Err(UnsupportedReason::Dropout);
    }
    let decoders = stages(described, "decoder");
    let kinds: Vec<&str> = decoders.iter().filter_map(|stage| stage["type"].as_str()).collect();
    let stops = |stage: &&Value| stage["type"] == "Strip" && stage["stop"].as_u64() != Some(0);
    let fused = kinds.iter().position(|&kind| kind == "Fuse").unwrap_or(kinds.len());
    let late = decoders.iter().skip(fused).any(|stage| stage["type"] != "Fuse" && stage["type"] != "Strip");
    if kinds.contains(&"CTC")
        || late
        || decoders.iter().any(stops)
        || (kinds.contains(&"ByteLevel") && kinds.len() > 1)
    {
        let kinds = kinds.into_iter().map(str::to_owned).collect();
        return Err(UnsupportedReason::Decoder { kinds });
    }
    let mut growth = 1.0;
    for stage in stages(described, "normalizer") {
        match stage["type"].as_str() {
            Some("Replace") => growth *= stage["content"].as_str().map_or(0, str::len).max(1) as f64 + 1.0,
            Some("Precompiled") => {
                check_charsmap(stage["precompiled_charsmap"].as_str().unwrap_or_default())?;
            }
            _ => {}
        }
    }
    if growth > 1e6 {
        return Err(UnsupportedReason::NormalizerGrowth);
    }
    for stage in stages(described, "post_processor") {
        let pieces = ["single", "pair"].into_iter().filter_map(|form| stage[form].as_array()).flatten();
        let undefined = |token: &&str| stage["special_tokens"].get(token).is_none();
        if let Some(token) = pieces.filter_map(|piece| piece["SpecialToken"]["id"].as_str()).find(undefined) {
            return Err(UnsupportedReason::TemplateToken(Quote::new(token)));
        }
    }
    Ok(())
}

/// The stages of a part of the pipeline, those of sequences one by one.
fn stages<'a>(described: &'a Value, part: &str) -> Vec<&'a Value> {
    fn add<'a>(stage: &'a Value, found: &mut Vec<&'a Value>) {
        let inner = ["normalizers", "pretokenizers", "decoders", "processors"]
            .iter()
            .find_map(|name| stage[name].as_array());
        match inner {
            Some(inner) => inner.iter().for_each(|stage| add(stage, found)),
            None if stage.is_object() => found.push(stage),
            None => {}
        }
    }
    let mut found = Vec::new();
    add(&described[part], &mut found);
    found
}

pub(super) fn has_stage(described: &Value, part: &str, kind: &str) -> bool {
    stages(described, part).iter().any(|stage| stage["type"] == kind)
}

/// SentencePiece's table begins with its size, for which the crate asks for memory at once.
fn check_charsmap(base64: &str) -> Result<(), UnsupportedReason> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => Some(u32::from(c - b'A')),
        b'a'..=b'z' => Some(u32::from(c - b'a') + 26),
        b'0'..=b'9' => Some(u32::from(c - b'0') + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let bits = base64.bytes().take(6).try_fold(0u64, |bits, c| Some(bits << 6 | u64::from(digit(c)?)));
    let size = bits.filter(|_| base64.len() >= 6).map(|bits| ((bits >> 4) as u32).swap_bytes());
    match size {
        Some(size) if u64::from(size) <= base64.len() as u64 => Ok(()),
        _ => Err(UnsupportedReason::NormalizerTable),
    }
}
