//! A training run: started, resumed, or joined as one of several ranks. Ranks first compare what they must have in common; what only rank 0
//! knows, it broadcasts. The loop itself is in `train_loop.rs`.

use crate::best::Answers;
use crate::change::Change;
use crate::checkpoint::{self, Checkpoint, CheckpointError, Model, Moments, State};
use crate::config::{BestBy, MOST_PARTS, TrainConfig};
use crate::distributed::{Exchange, RankError, Requests, SingleRank, Timeouts, World};
use crate::epoch::EpochLoss;
use crate::error::{Compared, Error, JudgeError, NotFinite, Result};
use crate::estimate::Estimate;
use crate::event::{Ended, Event, Observer};
use crate::optimizer::Optimizer;
use crate::overfitting::OverfittingWatch;
use crate::recorder::Recorder;
use crate::run_folder::RunFolder;
use crate::run_output::RunOutput;
use crate::training_data::TrainingData;
use crate::workers::Workers;
use minigpt_data::Position;
use minigpt_formats::ExtraKeys;
use minigpt_model::{Device, Gpt, Parameter};
use minigpt_tokenizer::Tokenizer;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Asks a model questions and counts the right answers. The crate above knows how.
pub type Judge = Box<dyn FnMut(&Gpt) -> std::result::Result<Answers, JudgeError> + Send>;

/// A training run: a model, its data, its optimizer, and the folder that it writes into.
pub struct Trainer {
    pub(crate) gpt: Gpt,
    pub(crate) extra: ExtraKeys,
    pub(crate) parameters: Vec<Parameter>,
    /// Moves the parameters that this rank owns.
    pub(crate) optimizer: Optimizer,
    pub(crate) data: TrainingData,
    pub(crate) config: TrainConfig,
    pub(crate) workers: Workers,
    pub(crate) world: World,
    /// Steps of the whole run.
    pub(crate) steps: u64,
    pub(crate) state: State,
    pub(crate) output: RunOutput,
    /// When this process started the run, and the seconds of training before that.
    pub(crate) began: Instant,
    pub(crate) seconds_before: f64,
    pub(crate) estimate: Estimate,
    pub(crate) overfitting: OverfittingWatch,
    pub(crate) judge: Option<Judge>,
}

/// The exchange with the other ranks, and how long to wait for them.
type Connection = (Arc<dyn Exchange>, Timeouts);

impl Trainer {
    /// Starts a new run in an empty folder.
    ///
    /// # Errors
    /// The folder holds a run already, or a setting is invalid.
    pub fn new(gpt: Gpt, data: TrainingData, config: TrainConfig, run: RunFolder) -> Result<Self> {
        Self::new_on(SingleRank::exchange(), gpt, data, config, run)
    }

    /// Starts a new run on several ranks, as rank 0, whose weights all ranks begin with. The others [`join`](Self::join).
    ///
    /// # Errors
    /// As for [`new`](Self::new), or the ranks were not given the same data, model and settings.
    pub fn new_on(
        exchange: Arc<dyn Exchange>,
        gpt: Gpt,
        data: TrainingData,
        config: TrainConfig,
        run: RunFolder,
    ) -> Result<Self> {
        let state = first_state(&data, &config)?;
        run.refuse_checkpoint()?;
        config.validate()?;
        let connection = connect(exchange, &gpt, &data, &config)?;
        let recorder = Recorder::new(&run.entry_path(), 0);
        Self::build(connection, gpt.into_trainable()?, data, config, state, Some((run, recorder)))
    }

    /// Resumes the run in a folder. A setting that differs is recorded as a [`Change`], or refused if it would make another run.
    ///
    /// # Errors
    /// There is no run to resume, or its data, tokenizer or settings were others.
    pub fn resume(data: TrainingData, config: TrainConfig, run: RunFolder, device: &Device) -> Result<Self> {
        Self::resume_on(SingleRank::exchange(), data, config, run, device)
    }

    /// Resumes a run on any number of ranks, as rank 0. The others [`join`](Self::join).
    ///
    /// # Errors
    /// As for [`resume`](Self::resume), or the ranks were not given the same data, model and settings.
    pub fn resume_on(
        exchange: Arc<dyn Exchange>,
        mut data: TrainingData,
        config: TrainConfig,
        run: RunFolder,
        device: &Device,
    ) -> Result<Self> {
        let Checkpoint { gpt, extra, mut state, optimizer } = checkpoint::load(&run.join("last"), device)?;
        same(Compared::Data, &state.data, &data.train.dataset().fingerprint()?)?;
        same(Compared::Tokenizer, named(state.tokenizer.as_ref()), named(tokenizer_of(&data).as_ref()))?;
        let then = state.train.clone().with_one_length();
        let changes = Change::between("train", &then, &config.clone().with_one_length(), state.step);
        changes.iter().try_for_each(Change::check)?;
        state.changes.extend(changes);
        config.validate()?;
        data.train.seek(state.position)?;
        let connection = connect(exchange, &gpt, &data, &config)?;
        let recorder = Recorder::new(&run.entry_path(), state.step);
        let trainer = Self::build(connection, gpt, data, config, state, Some((run, recorder)))?;
        trainer.with_extra(extra).with_moments(Some(optimizer))
    }

    /// Joins a run that rank 0 starts, or resumes from `state`. The weights of `gpt` don't matter: all ranks begin with those of rank 0.
    ///
    /// # Errors
    /// The ranks were not given the same data, model and settings.
    pub fn join(
        exchange: Arc<dyn Exchange>,
        gpt: Gpt,
        mut data: TrainingData,
        config: TrainConfig,
        state: Option<State>,
    ) -> Result<Self> {
        config.validate()?;
        let resumed = state.is_some();
        let state = state.map_or_else(|| first_state(&data, &config), Ok)?;
        data.train.seek(state.position)?;
        let connection = connect(exchange, &gpt, &data, &config)?;
        let trainer = Self::build(connection, gpt.into_trainable()?, data, config, state, None)?;
        if resumed { trainer.with_moments(None) } else { Ok(trainer) }
    }

    fn build(
        (exchange, timeouts): Connection,
        gpt: Gpt,
        data: TrainingData,
        config: TrainConfig,
        state: State,
        output: Option<(RunFolder, Recorder)>,
    ) -> Result<Self> {
        let parameters = gpt.parameters();
        let threads = Workers::suited(&gpt);
        let parts = agreed_parts((&exchange, &timeouts), &state, &config, threads)?;
        let world = World::new((exchange, timeouts), parts, &parameters, config.optimizer);
        parameters.iter().try_for_each(|parameter| world.broadcast(&parameter.tensor))?;
        let optimizer = Optimizer::new(&world.own(&parameters), config.optimizer())?;
        let workers = Workers::new(threads.min(world.own_parts().len()), rayon::current_num_threads())?;
        let accumulated = config.gradient_accumulation_steps as u64;
        let steps = match config.epochs {
            Some(epochs) => (epochs * data.train.batches_per_epoch()).div_ceil(accumulated),
            None => config.max_iters,
        };
        let (saved_step, seconds_before) = (state.step, state.seconds);
        let state = State { train: config.clone(), parts, ..state };
        let overfitting = OverfittingWatch::new(state.best);
        Ok(Self {
            gpt,
            extra: ExtraKeys::new(),
            parameters,
            optimizer,
            data,
            config,
            workers,
            world,
            steps,
            state,
            output: RunOutput::new(output, saved_step),
            began: Instant::now(),
            seconds_before,
            estimate: Estimate::default(),
            overfitting,
            judge: None,
        })
    }

    /// Sets further keys for the `config.json` of checkpoints: those of the model that the run started from.
    pub fn with_extra(self, extra: ExtraKeys) -> Self {
        Self { extra, ..self }
    }

    /// Adds changes of settings that the trainer doesn't know, to be kept with its checkpoints.
    pub fn with_changes(mut self, changes: Vec<Change>) -> Self {
        self.state.changes.extend(changes);
        self
    }

    /// Sets the judge that a run needs if its best model is chosen by answers ([`BestBy::Answers`](crate::BestBy::Answers)). On several
    /// ranks, rank 0 asks.
    pub fn with_judge(self, judge: Judge) -> Self {
        Self { judge: Some(judge), ..self }
    }

    /// Sets the time limit of this start of the run, whatever its settings say.
    ///
    /// # Errors
    /// Not a finite number of minutes from 0 on.
    pub fn stop_after(&mut self, minutes: f64) -> Result<()> {
        let config = TrainConfig { max_minutes: minutes, ..self.config.clone() };
        config.validate()?;
        self.config = config;
        Ok(())
    }

    /// The model in its present state.
    pub fn gpt(&self) -> &Gpt {
        &self.gpt
    }

    /// Seconds of training, earlier starts of the run included.
    pub(crate) fn seconds(&self) -> f64 {
        self.seconds_before + self.began.elapsed().as_secs_f64()
    }

    /// Restores the optimizer's moments, which rank 0 has read and sends to their owners.
    fn with_moments(mut self, all: Option<Moments>) -> Result<Self> {
        let step = self.state.step;
        if self.world.count() == 1 {
            self.optimizer.restore(all.unwrap_or_default(), step)?;
            return Ok(self);
        }
        let (mut all, mut own) = (all.unwrap_or_default(), Moments::new());
        for names in Optimizer::memory_names(&self.parameters, self.config.optimizer) {
            for (parameter, name) in self.parameters.iter().zip(names) {
                let Some(name) = name else { continue };
                let moment = if self.world.is_first() {
                    Optimizer::checked(all.remove(&name), &name, &parameter.tensor)?
                } else {
                    parameter.tensor.zeros_like()?.detach()
                };
                self.world.broadcast(&moment)?;
                // A rank keeps the moments of its own parameters only.
                if self.optimizer.remembers(&parameter.name) {
                    own.insert(name, moment);
                }
            }
        }
        self.optimizer.restore(own, step)?;
        Ok(self)
    }

    /// Begins the clock and tells the observer.
    ///
    /// # Errors
    /// The best model is to be chosen by answers, but nobody asks.
    pub(crate) fn start(&mut self, observer: &mut dyn Observer, stop: &AtomicBool) -> Result<()> {
        if self.config.best_by == BestBy::Answers && self.judge.is_none() && self.world.is_first() {
            return Err(Error::NoQuestions);
        }
        self.began = Instant::now();
        self.output.start_clock();
        let (step, steps) = (self.state.step, self.steps);
        let batches_per_epoch = self.data.train.batches_per_epoch();
        observer.event(Event::Started { step, steps, batches_per_epoch });
        // Warnings from before there was an observer.
        self.output.record(observer, |_, _| {})?;
        self.world.gather_after_long_work(self.requests(stop), &[])?;
        Ok(())
    }

    /// What this rank asks of all ranks. Only rank 0's clock counts.
    pub(crate) fn requests(&self, stop: &AtomicBool) -> Requests {
        let (is_first, minutes) = (self.world.is_first(), self.config.max_minutes);
        let time_is_up = minutes > 0.0 && self.began.elapsed().as_secs_f64() >= 60.0 * minutes;
        Requests {
            stop: stop.load(Ordering::Relaxed),
            time_is_up: is_first && time_is_up,
            save: is_first && self.output.is_save_due(self.config.save_seconds),
        }
    }

    /// Why the run ends after this step, if it does.
    pub(crate) fn ended(&self) -> Option<Ended> {
        let State { step, without_progress, .. } = self.state;
        if step >= self.steps {
            Some(Ended::Finished)
        } else if self.config.patience > 0 && without_progress >= self.config.patience {
            Some(Ended::Patience)
        } else if self.world.agreed().stop {
            Some(Ended::Stopped)
        } else if self.world.agreed().time_is_up {
            Some(Ended::TimeLimit)
        } else {
            None
        }
    }

    /// Whether a checkpoint is due, by steps or by the clock.
    pub(crate) fn save_due(&self, evaluated: bool) -> bool {
        let by_steps = match self.config.save_interval {
            0 => evaluated,
            interval => due(self.state.step, interval),
        };
        by_steps || self.world.agreed().save
    }

    /// Returns an error unless the value is finite.
    pub(crate) fn check_finite(&self, step: u64, what: NotFinite, value: f64) -> Result<()> {
        if value.is_finite() { Ok(()) } else { Err(self.output.diverged(step, what, value, self.state.best)) }
    }

    /// Batches of one evaluation.
    pub(crate) fn evaluation_batches(&self) -> u64 {
        let all = self.data.val.as_ref().map_or(0, |val| val.batches_per_epoch());
        if self.config.eval_iters == 0 { all } else { all.min(self.config.eval_iters) }
    }

    /// Time until the end of the run, evaluations included, once it can be estimated.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        self.estimate.run_left(&self.config, &self.state, self.steps, self.evaluation_batches(), self.began)
    }

    /// Gathers the optimizer moments of all ranks on rank 0; the other ranks get their own.
    pub(crate) fn gather_moments(&mut self) -> Result<Moments> {
        let mut moments = self.optimizer.state();
        if self.world.count() == 1 {
            return Ok(moments);
        }
        for names in Optimizer::memory_names(&self.parameters, self.config.optimizer) {
            let own = names.iter().map(|name| name.as_ref().and_then(|name| moments.get(name)).cloned());
            let own: Vec<_> = own.collect();
            let present: Vec<bool> = names.iter().map(Option::is_some).collect();
            let Some(all) = self.world.gather_tensors(&own, &present)? else { continue };
            moments.extend(names.into_iter().flatten().zip(all));
        }
        Ok(moments)
    }
}

/// Whether something that happens every `interval` steps happens after this one; 0 is never.
pub(crate) fn due(step: u64, interval: u64) -> bool {
    interval > 0 && step.is_multiple_of(interval)
}

/// What goes into a model folder of the run.
pub(crate) fn model<'a>(gpt: &'a Gpt, extra: &'a ExtraKeys, data: &'a TrainingData) -> Model<'a> {
    let TrainingData { tokenizer, template, .. } = data;
    Model { gpt, extra, tokenizer: tokenizer.as_ref(), template: template.as_ref() }
}

/// The state of a new run.
fn first_state(data: &TrainingData, config: &TrainConfig) -> Result<State> {
    Ok(State {
        step: 0,
        tokens: 0,
        seconds: 0.0,
        position: Position::default(),
        best: None,
        scheduled_best: None,
        without_progress: 0,
        epoch: EpochLoss::default(),
        data: data.train.dataset().fingerprint()?,
        tokenizer: tokenizer_of(data),
        train: config.clone(),
        parts: 0,
        changes: Vec::new(),
    })
}

/// Checks that all ranks have the same data, tokenizer, settings and version of this program.
fn connect(
    exchange: Arc<dyn Exchange>,
    gpt: &Gpt,
    data: &TrainingData,
    config: &TrainConfig,
) -> Result<Connection> {
    let timeouts = Timeouts::new(&exchange)?;
    if exchange.ranks() == 1 {
        return Ok((exchange, timeouts));
    }
    let json = |value: serde_json::Result<String>| value.map_err(|e| RankError::Encode(e.to_string()));
    let val = data.val.as_ref().map(|val| val.dataset().fingerprint()).transpose()?;
    let own = [
        (Compared::Version, env!("CARGO_PKG_VERSION").to_owned()),
        (Compared::Data, data.train.dataset().fingerprint()?),
        (Compared::Validation, val.unwrap_or_else(|| "none".to_owned())),
        (Compared::Tokenizer, named(tokenizer_of(data).as_ref()).to_owned()),
        (Compared::Model, json(serde_json::to_string(gpt.config()))?),
        (Compared::Settings, json(serde_json::to_string(config))?),
    ];
    let record = json(serde_json::to_string(&own.each_ref().map(|(_, value)| value)))?;
    let records = timeouts.start(|| exchange.gather(record.as_bytes()))?;
    let read = |record: &Vec<u8>| serde_json::from_slice::<Vec<String>>(record).unwrap_or_default();
    let first = records.first().map(read).unwrap_or_default();
    for (rank, record) in records.iter().enumerate() {
        let other = read(record);
        let mut fields = own.iter().zip(first.iter().zip(&other));
        let different = fields.find(|(_, (first, other))| first != other);
        if let Some(((what, _), (first, other))) = different {
            let (what, other, first) = (*what, other.clone(), first.clone());
            return Err(RankError::Different { rank, what, other, first }.into());
        }
        if other.len() != own.len() {
            return Err(RankError::OtherVersion { rank }.into());
        }
    }
    Ok((exchange, timeouts))
}

/// Number of parts of a batch: the same as before the resume, or as set, or one per worker of every rank.
fn agreed_parts(
    (exchange, timeouts): (&Arc<dyn Exchange>, &Timeouts),
    state: &State,
    config: &TrainConfig,
    threads: usize,
) -> Result<usize> {
    let wanted = match (state.parts, config.parts) {
        (0, 0) => (exchange.ranks() * threads).min(MOST_PARTS),
        (0, parts) => parts,
        (parts, _) => parts,
    };
    let mut bytes = (wanted as u64).to_le_bytes().to_vec();
    timeouts.long(|| exchange.broadcast(&mut bytes))?;
    let parts = bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)) as usize;
    if !(1..=MOST_PARTS).contains(&parts) {
        return Err(CheckpointError::Parts { parts, most: MOST_PARTS }.into());
    }
    // Every part has at least one row.
    Ok(parts.min(config.batch_size))
}

fn tokenizer_of(data: &TrainingData) -> Option<String> {
    data.tokenizer.as_ref().map(Tokenizer::fingerprint)
}

fn named(fingerprint: Option<&String>) -> &str {
    fingerprint.map_or("none", String::as_str)
}

fn same(what: Compared, then: &str, now: &str) -> Result<()> {
    if then == now {
        return Ok(());
    }
    Err(Error::OtherData { what, then: then.to_owned(), now: now.to_owned() })
}
