//! What a run keeps: its best and its last checkpoint, in which every number is finite, and its records.

use super::{Trainer, due};
use crate::checkpoint::{self, Answers, Best, Model, Moments};
use crate::config::BestBy;
use crate::epoch::ExactNumber;
use crate::error::{Error, Result};
use crate::event::{Event, Observer};
use crate::flat;
use crate::optimizer::Optimizer;
use crate::record::{StepRecord, Warning};
use crate::recorder::Recorder;
use crate::run_folder::RunFolder;
use crate::training_data::TrainingData;
use candle_core::Tensor;
use std::collections::HashMap;
use std::path::Path;
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
        let best = match self.state.best {
            Some(Best { step, val_loss: Some(loss), .. }) => {
                format!("; best/ holds step {step}, with a validation loss of {loss:.4}")
            }
            Some(Best { step, answers: Some(Answers { right, asked }), .. }) => {
                format!("; best/ holds step {step}, which answers {right} of {asked}")
            }
            _ => String::new(),
        };
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
        record: &StepRecord,
        scheduled: bool,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let step = self.state.step;
        let found = Best { step, val_loss: record.val_loss, answers: record.answers };
        let Some(score) = self.score(&found) else { return Ok(()) };
        if scheduled {
            self.count_progress(score);
        }
        let by_answers = self.config.best_by == BestBy::Answers;
        // Of those that answer as many, the one that has trained longest is the surest.
        let is_no_better = |best: f64| if by_answers { best < score } else { best <= score };
        if self.state.best.and_then(|best| self.score(&best)).is_some_and(is_no_better) {
            return Ok(());
        }
        self.check_weights(&self.optimizer.state())?;
        self.state.best = Some(found);
        if self.run.is_some() {
            observer.event(Event::Saving { step });
        }
        self.save("best", None, observer)
    }

    /// Writes a model folder of the run, if this rank has the run's folder.
    fn save(&mut self, name: &str, moments: Option<&Moments>, observer: &mut dyn Observer) -> Result<()> {
        let Some(mut run) = self.run.take() else { return Ok(()) };
        let resume = moments.map(|moments| (&self.state, moments));
        let (saved, path) = (checkpoint::save(&mut run, name, self.model(), resume), run.join(name));
        self.run = Some(run);
        saved?.iter().for_each(|warning| observer.event(Event::Warning(warning)));
        observer.event(Event::Saved { step: self.state.step, path });
        Ok(())
    }

    /// Finds the run's folder, which may have been moved.
    pub(super) fn locate(&mut self, observer: &mut dyn Observer) -> Result<()> {
        let warning = self.run.as_mut().map_or(Ok(None), RunFolder::locate)?;
        warning.iter().for_each(|warning| observer.event(Event::Warning(warning)));
        Ok(())
    }

    /// Tells of a folder that could not be kept and that the run can do without.
    /// What was told last is not told again.
    pub(super) fn warn_of(&mut self, kept: Result<()>, observer: &mut dyn Observer) {
        let Err(error) = kept else { return };
        let text = error.to_string();
        if text != self.not_kept {
            observer.event(Event::Warning(&Warning::NotKept(error)));
            self.not_kept = text;
        }
    }

    /// Records something in the run's folder, and tells what goes wrong with that.
    pub(super) fn record(
        &mut self,
        observer: &mut dyn Observer,
        write: impl FnOnce(&mut Recorder, &Path),
    ) -> Result<()> {
        self.locate(observer)?;
        if let (Some(run), Some(recorder)) = (&self.run, &mut self.recorder) {
            write(recorder, &run.entry_path());
            recorder.warnings().iter().for_each(|warning| observer.event(Event::Warning(warning)));
        }
        Ok(())
    }

    /// All that goes into a model folder.
    pub(super) fn model(&self) -> Model<'_> {
        let TrainingData { tokenizer, template, .. } = &self.data;
        let (tokenizer, template) = (tokenizer.as_ref(), template.as_ref());
        Model { gpt: &self.gpt, extra: &self.extra, tokenizer, template }
    }

    /// What models are compared by; less is better.
    fn score(&self, best: &Best) -> Option<f64> {
        match self.config.best_by {
            BestBy::Loss => best.val_loss,
            BestBy::Answers => best.answers.map(|answers| -(answers.right as f64)),
        }
    }

    /// What patience goes by.
    fn count_progress(&mut self, score: f64) {
        let state = &mut self.state;
        if state.scheduled_best.is_some_and(|best| best.0 <= score) {
            state.without_progress += 1;
        } else {
            (state.scheduled_best, state.without_progress) = (Some(ExactNumber(score)), 0);
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
        if self.run.is_some() {
            self.check_weights(&moments)?;
        }
        // The checkpoint comes first: nothing else that goes wrong may cost it.
        self.save("last", Some(&moments), observer)?;
        if let Some(run) = self.run.as_ref().filter(|_| self.config.keep_checkpoints > 0) {
            let kept = checkpoint::save_numbered(run, self.model(), &self.state, &moments)
                .and_then(|()| checkpoint::rotate(run, self.config.keep_checkpoints));
            self.warn_of(kept, observer);
        }
        self.record(observer, Recorder::draw)?;
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
