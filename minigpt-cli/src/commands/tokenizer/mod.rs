//! `minigpt tokenizer`: make a vocabulary, and look at what it does to text.

mod decode;
mod encode;
mod pieces;
mod train;

use crate::language::messages::tokenizer as message;
use crate::models;
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use minigpt_formats::OnDisk;
use minigpt_tokenizer::Tokenizer;
use std::path::{Path, PathBuf};

/// Train a tokenizer, or convert between text and token ids.
#[derive(Args)]
pub struct TokenizerArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Train a tokenizer on text.
    Train(train::TrainArgs),
    /// Turn text into token ids.
    Encode(encode::EncodeArgs),
    /// Turn token ids into text.
    Decode(decode::DecodeArgs),
}

/// Runs one of the subcommands.
pub fn run(args: &TokenizerArgs) -> Result<()> {
    match &args.command {
        Command::Train(args) => train::run(args),
        Command::Encode(args) => encode::run(args),
        Command::Decode(args) => decode::run(args),
    }
}

/// Which tokenizer to use.
#[derive(Args)]
struct Choice {
    /// Tokenizer: `gpt2`, a tokenizer.json, a word2id/id2word vocabulary file, or a folder with a tokenizer.
    #[arg(long, value_name = "gpt2|PATH", default_value = "gpt2")]
    tokenizer: PathBuf,
    /// Use the tokenizer of this model: a model folder, a run, a GGUF file, a ckpt.pt, or hf:owner/name.
    #[arg(short, long, value_name = models::NAME, conflicts_with = "tokenizer")]
    model: Option<PathBuf>,
}

impl Choice {
    fn open(&self) -> Result<Tokenizer> {
        // A folder with a tokenizer will do, whether there is a model in it or not.
        let alone =
            |folder: &Path| ["tokenizer.json", "vocab.json"].iter().any(|file| folder.join(file).exists());
        let model = match &self.model {
            Some(model) if !alone(model) => Some(models::find(model).context(message::TokenizerUnreadable)?),
            model => model.clone(),
        };
        match &model {
            Some(model) if model.is_file() => {
                let found = OnDisk::open(model)?.own_tokenizer()?;
                found.with_context(|| message::NoTokenizer { model: &model.display() }.to_string())
            }
            Some(model) => open(model).context(message::TokenizerUnreadable),
            None if self.tokenizer.as_os_str() == "gpt2" => Ok(Tokenizer::gpt2()),
            None => open(&self.tokenizer),
        }
    }
}

fn open(path: &Path) -> Result<Tokenizer> {
    Ok(Tokenizer::open(path)?)
}
