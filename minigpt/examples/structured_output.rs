//! Texts that follow a schema, a list of choices or a grammar: `cargo run --release -p minigpt --example structured_output`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use minigpt::ModelFolder;
use minigpt::generate::{GenerationConfig, Grammar};
use minigpt::model::{Config, Device, Gpt};
use minigpt::tokenizer::{CharTokenizer, Tokenizer};
use serde_json::{Value, json};
use std::error::Error;

/// A weather report, a word and a sum, all by a model that has learned nothing.
pub fn main() -> Result<(), Box<dyn Error>> {
    let model = new_model()?; // usually `ModelFolder::open("runs/demo")?`
    let schema = json!({
        "type": "object",
        "properties": {
            "city": { "enum": ["Beijing", "Paris"] },
            "temperature": { "type": "integer", "minimum": -40, "maximum": 50 }
        },
        "required": ["city", "temperature"],
        "additionalProperties": false
    });
    let sum = "root ::= number (\"+\" number)+\nnumber ::= [1-9] [0-9]?";

    for grammar in [
        Grammar::JsonSchema(schema),
        Grammar::Choice(vec!["yes".to_owned(), "no".to_owned()]),
        Grammar::Gbnf(sum.to_owned()),
    ] {
        let config = GenerationConfig {
            max_new_tokens: 80,
            do_sample: true,
            seed: 3,
            constraint: Some(model.constraint(&grammar)?),
            ..model.generation_config()?
        };
        let text = model.generate_with("report:", &config)?.text;
        println!("{text}");
        if let Grammar::JsonSchema(_) = grammar {
            let value: Value = serde_json::from_str(&text)?;
            assert!(value["temperature"].is_i64());
        }
    }
    Ok(())
}

/// A model of characters with random weights.
fn new_model() -> Result<ModelFolder, Box<dyn Error>> {
    let tokenizer = Tokenizer::Char(CharTokenizer::from_text(&["<|endoftext|>"], (' '..='~').chain(['\n']))?);
    let shape = Config {
        n_layer: 2,
        n_head: 2,
        n_embd: 16,
        block_size: 128,
        vocab_size: tokenizer.vocab_size(),
        ..Config::default()
    };
    let gpt = Gpt::new(shape, 1, &Device::Cpu)?;
    Ok(ModelFolder::new("nowhere", gpt, Default::default(), Some(tokenizer)))
}
