//! `minigpt tokenizer decode`: ids to text.

use super::Choice;
use crate::input::{self, MOST_TO_ENCODE};
use crate::language::local;
use crate::language::messages::tokenizer as message;
use crate::output;
use anyhow::{Context, Result, anyhow};
use clap::Args;
use minigpt_tokenizer::PAD;
use serde::{Deserialize, Serialize};

#[derive(Args)]
pub(super) struct DecodeArgs {
    #[command(flatten)]
    tokenizer: Choice,
    /// Token ids, such as 15496,995. Default: standard input.
    #[arg(value_name = "IDS")]
    ids: Vec<String>,
    /// Show padding (<pad>), which is left out otherwise.
    #[arg(long)]
    special: bool,
    /// Print {"text"} as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Answer {
    text: String,
    /// Bytes at the end that begin a character and don't finish it.
    #[serde(skip_serializing_if = "Option::is_none")]
    incomplete: Option<Vec<u8>>,
}

pub(super) fn run(args: &DecodeArgs) -> Result<()> {
    let tokenizer = args.tokenizer.open()?;
    let ids = if args.ids.is_empty() {
        parse(&input::text(message::ListOfIds.text(), MOST_TO_ENCODE)?)?
    } else {
        parse(&args.ids.join(" "))?
    };
    let mut decoder = tokenizer.decoder();
    let mut text = String::new();
    let padding = tokenizer.special_id(PAD).filter(|_| !args.special);
    for id in ids {
        if Some(id) != padding {
            text.push_str(&decoder.push(id)?);
        }
    }
    let incomplete = decoder.finish();
    text.push_str(incomplete.as_ref().map_or("", |rest| rest.text()));
    if args.json {
        return output::json(&Answer { text, incomplete: incomplete.map(|rest| rest.bytes) });
    }
    output::written(&text)?;
    if let Some(rest) = incomplete {
        output::note(format!("\n{}", message::Incomplete { problem: local(&rest) }));
    }
    Ok(())
}

/// Numbers between spaces or commas, a JSON list of them, or what `encode --json` prints.
fn parse(text: &str) -> Result<Vec<u32>> {
    #[derive(Deserialize)]
    struct Encoded {
        ids: Vec<u32>,
    }
    let text = text.trim_start_matches('\u{FEFF}').trim();
    if text.starts_with('{') {
        let encoded: Encoded = serde_json::from_str(text).context(message::IdsNotJson)?;
        return Ok(encoded.ids);
    }
    if text.starts_with('[') {
        return serde_json::from_str(text).context(message::IdsNotJson);
    }
    let numbers = text.split(|c: char| c.is_whitespace() || c == ',').filter(|part| !part.is_empty());
    numbers
        .enumerate()
        .map(|(position, part)| {
            let shown: String = part.chars().take(40).collect();
            part.parse().map_err(|_| anyhow!("{}", message::NotAnId { shown: &shown, position: &position }))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_in_each_form() {
        for text in [
            "1 2 3",
            "1,2,3",
            " 1, 2,\n3\n",
            "[1, 2, 3]",
            r#"{"ids": [1, 2, 3], "count": 3}"#,
            "\u{FEFF}1 2 3",
        ] {
            assert_eq!(parse(text).unwrap(), [1, 2, 3], "{text:?}");
        }
        assert_eq!(parse(" \n").unwrap(), [0_u32; 0]);
    }

    #[test]
    fn what_is_not_an_id_is_named_with_its_position() {
        let error = |text: &str| format!("{:#}", parse(text).unwrap_err());
        assert_eq!(error("1 two 3"), r#""two" at position 1 is not an id"#);
        assert_eq!(error("-1"), r#""-1" at position 0 is not an id"#);
        assert_eq!(error("4294967296"), r#""4294967296" at position 0 is not an id"#);
        assert!(error("[1, \"2\"]").contains("invalid type: string"));
        assert!(error(r#"{"ids": [1], "ids": [2]}"#).contains("duplicate field `ids`"));
        assert!(error(r#"{"text": "a"}"#).contains("missing field `ids`"));
    }
}
