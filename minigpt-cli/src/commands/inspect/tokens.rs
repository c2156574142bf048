//! The tokens of a text: how likely each was, and what may come next.

use super::answer::{Next, TextAnswer};
use crate::language::messages::counts;
use crate::language::messages::inspect as message;
use crate::{output, screen};
use minigpt::ModelFolder;
use minigpt_charts::{Table, count};

/// A model in a line.
pub fn summary(model: &ModelFolder) -> String {
    let config = model.gpt.config();
    let parameters = minigpt_model::parameters::Count::of(config).total;
    message::ModelTitle {
        path: &model.path.display(),
        parameters: &count(parameters),
        n_layer: &(counts::Layers { n: config.n_layer as u64 }.to_string()),
        n_head: &(counts::Heads { n: config.n_head as u64 }.to_string()),
        n_embd: &config.n_embd,
        block_size: &count(config.block_size as u64),
        vocab_size: &count(config.vocab_size as u64),
    }
    .to_string()
}

/// What to call each token: its text with spaces and line ends made visible, or its id.
pub fn labels(answer: &TextAnswer) -> Vec<String> {
    match &answer.tokens {
        Some(tokens) => tokens.iter().map(|token| output::visible(token)).collect(),
        None => answer.ids.iter().map(u32::to_string).collect(),
    }
}

/// What to call a token.
pub fn name(model: &ModelFolder, id: u32) -> Option<String> {
    model.tokenizer.as_ref()?.token(id).map(|token| output::visible(&token))
}

/// A token's name, or its id where it has none.
pub fn label(token: Option<&str>, id: u32) -> String {
    token.map_or_else(|| id.to_string(), output::visible)
}

pub fn positions(answer: &TextAnswer) -> String {
    let mut table = Table::new(&[0, 1, 3, 4, 5, 6]);
    table.row([
        message::Position.text(),
        message::Id.text(),
        message::Token.text(),
        message::LogP.text(),
        message::Bits.text(),
        message::Probability.text(),
        message::Rank.text(),
        "",
    ]);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    for (i, (position, label)) in answer.positions.iter().zip(labels(answer)).enumerate() {
        let probability = position.logprob.map(f64::exp);
        table.row([
            &i.to_string(),
            &position.id.to_string(),
            &label,
            &or_dash(position.logprob.map(|logprob| format!("{logprob:.4}"))),
            &or_dash(position.surprisal.map(|bits| format!("{bits:.2}"))),
            &or_dash(probability.map(percent)),
            &or_dash(position.rank.map(|rank| count(rank as u64))),
            &probability.map_or_else(String::new, output::bar),
        ]);
    }
    let sum = match (answer.logprob, answer.loss, answer.perplexity) {
        (Some(logprob), Some(loss), Some(perplexity)) => {
            message::TextLikelihood { logprob: &logprob, loss: &loss, perplexity: &perplexity }.to_string()
        }
        _ => String::new(),
    };
    message::TokenLikelihoods { table: &table.draw_within(screen::table_columns()), sum: &sum }.to_string()
}

pub fn next(answer: &TextAnswer) -> String {
    let mut table = Table::new(&[0, 2]);
    for Next { candidate, token } in &answer.top {
        let label = token.as_deref().map_or_else(String::new, output::visible);
        table.row([
            &candidate.id.to_string(),
            &label,
            &percent(candidate.probability),
            &output::bar(candidate.probability),
        ]);
    }
    message::NextToken { table: &table.draw_within(screen::table_columns()) }.to_string()
}

pub fn percent(probability: f64) -> String {
    if probability >= 0.0001 { format!("{:.2} %", 100.0 * probability) } else { format!("{probability:.1e}") }
}
