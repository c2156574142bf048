//! How to train, under nanoGPT's names.

use crate::error::{Error, Result};
use crate::optimizer::{OptimizerConfig, OptimizerKind};
use crate::schedule::{Decay, Schedule};
use serde::{Deserialize, Serialize};

/// Parts that a batch may be split into.
pub const MOST_PARTS: usize = 4096;

/// What the best model of a run is chosen by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BestBy {
    /// The lowest validation loss.
    #[default]
    Loss,
    /// The most questions answered word for word: of the validation part, or of the training part if none is kept.
    Answers,
}

/// Everything about a training run but the model and the data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainConfig {
    /// Steps to make in all.
    pub max_iters: u64,
    /// Passes over the data instead of `max_iters`. After each the validation loss is measured, whatever `eval_interval` says.
    pub epochs: Option<u64>,
    /// Rows in a micro-batch.
    pub batch_size: usize,
    /// Micro-batches whose gradients make one step.
    pub gradient_accumulation_steps: usize,
    /// Parts that each batch is split into, on all ranks and threads together: the weights depend on it in their last
    /// digits, and on nothing else of those. 0 for one a thread on every rank.
    pub parts: usize,
    /// The full learning rate.
    pub learning_rate: f64,
    /// The learning rate at the end.
    pub min_lr: f64,
    /// Steps in which the rate climbs to its full height.
    pub warmup_iters: u64,
    /// The step at which the rate has fallen to `min_lr`; the last step when absent.
    pub lr_decay_iters: Option<u64>,
    /// How it falls.
    pub lr_decay: Decay,
    /// Which rule moves the matrices inside the blocks.
    pub optimizer: OptimizerKind,
    /// Muon's learning rate over `learning_rate`.
    pub muon_ratio: f64,
    /// How much of Muon's momentum stays each step.
    pub muon_momentum: f64,
    /// The share of a matrix that decays each step, times the learning rate.
    pub weight_decay: f64,
    /// How much of a gradient's smoothed mean stays each step.
    pub beta1: f64,
    /// How much of its smoothed square stays each step.
    pub beta2: f64,
    /// What keeps AdamW's division from exploding.
    pub eps: f64,
    /// The largest gradient norm; 0 for no limit.
    pub grad_clip: f64,
    /// Steps between evaluations; 0 for none but the last, which comes when all steps are made or the time is up.
    pub eval_interval: u64,
    /// Batches of an evaluation, always the same ones; 0 for all.
    pub eval_iters: u64,
    /// Steps between lines of the log.
    pub log_interval: u64,
    /// Steps between checkpoints; 0 for one with each evaluation.
    pub save_interval: u64,
    /// Seconds after which a checkpoint is due whatever the step, 0 for never. One that takes long to write is written more
    /// seldom: at most a twentieth of the time goes into it.
    pub save_seconds: f64,
    /// Checkpoints to keep beside `last` and `best`, each under its step.
    pub keep_checkpoints: usize,
    /// Copies of the model in f16 to keep in `snapshots`, close to each other at first and ever farther apart; 0 for none. When
    /// absent 16, or none of a model of more than 5 million parameters.
    pub snapshots: Option<u64>,
    /// What the best model is chosen by.
    pub best_by: BestBy,
    /// Evaluations without a better one after which to stop; 0 for never.
    pub patience: u64,
    /// Steps between samples; 0 for none.
    pub sample_interval: u64,
    /// Minutes after which to stop, counted from the start or the resume; 0 for never.
    pub max_minutes: f64,
    /// What everything random comes from.
    pub seed: u64,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            max_iters: 2000,
            epochs: None,
            batch_size: 12,
            gradient_accumulation_steps: 1,
            parts: 0,
            learning_rate: 1e-3,
            min_lr: 1e-4,
            warmup_iters: 100,
            lr_decay_iters: None,
            lr_decay: Decay::Cosine,
            optimizer: OptimizerKind::AdamW,
            muon_ratio: 20.0,
            muon_momentum: 0.95,
            weight_decay: 0.1,
            beta1: 0.9,
            beta2: 0.99,
            eps: 1e-8,
            grad_clip: 1.0,
            eval_interval: 250,
            eval_iters: 20,
            log_interval: 10,
            save_interval: 0,
            save_seconds: 30.0,
            keep_checkpoints: 0,
            snapshots: None,
            best_by: BestBy::Loss,
            patience: 0,
            sample_interval: 0,
            max_minutes: 0.0,
            seed: 1337,
        }
    }
}

impl TrainConfig {
    /// Checks every setting; the error names the one that can't be.
    pub fn validate(&self) -> Result<()> {
        // One step must end within a time that somebody waits.
        const MOST: u64 = 1 << 16;
        let counts = [
            ("batch_size", self.batch_size as u64, MOST),
            ("gradient_accumulation_steps", self.gradient_accumulation_steps as u64, MOST),
            ("log_interval", self.log_interval, u64::MAX),
            ("epochs", self.epochs.unwrap_or(1), 1 << 32),
            ("max_iters", self.max_iters, 1 << 53),
            ("snapshots", self.snapshots.unwrap_or(0).max(1), 1 << 10),
        ];
        for (name, value, most) in counts {
            if value == 0 || value > most {
                return Err(Error::Config(format!(
                    "{name} is {value}; it must be at least 1 and at most {most}"
                )));
            }
        }
        if self.parts > MOST_PARTS {
            let parts = self.parts;
            return Err(Error::Config(format!("parts is {parts}; it must be at most {MOST_PARTS}")));
        }
        let numbers = [
            ("learning_rate", self.learning_rate),
            ("min_lr", self.min_lr),
            ("muon_ratio", self.muon_ratio),
            ("weight_decay", self.weight_decay),
            ("grad_clip", self.grad_clip),
            ("eps", self.eps),
            ("max_minutes", self.max_minutes),
            ("save_seconds", self.save_seconds),
        ];
        for (name, value) in numbers {
            if !(value >= 0.0 && value.is_finite()) {
                let rule =
                    if value.is_finite() { "it must not be negative" } else { "it must be a finite number" };
                return Err(Error::Config(format!("{name} is {value:?}; {rule}")));
            }
        }
        let shares = [("beta1", self.beta1), ("beta2", self.beta2), ("muon_momentum", self.muon_momentum)];
        for (name, value) in shares {
            if !(0.0..1.0).contains(&value) {
                return Err(Error::Config(format!(
                    "{name} is {value}; it must be at least 0 and less than 1"
                )));
            }
        }
        Ok(())
    }

    /// The same with nothing in `max_iters` where the run is counted in epochs: it has no meaning there.
    pub fn with_one_length(self) -> Self {
        let max_iters = if self.epochs.is_some() { Self::default().max_iters } else { self.max_iters };
        Self { max_iters, ..self }
    }

    /// The learning rate over a run of so many steps.
    pub fn schedule(&self, steps: u64) -> Schedule {
        Schedule {
            decay: self.lr_decay,
            learning_rate: self.learning_rate,
            min_lr: self.min_lr,
            warmup_iters: self.warmup_iters,
            lr_decay_iters: self.lr_decay_iters.unwrap_or(steps),
        }
    }

    /// The optimiser's part.
    pub fn optimizer(&self) -> OptimizerConfig {
        OptimizerConfig {
            kind: self.optimizer,
            beta1: self.beta1,
            beta2: self.beta2,
            eps: self.eps,
            weight_decay: self.weight_decay,
            muon_ratio: self.muon_ratio,
            muon_momentum: self.muon_momentum,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_setting() {
        let refused = |config: TrainConfig| config.validate().unwrap_err().to_string();
        let base = TrainConfig::default;
        assert!(base().validate().is_ok());
        assert!(refused(TrainConfig { batch_size: 0, ..base() }).starts_with("batch_size is 0"));
        assert!(refused(TrainConfig { learning_rate: -1.0, ..base() }).starts_with("learning_rate is -1"));
        assert!(refused(TrainConfig { grad_clip: f64::NAN, ..base() }).starts_with("grad_clip is NaN"));
        assert!(refused(TrainConfig { beta2: 1.0, ..base() }).starts_with("beta2 is 1"));
        assert!(refused(TrainConfig { muon_momentum: -0.1, ..base() }).starts_with("muon_momentum is -0.1"));
    }
}
