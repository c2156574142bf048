//! The loop: batches in, better weights out, and events for whoever watches.

mod agreement;
mod beginning;
mod saving;
mod snapshots;
mod step;

use crate::change::Change;
use crate::checkpoint::{Answers, State};
use crate::config::{BestBy, TrainConfig};
use crate::error::{Error, Result};
use crate::estimate::Estimate;
use crate::evaluate::{Evaluation, evaluate_batch};
use crate::event::{Ended, Event, Observer, Report};
use crate::optimizer::Optimizer;
use crate::overfitting::OverfittingWatch;
use crate::ranks::Ranks;
use crate::recorder::Recorder;
use crate::run_folder::RunFolder;
use crate::training_data::TrainingData;
use crate::workers::Workers;
use agreement::Wishes;
use minigpt_data::Position;
use minigpt_formats::ExtraKeys;
use minigpt_model::{Gpt, Parameter};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Asks a model questions. The crate above knows how; here it only matters how many are answered.
pub type Judge = Box<dyn FnMut(&Gpt) -> std::result::Result<Answers, String> + Send>;

/// A run: a model, its data, its optimiser, and the folder where it leaves everything.
pub struct Trainer {
    gpt: Gpt,
    extra: ExtraKeys,
    parameters: Vec<Parameter>,
    /// Of the parameters that this rank owns.
    optimizer: Optimizer,
    data: TrainingData,
    config: TrainConfig,
    workers: Workers,
    ranks: Ranks,
    /// What the ranks agreed on last.
    agreed: Wishes,
    steps: u64,
    state: State,
    /// Only the first rank has one, and records.
    run: Option<RunFolder>,
    recorder: Option<Recorder>,
    /// The step of the checkpoint in `last`.
    saved: u64,
    /// When it was written by this process, or this process began; and how long writing it took.
    saved_at: Instant,
    save_took: Duration,
    began: Instant,
    seconds_before: f64,
    estimate: Estimate,
    overfitting: OverfittingWatch,
    /// What was last told of a folder that could not be kept.
    not_kept: String,
    judge: Option<Judge>,
}

impl Trainer {
    /// The same run with further keys for the `config.json` of its checkpoints: those of the model it started from.
    pub fn with_extra(self, extra: ExtraKeys) -> Self {
        Self { extra, ..self }
    }

    /// The same run with changes of settings that it does not know, to be kept with its checkpoints.
    pub fn with_changes(mut self, changes: Vec<Change>) -> Self {
        self.state.changes.extend(changes);
        self
    }

    /// The same run with somebody who asks the model questions, which a run needs whose best model is chosen by answers
    /// ([`BestBy::Answers`]). On several ranks the first one asks.
    pub fn with_judge(self, judge: Judge) -> Self {
        Self { judge: Some(judge), ..self }
    }

    /// Stops this start of the run after so many minutes, whatever its settings say.
    pub fn stop_after(&mut self, minutes: f64) -> Result<()> {
        let config = TrainConfig { max_minutes: minutes, ..self.config.clone() };
        config.validate()?;
        self.config = config;
        Ok(())
    }

    /// The model as it is now.
    pub fn gpt(&self) -> &Gpt {
        &self.gpt
    }

    /// Trains until the end, or until `stop` is set on any rank; then the step under way is finished and saved. On several
    /// ranks all call this, and the first one's observer is told what happens.
    pub fn run(&mut self, observer: &mut dyn Observer, stop: &AtomicBool) -> Result<Report> {
        if self.config.best_by == BestBy::Answers && self.judge.is_none() && self.ranks.is_first() {
            return Err(Error::Config("best_by is answers, but this run has no questions to ask".to_owned()));
        }
        self.began = Instant::now();
        self.saved_at = self.began;
        let (step, steps) = (self.state.step, self.steps);
        observer.event(Event::Started {
            step,
            steps,
            batches_per_epoch: self.data.train.batches_per_epoch(),
        });
        // What was found in the folder before anybody watched.
        self.record(observer, |_, _| {})?;
        let schedule = self.config.schedule(self.steps);
        let mut last = None;
        self.tell_patiently(&[], stop)?;
        // Also with next to no time, a start makes a step.
        let mut ended = self.ended().filter(|&why| why != Ended::TimeLimit);
        while ended.is_none() {
            self.keep_snapshot(observer)?;
            let rate = schedule.rate(self.state.step);
            let begun = Instant::now();
            let mut record = self.step_with(rate, stop)?;
            self.estimate.step(begun.elapsed());
            self.ranks.usual_step(self.estimate.usual_step());
            let step = record.step;
            self.overfitting.step(record.loss);
            ended = self.ended();
            // Somebody who asks for an end does not wait for an evaluation.
            let last_step = matches!(ended, Some(Ended::Finished | Ended::TimeLimit));
            let scheduled = due(step, self.config.eval_interval) || record.epoch.is_some();
            if scheduled || last_step {
                record.val_loss = self.validate(observer, stop)?;
                record.answers = self.ask(stop)?;
                self.keep_best(&record, scheduled, observer)?;
            }
            let judged = record.val_loss.is_some() || record.answers.is_some();
            let noteworthy = judged || record.epoch.is_some();
            let logged = due(step, self.config.log_interval) || noteworthy || last_step || step == 1;
            if logged {
                self.record(observer, |recorder, folder| recorder.log(folder, &record))?;
            }
            observer.event(Event::Step { record: &record, logged, left: self.left() });
            let overfitting = record.val_loss.and_then(|loss| self.overfitting.evaluation(step, loss));
            if let Some(overfitting) = overfitting {
                observer.event(Event::Overfitting(&overfitting));
            }
            if due(step, self.config.sample_interval) {
                self.sample(observer, stop)?;
            }
            // The time that an evaluation took does not end a run: there would be none of the step that does.
            ended = self.ended().filter(|&why| why != Ended::TimeLimit).or(ended);
            if ended.is_some() || self.save_due(scheduled) {
                self.save_last(observer)?;
                self.tell_patiently(&[], stop)?;
            }
            last = Some(record);
        }
        self.keep_snapshot(observer)?;
        let ended = ended.unwrap_or(Ended::Finished);
        self.record(observer, Recorder::draw)?;
        let name = if self.state.best.is_some() { "best" } else { "last" };
        let model = self.run.as_ref().map_or_else(PathBuf::new, |run| run.join(name));
        let State { step, best, tokens, .. } = self.state;
        Ok(Report { ended, step, last, best, tokens, seconds: self.seconds(), model })
    }

    /// The mean loss over the validation batches, always the same ones: each rank takes every so many of them.
    fn validate(&mut self, observer: &mut dyn Observer, stop: &AtomicBool) -> Result<Option<f64>> {
        let (step, batches) = (self.state.step, self.evaluation_batches());
        let (rank, ranks) = (self.ranks.rank() as u64, self.ranks.count() as u64);
        let Some(val) = &mut self.data.val else { return Ok(None) };
        let (begun, mut numbers) = (Instant::now(), Vec::new());
        observer.event(Event::Evaluating { step, done: 0, batches });
        for batch in (rank..batches).step_by(ranks as usize) {
            let batch_of = val.batch(Position { epoch: 0, batch })?;
            let Evaluation { sum, tokens } =
                evaluate_batch(&self.gpt, &batch_of, self.ranks.parts(), &self.workers)?;
            numbers.extend([sum, tokens as f64]);
            observer.event(Event::Evaluating { step, done: (batch + ranks).min(batches), batches });
        }
        let of_ranks = self.tell_patiently(&numbers, stop)?;
        let mut evaluation = Evaluation::default();
        for batch in 0..batches {
            let (rank, place) = ((batch % ranks) as usize, 2 * (batch / ranks) as usize);
            let pair = of_ranks.get(rank).and_then(|numbers| numbers.get(place..place + 2));
            let &[sum, tokens] = pair.and_then(|pair| pair.first_chunk()).unwrap_or(&[f64::NAN, 1.0]);
            evaluation.add(Evaluation { sum, tokens: tokens as u64 });
        }
        self.estimate.evaluation(begun.elapsed());
        let loss = evaluation.loss();
        if let Some(loss) = loss {
            self.finite(step, "validation loss", loss)?;
        }
        Ok(loss)
    }

    /// How many questions the model answers, where its best state is chosen by that. The first rank asks and tells the others.
    fn ask(&mut self, stop: &AtomicBool) -> Result<Option<Answers>> {
        if self.config.best_by != BestBy::Answers {
            return Ok(None);
        }
        let begun = Instant::now();
        let own = match &mut self.judge {
            Some(judge) if self.ranks.is_first() => {
                let Answers { right, asked } = judge(&self.gpt).map_err(Error::Judge)?;
                vec![right as f64, asked as f64]
            }
            _ => Vec::new(),
        };
        let of_ranks = self.tell_patiently(&own, stop)?;
        self.estimate.evaluation(begun.elapsed());
        let told = of_ranks.first().and_then(|numbers| numbers.first_chunk());
        Ok(told.map(|&[right, asked]| Answers { right: right as u64, asked: asked as u64 }))
    }

    /// Batches of one evaluation.
    fn evaluation_batches(&self) -> u64 {
        let all = self.data.val.as_ref().map_or(0, |val| val.batches_per_epoch());
        if self.config.eval_iters == 0 { all } else { all.min(self.config.eval_iters) }
    }

    /// What is left of the run: steps, evaluations, and no more than its time limit.
    fn left(&self) -> Option<Duration> {
        let State { step, position, .. } = self.state;
        let times = |interval: u64| {
            self.steps.checked_div(interval).unwrap_or(0) - step.checked_div(interval).unwrap_or(0)
        };
        let epochs = self.config.epochs.map_or(0, |epochs| epochs.saturating_sub(position.epoch));
        let last = u64::from(
            step < self.steps && self.config.epochs.is_none() && !due(self.steps, self.config.eval_interval),
        );
        let evaluations = times(self.config.eval_interval) + epochs + last;
        let accumulated = self.config.gradient_accumulation_steps as u64;
        let left = self.estimate.left(
            self.steps.saturating_sub(step),
            evaluations,
            self.evaluation_batches(),
            accumulated,
        )?;
        let limit = (self.config.max_minutes > 0.0)
            .then(|| Duration::try_from_secs_f64(60.0 * self.config.max_minutes).ok())
            .flatten();
        Some(limit.map_or(left, |limit| left.min(limit.saturating_sub(self.began.elapsed()))))
    }

    fn sample(&mut self, observer: &mut dyn Observer, stop: &AtomicBool) -> Result<()> {
        let step = self.state.step;
        let text = if self.ranks.is_first() { observer.sample(&self.gpt, step) } else { None };
        if let Some(text) = text {
            self.record(observer, |recorder, folder| recorder.sample(folder, step, &text))?;
            observer.event(Event::Sample { step, text: &text });
        }
        self.tell_patiently(&[], stop)?;
        Ok(())
    }

    fn ended(&self) -> Option<Ended> {
        let State { step, without_progress, .. } = self.state;
        if step >= self.steps {
            Some(Ended::Finished)
        } else if self.config.patience > 0 && without_progress >= self.config.patience {
            Some(Ended::Patience)
        } else if self.agreed.stop {
            Some(Ended::Stopped)
        } else if self.agreed.time_is_up {
            Some(Ended::TimeLimit)
        } else {
            None
        }
    }

    fn seconds(&self) -> f64 {
        self.seconds_before + self.began.elapsed().as_secs_f64()
    }
}

fn due(step: u64, interval: u64) -> bool {
    interval > 0 && step.is_multiple_of(interval)
}
