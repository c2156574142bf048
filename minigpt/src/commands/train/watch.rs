//! What a person sees of a run: a bar on a terminal, lines elsewhere.

use crate::output;
use crate::run_config::RunConfig;
use crate::table::count;
use indicatif::{ProgressBar, ProgressStyle};
use minigpt_train::record::Record;
use minigpt_train::{Event, Observer};

/// Draws a run's events.
pub struct Watch {
    bar: ProgressBar,
    quiet: bool,
    smoothed: Option<f64>,
    val_loss: Option<f64>,
    title: String,
}

impl Watch {
    /// Watches a run.
    pub fn new(quiet: bool, config: &RunConfig) -> Self {
        let parameters = minigpt_model::parameters::Count::of(&config.model).total;
        let title = format!("{} parameters on {}", count(parameters), config.data.path);
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::no_length() };
        let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg} {eta}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, quiet, smoothed: None, val_loss: None, title }
    }

    /// Clears the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn say(&self, text: &str) {
        if !self.quiet {
            self.bar.suspend(|| output::note(text));
        }
    }

    fn step(&mut self, record: &Record, logged: bool) {
        let smoothed = self.smoothed.map_or(record.loss, |s| 0.95 * s + 0.05 * record.loss);
        self.smoothed = Some(smoothed);
        self.val_loss = record.val_loss.or(self.val_loss);
        let val = self.val_loss.map_or_else(String::new, |val| format!(" val {val:.4}"));
        let speed = format!("{} tokens/s", count(record.tokens_per_second as u64));
        self.bar.set_position(record.step);
        self.bar.set_message(format!("loss {:.4} ({smoothed:.4}){val} {speed}", record.loss));
        if record.val_loss.is_some() || (logged && self.bar.is_hidden()) {
            let val = record.val_loss.map_or_else(String::new, |val| format!(", validation {val:.4}"));
            let Record { step, loss, lr, grad_norm, .. } = record;
            self.say(&format!(
                "step {step}: loss {loss:.4}{val}, rate {lr:.2e}, norm {grad_norm:.2}, {speed}"
            ));
        }
    }
}

impl Observer for Watch {
    fn event(&mut self, event: Event) {
        match event {
            Event::Started { step, steps, batches_per_epoch } => {
                self.bar.set_length(steps);
                self.bar.set_position(step);
                let from = if step == 0 { String::new() } else { format!(" from step {}", count(step)) };
                let title = &self.title;
                let epoch = count(batches_per_epoch);
                self.say(&format!("{title}: {} steps{from}, {epoch} batches an epoch", count(steps)));
            }
            Event::Step { record, logged } => self.step(record, logged),
            Event::Sample { text, .. } => self.say(text),
            Event::Saved { .. } => {}
        }
    }
}
