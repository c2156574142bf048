//! What a run writes into its folder: checkpoints, in which every number is finite, snapshots and records.
//!
//! Only rank 0 has a run folder. On the other ranks nothing here writes anything.

use crate::best::Best;
use crate::checkpoint::{self, Model, Moments, State};
use crate::error::{Error, KeptCheckpoints, NotFinite, Result};
use crate::event::{Event, Observer};
use crate::flat;
use crate::record::Warning;
use crate::recorder::Recorder;
use crate::run_folder::{RunFolder, SNAPSHOTS};
use minigpt_formats::hugging_face::{self, SaveOptions};
use minigpt_kernels::ElementType;
use minigpt_model::Parameter;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Checkpoints by the clock take at most 1/`SAVE_SHARE` of the time.
const SAVE_SHARE: u32 = 20;

/// The run folder and its records.
pub(crate) struct RunOutput {
    folder: Option<(RunFolder, Recorder)>,
    /// The step of the checkpoint in `last/`.
    saved_step: u64,
    /// When it was written, or when this process started the run.
    saved_at: Instant,
    /// How long writing it took.
    save_took: Duration,
    /// The last warning about a folder that could not be kept, which is not repeated.
    last_warning: String,
}

impl RunOutput {
    /// The output of a run whose last checkpoint is at `saved_step`.
    pub fn new(folder: Option<(RunFolder, Recorder)>, saved_step: u64) -> Self {
        Self {
            folder,
            saved_step,
            saved_at: Instant::now(),
            save_took: Duration::ZERO,
            last_warning: String::new(),
        }
    }

    /// The path of an entry of the run folder, for people. Empty on ranks without one.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.as_ref().map_or_else(PathBuf::new, |(folder, _)| folder.join(name))
    }

    /// Starts the clock of `save_seconds`.
    pub fn start_clock(&mut self) {
        self.saved_at = Instant::now();
    }

    /// Whether a checkpoint is due by the clock. One that takes long to write is written less often.
    pub fn is_save_due(&self, save_seconds: f64) -> bool {
        let elapsed = self.saved_at.elapsed();
        save_seconds > 0.0 && elapsed.as_secs_f64() >= save_seconds && elapsed >= SAVE_SHARE * self.save_took
    }

    /// Whether `last/` already holds this step.
    pub fn has_saved(&self, step: u64) -> bool {
        self.saved_step == step
    }

    /// The error of a number that is not finite, and which checkpoints there are.
    pub fn diverged(&self, step: u64, what: NotFinite, value: f64, best: Option<Best>) -> Error {
        let last = Some(self.saved_step).filter(|step| *step > 0);
        Error::Diverged { step, what, value, kept: Box::new(KeptCheckpoints { last, best }) }
    }

    /// Refuses to save weights or moments that are not finite.
    fn check_weights(&self, parameters: &[Parameter], moments: &Moments, state: &State) -> Result<()> {
        let weights = parameters.iter().map(|p| (NotFinite::Weight(p.name.clone()), &p.tensor));
        let moments = moments.iter().map(|(name, tensor)| (NotFinite::Moment(name.clone()), tensor));
        for (what, tensor) in weights.chain(moments) {
            if let Some(value) = flat::first_not_finite(tensor)? {
                return Err(self.diverged(state.step, what, f64::from(value), state.best));
            }
        }
        Ok(())
    }

    /// Writes `best/`.
    ///
    /// # Errors
    /// A weight or moment is not finite, or the disk is full or gone.
    pub fn save_best(
        &mut self,
        model: Model,
        (parameters, moments): (&[Parameter], &Moments),
        state: &State,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        self.check_weights(parameters, moments, state)?;
        if self.folder.is_some() {
            observer.event(Event::Saving { step: state.step });
        }
        self.save("best", model, state.step, None, observer)
    }

    /// Writes `last/`, with all that resuming needs, and then the numbered checkpoint and the chart.
    ///
    /// # Errors
    /// As for [`save_best`](Self::save_best).
    pub fn save_last(
        &mut self,
        model: Model,
        (parameters, moments): (&[Parameter], &Moments),
        state: &State,
        began: Instant,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        if self.folder.is_some() {
            self.check_weights(parameters, moments, state)?;
        }
        // The checkpoint comes first, so that no other failure can cost it.
        self.save("last", model, state.step, Some((state, moments)), observer)?;
        let keep = state.train.keep_checkpoints;
        if let Some((folder, _)) = self.folder.as_ref().filter(|_| keep > 0) {
            let kept = checkpoint::save_numbered(folder, model, state, moments)
                .and_then(|()| checkpoint::rotate(folder, keep));
            self.warn_once(kept, observer);
        }
        self.record(observer, |recorder, folder| recorder.draw_if_due(folder, state.step))?;
        self.saved_step = state.step;
        (self.saved_at, self.save_took) = (Instant::now(), began.elapsed());
        Ok(())
    }

    fn save(
        &mut self,
        name: &str,
        model: Model,
        step: u64,
        resume: Option<(&State, &Moments)>,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let Some((folder, _)) = &mut self.folder else { return Ok(()) };
        let warnings = checkpoint::save(folder, name, model, resume)?;
        warnings.iter().for_each(|warning| observer.event(Event::Warning(warning)));
        observer.event(Event::Saved { step, path: folder.join(name) });
        Ok(())
    }

    /// Writes `snapshots/step-N` in f16. Failing to is a warning.
    ///
    /// # Errors
    /// The run folder is gone and can't be made again.
    pub fn save_snapshot(&mut self, model: Model, step: u64, observer: &mut dyn Observer) -> Result<()> {
        self.locate(observer)?;
        let Some((folder, _)) = &self.folder else { return Ok(()) };
        let Model { gpt, extra, tokenizer, .. } = model;
        let saved = folder.replace_own(&format!("{SNAPSHOTS}/step-{step}"), |target| {
            let options = SaveOptions { element_type: ElementType::F16, ..SaveOptions::default() };
            hugging_face::save_as(gpt.view(), extra, target, options, &mut |_, _| {})?;
            tokenizer.map_or(Ok(()), |tokenizer| Ok(tokenizer.save(target)?))
        });
        self.warn_once(saved, observer);
        Ok(())
    }

    /// Writes a record. Failing to is a warning.
    ///
    /// # Errors
    /// The run folder is gone and can't be made again.
    pub fn record(
        &mut self,
        observer: &mut dyn Observer,
        write: impl FnOnce(&mut Recorder, &Path),
    ) -> Result<()> {
        self.locate(observer)?;
        if let Some((folder, recorder)) = &mut self.folder {
            write(recorder, &folder.entry_path());
            recorder.warnings().iter().for_each(|warning| observer.event(Event::Warning(warning)));
        }
        Ok(())
    }

    /// Finds the run folder, which the user may have moved.
    fn locate(&mut self, observer: &mut dyn Observer) -> Result<()> {
        let warning = self.folder.as_mut().map_or(Ok(None), |(folder, _)| folder.locate())?;
        warning.iter().for_each(|warning| observer.event(Event::Warning(warning)));
        Ok(())
    }

    /// Warns about a folder that could not be kept and that the run can do without.
    fn warn_once(&mut self, kept: Result<()>, observer: &mut dyn Observer) {
        let Err(error) = kept else { return };
        let text = error.to_string();
        if text != self.last_warning {
            observer.event(Event::Warning(&Warning::NotKept(error)));
            self.last_warning = text;
        }
    }
}
