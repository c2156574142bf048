//! What a run must not depend on: how its batches are cut, and on how many threads; and what it must refuse.

use candle_core::Device;
use minigpt_data::{BadLines, TokenizerChoice};
use minigpt_data::{
    Corpus, CorpusOptions, CorpusParts, LossOn, Order, Padding, QaDataset, QaOptions, Record,
};
use minigpt_model::{Config, Gpt};
use minigpt_train::{RunFolder, TrainConfig, Trainer, TrainingData};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Questions whose lengths differ by far, so that every micro-batch has another number of tokens.
pub fn corpus() -> Corpus {
    let record =
        |i: usize| Record::pair("ab".repeat(1 + i * i % 11), "cde"[..1 + i % 3].repeat(1 + i * 7 % 5));
    let records: Vec<Record> = (0..64).map(record).collect();
    let tokenizer = TokenizerChoice::Char.for_records(&records).unwrap();
    let options = QaOptions { max_length: 40, loss_on: LossOn::Answer, padding: Padding::Longest };
    let train = QaDataset::from_records(&records, &tokenizer, options, None).unwrap();
    let parts = CorpusParts::Qa { train, val: None, bad: BadLines::default() };
    Corpus::of(Some(tokenizer), parts)
}

pub fn model(corpus: &Corpus) -> Config {
    let vocab_size = corpus.vocab_size().unwrap();
    Config { n_layer: 2, n_head: 2, n_embd: 16, block_size: 40, vocab_size, ..Config::default() }
        .with_dropout(0.1)
}

pub fn config(batch_size: usize, gradient_accumulation_steps: usize) -> TrainConfig {
    TrainConfig {
        batch_size,
        gradient_accumulation_steps,
        max_iters: 4,
        warmup_iters: 0,
        ..TrainConfig::default()
    }
}

fn trainer(config: &TrainConfig, folder: &Path) -> Trainer {
    trainer_with_dropout(0.1, config, folder)
}

fn trainer_with_dropout(dropout: f64, config: &TrainConfig, folder: &Path) -> Trainer {
    let corpus = corpus();
    let model = model(&corpus).with_dropout(dropout);
    let data = TrainingData::new(corpus, &model, config, Some(Order::Sequential)).unwrap();
    let gpt = Gpt::new(model, 5, &Device::Cpu).unwrap();
    Trainer::new(gpt, data, config.clone(), RunFolder::open(folder).unwrap()).unwrap()
}

/// The weights after four steps with dropout, on so many threads.
fn weights(config: &TrainConfig, threads: usize) -> Vec<f32> {
    weights_with_dropout(0.1, config, threads)
}

fn weights_with_dropout(dropout: f64, config: &TrainConfig, threads: usize) -> Vec<f32> {
    let folder = tempfile::tempdir().unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let mut trainer = trainer_with_dropout(dropout, config, folder.path());
        trainer.run(&mut (), &AtomicBool::new(false)).unwrap();
        let flat = |p: minigpt_model::Parameter| p.tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        trainer.gpt().parameters().into_iter().flat_map(flat).collect()
    })
}

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    // Not `f32::max`, which drops NaN: weights that are no numbers any more are infinitely far from any others.
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b).abs())
        .fold(0f32, |most, difference| if difference.is_nan() { f32::INFINITY } else { most.max(difference) })
}

#[test]
fn four_micro_batches_are_one_batch_of_four_times_the_size() {
    // Without dropout, whose key names the micro-batch.
    let weights = |config: &TrainConfig, threads| weights_with_dropout(0.0, config, threads);
    let whole = weights(&config(16, 1), 1);
    let cut = weights(&config(4, 4), 1);
    let difference = largest_difference(&whole, &cut);
    assert!(difference < 2e-4, "weights differ by {difference}");
    // A mean over micro-batches would weigh their tokens differently; a test that can't see that is none.
    let other = weights(&config(12, 1), 1);
    assert!(largest_difference(&whole, &other) > 2e-3);
}

#[test]
fn the_number_of_threads_changes_nothing_but_the_last_digits() {
    let one = weights(&config(7, 2), 1);
    for threads in [2, 3, 16] {
        let difference = largest_difference(&one, &weights(&config(7, 2), threads));
        assert!(difference < 2e-4, "{threads} threads: weights differ by {difference}");
    }
    // Dropout was really on, and a test that can't see it is none.
    let without = weights_with_dropout(0.0, &config(7, 2), 1);
    assert!(largest_difference(&one, &without) > 2e-3);
}

#[test]
fn a_run_is_not_resumed_with_other_data_or_another_tokenizer() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(4, 1);
    trainer(&config, folder.path()).run(&mut (), &AtomicBool::new(false)).unwrap();
    let resume = |data: TrainingData| {
        let run = RunFolder::open(folder.path()).unwrap();
        Trainer::resume(data, config.clone(), run, &Device::Cpu).map(|_| ()).unwrap_err().to_string()
    };
    let data = |corpus: Corpus| {
        let model = model(&corpus);
        TrainingData::new(corpus, &model, &config, Some(Order::Sequential)).unwrap()
    };
    let without = TrainingData { tokenizer: None, ..data(corpus()) };
    let error = resume(without);
    assert!(
        error.starts_with("the run was started with another tokenizer (") && error.ends_with("(none)"),
        "{error}"
    );
    let text = folder.path().join("other.txt");
    std::fs::write(&text, "abc de ".repeat(100)).unwrap();
    let other = Corpus::open(&text, &CorpusOptions::default()).unwrap();
    assert!(resume(data(other)).contains("another data set"));
}
