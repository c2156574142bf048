//! What a person sees of a run: a bar on a terminal, lines elsewhere.

use crate::language::messages::counts;
use crate::language::messages::train as message;
use crate::language::{duration, local};
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
        let title =
            message::ParametersOn { parameters: &count(parameters), path: &config.data.path }.to_string();
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
        let speed = message::Speed { tokens: &count(record.tokens_per_second as u64) }.to_string();
        let memory = machine::resident_memory().map_or_else(String::new, bytes);
        self.bar.set_position(record.step);
        let (loss, lr) = (record.loss, record.lr);
        // What matters most comes first: a narrow terminal shows only that.
        self.show(&[
            &message::BarLoss { loss: &loss }.to_string(),
            &left.map_or_else(
                || "…".to_owned(),
                |left| message::TimeLeft { time: &duration(left.as_secs_f64().round()) }.to_string(),
            ),
            &self.val_loss.map_or_else(String::new, |val| message::BarValidation { val: &val }.to_string()),
            &speed,
            &message::SmoothedLoss { smoothed: &smoothed }.to_string(),
            &message::LearningRate { lr: &lr }.to_string(),
            &memory,
        ]);
        let val = record
            .val_loss
            .map_or_else(String::new, |val| message::ValidationSuffix { val: &val }.to_string());
        let answers = record.answers.map_or_else(String::new, |Answers { right, asked }| {
            message::AnsweredSuffix { right: &count(right), asked: &count(asked) }.to_string()
        });
        let val = val + &answers;
        if let (Some(epoch), Some(mean)) = (record.epoch, record.epoch_loss) {
            let step = count(record.step);
            self.say(
                &message::EpochLine { epoch: &epoch, step: &step, loss: &mean, val: &val, speed: &speed }
                    .to_string(),
            );
        } else if record.val_loss.is_some() || record.answers.is_some() || (logged && self.bar.is_hidden()) {
            let StepRecord { step, loss, lr, grad_norm, .. } = record;
            self.say(
                &message::StepLine {
                    step: &step,
                    loss: &loss,
                    val: &val,
                    lr: &lr,
                    grad_norm: &grad_norm,
                    speed: &speed,
                }
                .to_string(),
            );
        }
    }
}

/// What overfitting means, and what to do about it.
pub fn overfitting_in_words(overfitting: &Overfitting) -> [String; 2] {
    let Overfitting { best, val_loss, train_then, train_now } = overfitting;
    let (then, step) = (best.val_loss.unwrap_or(f64::NAN), count(best.step));
    [
        message::Overfitting {
            step: &step,
            then: &then,
            val_loss: &val_loss,
            train_then: &train_then,
            train_now: &train_now,
        }
        .to_string(),
        message::OverfittingAdvice.text().to_owned(),
    ]
}

impl Observer for Watch {
    fn event(&mut self, event: Event) {
        match event {
            Event::Started { step, steps, batches_per_epoch } => {
                self.bar.set_length(steps);
                self.bar.set_position(step);
                let from = if step == 0 {
                    String::new()
                } else {
                    message::FromStep { step: &count(step) }.to_string()
                };
                let title = &self.title;
                let is_over = step >= steps;
                let (steps, epoch) = (
                    counts::Steps { n: steps }.to_string(),
                    counts::Batches { n: batches_per_epoch }.to_string(),
                );
                self.say(
                    &message::Started { title: &title, steps: &steps, from: &from, per_epoch: &epoch }
                        .to_string(),
                );
                if is_over {
                    self.say(message::AlreadyFinished.text());
                }
            }
            Event::Step { record, logged, left } => self.step(record, logged, left),
            Event::Evaluating { done, batches, .. } => {
                self.show(&[
                    message::Evaluating.text(),
                    &message::EvaluatedBatches { done: &count(done), all: &count(batches) }.to_string(),
                ]);
            }
            Event::Saving { .. } => self.show(&[message::Saving.text()]),
            // The one at the end has words of its own.
            Event::Sample { step, .. } if self.shows_end && self.bar.length() == Some(step) => {}
            Event::Sample { text, .. } if !self.quiet => self.bar.suspend(|| output::note(text)),
            Event::Sample { .. } | Event::Saved { .. } => {}
            // Also to somebody who wants to hear nothing: something is lost.
            Event::Warning(warning) => self.bar.suspend(|| output::note(local(warning))),
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
