//! What a text has to look like: the options that `generate` and `chat` share.

use crate::language::messages::common as message;
use anyhow::{Context, Result};
use clap::Args;
use minigpt::ModelFolder;
use minigpt_generate::{Constraint, Grammar};
use std::fs;
use std::path::PathBuf;

/// At most one of them is given.
#[derive(Args)]
pub struct StructuredArgs {
    /// Generate JSON that conforms to this schema: a file, or the schema itself.
    #[arg(long, value_name = "FILE|SCHEMA", conflicts_with = "grammar")]
    json_schema: Option<String>,
    /// Generate text that follows the GBNF grammar (llama.cpp's notation) in this file.
    #[arg(long, visible_alias = "grammar-file", value_name = "FILE")]
    grammar: Option<PathBuf>,
}

impl StructuredArgs {
    /// The constraint for a model's texts, if one is asked for.
    pub fn constraint(&self, model: &ModelFolder) -> Result<Option<Constraint>> {
        let grammar = match (&self.json_schema, &self.grammar) {
            (Some(schema), _) => json_schema(schema)?,
            (None, Some(file)) => {
                let text =
                    fs::read_to_string(file).with_context(|| format!("--grammar {}", file.display()))?;
                Grammar::Gbnf(text)
            }
            (None, None) => return Ok(None),
        };
        let option = if self.json_schema.is_some() { "--json-schema" } else { "--grammar" };
        Ok(Some(model.constraint(&grammar).context(option)?))
    }
}

fn json_schema(given: &str) -> Result<Grammar> {
    let text = if given.trim_start().starts_with('{') {
        given.to_owned()
    } else {
        fs::read_to_string(given).with_context(|| format!("--json-schema {given}"))?
    };
    let schema = serde_json::from_str(&text).context(message::JsonSchemaNotJson)?;
    Ok(Grammar::JsonSchema(schema))
}
