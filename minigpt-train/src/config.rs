//! Settings of a training run, under nanoGPT's names.

use crate::error::Result;
use crate::optimizer::{OptimizerConfig, OptimizerKind};
use crate::schedule::{Decay, Schedule};
use minigpt_settings::{Section, settings};
use serde::{Deserialize, Serialize};

/// Maximum of `batch_size` and `gradient_accumulation_steps`: a step should end within a reasonable time.
const LARGEST_BATCH: u64 = 1 << 16;
/// Maximum number of parts that a batch can be split into.
pub const MOST_PARTS: usize = 4096;

/// Criterion for the best model of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BestBy {
    /// Lowest validation loss.
    #[default]
    Loss,
    /// Most questions answered exactly, of the validation set or, if there is none, of the training set.
    Answers,
}

settings! {
    /// Everything about a training run except the model and the data.
    pub struct TrainConfig in "train" {
        /// Total number of steps. Either this or `epochs` sets the length of a run.
        #[zh = "总步数。训练长度由它或 `epochs` 之一决定。"]
        max_iters: u64 = 2000, 1..=1 << 53;
        /// Number of passes over the data, with an evaluation after each, instead of `max_iters`. If one of the two is given
        /// on the command line, it replaces the other in the file; giving both in one place is an error.
        #[zh = "训练轮数（遍历数据的次数），代替 `max_iters`；每轮结束时验证一次。命令行给出其中一个时，文件里的另一个不起作用；同一处两个都给出则报错。"]
        epochs: Option<u64> = None, 1..=1 << 32;
        /// Rows per micro-batch.
        #[zh = "每个微批次的行数。"]
        batch_size: usize = 12, 1..=LARGEST_BATCH;
        /// Micro-batches per optimizer step.
        #[zh = "每次更新累积多少个微批次的梯度。"]
        gradient_accumulation_steps: usize = 1, 1..=LARGEST_BATCH;
        /// Number of parts that each batch is split into, over all ranks and threads. The last digits of the weights depend on
        /// it, but not on the number of ranks and threads. 0 means one per thread of every rank.
        #[zh = "每个批次分成多少份，由所有进程和线程分担。权重的末位数字只取决于它，与进程数、线程数无关。0 表示每个进程的每个线程一份。"]
        parts: usize = 0, 0..=MOST_PARTS as u64;
        /// Peak learning rate.
        #[zh = "最高学习率。"]
        learning_rate: f64 = 1e-3, 0.0..;
        /// Final learning rate.
        #[zh = "最终学习率。"]
        min_lr: f64 = 1e-4, 0.0..;
        /// Warm-up steps, in which the learning rate rises linearly to its peak.
        #[zh = "预热步数：学习率在这些步内线性升到最高。"]
        warmup_iters: u64 = 100, 0_u64..;
        /// Step at which the learning rate reaches `min_lr`. Default: the last step.
        #[zh = "学习率降到 `min_lr` 的那一步；默认为最后一步。"]
        lr_decay_iters: Option<u64> = None, 0_u64..;
        /// Learning rate schedule after the warm-up.
        #[zh = "预热之后学习率的下降方式。"]
        lr_decay: Decay = Decay::Cosine;
        /// Optimizer for the matrices inside the blocks; with `muon`, AdamW updates all other parameters.
        #[zh = "层内矩阵的优化器；选 `muon` 时其余参数仍用 AdamW。"]
        optimizer: OptimizerKind = OptimizerKind::AdamW;
        /// Ratio of Muon's learning rate to `learning_rate`.
        #[zh = "Muon 的学习率与 `learning_rate` 之比。"]
        muon_ratio: f64 = 20.0, 0.0..;
        /// Momentum of Muon; lower values suit short runs.
        #[zh = "Muon 的动量；训练步数少时宜小一些。"]
        muon_momentum: f64 = 0.95, 0.0..1.0;
        /// Weight decay of matrices, multiplied by the learning rate.
        #[zh = "矩阵的权重衰减系数（再乘以学习率）。"]
        weight_decay: f64 = 0.1, 0.0..;
        /// AdamW's decay rate for the mean of the gradients.
        #[zh = "AdamW 梯度一阶矩的衰减率。"]
        beta1: f64 = 0.9, 0.0..1.0;
        /// AdamW's decay rate for the mean of the squared gradients.
        #[zh = "AdamW 梯度二阶矩的衰减率。"]
        beta2: f64 = 0.99, 0.0..1.0;
        /// AdamW's epsilon, which avoids division by zero.
        #[zh = "AdamW 的 epsilon，用来防止除以零。"]
        eps: f64 = 1e-8, 0.0..;
        /// Maximum norm of the gradient (gradient clipping). 0 disables it.
        #[zh = "梯度裁剪：梯度范数的上限；0 为不裁剪。"]
        grad_clip: f64 = 1.0, 0.0..;
        /// Steps between evaluations. 0 evaluates only at the end.
        #[zh = "每隔多少步验证一次；0 为只在最后验证。"]
        eval_interval: u64 = 250, 0_u64..;
        /// Batches per evaluation, always the same ones. 0 means the whole validation set.
        #[zh = "每次验证用多少个批次（总是同一些）；0 为整个验证集。"]
        eval_iters: u64 = 20, 0_u64..;
        /// Steps between log lines.
        #[zh = "每隔多少步记录一行日志。"]
        log_interval: u64 = 10, 1_u64..;
        /// Steps between checkpoints. 0 saves one at each evaluation.
        #[zh = "每隔多少步保存一次检查点；0 为随每次验证保存。"]
        save_interval: u64 = 0, 0_u64..;
        /// Seconds between checkpoints, regardless of steps. Saving takes at most a twentieth of the time. 0 disables it.
        #[zh = "每隔多少秒保存一次检查点，不论步数；保存最多占用二十分之一的时间。0 为不按时间保存。"]
        save_seconds: f64 = 30.0, 0.0..;
        /// Number of checkpoints to keep in addition to `last` and `best`, named by step.
        #[zh = "除 `last` 和 `best` 外另保留多少个检查点，以步数命名。"]
        keep_checkpoints: usize = 0, 0_u64..;
        /// Number of f16 copies of the model to keep in `snapshots`, frequent at first and then ever less frequent, to see how
        /// the model learned. 0 disables them. Default: 16 for models of up to 5 million parameters, otherwise 0.
        #[zh = "在 `snapshots` 中保留多少份 f16 模型副本，先密后疏，便于回看学习过程；0 为不保留。默认：500 万参数以内的模型保留 16 份，更大的不保留。"]
        snapshots: Option<u64> = None, 0..=1024;
        /// Criterion for the best model: lowest validation loss, or most exactly answered questions of the validation set (of
        /// the training set if there is no validation set).
        #[zh = "选出最佳模型的标准：`loss` 为验证损失最低；`answers` 为验证集中逐字答对的问题最多（没有验证集时用训练集）。"]
        best_by: BestBy = BestBy::Loss;
        /// Early stopping: number of evaluations without improvement before the run stops. 0 disables it.
        #[zh = "早停：连续多少次验证没有改善就停止；0 为不提前停止。"]
        patience: u64 = 0, 0_u64..;
        /// Steps between samples. 0 disables them.
        #[zh = "每隔多少步展示一段样例；0 为不展示。"]
        sample_interval: u64 = 0, 0_u64..;
        /// Minutes until the run stops, counted from the start or the resume. 0 means no limit.
        #[zh = "运行多少分钟后停止，从开始或继续时算起；0 为不限。"]
        max_minutes: f64 = 0.0, 0.0..;
        /// Random seed.
        #[zh = "随机种子。"]
        seed: u64 = 1337, 0_u64..;
    }
}

impl TrainConfig {
    /// Checks the range of every setting.
    pub fn validate(&self) -> Result<()> {
        Ok(self.check_ranges()?)
    }

    /// Resets `max_iters` to its default if `epochs` sets the length of the run.
    pub fn with_one_length(self) -> Self {
        let max_iters = if self.epochs.is_some() { Self::default().max_iters } else { self.max_iters };
        Self { max_iters, ..self }
    }

    /// Learning rate schedule for a run of `steps` steps.
    pub fn schedule(&self, steps: u64) -> Schedule {
        Schedule {
            decay: self.lr_decay,
            learning_rate: self.learning_rate,
            min_lr: self.min_lr,
            warmup_iters: self.warmup_iters,
            lr_decay_iters: self.lr_decay_iters.unwrap_or(steps),
        }
    }

    /// Settings of the optimizer.
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
