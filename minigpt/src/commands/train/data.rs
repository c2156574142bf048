//! The data of a run: opened, tokenised, split, and ready to be drawn from.

use crate::output;
use crate::run_config::RunConfig;
use crate::table::counted;
use anyhow::{Context, Result, ensure};
use minigpt_data::{Corpus, CorpusOptions, CorpusParts, Padding, QaOptions, TokenizerChoice};
use minigpt_model::Config;
use minigpt_tokenizer::Tokenizer;
use minigpt_train::TrainingData;
use std::path::Path;

/// Opens the data of a configuration; a model that is trained further brings its tokenizer.
pub fn open(config: &RunConfig, tokenizer: Option<Tokenizer>, block_size: usize) -> Result<TrainingData> {
    let data = &config.data;
    ensure!(
        (0.0..1.0).contains(&data.val_fraction),
        "data.val_fraction is {}; it must be at least 0 and less than 1",
        data.val_fraction
    );
    let choice = match (tokenizer, &data.tokenizer) {
        (Some(tokenizer), _) => Some(TokenizerChoice::Ready(tokenizer)),
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
    if let CorpusParts::Qa { bad, .. } = &corpus.parts
        && bad.total > 0
    {
        output::note(&format!("{} were skipped: see `minigpt data stats`", counted(bad.total, "bad line")));
    }
    let model = Config { block_size, ..config.model.clone() };
    Ok(TrainingData::new(corpus, &model, &config.train, data.order)?)
}
