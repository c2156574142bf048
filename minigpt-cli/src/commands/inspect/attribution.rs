//! Direct logit attribution on a terminal: a bar for each part of the model, to the left or to the right of nothing.

use super::tokens::label;
use crate::language::messages::inspect as message;
use crate::screen;
use minigpt_charts::Table;
use minigpt_insight::Attribution;

/// Columns of the longest bar to one side.
const SIDE: usize = 16;

pub fn draw(attribution: &Attribution) -> String {
    let of = &attribution.attribution_of;
    let most = attribution.attribution.iter().map(|share| share.logit.abs()).fold(0.0, f64::max);
    let mut table = Table::new(&[1]);
    for share in &attribution.attribution {
        table.row([&part(&share.component), &format!("{:+.3}", share.logit), &two_sided(share.logit / most)]);
    }
    table.row([message::Total.text(), &format!("{:+.3}", attribution.total), ""]);
    message::Attribution {
        id: &label(of.token.as_deref(), of.id),
        position: &of.position,
        logit: &of.logit,
        table: &table.draw_within(screen::table_columns()),
    }
    .to_string()
}

/// What a part is called in words.
fn part(component: &str) -> String {
    match component.split('.').collect::<Vec<_>>()[..] {
        ["embed"] => message::TokenEmbedding.text().to_owned(),
        ["pos_embed"] => message::PositionEmbedding.text().to_owned(),
        ["mlp", layer] => message::LayerMlp { layer: &layer }.to_string(),
        ["attn", layer, "bias"] => message::LayerAttentionBias { layer: &layer }.to_string(),
        ["ln_f", "bias"] => message::FinalNormBias.text().to_owned(),
        ["lm_head", "bias"] => message::OutputHeadBias.text().to_owned(),
        [layer, head] => message::LayerAndHead { layer: &layer, head: &head }.to_string(),
        _ => component.to_owned(),
    }
}

/// A bar from the middle: to the left for less than 0, to the right for more.
fn two_sided(share: f64) -> String {
    let columns = (share.abs().clamp(0.0, 1.0) * SIDE as f64).round() as usize;
    let bar = "█".repeat(columns);
    if share < 0.0 {
        format!("{}{bar}│", " ".repeat(SIDE - columns))
    } else {
        format!("{}│{bar}", " ".repeat(SIDE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stand_on_both_sides_of_nothing() {
        assert_eq!(two_sided(1.0), format!("{}│{}", " ".repeat(16), "█".repeat(16)));
        assert_eq!(two_sided(-0.5), format!("{}{}│", " ".repeat(8), "█".repeat(8)));
        assert_eq!(two_sided(f64::NAN), format!("{}│", " ".repeat(16)));
        assert_eq!((part("3.1"), part("mlp.0")), ("layer 3 head 1".to_owned(), "layer 0 MLP".to_owned()));
    }
}
