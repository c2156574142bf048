//! Texts for people: one as it comes, several one after the other, compared ones side by side.

use super::{Group, explain};
use crate::language::messages::generate as message;
use crate::{output, screen};
use anyhow::{Context, Result};
use minigpt::ModelFolder;
use minigpt_charts::side_by_side;
use minigpt_generate::{Completion, GenerationConfig, Generator, Token};
use std::time::{Duration, Instant};

/// Alternatives of an explanation.
pub const ALTERNATIVES: usize = 5;
/// Columns of a page with texts side by side.
const WIDTH: usize = 100;

/// How fast it goes.
pub struct Clock {
    started: Instant,
    /// When the prompts of a setting are being read: since when.
    begun: Option<Instant>,
    first: Option<Duration>,
    pub tokens: usize,
    /// The tokens of first steps, and how long these took.
    firsts: (usize, Duration),
}

impl Clock {
    pub fn start() -> Self {
        let started = Instant::now();
        Self { started, begun: Some(started), first: None, tokens: 0, firsts: (0, Duration::ZERO) }
    }

    /// Another setting begins: its first step reads the prompts again.
    pub fn begin(&mut self) {
        self.begun = Some(Instant::now());
    }

    pub fn tick(&mut self, tokens: usize) {
        self.first.get_or_insert(self.started.elapsed());
        self.tokens += tokens;
        if let Some(begun) = self.begun.take() {
            let (count, took) = self.firsts;
            self.firsts = (count + tokens, took + begun.elapsed());
        }
    }

    /// Tokens per second without the first ones, for which the prompts were read; of first tokens alone, and of beams, all.
    pub fn rate(&self) -> f64 {
        let (count, took) = self.firsts;
        let rate = |tokens: usize, took: Duration| tokens as f64 / took.as_secs_f64().max(1e-9);
        match self.tokens - count.min(self.tokens) {
            0 => rate(self.tokens, self.started.elapsed()),
            more => rate(more, self.started.elapsed().saturating_sub(took)),
        }
    }

    pub fn summary(&self) -> String {
        let first = self.first.map_or_else(String::new, |first| {
            message::FirstTokenAfter { ms: &(first.as_secs_f64() * 1e3) }.to_string()
        });
        message::Speed { tokens: &self.tokens, rate: &self.rate(), first: &first }.to_string()
    }
}

/// One text as it comes: prompt first, whole characters only; or, explained, the choices first.
pub fn stream(
    model: &ModelFolder,
    prompt: &[u32],
    config: &GenerationConfig,
    explained: bool,
    clock: &mut Clock,
) -> Result<()> {
    let mut generator = Generator::new(&model.gpt, &[prompt.to_vec()], config, model.tokenizer.as_ref())?;
    if explained {
        generator = generator.with_alternatives(ALTERNATIVES);
    } else if let Some(tokenizer) = &model.tokenizer {
        output::written(&tokenizer.decode(prompt)?)?;
    }
    for token in generator.by_ref().flat_map(split_step) {
        let token = token?;
        clock.tick(1);
        match (&token.explanation, &model.tokenizer) {
            (Some(explanation), _) => output::written(&explain::draw(model, clock.tokens, explanation))?,
            (None, Some(_)) => output::written(&token.text)?,
            (None, None) => output::written(&format!("{} ", token.id))?,
        }
    }
    if explained {
        let completion = generator.into_completions().pop().context(message::NothingGenerated)?;
        return output::written(&(whole(model, prompt, &completion)? + "\n"));
    }
    output::written("\n")
}

/// A step's tokens, or its error.
fn split_step(step: minigpt_generate::Result<Vec<Token>>) -> Vec<minigpt_generate::Result<Token>> {
    match step {
        Ok(tokens) => tokens.into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error)],
    }
}

/// A text behind its prompt; its ids where there is no tokenizer.
fn whole(model: &ModelFolder, prompt: &[u32], completion: &Completion) -> Result<String> {
    match &model.tokenizer {
        Some(tokenizer) => Ok(tokenizer.decode(prompt)? + &continuation(completion)),
        None => Ok(continuation(completion)),
    }
}

fn continuation(completion: &Completion) -> String {
    completion.text.clone().unwrap_or_else(|| format!("{:?}", completion.ids))
}

/// Whole texts, one after the other, under a line that says which it is where there are several.
pub fn one_by_one(model: &ModelFolder, groups: &[Group]) -> Result<()> {
    for group in groups {
        for (i, completion) in group.completions.iter().enumerate() {
            let prompt =
                (groups.len() > 1).then(|| message::PromptHeading { number: &group.number }.to_string());
            let label = group.setting.label.clone();
            let text = (group.completions.len() > 1).then(|| format!("{}", i + 1));
            let names: Vec<String> = [prompt, label, text].into_iter().flatten().collect();
            if !names.is_empty() {
                output::text(format!("--- {} ---\n", names.join(", ")))?;
            }
            for (number, explanation) in completion.explanations.iter().enumerate() {
                output::written(&explain::draw(model, number + 1, explanation))?;
            }
            output::written(&(whole(model, group.prompt, completion)? + "\n"))?;
        }
    }
    Ok(())
}

/// For each prompt, what each setting made of it: `settings` groups a prompt, in columns.
pub fn compared(model: &ModelFolder, groups: &[Group], settings: usize) -> Result<()> {
    for (n, of_prompt) in groups.chunks(settings).enumerate() {
        let prompt = match &model.tokenizer {
            Some(tokenizer) => tokenizer.decode(of_prompt[0].prompt)?,
            None => format!("{:?}", of_prompt[0].prompt),
        };
        let space = if n == 0 { "" } else { "\n" };
        output::written(&format!("{space}{prompt}\n"))?;
        let texts = of_prompt.iter().map(|group| group.completions.len()).max().unwrap_or(0);
        for i in 0..texts {
            let column = |group: &Group| {
                let title = group.setting.label.clone().unwrap_or_default();
                (title, group.completions.get(i).map_or_else(String::new, continuation))
            };
            let columns: Vec<(String, String)> = of_prompt.iter().map(column).collect();
            output::written(&format!("\n{}", side_by_side(&columns, screen::table_columns().min(WIDTH))))?;
        }
    }
    Ok(())
}
