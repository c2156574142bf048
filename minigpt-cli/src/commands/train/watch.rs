//! What a person sees of a run: a bar on a terminal, lines elsewhere.

use crate::language::{counted, duration, t, tr};
use crate::{output, screen};
use indicatif::{ProgressBar, ProgressStyle};
use minigpt::RunConfig;
use minigpt::machine;
use minigpt_charts::{bytes, count};
use minigpt_generate::{GenerationConfig, generate};
use minigpt_model::Gpt;
use minigpt_tokenizer::Tokenizer;
use minigpt_train::Answers;
use minigpt_train::record::StepRecord;
use minigpt_train::{Event, Observer, Overfitting};
use std::time::Duration;

/// Columns of the bar, whatever stands beside it.
const BAR: usize = 8;
/// Tokens of a sample.
const SAMPLE: usize = 100;

/// Draws a run's events.
pub struct Watch {
    bar: ProgressBar,
    quiet: bool,
    smoothed: Option<f64>,
    val_loss: Option<f64>,
    title: String,
    tokenizer: Option<Tokenizer>,
    prompt: String,
    /// Whether somebody shows a sample of the finished model.
    shows_end: bool,
}

impl Watch {
    /// Watches a run; `shows_end` where a sample of the finished model follows.
    pub fn new(quiet: bool, config: &RunConfig, tokenizer: Option<Tokenizer>, shows_end: bool) -> Self {
        let parameters = minigpt_model::parameters::Count::of(&config.model).total;
        let title = t!("{} parameters on {}", count(parameters), config.data.path);
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::no_length() };
        let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let prompt = config.sample.prompt.clone();
        Self { bar, quiet, smoothed: None, val_loss: None, title, tokenizer, prompt, shows_end }
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

    /// Shows beside the bar as much as there is room for.
    fn show(&self, parts: &[&str]) {
        let steps = self.bar.length().unwrap_or_default().to_string().len();
        let room = screen::progress_columns().saturating_sub(2 * steps + 3 + BAR);
        self.bar.set_message(screen::fitting(parts, room));
    }

    fn step(&mut self, record: &StepRecord, logged: bool, left: Option<Duration>) {
        let smoothed = self.smoothed.map_or(record.loss, |s| 0.95 * s + 0.05 * record.loss);
        self.smoothed = Some(smoothed);
        self.val_loss = record.val_loss.or(self.val_loss);
        let speed = t!("{} tokens/s", count(record.tokens_per_second as u64));
        let memory = machine::resident_memory().map_or_else(String::new, bytes);
        self.bar.set_position(record.step);
        let (loss, lr) = (record.loss, record.lr);
        // What matters most comes first: a narrow terminal shows only that.
        self.show(&[
            &t!("loss {loss:.4}"),
            &left.map_or_else(|| "…".to_owned(), |left| t!("{} left", duration(left.as_secs_f64().round()))),
            &self.val_loss.map_or_else(String::new, |val| t!("validation {val:.4}")),
            &speed,
            &t!("mean {smoothed:.4}"),
            &t!("rate {lr:.1e}"),
            &memory,
        ]);
        let val = record.val_loss.map_or_else(String::new, |val| t!(", validation {val:.4}"));
        let answers = record.answers.map_or_else(String::new, |Answers { right, asked }| {
            t!(", answers {} of {}", count(right), count(asked))
        });
        let val = val + &answers;
        if let (Some(epoch), Some(mean)) = (record.epoch, record.epoch_loss) {
            let step = count(record.step);
            self.say(&format!("epoch {epoch}, step {step}: mean training loss {mean:.4}{val}, {speed}"));
        } else if record.val_loss.is_some() || record.answers.is_some() || (logged && self.bar.is_hidden()) {
            let StepRecord { step, loss, lr, grad_norm, .. } = record;
            self.say(&format!(
                "step {step}: loss {loss:.4}{val}, rate {lr:.2e}, norm {grad_norm:.2}, {speed}"
            ));
        }
    }
}

/// What overfitting means, and what to do about it.
pub fn overfitting_in_words(overfitting: &Overfitting) -> [String; 2] {
    let Overfitting { best, val_loss, train_then, train_now } = overfitting;
    let (then, step) = (best.val_loss.unwrap_or(f64::NAN), count(best.step));
    [
        t!(
            "overfitting: since step {step} the validation loss has risen from {then:.2} to {val_loss:.2}, while the training loss fell from {train_then:.2} to {train_now:.2}"
        ),
        tr(
            "the model learns its data by heart; best/ keeps it as it was before. More data, a smaller model or more dropout (--dropout=0.2) help, and --patience=3 ends a run there",
        )
        .to_owned(),
    ]
}

impl Observer for Watch {
    fn event(&mut self, event: Event) {
        match event {
            Event::Started { step, steps, batches_per_epoch } => {
                self.bar.set_length(steps);
                self.bar.set_position(step);
                let from = if step == 0 { String::new() } else { t!(" from step {}", count(step)) };
                let title = &self.title;
                let is_over = step >= steps;
                let (steps, epoch) = (counted(steps, "step"), counted(batches_per_epoch, "batch"));
                self.say(&format!("{title}: {steps}{from}, {epoch} an epoch"));
                if is_over {
                    self.say("the run has made all its steps: --max_iters=N makes it longer");
                }
            }
            Event::Step { record, logged, left } => self.step(record, logged, left),
            Event::Evaluating { done, batches, .. } => {
                self.show(&[tr("evaluating"), &t!("{} of {} batches", count(done), count(batches))]);
            }
            Event::Saving { .. } => self.show(&[tr("saving")]),
            // The one at the end has words of its own.
            Event::Sample { step, .. } if self.shows_end && self.bar.length() == Some(step) => {}
            Event::Sample { text, .. } if !self.quiet => self.bar.suspend(|| output::quote(text)),
            Event::Sample { .. } | Event::Saved { .. } => {}
            // Also to somebody who wants to hear nothing: something is lost.
            Event::Warning(warning) => self.bar.suspend(|| output::note(&warning.to_string())),
            Event::Overfitting(overfitting) => {
                for line in overfitting_in_words(overfitting) {
                    self.say(&line);
                }
            }
        }
    }

    /// What the model makes of the prompt; nothing where it can't be encoded.
    fn sample(&mut self, gpt: &Gpt, step: u64) -> Option<String> {
        let tokenizer = self.tokenizer.as_ref()?;
        let ids = tokenizer.encode_with_special(&self.prompt).ok().filter(|ids| !ids.is_empty())?;
        let sample = GenerationConfig {
            max_new_tokens: SAMPLE,
            do_sample: true,
            temperature: 0.8,
            eos_token_id: tokenizer.special_id("<sep>").into_iter().collect(),
            seed: step,
            ..GenerationConfig::default()
        };
        let written = generate(gpt, &[ids], &sample, Some(tokenizer)).ok()?;
        Some(self.prompt.clone() + written.first()?.text.as_deref()?)
    }
}
