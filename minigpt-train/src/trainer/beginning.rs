//! How a run begins or goes on, on one rank or on several: what the ranks must have in common is compared, and what only
//! the first one has is told to the others.

use super::{Trainer, Wishes};
use crate::change::Change;
use crate::checkpoint::{self, Checkpoint, Moments, State};
use crate::config::{MOST_PARTS, TrainConfig};
use crate::epoch::EpochLoss;
use crate::error::{Error, Result};
use crate::estimate::Estimate;
use crate::exchange::{Alone, Exchange};
use crate::optimizer::Optimizer;
use crate::overfitting::OverfittingWatch;
use crate::ranks::{Ranks, Waiting};
use crate::recorder::Recorder;
use crate::run_folder::RunFolder;
use crate::training_data::TrainingData;
use crate::workers::Workers;
use minigpt_data::Position;
use minigpt_formats::ExtraKeys;
use minigpt_model::{Device, Gpt};
use minigpt_tokenizer::Tokenizer;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A rank with the exchange to the others, and how long it waits for them.
type Company = (Arc<dyn Exchange>, Waiting);

impl Trainer {
    /// A new run in an empty folder.
    pub fn new(gpt: Gpt, data: TrainingData, config: TrainConfig, run: RunFolder) -> Result<Self> {
        Self::new_on(Alone::exchange(), gpt, data, config, run)
    }

    /// A new run on several ranks, as the first of them: its weights are those that all begin with. The others
    /// [`join`](Self::join).
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
        let company = accompanied(exchange, &gpt, &data, &config)?;
        let recorder = Recorder::new(&run.entry_path(), 0);
        Self::build(company, gpt.into_trainable()?, data, config, state, Some((run, recorder)))
    }

    /// Goes on with the run in a folder. What is not as it was is kept as a [`Change`], or refused where it would be
    /// another run.
    pub fn resume(data: TrainingData, config: TrainConfig, run: RunFolder, device: &Device) -> Result<Self> {
        Self::resume_on(Alone::exchange(), data, config, run, device)
    }

    /// Goes on with a run on several ranks, as the first of them, however many there were before. The others
    /// [`join`](Self::join).
    pub fn resume_on(
        exchange: Arc<dyn Exchange>,
        mut data: TrainingData,
        config: TrainConfig,
        run: RunFolder,
        device: &Device,
    ) -> Result<Self> {
        let Checkpoint { gpt, extra, mut state, optimizer } = checkpoint::load(&run.join("last"), device)?;
        same("data set", &state.data, &data.train.dataset().fingerprint()?)?;
        same("tokenizer", named(state.tokenizer.as_ref()), named(tokenizer_of(&data).as_ref()))?;
        let then = state.train.clone().with_one_length();
        let changes = Change::between("train", &then, &config.clone().with_one_length(), state.step);
        changes.iter().try_for_each(Change::check)?;
        state.changes.extend(changes);
        config.validate()?;
        data.train.seek(state.position)?;
        let company = accompanied(exchange, &gpt, &data, &config)?;
        let recorder = Recorder::new(&run.entry_path(), state.step);
        let trainer = Self::build(company, gpt, data, config, state, Some((run, recorder)))?;
        trainer.with_extra(extra).with_moments(Some(optimizer))
    }

    /// Takes part in a run that the first rank has begun, or goes on with from a state. The weights of the model don't
    /// matter: all begin with those of the first rank.
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
        let company = accompanied(exchange, &gpt, &data, &config)?;
        let trainer = Self::build(company, gpt.into_trainable()?, data, config, state, None)?;
        if resumed { trainer.with_moments(None) } else { Ok(trainer) }
    }

    fn build(
        (exchange, waiting): Company,
        gpt: Gpt,
        data: TrainingData,
        config: TrainConfig,
        state: State,
        output: Option<(RunFolder, Recorder)>,
    ) -> Result<Self> {
        let parameters = gpt.parameters();
        let threads = Workers::suited(&gpt);
        let parts = agreed_parts((&exchange, &waiting), &state, &config, threads)?;
        let ranks = Ranks::new((exchange, waiting), parts, &parameters, config.optimizer);
        parameters.iter().try_for_each(|parameter| ranks.broadcast(&parameter.tensor))?;
        let optimizer = Optimizer::new(&ranks.own(&parameters), config.optimizer())?;
        let workers = Workers::new(threads.min(ranks.own_parts().len()), rayon::current_num_threads())?;
        let accumulated = config.gradient_accumulation_steps as u64;
        let steps = match config.epochs {
            Some(epochs) => (epochs * data.train.batches_per_epoch()).div_ceil(accumulated),
            None => config.max_iters,
        };
        let (saved, seconds_before) = (state.step, state.seconds);
        let state = State { train: config.clone(), parts, ..state };
        let overfitting = OverfittingWatch::new(state.best);
        let (run, recorder) = output.unzip();
        let began = Instant::now();
        Ok(Self {
            gpt,
            extra: ExtraKeys::new(),
            parameters,
            optimizer,
            data,
            config,
            workers,
            ranks,
            agreed: Wishes::default(),
            steps,
            state,
            run,
            recorder,
            saved,
            saved_at: began,
            save_took: Duration::ZERO,
            began,
            seconds_before,
            estimate: Estimate::default(),
            overfitting,
            not_kept: String::new(),
            judge: None,
        })
    }

    /// The run with what its optimiser remembered, which the first rank knows and tells each owner.
    fn with_moments(mut self, all: Option<Moments>) -> Result<Self> {
        let step = self.state.step;
        if self.ranks.count() == 1 {
            self.optimizer.restore(all.unwrap_or_default(), step)?;
            return Ok(self);
        }
        let (mut all, mut own) = (all.unwrap_or_default(), Moments::new());
        for names in Optimizer::memory_names(&self.parameters, self.config.optimizer) {
            for (parameter, name) in self.parameters.iter().zip(names) {
                let Some(name) = name else { continue };
                let moment = match self.ranks.is_first() {
                    true => Optimizer::checked(all.remove(&name), &name, &parameter.tensor)?,
                    false => parameter.tensor.zeros_like()?.detach(),
                };
                self.ranks.broadcast(&moment)?;
                // What another rank owns is forgotten at once.
                if self.optimizer.remembers(&parameter.name) {
                    own.insert(name, moment);
                }
            }
        }
        self.optimizer.restore(own, step)?;
        Ok(self)
    }
}

/// Where a new run stands.
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

/// The exchange, once all ranks are known to have the same data, tokenizer, settings and version of this program.
fn accompanied(
    exchange: Arc<dyn Exchange>,
    gpt: &Gpt,
    data: &TrainingData,
    config: &TrainConfig,
) -> Result<Company> {
    let waiting = Waiting::new(&exchange)?;
    if exchange.ranks() == 1 {
        return Ok((exchange, waiting));
    }
    let json = |value: serde_json::Result<String>| value.map_err(|e| Error::OtherRank(e.to_string()));
    let val = data.val.as_ref().map(|val| val.dataset().fingerprint()).transpose()?;
    let own = [
        ("version of this program", env!("CARGO_PKG_VERSION").to_owned()),
        ("data set", data.train.dataset().fingerprint()?),
        ("validation set", val.unwrap_or_else(|| "none".to_owned())),
        ("tokenizer", named(tokenizer_of(data).as_ref()).to_owned()),
        ("model", json(serde_json::to_string(gpt.config()))?),
        ("setting", json(serde_json::to_string(config))?),
    ];
    let record = json(serde_json::to_string(&own.each_ref().map(|(_, value)| value)))?;
    let records = waiting.at_the_start(|| exchange.gather(record.as_bytes()))?;
    let read = |record: &Vec<u8>| serde_json::from_slice::<Vec<String>>(record).unwrap_or_default();
    let first = records.first().map(read).unwrap_or_default();
    for (rank, record) in records.iter().enumerate() {
        let other = read(record);
        let mut fields = own.iter().zip(first.iter().zip(&other));
        let different = fields.find(|(_, (first, other))| first != other);
        if let Some(((what, _), (first, other))) = different {
            return Err(Error::OtherRank(format!(
                "rank {rank} has another {what} ({other}) than rank 0 ({first}): all ranks must be given the same"
            )));
        }
        if other.len() != own.len() {
            return Err(Error::OtherRank(format!(
                "rank {rank} runs another version of this program than rank 0"
            )));
        }
    }
    Ok((exchange, waiting))
}

/// The parts of a batch: as many as before, or as the settings say, or one for each worker of every rank.
fn agreed_parts(
    (exchange, waiting): (&Arc<dyn Exchange>, &Waiting),
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
    waiting.patiently(|| exchange.broadcast(&mut bytes))?;
    let parts = bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)) as usize;
    if !(1..=MOST_PARTS).contains(&parts) {
        let message =
            format!("the checkpoint names {parts} parts of a batch; at most {MOST_PARTS} make sense");
        return Err(Error::Checkpoint(message));
    }
    // A part without a row would be no part.
    Ok(parts.min(config.batch_size))
}

fn tokenizer_of(data: &TrainingData) -> Option<String> {
    data.tokenizer.as_ref().map(Tokenizer::fingerprint)
}

fn named(fingerprint: Option<&String>) -> &str {
    fingerprint.map_or("none", String::as_str)
}

fn same(what: &'static str, then: &str, now: &str) -> Result<()> {
    if then == now {
        return Ok(());
    }
    Err(Error::OtherData { what, then: then.to_owned(), now: now.to_owned() })
}
