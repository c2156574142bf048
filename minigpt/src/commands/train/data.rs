//! The data of a run: opened, tokenised, split, and ready to be drawn from.

use crate::output;
use crate::run_config::RunConfig;
use anyhow::{Context, Result, ensure};
use minigpt_data::{
    Corpus, CorpusOptions, CorpusParts, Dataset, Loader, Order, Padding, QaOptions, Sampling, TextDataset,
    TokenizerChoice,
};
use minigpt_tokenizer::Tokenizer;
use minigpt_train::TrainingData;
use std::path::Path;

/// Opens the data of a configuration; a model that is trained further brings its tokenizer, in a folder.
pub fn open(config: &RunConfig, tokenizer: Option<&Path>, block_size: usize) -> Result<TrainingData> {
    let data = &config.data;
    ensure!(
        (0.0..1.0).contains(&data.val_fraction),
        "data.val_fraction is {}; it must be at least 0 and less than 1",
        data.val_fraction
    );
    let choice = match (tokenizer, &data.tokenizer) {
        (Some(folder), _) => Some(TokenizerChoice::File(folder.to_owned())),
        (None, Some(name)) => Some(name.parse().unwrap_or(TokenizerChoice::Char)),
        (None, None) => None,
    };
    let options = CorpusOptions {
        kind: data.kind,
        tokenizer: choice,
        val_fraction: data.val_fraction,
        seed: config.train.seed,
        limit: data.limit,
        qa: QaOptions {
            // One token of a sequence is only a target, so a context of T holds T + 1 of them.
            max_length: data.max_length.min(block_size + 1),
            loss_on: data.loss_on,
            padding: Padding::Longest,
        },
    };
    let corpus = Corpus::open(Path::new(&data.path), &options).context("the data could not be opened")?;
    loaders(config, corpus, block_size)
}

fn loaders(config: &RunConfig, corpus: Corpus, block_size: usize) -> Result<TrainingData> {
    let Corpus { tokenizer, parts } = corpus;
    let vocab_size = tokenizer.as_ref().map_or(config.model.vocab_size, Tokenizer::vocab_size);
    let (train, val, order): (Box<dyn Dataset>, Option<Box<dyn Dataset>>, Order) = match parts {
        CorpusParts::Text { train, val } => {
            let order = config.data.order.unwrap_or(Order::Random);
            let train = match order {
                Order::Random => TextDataset::overlapping(train, block_size, vocab_size)?,
                _ => TextDataset::consecutive(train, block_size, vocab_size)?,
            };
            let val = match val.len() {
                0 | 1 => None,
                _ => {
                    Some(Box::new(TextDataset::consecutive(val, block_size, vocab_size)?) as Box<dyn Dataset>)
                }
            };
            (Box::new(train), val, order)
        }
        CorpusParts::Qa { train, val, bad } => {
            if bad.total > 0 {
                output::note(&format!("{} bad lines were skipped: see `minigpt data stats`", bad.total));
            }
            let val = val.map(|val| Box::new(val) as Box<dyn Dataset>);
            (Box::new(train), val, config.data.order.unwrap_or(Order::Shuffled))
        }
    };
    let (batch_size, seed) = (config.train.batch_size, config.train.seed);
    let train = Loader::new(train, Sampling { batch_size, order, seed, drop_last: true })?;
    let in_order = Sampling { batch_size, order: Order::Sequential, seed, drop_last: false };
    let val = val.map(|val| Loader::new(val, in_order)).transpose()?;
    Ok(TrainingData { train, val, tokenizer })
}
