//! How far a long task has come: a bar on a terminal, now and then a line elsewhere.

use crate::language::messages::common as message;
use crate::output;
use indicatif::{ProgressBar, ProgressStyle};
use std::fmt::Display;
use std::time::{Duration, Instant};

/// A line at most this often where there is no terminal.
const INTERVAL: Duration = Duration::from_secs(5);

/// One task whose end is known.
pub struct Progress {
    bar: ProgressBar,
    task: &'static str,
    spoken: Instant,
}

impl Progress {
    /// Starts a task of so many bytes.
    pub fn of_bytes(task: &'static str, total: u64) -> Self {
        Self::new(task, total, "{decimal_bytes}/{decimal_total_bytes}")
    }

    /// Starts a task of so many steps.
    pub fn of_steps(task: &'static str, total: u64) -> Self {
        Self::new(task, total, "{human_pos}/{human_len}")
    }

    fn new(task: &'static str, total: u64, count: &str) -> Self {
        let style = ProgressStyle::with_template(&format!("{{msg}} {{wide_bar}} {count} {{eta}}"));
        let bar = ProgressBar::new(total).with_message(task);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, task, spoken: Instant::now() }
    }

    /// Goes on by so much.
    pub fn advance(&mut self, by: u64) {
        self.set(self.bar.position() + by);
    }

    /// So much is done.
    pub fn set(&mut self, done: u64) {
        self.bar.set_position(done);
        if self.bar.is_hidden() && self.spoken.elapsed() >= INTERVAL {
            let total = self.bar.length().unwrap_or_default().max(1);
            let percent = 100.0 * done as f64 / total as f64;
            output::note(message::ProgressLine { task: self.task, percent });
            self.spoken = Instant::now();
        }
    }

    /// Writes a line above the bar.
    pub fn note(&self, text: impl Display) {
        self.bar.suspend(|| output::note(text));
    }

    /// Ends the task and leaves no trace on a terminal.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}
