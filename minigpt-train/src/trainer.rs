//! The loop: batches in, better weights out, and events for whoever watches.

use crate::change::Change;
use crate::checkpoint::{self, Best, Checkpoint, Model, State};
use crate::config::TrainConfig;
use crate::epoch::{EpochLoss, ExactNumber};
use crate::error::{Error, Result};
use crate::evaluate::{evaluate, loss};
use crate::flat;
use crate::gradients::Gradients;
use crate::optimizer::Optimizer;
use crate::record::StepRecord;
use crate::recorder::Recorder;
use crate::run_folder::RunFolder;
use crate::training_data::TrainingData;
use crate::workers::Workers;
use minigpt_data::{Batch, Position};
use minigpt_formats::ExtraKeys;
use minigpt_kernels as ops;
use minigpt_model::parameters::layer_of;
use minigpt_model::{Device, Gpt, Parameter};
use minigpt_tokenizer::Tokenizer;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Workers that a checkpoint may ask for.
const MOST_WORKERS: usize = 4096;

/// What happens in a run.
#[derive(Debug)]
pub enum Event<'a> {
    /// Training begins, or goes on.
    Started {
        /// Steps made before.
        step: u64,
        /// Steps to make in all.
        steps: u64,
        /// Micro-batches in one pass over the data.
        batches_per_epoch: u64,
    },
    /// A step was made.
    Step {
        /// What it was like.
        record: &'a StepRecord,
        /// Whether it goes into the log.
        logged: bool,
    },
    /// A text that the model wrote.
    Sample {
        /// After which step.
        step: u64,
        /// The text.
        text: &'a str,
    },
    /// A model folder was written.
    Saved {
        /// After which step.
        step: u64,
        /// Where it is.
        path: PathBuf,
    },
}

/// Whoever watches a run.
pub trait Observer {
    /// Something happened.
    fn event(&mut self, event: Event);

    /// A text by the model, to see how far it is; none by default.
    fn sample(&mut self, _gpt: &Gpt, _step: u64) -> Option<String> {
        None
    }
}

/// Nobody watches.
impl Observer for () {
    fn event(&mut self, _event: Event) {}
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All steps were made.
    Finished,
    /// The validation loss got no better for too long.
    Patience,
    /// The time was up.
    TimeLimit,
    /// Somebody asked it to stop.
    Stopped,
}

/// How a run went.
#[derive(Debug, Clone)]
pub struct Report {
    /// Why it ended.
    pub ended: Ended,
    /// Steps made in all.
    pub step: u64,
    /// The last step's record.
    pub last: Option<StepRecord>,
    /// The best validation.
    pub best: Option<Best>,
    /// Targets learned from.
    pub tokens: u64,
    /// Seconds of training.
    pub seconds: f64,
    /// The model folder to use: `best` where there was a validation, otherwise `last`.
    pub model: PathBuf,
}

/// A run: a model, its data, its optimiser, and the folder where it leaves everything.
pub struct Trainer {
    gpt: Gpt,
    extra: ExtraKeys,
    parameters: Vec<Parameter>,
    optimizer: Optimizer,
    data: TrainingData,
    config: TrainConfig,
    workers: Workers,
    steps: u64,
    state: State,
    run: RunFolder,
    recorder: Recorder,
    /// The step of the checkpoint in `last`.
    saved: u64,
    /// When it was written by this process, or this process began; and how long writing it took.
    saved_at: Instant,
    save_took: Duration,
    began: Instant,
    seconds_before: f64,
}

impl Trainer {
    /// A new run in an empty folder.
    pub fn new(gpt: Gpt, data: TrainingData, config: TrainConfig, run: RunFolder) -> Result<Self> {
        let state = State {
            step: 0,
            tokens: 0,
            seconds: 0.0,
            position: Position::default(),
            best: None,
            scheduled_best: None,
            without_progress: 0,
            epoch: EpochLoss::default(),
            data: data.train.dataset().fingerprint()?,
            tokenizer: data.tokenizer.as_ref().map(Tokenizer::fingerprint),
            train: config.clone(),
            workers: 0,
            changes: Vec::new(),
        };
        if checkpoint::exists(&run.join("last"))? {
            return Err(Error::Checkpoint(format!(
                "{}: there is a run in this folder; resume it, or choose another folder",
                run.path().display()
            )));
        }
        let recorder = Recorder::new(&run, 0)?;
        Self::build(gpt.into_trainable()?, data, config, run, state, recorder)
    }

    /// Goes on with the run in a folder. What is not as it was is kept as a [`Change`], or refused where it would be
    /// another run.
    pub fn resume(
        mut data: TrainingData,
        config: TrainConfig,
        run: RunFolder,
        device: &Device,
    ) -> Result<Self> {
        let Checkpoint { gpt, extra, mut state, optimizer } = checkpoint::load(&run.join("last"), device)?;
        same("data set", &state.data, &data.train.dataset().fingerprint()?)?;
        let tokenizer = data.tokenizer.as_ref().map(Tokenizer::fingerprint);
        let name = |tokenizer: &Option<String>| tokenizer.clone().unwrap_or_else(|| "none".to_owned());
        same("tokenizer", &name(&state.tokenizer), &name(&tokenizer))?;
        let changes = Change::between("train", &state.train, &config, state.step);
        changes.iter().try_for_each(Change::check)?;
        state.changes.extend(changes);
        data.train.seek(state.position)?;
        let recorder = Recorder::new(&run, state.step)?;
        let step = state.step;
        let mut trainer = Self::build(gpt, data, config, run, state, recorder)?.with_extra(extra);
        trainer.optimizer.restore(optimizer, step)?;
        Ok(trainer)
    }

    fn build(
        gpt: Gpt,
        data: TrainingData,
        config: TrainConfig,
        run: RunFolder,
        state: State,
        recorder: Recorder,
    ) -> Result<Self> {
        config.validate()?;
        let parameters = gpt.parameters();
        let optimizer = Optimizer::new(&parameters, config.optimizer())?;
        let workers = match state.workers {
            0 => Workers::for_model(&gpt)?,
            workers if workers > MOST_WORKERS => {
                let message =
                    format!("the checkpoint names {workers} workers; at most {MOST_WORKERS} make sense");
                return Err(Error::Checkpoint(message));
            }
            // As many as before, however many threads there are now: the same sums.
            workers => Workers::new(workers, rayon::current_num_threads())?,
        };
        let accumulated = config.gradient_accumulation_steps as u64;
        let steps = match config.epochs {
            Some(epochs) => (epochs * data.train.batches_per_epoch()).div_ceil(accumulated),
            None => config.max_iters,
        };
        let (saved, seconds_before) = (state.step, state.seconds);
        let state = State { train: config.clone(), workers: workers.count(), ..state };
        let began = Instant::now();
        Ok(Self {
            gpt,
            extra: ExtraKeys::new(),
            parameters,
            optimizer,
            data,
            config,
            workers,
            steps,
            state,
            run,
            recorder,
            saved,
            saved_at: began,
            save_took: Duration::ZERO,
            began,
            seconds_before,
        })
    }

    /// The same run with further keys for the `config.json` of its checkpoints: those of the model it started from.
    pub fn with_extra(self, extra: ExtraKeys) -> Self {
        Self { extra, ..self }
    }

    /// The same run with changes of settings that it does not know, to be kept with its checkpoints.
    pub fn with_changes(mut self, changes: Vec<Change>) -> Self {
        self.state.changes.extend(changes);
        self
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

    /// Trains until the end, or until `stop` is set; then the step under way is finished and saved.
    pub fn run(&mut self, observer: &mut dyn Observer, stop: &AtomicBool) -> Result<Report> {
        self.began = Instant::now();
        self.saved_at = self.began;
        let (step, steps) = (self.state.step, self.steps);
        observer.event(Event::Started {
            step,
            steps,
            batches_per_epoch: self.data.train.batches_per_epoch(),
        });
        let schedule = self.config.schedule(self.steps);
        let mut last = None;
        // Also with next to no time, a start makes a step.
        let mut ended = self.ended(stop).filter(|&why| why != Ended::TimeLimit);
        while ended.is_none() {
            let rate = schedule.rate(self.state.step);
            let mut record = self.step(rate)?;
            let step = record.step;
            ended = self.ended(stop);
            // Somebody who asks for an end does not wait for an evaluation.
            let last_step = matches!(ended, Some(Ended::Finished | Ended::TimeLimit));
            let scheduled = due(step, self.config.eval_interval) || record.epoch.is_some();
            if scheduled || last_step {
                record.val_loss = self.validate()?;
                self.keep_best(record.val_loss, scheduled, observer)?;
            }
            let noteworthy = record.val_loss.is_some() || record.epoch.is_some();
            let logged = due(step, self.config.log_interval) || noteworthy || last_step || step == 1;
            if logged {
                self.recorder.log(&record)?;
            }
            observer.event(Event::Step { record: &record, logged });
            if due(step, self.config.sample_interval) {
                self.sample(observer)?;
            }
            // The time that an evaluation took does not end a run: there would be none of the step that does.
            ended = self.ended(stop).filter(|&why| why != Ended::TimeLimit).or(ended);
            if ended.is_some() || self.save_due(scheduled) {
                self.save_last(observer)?;
            }
            last = Some(record);
        }
        let ended = ended.unwrap_or(Ended::Finished);
        self.recorder.draw()?;
        let model = self.run.join(if self.state.best.is_some() { "best" } else { "last" });
        let State { step, best, tokens, .. } = self.state;
        Ok(Report { ended, step, last, best, tokens, seconds: self.seconds(), model })
    }

    /// One step: the gradients of all micro-batches, and a move along their mean over tokens. Nothing is logged, judged
    /// or saved; [`Trainer::run`] does that.
    pub fn step(&mut self, rate: f64) -> Result<StepRecord> {
        // On a thread of the pool, which then has to wake only the others, and not once for every parameter.
        rayon::scope(|_| self.step_in_pool(rate))
    }

    fn step_in_pool(&mut self, rate: f64) -> Result<StepRecord> {
        let begun = Instant::now();
        let (mut all, mut epoch) = (Learned::default(), None);
        for micro in 0..self.config.gradient_accumulation_steps {
            let batch = self.data.train.next_batch()?;
            let key = ops::place(ops::place(self.config.seed, self.state.step), micro as u64);
            let (gpt, parameters) = (&self.gpt, &self.parameters);
            let learn = |batches: Vec<Batch>| {
                let mut learned = Learned::default();
                for batch in batches {
                    let pass = || loss(gpt, &batch, Some(key));
                    let (loss, gradients) = Gradients::of_pass(parameters, pass)?;
                    learned.add(loss.value()?, loss.tokens, gradients)?;
                }
                Ok::<_, Error>(learned)
            };
            for learned in self.workers.map(batch.split(self.workers.count()), learn) {
                let Learned { sum, tokens, gradients } = learned?;
                if let Some(gradients) = gradients {
                    self.state.epoch.add(sum, tokens as u64);
                    all.add(sum, tokens, gradients)?;
                }
            }
            let next = self.data.train.position();
            if next.batch == 0 {
                epoch = Some((next.epoch, self.state.epoch.finish()));
            }
        }
        // Passes over the data are told where they are counted.
        let epoch = epoch.filter(|_| self.config.epochs.is_some());
        let Learned { sum, tokens, gradients } = all;
        let step = self.state.step + 1;
        let count = tokens.max(1) as f64;
        let loss = sum / count;
        let (mut norm, mut grad_norms) = (f64::NAN, BTreeMap::new());
        if let Some(gradients) = gradients {
            let squares = gradients.squares()?;
            norm = squares.iter().sum::<f64>().sqrt() / count;
            grad_norms = norms_by_layer(&self.parameters, &squares, count);
            self.finite(step, "loss", loss)?;
            self.finite(step, "gradient norm", norm)?;
            let clip = match self.config.grad_clip {
                0.0 => 1.0,
                max => Gradients::clip_factor(norm, max),
            };
            self.optimizer.step(&gradients, clip / count, rate)?;
        }
        self.state.step = step;
        self.state.tokens += tokens as u64;
        self.state.position = self.data.train.position();
        Ok(StepRecord {
            step,
            loss,
            lr: rate,
            grad_norm: norm,
            grad_norms,
            tokens_per_second: tokens as f64 / begun.elapsed().as_secs_f64(),
            tokens: self.state.tokens,
            seconds: self.seconds(),
            epoch: epoch.map(|(epoch, _)| epoch),
            epoch_loss: epoch.and_then(|(_, loss)| loss),
            val_loss: None,
        })
    }

    /// The mean loss over the validation batches, always the same ones.
    fn validate(&mut self) -> Result<Option<f64>> {
        let Some(val) = &mut self.data.val else { return Ok(None) };
        let batches = match self.config.eval_iters {
            0 => u64::MAX,
            batches => batches,
        };
        let loss = evaluate(&self.gpt, val, batches, &self.workers, |_| {})?.loss();
        if let Some(loss) = loss {
            self.finite(self.state.step, "validation loss", loss)?;
        }
        Ok(loss)
    }

    /// Refuses a number that is none. What is written from there on would be worthless.
    fn finite(&self, step: u64, what: &str, value: f64) -> Result<()> {
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
    fn check_weights(&self) -> Result<()> {
        let weights = self.parameters.iter().map(|p| (format!("weight {}", p.name), p.tensor.clone()));
        let moments = self.optimizer.state().into_iter();
        let moments = moments.map(|(name, tensor)| (format!("optimiser's {name}"), tensor));
        for (what, tensor) in weights.chain(moments) {
            if let Some(value) = flat::first_not_finite(&tensor)? {
                self.finite(self.state.step, &what, f64::from(value))?;
            }
        }
        Ok(())
    }

    fn keep_best(
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
        self.check_weights()?;
        let step = self.state.step;
        self.state.best = Some(Best { step, val_loss });
        checkpoint::save(&self.run, "best", self.model(), None)?;
        observer.event(Event::Saved { step, path: self.run.join("best") });
        Ok(())
    }

    /// All that goes into a model folder.
    fn model(&self) -> Model<'_> {
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
    fn save_due(&self, evaluated: bool) -> bool {
        /// A checkpoint may take this share of the time that is spent between two of them.
        const SHARE: u32 = 20;
        let (elapsed, seconds) = (self.saved_at.elapsed(), self.config.save_seconds);
        if seconds > 0.0 && elapsed.as_secs_f64() >= seconds && elapsed >= SHARE * self.save_took {
            return true;
        }
        match self.config.save_interval {
            0 => evaluated,
            interval => due(self.state.step, interval),
        }
    }

    fn save_last(&mut self, observer: &mut dyn Observer) -> Result<()> {
        let step = self.state.step;
        if self.saved == step {
            return Ok(());
        }
        let began = Instant::now();
        self.check_weights()?;
        self.state.seconds = self.seconds();
        self.recorder.draw()?;
        let resume = Some((&self.state, &self.optimizer));
        checkpoint::save(&self.run, "last", self.model(), resume)?;
        observer.event(Event::Saved { step, path: self.run.join("last") });
        self.saved = step;
        if self.config.keep_checkpoints > 0 {
            let resume = Some((&self.state, &self.optimizer));
            checkpoint::save(&self.run, &format!("step-{step:08}"), self.model(), resume)?;
            checkpoint::rotate(&self.run, self.config.keep_checkpoints)?;
        }
        (self.saved_at, self.save_took) = (Instant::now(), began.elapsed());
        Ok(())
    }

    fn sample(&mut self, observer: &mut dyn Observer) -> Result<()> {
        let step = self.state.step;
        if let Some(text) = observer.sample(&self.gpt, step) {
            self.recorder.sample(step, &text)?;
            observer.event(Event::Sample { step, text: &text });
        }
        Ok(())
    }

    fn ended(&self, stop: &AtomicBool) -> Option<Ended> {
        let State { step, without_progress, .. } = self.state;
        if step >= self.steps {
            Some(Ended::Finished)
        } else if self.config.patience > 0 && without_progress >= self.config.patience {
            Some(Ended::Patience)
        } else if stop.load(Ordering::Relaxed) {
            Some(Ended::Stopped)
        } else if self.config.max_minutes > 0.0
            && self.began.elapsed().as_secs_f64() >= 60.0 * self.config.max_minutes
        {
            Some(Ended::TimeLimit)
        } else {
            None
        }
    }

    fn seconds(&self) -> f64 {
        self.seconds_before + self.began.elapsed().as_secs_f64()
    }
}

/// What was learned from some rows: their loss as a sum, and its gradients.
#[derive(Default)]
struct Learned {
    sum: f64,
    tokens: usize,
    gradients: Option<Gradients>,
}

impl Learned {
    fn add(&mut self, sum: f64, tokens: usize, gradients: Gradients) -> Result<()> {
        self.sum += sum;
        self.tokens += tokens;
        self.gradients = Some(match self.gradients.take() {
            None => gradients,
            Some(all) => Gradients::sum(all, &gradients)?,
        });
        Ok(())
    }
}

/// The norm of the gradients of each layer, from the squares of those of its parameters.
fn norms_by_layer(parameters: &[Parameter], squares: &[f64], count: f64) -> BTreeMap<String, f64> {
    let mut layers: BTreeMap<String, f64> = BTreeMap::new();
    for (parameter, square) in parameters.iter().zip(squares) {
        match layers.get_mut(layer_of(&parameter.name)) {
            Some(sum) => *sum += square,
            None => drop(layers.insert(layer_of(&parameter.name).to_owned(), *square)),
        }
    }
    layers.values_mut().for_each(|sum| *sum = sum.sqrt() / count);
    layers
}

fn due(step: u64, interval: u64) -> bool {
    interval > 0 && step.is_multiple_of(interval)
}

fn same(what: &str, then: &str, now: &str) -> Result<()> {
    if then == now {
        return Ok(());
    }
    Err(Error::Checkpoint(format!("the run was begun with another {what} ({then}) than this one ({now})")))
}
