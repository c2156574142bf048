//! How each token was chosen, for people and for programs.

use crate::language::messages::generate as message;
use crate::{output, screen};
use minigpt::ModelFolder;
use minigpt_charts::Table;
use minigpt_generate::{Alternative, Explanation};
use serde::Serialize;

/// One step for a program.
#[derive(Serialize)]
pub struct Step {
    id: u32,
    token: Option<String>,
    entropy: f64,
    alternatives: Vec<Choice>,
}

#[derive(Serialize)]
struct Choice {
    #[serde(flatten)]
    alternative: Alternative,
    token: Option<String>,
}

impl Step {
    pub fn new(model: &ModelFolder, id: u32, explanation: &Explanation) -> Self {
        let choice = |&alternative: &Alternative| Choice { alternative, token: token(model, alternative.id) };
        Self {
            id,
            token: token(model, id),
            entropy: explanation.entropy,
            alternatives: explanation.alternatives.iter().map(choice).collect(),
        }
    }
}

fn token(model: &ModelFolder, id: u32) -> Option<String> {
    model.tokenizer.as_ref()?.token(id)
}

/// The choice of token `number` as a table: with which probability each was drawn, and what the model itself gave it.
pub fn draw(model: &ModelFolder, number: usize, explanation: &Explanation) -> String {
    let name = |id: u32| match &model.tokenizer {
        Some(tokenizer) => tokenizer.token(id).map_or_else(String::new, |token| output::visible(&token)),
        None => id.to_string(),
    };
    let percent = |probability: f64| format!("{:.1} %", 100.0 * probability);
    let mut table = Table::new(&[2, 3]);
    table.row(["", "", message::Sampled.text(), message::Model.text()]);
    for &Alternative { id, probability, model_probability, chosen } in &explanation.alternatives {
        let mark = if chosen { ">" } else { "" };
        let (drawn, own) = (percent(probability), percent(model_probability));
        table.row([mark, &name(id), &drawn, &own, &output::bar(probability)]);
    }
    message::ExplainedToken {
        number: &number,
        entropy: &explanation.entropy,
        table: &table.draw_within(screen::table_columns()),
    }
    .to_string()
}
