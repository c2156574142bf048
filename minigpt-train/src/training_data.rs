//! What a run is trained on: a corpus, drawn from in batches.

use crate::config::TrainConfig;
use crate::error::Result;
use minigpt_data::{Corpus, CorpusParts, Dataset, Loader, Order, QaEncoder, Sampling, TextDataset};
use minigpt_formats::ChatTemplate;
use minigpt_model::Config;
use minigpt_tokenizer::Tokenizer;

/// What a run is trained on.
pub struct TrainingData {
    /// Batches to learn from.
    pub train: Loader<Box<dyn Dataset>>,
    /// Batches to judge by.
    pub val: Option<Loader<Box<dyn Dataset>>>,
    /// What made the ids; goes into every model folder.
    pub tokenizer: Option<Tokenizer>,
    /// How examples are written, as a chat template; goes along with it.
    pub template: Option<ChatTemplate>,
}

impl TrainingData {
    /// Draws from a corpus rows that a model can take: of a text `random` windows, of questions `shuffled` epochs,
    /// unless an order is asked for. Validation always goes through its part once, from beginning to end.
    pub fn new(corpus: Corpus, model: &Config, train: &TrainConfig, order: Option<Order>) -> Result<Self> {
        let Corpus { tokenizer, parts, .. } = corpus;
        let template = tokenizer.as_ref().and_then(|tokenizer| template(tokenizer, &parts));
        let vocab_size = tokenizer.as_ref().map_or(model.vocab_size, Tokenizer::vocab_size);
        let windows = |tokens| TextDataset::consecutive(tokens, model.block_size, vocab_size);
        let (data, val, order): (Box<dyn Dataset>, Option<Box<dyn Dataset>>, Order) = match parts {
            CorpusParts::Text { train, val } => {
                let order = order.unwrap_or(Order::Random);
                let train = match order {
                    Order::Random => TextDataset::overlapping(train, model.block_size, vocab_size)?,
                    _ => windows(train)?,
                };
                let val =
                    if val.len() > 1 { Some(Box::new(windows(val)?) as Box<dyn Dataset>) } else { None };
                (Box::new(train), val, order)
            }
            CorpusParts::Qa { train, val, .. } => {
                let val = val.map(|val| Box::new(val) as Box<dyn Dataset>);
                (Box::new(train), val, order.unwrap_or(Order::Shuffled))
            }
        };
        let (batch_size, seed) = (train.batch_size, train.seed);
        let train = Loader::new(data, Sampling { batch_size, order, seed, drop_last: true })?;
        let in_order = Sampling { batch_size, order: Order::Sequential, seed, drop_last: false };
        let val = val.map(|val| Loader::new(val, in_order)).transpose()?;
        Ok(Self { train, val, tokenizer, template })
    }
}

/// How question/answer examples are written.
fn template(tokenizer: &Tokenizer, parts: &CorpusParts) -> Option<ChatTemplate> {
    let CorpusParts::Qa { train, .. } = parts else { return None };
    let encoder = QaEncoder::new(tokenizer).ok()?;
    let named = [("eos_token", encoder.separator()), ("pad_token", encoder.pad())];
    let token = |(role, id): (&str, u32)| Some((role.to_owned(), tokenizer.token(id)?));
    let tokens = named.into_iter().filter_map(token).collect();
    Some(ChatTemplate { source: encoder.template(train.summary().conversations > 0), tokens })
}
