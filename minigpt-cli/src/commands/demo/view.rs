//! What a person sees while the model of the demo learns: the loss falling, and the same questions answered better and
//! better. A picture that is redrawn on a terminal, lines elsewhere.

use super::QUESTIONS;
use crate::language::messages::demo as message;
use crate::language::{chart_labels, duration};
use crate::{output, screen};
use indicatif::{ProgressBar, ProgressStyle};
use minigpt::RunConfig;
use minigpt_charts::{count, cut, printable, width};
use minigpt_data::{QaEncoder, builtin};
use minigpt_generate::{GenerationConfig, generate};
use minigpt_model::Gpt;
use minigpt_model::parameters::Count;
use minigpt_tokenizer::SEP;
use minigpt_tokenizer::Tokenizer;
use minigpt_train::record::{Axis, StepRecord, labeled_loss_chart};
use minigpt_train::{Event, Observer};
use std::time::{Duration, Instant};

/// A picture at most so often.
const INTERVAL: Duration = Duration::from_millis(500);
/// Tokens of an answer.
const LONGEST: usize = 48;

/// Draws the run's events.
pub struct View {
    bar: ProgressBar,
    terminal: bool,
    tokenizer: Tokenizer,
    parameters: u64,
    records: Vec<StepRecord>,
    answers: Vec<String>,
    drawn: Instant,
}

impl View {
    /// Watches a run, of which `records` are known already.
    pub fn new(config: &RunConfig, tokenizer: Tokenizer, records: Vec<StepRecord>, terminal: bool) -> Self {
        let bar = if terminal { ProgressBar::no_length() } else { ProgressBar::hidden() };
        let style =
            ProgressStyle::with_template(&format!("{{msg}}\n{{wide_bar}} {}{{prefix}}", message::Bar.text()));
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let parameters = Count::of(&config.model).total;
        let (answers, drawn) = (Vec::new(), Instant::now());
        Self { bar, terminal, tokenizer, parameters, records, answers, drawn }
    }

    /// Leaves the last picture on the terminal.
    pub fn finish(&mut self) {
        self.bar.finish_and_clear();
        output::note_drawn(self.picture().trim_end());
    }

    fn picture(&self) -> String {
        let runs = [("demo".to_owned(), self.records.clone())];
        let chart = labeled_loss_chart(&runs, Axis::Step, chart_labels());
        let curve = chart.terminal(screen::progress_columns(), self.terminal);
        format!("{curve}\n{}", self.talk())
    }

    /// The questions, each with its answer.
    fn talk(&self) -> String {
        let wide = QUESTIONS.iter().map(|question| width(question)).max().unwrap_or(0);
        let (columns, mut text) = (screen::progress_columns() - 2, String::new());
        for (question, answer) in QUESTIONS.iter().zip(&self.answers) {
            let space = " ".repeat(wide - width(question));
            let line = format!("  {question}{space}  {answer}");
            // Where there is no room beside the question, the answer stands under it.
            let lines = if wide + 24 > columns {
                vec![format!("  {question}"), format!("    {answer}")]
            } else {
                vec![line]
            };
            lines.iter().for_each(|line| text += &format!("{}\n", cut(line, columns)));
        }
        text
    }

    /// The likeliest answers as the model stands.
    fn ask(&self, gpt: &Gpt) -> Option<Vec<String>> {
        let encoder = QaEncoder::new(&self.tokenizer).ok()?;
        let prompt = |question: &&str| {
            let mut ids = self.tokenizer.encode(question).ok()?;
            ids.push(encoder.separator());
            Some(ids)
        };
        let prompts: Vec<Vec<u32>> = QUESTIONS.iter().map(prompt).collect::<Option<_>>()?;
        let eos_token_id = vec![encoder.separator()];
        let config =
            GenerationConfig { max_new_tokens: LONGEST, eos_token_id, ..GenerationConfig::default() };
        let answers = generate(gpt, &prompts, &config, Some(&self.tokenizer)).ok()?;
        let answers = answers.into_iter().map(|answer| answer.text.unwrap_or_default().replace('\n', " "));
        Some(answers.map(|answer| printable(&answer).into_owned()).collect())
    }
}

impl Observer for View {
    fn event(&mut self, event: Event) {
        match event {
            Event::Started { step, steps, .. } => {
                let (parameters, questions) = (count(self.parameters), count(builtin::train().len() as u64));
                output::note(message::Started { parameters: &parameters, questions: &questions });
                // The bar comes last: what is written under it would tear it.
                self.bar.set_message(self.picture());
                self.bar.set_length(steps);
                self.bar.set_position(step);
            }
            Event::Step { record, logged, left } => {
                let left = left.map_or_else(String::new, |left| {
                    message::TimeLeftSuffix { time: &duration(left.as_secs_f64().round()) }.to_string()
                });
                self.bar.set_prefix(left);
                if logged {
                    self.records.push(record.clone());
                }
                self.bar.set_position(record.step);
                if self.terminal && self.drawn.elapsed() >= INTERVAL {
                    self.drawn = Instant::now();
                    self.bar.set_message(self.picture());
                }
            }
            Event::Sample { step, .. } if !self.terminal => {
                let Some(record) = self.records.last() else { return };
                let (loss, seconds) = (record.loss, record.seconds);
                output::note(message::Progress {
                    step: &step,
                    seconds: &seconds,
                    loss: &loss,
                    answers: &self.talk().trim_end(),
                });
            }
            Event::Evaluating { .. } => self.bar.set_prefix(message::EvaluatingSuffix.text()),
            Event::Saving { .. } => self.bar.set_prefix(message::SavingSuffix.text()),
            Event::Sample { .. } | Event::Saved { .. } | Event::Overfitting(_) => {}
            Event::Warning(warning) => self.bar.suspend(|| output::note(warning.to_string())),
        }
    }

    fn sample(&mut self, gpt: &Gpt, _step: u64) -> Option<String> {
        self.answers = self.ask(gpt)?;
        let lines = QUESTIONS.iter().zip(&self.answers).map(|(q, a)| format!("{q} {SEP} {a}"));
        Some(lines.collect::<Vec<_>>().join("\n\n"))
    }
}
