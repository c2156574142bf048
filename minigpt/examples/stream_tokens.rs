//! Shows a text while it is written, token by token: `cargo run --release -p minigpt --example stream_tokens`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use minigpt::ModelFolder;
use minigpt::generate::{GenerationConfig, Generator};
use minigpt::model::{Config, Device, Gpt};
use minigpt::tokenizer::{CharTokenizer, Tokenizer};
use std::error::Error;
use std::io::Write;

/// Pieces of text, then the tokens behind them.
pub fn main() -> Result<(), Box<dyn Error>> {
    let model = new_model()?; // usually `ModelFolder::open("runs/demo")?`

    // The short way: pieces of text, each of whole characters. Leave the loop, and nothing more is computed.
    for piece in model.stream("abc")? {
        print!("{}", piece?);
        std::io::stdout().flush()?;
    }
    println!();

    // The same with every setting, by the names that Hugging Face has for them, and with all that is known of a token.
    let config = GenerationConfig {
        max_new_tokens: 8,
        do_sample: true,
        temperature: 0.7,
        top_k: 5,
        seed: 1,
        ..GenerationConfig::default()
    };
    let prompts = [model.encode("abc")?, model.encode("hello")?]; // several texts are written at once
    for step in Generator::new(&model.gpt, &prompts, &config, model.tokenizer.as_ref())? {
        for token in step? {
            println!("text {}: {:?}, id {}, log p {:.2}", token.row, token.text, token.id, token.logprob);
        }
    }
    Ok(())
}

/// A model of letters that has learned nothing.
fn new_model() -> Result<ModelFolder, Box<dyn Error>> {
    let tokenizer = Tokenizer::Char(CharTokenizer::from_text(&[], ('a'..='z').chain([' ']))?);
    let shape = Config {
        n_layer: 2,
        n_head: 2,
        n_embd: 16,
        block_size: 32,
        vocab_size: tokenizer.vocab_size(),
        ..Config::default()
    };
    let gpt = Gpt::new(shape, 1, &Device::Cpu)?;
    Ok(ModelFolder::new("nowhere", gpt, Default::default(), Some(tokenizer)))
}
