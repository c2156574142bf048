//! Training the runs of a sweep: small models side by side on a thread each, large ones one after another on all threads.

use super::SweepError;
use super::folder::{Sweep, SweepRow};
use super::plan::PlannedRun;
use super::speed::pool;
use crate::error::Result;
use crate::run::{Place, Run};
use minigpt_model::Device;
use minigpt_train::{Ended, Event, Observer};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// An event of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub enum SweepEvent<'a> {
    /// Progress of a run.
    Progress {
        /// Which.
        run: &'a PlannedRun,
        /// Fraction done, from 0 to 1.
        part: f64,
    },
    /// A run is done.
    Done {
        /// Which.
        run: &'a PlannedRun,
        /// Its result.
        row: &'a SweepRow,
    },
}

/// An observer of a sweep. Several runs report to it at once.
pub trait SweepObserver: Sync {
    /// Called for each event.
    fn event(&self, event: &SweepEvent);
}

/// No observer.
impl SweepObserver for () {
    fn event(&self, _event: &SweepEvent) {}
}

/// How a sweep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SweepEnd {
    /// Every run is done.
    Finished,
    /// It was asked to stop; unfinished runs were saved.
    Stopped,
}

impl Sweep {
    /// Trains the runs that are not done yet, until all are done or `stop` is set. An interrupted run is resumed.
    ///
    /// # Errors
    /// An error in a run ends the sweep. A run that diverges is recorded without a loss.
    pub fn run(&self, observer: &dyn SweepObserver, stop: &AtomicBool) -> Result<SweepEnd> {
        let (beside, alone): (Vec<&PlannedRun>, Vec<&PlannedRun>) = self
            .plan
            .runs
            .iter()
            .filter(|run| !self.is_done(run))
            .partition(|run| self.plan.sizes[run.size].side_by_side);
        let threads = rayon::current_num_threads().min(beside.len());
        self.side_by_side(beside, threads, observer, stop)?;
        for run in alone {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            self.train(run, observer, stop)?;
        }
        let finished = self.plan.runs.iter().all(|run| self.is_done(run));
        Ok(if finished { SweepEnd::Finished } else { SweepEnd::Stopped })
    }

    /// Runs on a thread each, the longest first. What goes wrong with one stops the others.
    fn side_by_side(
        &self,
        mut runs: Vec<&PlannedRun>,
        threads: usize,
        observer: &dyn SweepObserver,
        stop: &AtomicBool,
    ) -> Result<()> {
        runs.reverse();
        let (waiting, failed) = (Mutex::new(runs), AtomicBool::new(false));
        let work = || -> Result<()> {
            let pool = pool()?;
            loop {
                let next = waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop();
                let Some(run) = next else { return Ok(()) };
                if stop.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let trained = pool.install(|| self.train(run, observer, stop));
                if trained.is_err() {
                    failed.store(true, Ordering::Relaxed);
                }
                trained?;
            }
        };
        thread::scope(|scope| {
            let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            let panicked = |_| Err(SweepError::RunStopped.into());
            all.into_iter().map(|one| one.join().unwrap_or_else(panicked)).collect::<Result<Vec<()>>>()
        })?;
        Ok(())
    }

    /// One run, from its checkpoint where there is one, to its row of the table.
    fn train(&self, planned: &PlannedRun, observer: &dyn SweepObserver, stop: &AtomicBool) -> Result<()> {
        let out = self.run_folder(planned);
        let begun = Run::is_at(&out);
        let mut run = if begun {
            Run::resume(&out, &[], &Device::Cpu)?
        } else {
            let config = self.plan.run_config(planned)?;
            Run::start(config, Place { out: &out, from: None, input: None }, &Device::Cpu)?
        };
        let mut watch = Watch { run: planned, observer };
        let row = match run.trainer.run(&mut watch, stop) {
            Ok(report) if report.ended == Ended::Stopped => return Ok(()),
            Ok(report) => {
                // There is one evaluation, after the last step: the best is the only one.
                let loss = report.best.and_then(|best| best.val_loss);
                let no_validation = || SweepError::NoValidation(self.plan.title.clone());
                let loss = Some(loss.ok_or_else(no_validation)?);
                let tokens = counted(planned.tokens, report.tokens);
                SweepRow { run: planned.name.clone(), tokens, loss, seconds: report.seconds }
            }
            Err(minigpt_train::Error::Diverged { .. }) => {
                SweepRow { run: planned.name.clone(), tokens: planned.tokens, loss: None, seconds: 0.0 }
            }
            Err(error) => return Err(error.into()),
        };
        self.keep(&row, planned)?;
        observer.event(&SweepEvent::Done { run: planned, row: &row });
        Ok(())
    }
}

/// The tokens of a run as they are kept: what was planned, if that is what it came to. A last window that is not full, or
/// examples that another seed has drawn, would make another count of every run, and no two could be compared.
fn counted(planned: u64, learned: u64) -> u64 {
    const NEAR: f64 = 0.02;
    let near = (learned as f64 / planned.max(1) as f64 - 1.0).abs() <= NEAR;
    if near { planned } else { learned }
}

/// Passes on how far a run is.
struct Watch<'a> {
    run: &'a PlannedRun,
    observer: &'a dyn SweepObserver,
}

impl Observer for Watch<'_> {
    fn event(&mut self, event: Event) {
        let step = match event {
            Event::Started { step, .. } => step,
            Event::Step { record, .. } => record.step,
            _ => return,
        };
        let part = step as f64 / self.run.steps.max(1) as f64;
        self.observer.event(&SweepEvent::Progress { run: self.run, part });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_were_planned_alike_have_one_count_of_tokens() {
        assert_eq!([501_504, 501_453, 495_000].map(|learned| counted(501_504, learned)), [501_504; 3]);
        assert_eq!(counted(501_504, 400_000), 400_000);
    }
}
