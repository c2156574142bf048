//! What a run keeps: its best and its last checkpoint, and never a number that is none.

use super::{Trainer, due};
use crate::checkpoint::{self, Best, Model};
use crate::epoch::ExactNumber;
use crate::error::{Error, Result};
use crate::event::{Event, Observer};
use crate::flat;
use crate::optimizer::Optimizer;
use crate::recorder::Recorder;
use crate::training_data::TrainingData;
use candle_core::Tensor;
use std::collections::HashMap;
use std::time::Instant;

impl Trainer {
    /// Refuses a number that is none. What is written from there on would be worthless.
    pub(super) fn finite(&self, step: u64, what: &str, value: f64) -> Result<()> {
        if value.is_finite() {
            return Ok(());
        }
        let last = match self.saved {
            0 => "there is no checkpoint yet".to_owned(),
            step => format!("last/ holds step {step}, whose weights and moments were all finite"),
        };
        let best = self.state.best.map_or_else(String::new, |Best { step, val_loss }| {
            format!("; best/ holds step {step}, with a validation loss of {val_loss:.4}")
        });
        Err(Error::Diverged { step, what: what.to_owned(), value, kept: last + &best })
    }

    /// Refuses to save weights or moments that are not finite.
    fn check_weights(&self, moments: &HashMap<String, Tensor>) -> Result<()> {
        let weights = self.parameters.iter().map(|p| (format!("weight {}", p.name), p.tensor.clone()));
        let moments = moments.iter().map(|(name, tensor)| (format!("optimiser's {name}"), tensor.clone()));
        for (what, tensor) in weights.chain(moments) {
            if let Some(value) = flat::first_not_finite(&tensor)? {
                self.finite(self.state.step, &what, f64::from(value))?;
            }
        }
        Ok(())
    }

    pub(super) fn keep_best(
        &mut self,
        val_loss: Option<f64>,
        scheduled: bool,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let Some(val_loss) = val_loss else { return Ok(()) };
        if scheduled {
            self.count_progress(val_loss);
        }
        if self.state.best.is_some_and(|best| best.val_loss <= val_loss) {
            return Ok(());
        }
        self.check_weights(&self.optimizer.state())?;
        let step = self.state.step;
        self.state.best = Some(Best { step, val_loss });
        let Some(run) = &self.run else { return Ok(()) };
        observer.event(Event::Saving { step });
        checkpoint::save(run, "best", self.model(), None)?;
        observer.event(Event::Saved { step, path: run.join("best") });
        Ok(())
    }

    /// All that goes into a model folder.
    pub(super) fn model(&self) -> Model<'_> {
        let TrainingData { tokenizer, template, .. } = &self.data;
        let (tokenizer, template) = (tokenizer.as_ref(), template.as_ref());
        Model { gpt: &self.gpt, extra: &self.extra, tokenizer, template }
    }

    /// What patience goes by.
    fn count_progress(&mut self, val_loss: f64) {
        let state = &mut self.state;
        if state.scheduled_best.is_some_and(|best| best.0 <= val_loss) {
            state.without_progress += 1;
        } else {
            (state.scheduled_best, state.without_progress) = (Some(ExactNumber(val_loss)), 0);
        }
    }

    /// Whether the last checkpoint is too long ago, by steps or by the clock.
    pub(super) fn save_due(&self, evaluated: bool) -> bool {
        self.agreed.save
            || match self.config.save_interval {
                0 => evaluated,
                interval => due(self.state.step, interval),
            }
    }

    /// The same by the clock alone, for the rank that saves.
    pub(super) fn save_is_due_by_the_clock(&self) -> bool {
        /// A checkpoint may take this share of the time that is spent between two of them.
        const SHARE: u32 = 20;
        let (elapsed, seconds) = (self.saved_at.elapsed(), self.config.save_seconds);
        seconds > 0.0 && elapsed.as_secs_f64() >= seconds && elapsed >= SHARE * self.save_took
    }

    /// Writes the last checkpoint: the first rank does, with what the others remember.
    pub(super) fn save_last(&mut self, observer: &mut dyn Observer) -> Result<()> {
        let step = self.state.step;
        if self.saved == step {
            return Ok(());
        }
        let began = Instant::now();
        observer.event(Event::Saving { step });
        self.state.seconds = self.seconds();
        let moments = self.all_moments()?;
        if let Some(run) = &self.run {
            self.check_weights(&moments)?;
            self.recorder.as_ref().map_or(Ok(()), Recorder::draw)?;
            let resume = Some((&self.state, &moments));
            checkpoint::save(run, "last", self.model(), resume)?;
            observer.event(Event::Saved { step, path: run.join("last") });
            if self.config.keep_checkpoints > 0 {
                checkpoint::save(run, &format!("step-{step:08}"), self.model(), resume)?;
                checkpoint::rotate(run, self.config.keep_checkpoints)?;
            }
        }
        self.saved = step;
        (self.saved_at, self.save_took) = (Instant::now(), began.elapsed());
        Ok(())
    }

    /// What the optimisers of all ranks remember, for the one that saves; the others get their own.
    fn all_moments(&mut self) -> Result<HashMap<String, Tensor>> {
        let mut moments = self.optimizer.state();
        if self.ranks.count() == 1 {
            return Ok(moments);
        }
        for names in Optimizer::memory_names(&self.parameters, self.config.optimizer) {
            let own = names.iter().map(|name| name.as_ref().and_then(|name| moments.get(name)).cloned());
            let own: Vec<Option<Tensor>> = own.collect();
            let present: Vec<bool> = names.iter().map(Option::is_some).collect();
            let Some(all) = self.ranks.collect(&own, &present)? else { continue };
            moments.extend(names.into_iter().flatten().zip(all));
        }
        Ok(moments)
    }
}
