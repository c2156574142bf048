//! What a run must not depend on: how many ranks share it. All comparisons are to the bit.

use crate::runs::{config, corpus, model};
use candle_core::Device;
use minigpt_data::Corpus;
use minigpt_data::{
    BadLines, CorpusOptions, CorpusParts, LossOn, Order, Padding, QaDataset, QaOptions, Record,
};
use minigpt_model::Gpt;
use minigpt_train::{
    AbortReason, Exchange, OptimizerKind, RunFolder, SingleRank, ThreadRank, TrainConfig, Trainer,
    TrainingData, checkpoint,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Each of so many ranks at its work, on a pool of threads of its own.
fn on_ranks<R: Send>(ranks: usize, threads: usize, work: impl Fn(Arc<dyn Exchange>) -> R + Sync) -> Vec<R> {
    let group: Vec<Arc<dyn Exchange>> = match ranks {
        1 => vec![SingleRank::exchange()],
        ranks => {
            ThreadRank::group(ranks).into_iter().map(|rank| Arc::new(rank) as Arc<dyn Exchange>).collect()
        }
    };
    std::thread::scope(|scope| {
        let start = |rank: Arc<dyn Exchange>| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let work = &work;
            scope.spawn(move || pool.install(|| work(rank)))
        };
        let threads: Vec<_> = group.into_iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// The questions of [`corpus`], with others to judge by: five, so that the last batch of an evaluation is not full.
fn with_validation() -> Corpus {
    let mut corpus = corpus();
    let records: Vec<Record> = (0..5).map(|i| Record::pair("ab".repeat(1 + i), "cd".repeat(5 - i))).collect();
    let options = QaOptions { max_length: 40, loss_on: LossOn::Answer, padding: Padding::Longest };
    let judged =
        QaDataset::from_records(&records, corpus.tokenizer.as_ref().unwrap(), options, None).unwrap();
    if let CorpusParts::Qa { val, .. } = &mut corpus.parts {
        *val = Some(judged);
    }
    corpus
}

fn data(config: &TrainConfig) -> TrainingData {
    let corpus = with_validation();
    let model = model(&corpus);
    TrainingData::new(corpus, &model, config, Some(Order::Shuffled)).unwrap()
}

/// A rank of a run, new or resumed, as the first or as another.
fn trainer(
    exchange: Arc<dyn Exchange>,
    config: &TrainConfig,
    folder: &Path,
) -> minigpt_train::Result<Trainer> {
    let model = model(&corpus());
    let resumed = checkpoint::exists(&folder.join("last"))?;
    // A rank's own weights don't matter: all begin with those of the first.
    let gpt = Gpt::new(model, 5 + exchange.rank() as u64, &Device::Cpu)?;
    if exchange.rank() > 0 {
        let state = resumed.then(|| checkpoint::state(&folder.join("last"))).transpose()?;
        return Trainer::join(exchange, gpt, data(config), config.clone(), state);
    }
    let run = RunFolder::open(folder)?;
    if resumed {
        Trainer::resume_on(exchange, data(config), config.clone(), run, &Device::Cpu)
    } else {
        Trainer::new_on(exchange, gpt, data(config), config.clone(), run)
    }
}

/// Trains until a step, on so many ranks.
fn train_until(step: u64, ranks: usize, config: &TrainConfig, folder: &Path) {
    let config = TrainConfig { max_iters: step, ..config.clone() };
    on_ranks(ranks, 2, |exchange| {
        let mut trainer = trainer(exchange, &config, folder).unwrap();
        assert_eq!(trainer.run(&mut (), &AtomicBool::new(false)).unwrap().step, step);
    });
}

/// All that a run left behind and that doesn't tell the time.
fn left_behind(folder: &Path) -> Vec<Vec<u8>> {
    let files = ["last/model.safetensors", "last/optimizer.safetensors", "best/model.safetensors"];
    let mut left: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(folder.join(file)).unwrap()).collect();
    let log = std::fs::read_to_string(folder.join("metrics.jsonl")).unwrap();
    for line in log.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        let told = ["step", "loss", "val_loss", "grad_norm", "tokens", "epoch_loss"]
            .map(|key| record[key].to_string());
        left.push(told.join(" ").into_bytes());
    }
    left
}

/// A configuration that everything can differ in: dropout, padding, accumulation, an odd batch, an epoch's end.
fn all_at_once(parts: usize, optimizer: OptimizerKind) -> TrainConfig {
    TrainConfig {
        parts,
        optimizer,
        eval_interval: 2,
        eval_iters: 0,
        log_interval: 1,
        epochs: None,
        ..config(7, 2)
    }
}

#[test]
fn any_number_of_ranks_makes_the_same_run_to_the_bit() {
    for (parts, optimizer) in [
        (4, OptimizerKind::AdamW),
        (4, OptimizerKind::Muon),
        // No power of two, and more parts than rows.
        (3, OptimizerKind::AdamW),
        (16, OptimizerKind::Muon),
    ] {
        let config = all_at_once(parts, optimizer);
        let run = |ranks| {
            let folder = tempfile::tempdir().unwrap();
            train_until(5, ranks, &config, folder.path());
            left_behind(folder.path())
        };
        let alone = run(1);
        for ranks in [2, 3, 4] {
            assert!(run(ranks) == alone, "{parts} parts, {optimizer:?}: {ranks} ranks differ from one");
        }
        // Another number of parts is another order of sums: a test that can't see that is none.
        let other = all_at_once(if parts == 3 { 2 } else { 3 }, optimizer);
        let folder = tempfile::tempdir().unwrap();
        train_until(5, 1, &other, folder.path());
        assert!(left_behind(folder.path()) != alone, "{parts} parts: nothing depends on them");
    }
}

#[test]
fn a_run_goes_on_with_any_number_of_ranks_to_the_same_bits() {
    for optimizer in [OptimizerKind::AdamW, OptimizerKind::Muon] {
        // The number of parts is not in the settings: it is kept with the run.
        let config = TrainConfig { batch_size: 8, lr_decay_iters: Some(6), ..all_at_once(0, optimizer) };
        let (whole, changing) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        train_until(2, 2, &config, whole.path());
        assert_eq!(
            checkpoint::state(&whole.path().join("last")).unwrap().parts,
            4,
            "two ranks of two threads"
        );
        train_until(6, 2, &config, whole.path());
        for (step, ranks) in [(2, 2), (3, 4), (4, 1), (6, 3)] {
            train_until(step, ranks, &config, changing.path());
        }
        // The last step of a start is judged, so there may be more of them; all else is the same.
        let files = |folder: &Path| left_behind(folder)[..2].to_vec();
        assert!(files(changing.path()) == files(whole.path()), "{optimizer:?}");
    }
}

#[test]
fn a_rank_with_other_data_or_settings_is_refused_by_name() {
    let refused = |change: &(dyn Fn(&mut TrainConfig, usize) -> Option<TrainingData> + Sync)| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        on_ranks(3, 1, |exchange| {
            let mut config = all_at_once(4, OptimizerKind::AdamW);
            let other = change(&mut config, exchange.rank());
            let data = other.unwrap_or_else(|| data(&config));
            let gpt = Gpt::new(model(&corpus()), 5, &Device::Cpu).unwrap();
            let trainer = match exchange.rank() {
                0 => Trainer::new_on(exchange, gpt, data, config, RunFolder::open(path).unwrap()),
                _ => Trainer::join(exchange, gpt, data, config, None),
            };
            trainer.map(|_| ()).unwrap_err().to_string()
        })
    };
    let other_data = |config: &mut TrainConfig, rank: usize| {
        (rank == 2).then(|| {
            let parts = match corpus().parts {
                CorpusParts::Qa { .. } => with_other_answers(),
                parts => parts,
            };
            let corpus = Corpus::of(corpus().tokenizer, parts);
            let model = model(&corpus);
            TrainingData::new(corpus, &model, config, Some(Order::Shuffled)).unwrap()
        })
    };
    for error in refused(&other_data) {
        assert!(error.starts_with("rank 2 has another data set ("), "{error}");
    }
    let other_settings = |config: &mut TrainConfig, rank: usize| {
        if rank == 1 {
            config.weight_decay = 0.7;
        }
        None
    };
    for error in refused(&other_settings) {
        assert!(error.starts_with("rank 1 has another setting ("), "{error}");
    }
}

fn with_other_answers() -> CorpusParts {
    let records: Vec<Record> = (0..64).map(|i| Record::pair("ab".repeat(1 + i % 5), "cde")).collect();
    let tokenizer = corpus().tokenizer.unwrap();
    let options = QaOptions { max_length: 40, loss_on: LossOn::Answer, padding: Padding::Longest };
    let train = QaDataset::from_records(&records, &tokenizer, options, None).unwrap();
    CorpusParts::Qa { train, val: None, bad: BadLines::default() }
}

#[test]
fn a_rank_that_is_asked_to_stop_stops_them_all_at_the_same_step() {
    let folder = tempfile::tempdir().unwrap();
    let config = TrainConfig { max_iters: 1000, ..all_at_once(2, OptimizerKind::AdamW) };
    let reports = on_ranks(2, 1, |exchange| {
        let stop = AtomicBool::new(exchange.rank() == 1);
        let mut trainer = trainer(exchange, &config, folder.path()).unwrap();
        // The first look is before the first step.
        let report = trainer.run(&mut (), &stop).unwrap();
        (report.step, report.ended)
    });
    assert_eq!(reports, [(0, minigpt_train::Ended::Stopped); 2]);
}

#[test]
fn a_rank_that_fails_ends_the_others_with_its_message() {
    let folder = tempfile::tempdir().unwrap();
    let config = all_at_once(2, OptimizerKind::AdamW);
    let errors = on_ranks(3, 1, |exchange| {
        let mut trainer = trainer(Arc::clone(&exchange), &config, folder.path()).unwrap();
        if exchange.rank() == 1 {
            trainer.step(1e-3).unwrap();
            exchange.abort(AbortReason::Failed("the disk is full".to_owned()));
            return String::new();
        }
        (0..3).find_map(|_| trainer.step(1e-3).err()).unwrap().to_string()
    });
    assert_eq!(errors, ["rank 1: the disk is full", "", "rank 1: the disk is full"]);
}

#[test]
fn ranks_learn_from_a_text_as_one_does() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.txt");
    std::fs::write(&text, "to be or not to be, that is the question. ".repeat(60)).unwrap();
    let config = TrainConfig { parts: 4, epochs: Some(1), ..config(6, 1) };
    let run = |ranks: usize| {
        let out = folder.path().join(ranks.to_string());
        on_ranks(ranks, 1, |exchange| {
            let corpus = Corpus::open(&text, &CorpusOptions::default()).unwrap();
            let model = model(&corpus);
            let data = TrainingData::new(corpus, &model, &config, Some(Order::Shuffled)).unwrap();
            let gpt = Gpt::new(model, 5, &Device::Cpu).unwrap();
            let trainer = match exchange.rank() {
                0 => Trainer::new_on(exchange, gpt, data, config.clone(), RunFolder::open(&out).unwrap()),
                _ => Trainer::join(exchange, gpt, data, config.clone(), None),
            };
            trainer.unwrap().run(&mut (), &AtomicBool::new(false)).unwrap();
        });
        left_behind(&out)
    };
    let alone = run(1);
    assert!(run(2) == alone && run(4) == alone);
}
