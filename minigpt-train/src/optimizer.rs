//! The optimiser: AdamW for everything, or Muon for the matrices inside the blocks and AdamW for the rest.

use crate::adamw;
use crate::checkpoint::CheckpointError;
use crate::error::{Error, Result};
use crate::gradients::Gradients;
use crate::muon;
use candle_core::{Tensor, Var};
use minigpt_model::Parameter;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Which rule moves the matrices inside the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OptimizerKind {
    /// AdamW everywhere.
    AdamW,
    /// Muon inside the blocks, AdamW for embeddings, norms, biases and the head.
    Muon,
}

/// The optimiser's constants, under PyTorch's names.
#[derive(Debug, Clone, Copy)]
pub struct OptimizerConfig {
    /// Which rule moves the matrices inside the blocks.
    pub kind: OptimizerKind,
    /// How much of a gradient's smoothed mean stays each step.
    pub beta1: f64,
    /// How much of its smoothed square stays each step.
    pub beta2: f64,
    /// What keeps AdamW's division from exploding.
    pub eps: f64,
    /// The share of a matrix that decays each step, times the learning rate. Norms and biases don't decay.
    pub weight_decay: f64,
    /// Muon's learning rate over AdamW's.
    pub muon_ratio: f64,
    /// How much of Muon's momentum stays each step.
    pub muon_momentum: f64,
}

impl Default for OptimizerConfig {
    fn default() -> Self {
        Self {
            kind: OptimizerKind::AdamW,
            beta1: 0.9,
            beta2: 0.95,
            eps: 1e-8,
            weight_decay: 0.1,
            muon_ratio: 20.0,
            muon_momentum: 0.95,
        }
    }
}

/// What moves a model's parameters, and what it remembers of earlier gradients.
#[derive(Debug)]
pub struct Optimizer {
    config: OptimizerConfig,
    slots: Vec<Slot>,
    step: u64,
}

#[derive(Debug)]
struct Slot {
    name: String,
    parameter: Var,
    decay: f64,
    memory: Memory,
}

#[derive(Debug)]
enum Memory {
    AdamW {
        m: Tensor,
        v: Tensor,
    },
    /// Of so many matrices side by side.
    Muon {
        momentum: Tensor,
        matrices: usize,
    },
}

impl Optimizer {
    /// An optimiser for the parameters of a trainable model.
    pub fn new(parameters: &[Parameter], config: OptimizerConfig) -> Result<Self> {
        let slot = |p: &Parameter| {
            let zeros = || p.tensor.zeros_like().map(|z| z.detach());
            let memory = match (config.kind, p.role.muon_matrices()) {
                (OptimizerKind::Muon, Some(matrices)) => Memory::Muon { momentum: zeros()?, matrices },
                _ => Memory::AdamW { m: zeros()?, v: zeros()? },
            };
            let decay = if p.role.decays() { config.weight_decay } else { 0.0 };
            Ok(Slot { name: p.name.clone(), parameter: Var::from_tensor(&p.tensor)?, decay, memory })
        };
        let slots = parameters.iter().map(slot).collect::<candle_core::Result<_>>()?;
        Ok(Self { config, slots, step: 0 })
    }

    /// One step along gradients multiplied with `scale`, at a learning rate.
    pub fn step(&mut self, gradients: &Gradients, scale: f64, learning_rate: f64) -> Result<()> {
        self.step += 1;
        let OptimizerConfig { beta1, beta2, eps, muon_ratio, muon_momentum, .. } = self.config;
        // Young moments are too small; this is how much.
        let correction1 = 1.0 - beta1.powf(self.step as f64);
        let correction2 = 1.0 - beta2.powf(self.step as f64);
        let mut inside = Vec::new();
        for (slot, gradient) in self.slots.iter_mut().zip(gradients.tensors()) {
            match &mut slot.memory {
                Memory::AdamW { m, v } => {
                    let keep = 1.0 - learning_rate * slot.decay;
                    let rate = learning_rate / correction1;
                    let root_correction2 = correction2.sqrt();
                    let update = adamw::Update { beta1, beta2, eps, scale, rate, root_correction2, keep };
                    update.apply(&slot.parameter, m, v, gradient)?;
                }
                Memory::Muon { momentum, matrices } => {
                    inside.push((&slot.parameter, slot.decay, momentum, *matrices, gradient));
                }
            }
        }
        // The matrices are many and small: a thread each, and none is split.
        inside.into_par_iter().try_for_each(|(parameter, decay, momentum, matrices, gradient)| {
            let (keep, rate) = (1.0 - learning_rate * decay, learning_rate * muon_ratio);
            let update = muon::Update { scale, keep, rate, momentum: muon_momentum };
            Ok::<_, Error>(update.apply(parameter, momentum, gradient, matrices)?)
        })?;
        Ok(())
    }

    /// The names of what it remembers of each parameter: the first thing of all, then the second.
    pub(crate) fn memory_names(parameters: &[Parameter], kind: OptimizerKind) -> [Vec<Option<String>>; 2] {
        let names = |p: &Parameter| match (kind, p.role.muon_matrices()) {
            (OptimizerKind::Muon, Some(_)) => [Some(format!("momentum.{}", p.name)), None],
            _ => [Some(format!("m.{}", p.name)), Some(format!("v.{}", p.name))],
        };
        let (first, second) = parameters.iter().map(names).map(|[first, second]| (first, second)).unzip();
        [first, second]
    }

    /// What was found under a name, if it has the shape that it should have.
    pub(crate) fn checked(found: Option<Tensor>, name: &str, like: &Tensor) -> Result<Tensor> {
        let found = found.filter(|found| found.dims() == like.dims());
        Ok(found.ok_or_else(|| CheckpointError::BadMoment(name.to_owned()))?)
    }

    /// Whether it moves the parameter of a name.
    pub(crate) fn remembers(&self, name: &str) -> bool {
        self.slots.iter().any(|slot| slot.name == name)
    }

    /// How many steps were made.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// All that it remembers, by name.
    pub fn state(&self) -> HashMap<String, Tensor> {
        let mut state = HashMap::new();
        for slot in &self.slots {
            let parts = match &slot.memory {
                Memory::AdamW { m, v } => vec![("m", m), ("v", v)],
                Memory::Muon { momentum, .. } => vec![("momentum", momentum)],
            };
            state.extend(parts.into_iter().map(|(part, x)| (format!("{part}.{}", slot.name), x.clone())));
        }
        state
    }

    /// Remembers what another optimiser of the same kind did after so many steps.
    pub fn restore(&mut self, mut state: HashMap<String, Tensor>, step: u64) -> Result<()> {
        for slot in &mut self.slots {
            let parts = match &mut slot.memory {
                Memory::AdamW { m, v } => vec![("m", m), ("v", v)],
                Memory::Muon { momentum, .. } => vec![("momentum", momentum)],
            };
            for (part, x) in parts {
                let name = format!("{part}.{}", slot.name);
                *x = Self::checked(state.remove(&name), &name, x)?;
            }
        }
        self.step = step;
        Ok(())
    }
}
