//! Training a model: the loop and its parts.
//!
//! A [`Trainer`] takes a model, its data and a [`RunFolder`], and tells an [`Observer`] what happens. It never prints.
//! Gradients, optimiser, schedule and checkpoints can be used by themselves.
//!
//! ```
//! use minigpt_data::{Corpus, CorpusParts, Tokens};
//! use minigpt_model::{Config, Device, Gpt};
//! use minigpt_train::{Ended, RunFolder, TrainConfig, Trainer, TrainingData};
//!
//! // 0, 1, 2, 3, 0, 1, … as a text that has been encoded already.
//! let text: Vec<u32> = (0..400).map(|i| i % 4).collect();
//! let parts = CorpusParts::Text { train: Tokens::from(text), val: Tokens::from(Vec::new()) };
//! let shape = Config { n_layer: 1, n_head: 1, n_embd: 8, block_size: 8, vocab_size: 4, ..Config::default() };
//! let train = TrainConfig { max_iters: 2, batch_size: 4, ..TrainConfig::default() };
//!
//! let data = TrainingData::new(Corpus::of(None, parts), &shape, &train, None)?;
//! let folder = tempfile::tempdir().unwrap();
//! let gpt = Gpt::new(shape, train.seed, &Device::Cpu)?;
//! let mut trainer = Trainer::new(gpt, data, train, RunFolder::open(folder.path())?)?;
//! let report = trainer.run(&mut (), &false.into())?; // an Observer instead of () sees every step
//! assert_eq!((report.ended, report.step), (Ended::Finished, 2));
//! assert!(report.model.join("model.safetensors").exists());
//! # Ok::<(), minigpt_train::Error>(())
//! ```

mod adamw;
mod batch_loss;
mod best;
mod change;
pub mod checkpoint;
mod config;
pub mod distributed;
mod epoch;
mod error;
mod estimate;
mod evaluate;
mod event;
mod flat;
mod gradients;
mod local_gradients;
mod muon;
mod optimizer;
mod overfitting;
pub mod record;
mod recorder;
mod run_folder;
mod run_output;
mod schedule;
mod snapshots;
mod train_loop;
mod trainer;
mod training_data;
mod workers;

pub use best::{Answers, Best};
pub use change::Change;
pub use checkpoint::CheckpointError;
pub use config::{BestBy, TrainConfig};
pub use distributed::{
    AbortReason, Exchange, Launcher, LauncherKind, MpiError, MpiRank, RankError, SingleRank, ThreadRank,
};
pub use epoch::{EpochLoss, ExactNumber};
pub use error::{Compared, Error, JudgeError, KeptCheckpoints, NotFinite, Result};
pub use evaluate::{Evaluation, evaluate};
pub use event::{Ended, Event, Observer, Overfitting, Report};
pub use gradients::Gradients;
pub use optimizer::{Optimizer, OptimizerConfig, OptimizerKind};
pub use run_folder::RunFolder;
pub use schedule::{Decay, Schedule};
pub use trainer::{Judge, Trainer};
pub use training_data::TrainingData;
pub use workers::Workers;

/// What the data leaves out of the loss is what the kernel skips: neither crate knows the other, this one knows both.
const _: () = assert!(minigpt_data::IGNORE == minigpt_kernels::IGNORE);
