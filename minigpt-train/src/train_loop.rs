//! The training loop, in the order of nanoGPT's `train.py`: batch → loss → backward → clip → optimizer step → evaluate → log → sample → save.
//!
//! It runs unchanged on one machine and on several ranks: `world` then sums gradients and makes the ranks agree on when to stop and save.

use crate::best::{Answers, Best};
use crate::checkpoint::State;
use crate::config::BestBy;
use crate::error::{Error, NotFinite, Result};
use crate::evaluate::{Evaluation, evaluate_batch};
use crate::event::{Ended, Event, Observer, Report};
use crate::gradients::{Gradients, norms_by_layer};
use crate::local_gradients::{LocalGradients, MicroBatch, local_gradients};
use crate::record::StepRecord;
use crate::recorder::Recorder;
use crate::snapshots;
use crate::trainer::{Trainer, due, model};
use minigpt_data::Position;
use minigpt_kernels as ops;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

impl Trainer {
    /// Trains until the end, or until `stop` is set on any rank; then the current step is finished and saved. On several ranks all call this.
    ///
    /// # Errors
    /// Training diverges, the disk is full, another rank fails.
    pub fn run(&mut self, observer: &mut dyn Observer, stop: &AtomicBool) -> Result<Report> {
        self.start(observer, stop)?;
        let schedule = self.config.schedule(self.steps);
        let mut last = None;
        // Every start makes at least one step, however short its time limit.
        let mut ended = self.ended().filter(|&why| why != Ended::TimeLimit);
        while ended.is_none() {
            self.save_snapshot(observer)?;
            let mut record = self.train_step(schedule.rate(self.state.step), stop)?;
            ended = self.ended();

            // A user who asks for a stop does not wait for an evaluation.
            let is_last = matches!(ended, Some(Ended::Finished | Ended::TimeLimit));
            let scheduled = due(record.step, self.config.eval_interval) || record.epoch.is_some();
            if scheduled || is_last {
                record.val_loss = self.validate(observer, stop)?;
                record.answers = self.ask(stop)?;
                self.keep_best(&record, scheduled, observer)?;
            }
            self.log(&record, is_last, observer)?;
            if due(record.step, self.config.sample_interval) {
                self.sample(observer, stop)?;
            }
            // Patience or another rank may have ended the run meanwhile. The time that an evaluation takes does not.
            ended = self.ended().filter(|&why| why != Ended::TimeLimit).or(ended);
            if ended.is_some() || self.save_due(scheduled) {
                self.save(observer)?;
                self.world.gather_after_long_work(self.requests(stop), &[])?;
            }
            last = Some(record);
        }
        self.save_snapshot(observer)?;
        self.output.record(observer, Recorder::draw)?;
        let State { step, best, tokens, .. } = self.state;
        let folder = self.output.path(if best.is_some() { "best" } else { "last" });
        let ended = ended.unwrap_or(Ended::Finished);
        Ok(Report { ended, step, last, best, tokens, seconds: self.seconds(), model: folder })
    }

    /// Makes one step at a learning rate, without logging, evaluating or saving.
    ///
    /// # Errors
    /// The loss or the gradient norm is not finite, or the data can't be read.
    pub fn step(&mut self, lr: f64) -> Result<StepRecord> {
        self.train_step(lr, &AtomicBool::new(false))
    }

    fn train_step(&mut self, lr: f64, stop: &AtomicBool) -> Result<StepRecord> {
        if self.world.count() == 1 {
            // Inside the thread pool, so that parallel operations don't have to enter it one by one.
            rayon::scope(|_| self.forward_backward_update(lr, stop))
        } else {
            // MPI may only be called from this thread.
            self.forward_backward_update(lr, stop)
        }
    }

    fn forward_backward_update(&mut self, lr: f64, stop: &AtomicBool) -> Result<StepRecord> {
        let began = Instant::now();
        let micro_batches = self.next_micro_batches()?;
        let epochs_done: Vec<Option<u64>> = micro_batches.iter().map(|micro| micro.epoch_done).collect();

        // Loss and backward pass of this rank's rows, then the sums over all ranks.
        let (gpt, parameters, own) = (&self.gpt, &self.parameters, self.world.own_parts());
        let local = || local_gradients(gpt, parameters, micro_batches, own, &self.workers);
        let LocalGradients { losses, sums } = rayon::scope(|_| local())?;
        let gradients = self.world.reduce(sums)?;
        let squares = rayon::scope(|_| gradients.squares())?;
        let requests = self.requests(stop);
        let (losses, squares) = self.world.gather_losses(requests, losses, squares, epochs_done.len())?;
        let (Evaluation { sum, tokens }, epoch) = self.state.epoch.add_step(&losses, &epochs_done);

        // Gradients are sums over tokens: one factor makes them means and clips them.
        let (step, count) = (self.state.step + 1, tokens.max(1) as f64);
        let loss = sum / count;
        let grad_norm = squares.iter().sum::<f64>().sqrt() / count;
        self.check_finite(step, NotFinite::Loss, loss)?;
        self.check_finite(step, NotFinite::GradientNorm, grad_norm)?;
        let clip = match self.config.grad_clip {
            0.0 => 1.0,
            max_norm => Gradients::clip_factor(grad_norm, max_norm),
        };
        rayon::scope(|_| self.optimizer.step(&gradients, clip / count, lr))?;
        self.world.share_weights()?;

        self.state.step = step;
        self.state.tokens += tokens;
        self.state.position = self.data.train.position();
        self.estimate.step(began.elapsed());
        self.world.set_step_time(self.estimate.step_time());
        self.overfitting.step(loss);
        // Epochs are reported if the length of the run is given in epochs.
        let epoch = epoch.filter(|_| self.config.epochs.is_some());
        Ok(StepRecord {
            step,
            loss,
            lr,
            grad_norm,
            grad_norms: norms_by_layer(&self.parameters, &squares, count),
            tokens_per_second: tokens as f64 / began.elapsed().as_secs_f64(),
            tokens: self.state.tokens,
            seconds: self.seconds(),
            epoch: epoch.map(|(epoch, _)| epoch),
            epoch_loss: epoch.and_then(|(_, loss)| loss),
            val_loss: None,
            answers: None,
        })
    }

    fn next_micro_batches(&mut self) -> Result<Vec<MicroBatch>> {
        let step_key = ops::place(self.config.seed, self.state.step);
        let next = |micro| {
            let mut parts = self.data.train.next_batch()?.split(self.world.parts());
            parts.resize(self.world.parts(), Vec::new());
            let Position { epoch, batch } = self.data.train.position();
            let epoch_done = (batch == 0).then_some(epoch);
            Ok(MicroBatch { dropout_key: ops::place(step_key, micro as u64), parts, epoch_done })
        };
        (0..self.config.gradient_accumulation_steps).map(next).collect()
    }

    /// The mean loss over the validation batches, always the same ones. Rank r of n evaluates batches r, r + n, r + 2n, …
    fn validate(&mut self, observer: &mut dyn Observer, stop: &AtomicBool) -> Result<Option<f64>> {
        let (step, batches) = (self.state.step, self.evaluation_batches());
        let (rank, ranks) = (self.world.rank() as u64, self.world.count() as u64);
        let Some(val) = &mut self.data.val else { return Ok(None) };
        let (began, mut numbers) = (Instant::now(), Vec::new());
        observer.event(Event::Evaluating { step, done: 0, batches });
        for batch in (rank..batches).step_by(ranks as usize) {
            let rows = val.batch(Position { epoch: 0, batch })?;
            let Evaluation { sum, tokens } =
                evaluate_batch(&self.gpt, &rows, self.world.parts(), &self.workers)?;
            numbers.extend([sum, tokens as f64]);
            observer.event(Event::Evaluating { step, done: (batch + ranks).min(batches), batches });
        }
        let of_ranks = self.world.gather_after_long_work(self.requests(stop), &numbers)?;
        let mut evaluation = Evaluation::default();
        for batch in 0..batches {
            let (rank, at) = ((batch % ranks) as usize, 2 * (batch / ranks) as usize);
            let pair = of_ranks.get(rank).and_then(|numbers| numbers.get(at..at + 2)?.first_chunk());
            let &[sum, tokens] = pair.unwrap_or(&[f64::NAN, 1.0]);
            evaluation.add(Evaluation { sum, tokens: tokens as u64 });
        }
        self.estimate.evaluation(began.elapsed());
        let loss = evaluation.loss();
        loss.map_or(Ok(()), |loss| self.check_finite(step, NotFinite::ValidationLoss, loss))?;
        Ok(loss)
    }

    /// How many questions the model answers, if the best model is chosen by that. Rank 0 asks and sends the others the result.
    fn ask(&mut self, stop: &AtomicBool) -> Result<Option<Answers>> {
        if self.config.best_by != BestBy::Answers {
            return Ok(None);
        }
        let began = Instant::now();
        let own = match &mut self.judge {
            Some(judge) if self.world.is_first() => {
                let Answers { right, asked } = judge(&self.gpt).map_err(Error::Judge)?;
                vec![right as f64, asked as f64]
            }
            _ => Vec::new(),
        };
        let of_ranks = self.world.gather_after_long_work(self.requests(stop), &own)?;
        self.estimate.evaluation(began.elapsed());
        let first = of_ranks.first().and_then(|numbers| numbers.first_chunk());
        Ok(first.map(|&[right, asked]| Answers { right: right as u64, asked: asked as u64 }))
    }

    fn keep_best(&mut self, record: &StepRecord, scheduled: bool, observer: &mut dyn Observer) -> Result<()> {
        let found = Best { step: record.step, val_loss: record.val_loss, answers: record.answers };
        if self.state.evaluated(&found, self.config.best_by, scheduled) {
            let model = model(&self.gpt, &self.extra, &self.data);
            let weights = (&self.parameters[..], &self.optimizer.state());
            self.output.save_best(model, weights, &self.state, observer)?;
            self.state.best = Some(found);
        }
        Ok(())
    }

    fn log(&mut self, record: &StepRecord, is_last: bool, observer: &mut dyn Observer) -> Result<()> {
        let step = record.step;
        let evaluated = record.val_loss.is_some() || record.answers.is_some() || record.epoch.is_some();
        let logged = due(step, self.config.log_interval) || evaluated || is_last || step == 1;
        if logged {
            self.output.record(observer, |recorder, folder| recorder.log(folder, record))?;
        }
        observer.event(Event::Step { record, logged, left: self.time_left() });
        if let Some(overfitting) = record.val_loss.and_then(|loss| self.overfitting.evaluation(step, loss)) {
            observer.event(Event::Overfitting(&overfitting));
        }
        Ok(())
    }

    fn sample(&mut self, observer: &mut dyn Observer, stop: &AtomicBool) -> Result<()> {
        let step = self.state.step;
        let text = if self.world.is_first() { observer.sample(&self.gpt, step) } else { None };
        if let Some(text) = text {
            self.output.record(observer, |recorder, folder| recorder.sample(folder, step, &text))?;
            observer.event(Event::Sample { step, text: &text });
        }
        self.world.gather_after_long_work(self.requests(stop), &[])?;
        Ok(())
    }

    fn save(&mut self, observer: &mut dyn Observer) -> Result<()> {
        let (step, began) = (self.state.step, Instant::now());
        if self.output.has_saved(step) {
            return Ok(());
        }
        observer.event(Event::Saving { step });
        self.state.seconds = self.seconds();
        let moments = self.gather_moments()?;
        let model = model(&self.gpt, &self.extra, &self.data);
        self.output.save_last(model, (&self.parameters[..], &moments), &self.state, began, observer)
    }

    fn save_snapshot(&mut self, observer: &mut dyn Observer) -> Result<()> {
        let (step, count) = (self.state.step, snapshots::count(self.gpt.config(), &self.config));
        if !snapshots::is_due(step, self.steps, count) {
            return Ok(());
        }
        self.output.save_snapshot(model(&self.gpt, &self.extra, &self.data), step, observer)
    }
}
