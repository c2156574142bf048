//! Data to score a model on, before and after it is trained: how well it predicts it and, of questions, how many it answers.

use super::data::{Examples, open_corpus};
use super::{BaseFormat, RunError};
use crate::error::Result;
use crate::questions::answer_all;
use crate::run_config::RunConfig;
use minigpt_data::{CorpusParts, Dataset, Loader, LossOn, Order, Padding, QaDataset, QaOptions, Sampling};
use minigpt_generate::{GenerationConfig, generate};
use minigpt_model::parameters::Count;
use minigpt_model::{Config, Gpt};
use minigpt_tokenizer::Tokenizer;
use minigpt_train::{Answers, BestBy, Judge};
use minigpt_train::{TrainConfig, TrainingData, Workers, evaluate};
use std::path::Path;

/// No example is cut before its answer is compared.
const WHOLE: usize = 1 << 20;
/// Number of tokens on which the loss is measured.
const TOKENS: u64 = 1 << 15;
/// Number and length in tokens of the texts that a model generates if its data cannot be opened.
const SAMPLES: u64 = 32;
const SAMPLE_TOKENS: usize = 64;

/// Number of questions to choose the best model by: enough to tell two models apart, and quickly answered.
const JUDGED: u64 = 200;

/// Data that a model can be scored on again and again.
pub struct EvalSet {
    source: SetSource,
    rows: Loader<Box<dyn Dataset>>,
    batches: u64,
    questions: Option<Questions>,
}

/// Where an [`EvalSet`] comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetSource {
    /// Data at this path.
    Data(String),
    /// Texts that the model generated before it was fine-tuned, because its data could not be opened.
    Samples,
}

/// How well a model knows an [`EvalSet`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// Mean loss per token.
    pub loss: f64,
    /// Number of questions answered exactly, if the data is questions and answers.
    pub answers: Option<Answers>,
}

impl EvalSet {
    /// What a model was trained on: the validation part of its run's data if that can still be opened, otherwise texts that
    /// the model generates now. Call it before the model is fine-tuned.
    pub fn of_base(base: &Path, gpt: &Gpt) -> Result<Self> {
        let format = BaseFormat::of(Some(base))?;
        // `runs/demo/best` is a part of the run `runs/demo`.
        let settings =
            base.parent().map(|run| run.join(super::SETTINGS)).filter(|settings| settings.is_file());
        let config = settings.and_then(|settings| RunConfig::read(&settings, &[]).ok());
        let known = config.and_then(|config| Self::of_data(&config, &format, gpt).ok());
        known.map_or_else(|| Self::of_samples(gpt, format.tokenizer.as_ref()), Ok)
    }

    /// The validation part of a configuration's data, or else the training part.
    pub(super) fn of_data(config: &RunConfig, format: &BaseFormat, gpt: &Gpt) -> Result<Self> {
        let model = gpt.config();
        let max_length = config.data.max_length.min(model.block_size + 1);
        let examples = Examples { max_length, loss_on: config.data.loss_on };
        let (corpus, _) = open_corpus(config, format, model.block_size, examples)?;
        let examples = match &corpus.parts {
            CorpusParts::Qa { train, .. } => Some(train.examples() as usize),
            CorpusParts::Text { .. } => None,
        };
        // Rehearsal makes the batches of the run larger than its new data.
        let batch_size = config.train.batch_size.min(examples.unwrap_or(usize::MAX)).max(1);
        let train = TrainConfig { batch_size, ..config.train.clone() };
        let data = TrainingData::new(corpus, model, &train, Some(Order::Sequential))?;
        let rows = data.val.unwrap_or(data.train);
        let questions = match examples {
            Some(_) => Questions::of(config, format, question_count(model))?,
            None => None,
        };
        let row = (rows.dataset().cols().max(1) * batch_size) as u64;
        let batches = (TOKENS / row).max(1);
        Ok(Self { source: SetSource::Data(config.data.path.clone()), rows, batches, questions })
    }

    /// Texts that the model generates now.
    fn of_samples(gpt: &Gpt, tokenizer: Option<&Tokenizer>) -> Result<Self> {
        let model = gpt.config();
        let known = tokenizer.map_or(model.vocab_size, Tokenizer::vocab_size).min(model.vocab_size) as u64;
        // Each begins with a different token of the vocabulary.
        let begins = (0..SAMPLES).map(|i| vec![(i * known / SAMPLES) as u32]);
        let config = GenerationConfig {
            max_new_tokens: SAMPLE_TOKENS.min(model.block_size.saturating_sub(1)).max(1),
            do_sample: true,
            top_k: 0,
            ..GenerationConfig::default()
        };
        let prompts: Vec<Vec<u32>> = begins.collect();
        let written = generate(gpt, &prompts, &config, tokenizer)?;
        let rows = prompts.into_iter().zip(written).map(|(begin, text)| [begin, text.ids].concat()).collect();
        let options =
            QaOptions { max_length: SAMPLE_TOKENS + 1, loss_on: LossOn::All, padding: Padding::Longest };
        let rows: Box<dyn Dataset> = Box::new(QaDataset::from_rows(rows, options)?);
        let in_order = Sampling { batch_size: 8, order: Order::Sequential, seed: 0, drop_last: false };
        let rows = Loader::new(rows, in_order)?;
        let batches = rows.batches_per_epoch();
        Ok(Self { source: SetSource::Samples, rows, batches, questions: None })
    }

    /// Where it comes from.
    pub fn source(&self) -> &SetSource {
        &self.source
    }

    /// Scores a model on it.
    pub fn score(&mut self, gpt: &Gpt) -> Result<Score> {
        let workers = Workers::for_model(gpt).map_err(minigpt_train::Error::from)?;
        let evaluation = evaluate(gpt, &mut self.rows, self.batches, &workers, |_| {})?;
        let loss = evaluation.loss().ok_or(RunError::NothingToPredict)?;
        let answers = self.questions.as_ref().map(|questions| questions.ask(gpt)).transpose()?;
        Ok(Score { loss, answers })
    }
}

/// Number of questions to ask a model of this size; a small one answers two thousand in seconds.
fn question_count(model: &Config) -> u64 {
    (2_000_000_000 / Count::of(model).total.max(1)).clamp(32, 2000)
}

/// Questions whose answers are known.
struct Questions {
    data: QaDataset,
    tokenizer: Tokenizer,
}

impl Questions {
    /// At most `most` questions from a configuration's data, from the validation part if there is one. `None` for running text.
    pub fn of(config: &RunConfig, format: &BaseFormat, most: u64) -> Result<Option<Self>> {
        let examples = Examples { max_length: WHOLE, loss_on: LossOn::Answer };
        let (corpus, _) = open_corpus(config, format, WHOLE, examples)?;
        let (CorpusParts::Qa { train, val, .. }, Some(tokenizer)) = (corpus.parts, corpus.tokenizer) else {
            return Ok(None);
        };
        Ok(Some(Self { data: val.unwrap_or(train).spread(most), tokenizer }))
    }

    /// Counts the questions that a model answers exactly.
    pub fn ask(&self, gpt: &Gpt) -> Result<Answers> {
        let answered = answer_all(gpt, &self.tokenizer, &self.data, |_| {})?;
        let right = answered.iter().filter(|one| one.is_right()).count() as u64;
        Ok(Answers { right, asked: answered.len() as u64 })
    }
}

/// Asks a model the questions of its run: those of the validation part, or else those that it trains on.
pub(super) fn judge(
    config: &RunConfig,
    format: &BaseFormat,
    tokenizer: Option<&Tokenizer>,
) -> Result<Option<Judge>> {
    if config.train.best_by != BestBy::Answers {
        return Ok(None);
    }
    let format = BaseFormat { tokenizer: tokenizer.cloned(), ..format.clone() };
    let most = question_count(&config.model).min(JUDGED);
    let Some(questions) = Questions::of(config, &format, most)? else {
        return Err(RunError::NoQuestions(config.data.path.clone()).into());
    };
    let judge = move |gpt: &Gpt| Ok(questions.ask(gpt)?);
    Ok(Some(Box::new(judge)))
}
