//! How far a long task has come: a bar on a terminal, now and then a line elsewhere.

use crate::output;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::{Duration, Instant};

/// A line at most this often where there is no terminal.
const INTERVAL: Duration = Duration::from_secs(5);

/// One task whose end is known.
pub(super) struct Progress {
    bar: ProgressBar,
    task: &'static str,
    spoken: Instant,
}

impl Progress {
    /// Starts a task of so many steps.
    pub(super) fn new(task: &'static str, total: u64, bytes: bool) -> Self {
        let count = if bytes { "{bytes}/{total_bytes}" } else { "{human_pos}/{human_len}" };
        let style = ProgressStyle::with_template(&format!("{{msg}} {{wide_bar}} {count} {{eta}}"));
        let bar = ProgressBar::new(total).with_message(task);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, task, spoken: Instant::now() }
    }

    /// Goes on by so many steps.
    pub(super) fn advance(&mut self, steps: u64) {
        self.bar.inc(steps);
        if self.bar.is_hidden() && self.spoken.elapsed() >= INTERVAL {
            let (done, total) = (self.bar.position(), self.bar.length().unwrap_or_default());
            output::note(&format!("{}: {:.0} %", self.task, 100.0 * done as f64 / total.max(1) as f64));
            self.spoken = Instant::now();
        }
    }

    /// Ends the task and leaves no trace on a terminal.
    pub(super) fn finish(self) {
        self.bar.finish_and_clear();
    }
}
