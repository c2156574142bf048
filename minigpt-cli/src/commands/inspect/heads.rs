//! What heads do, as a table: scores beside those of fresh weights, and a role where there is one.

use crate::language::messages::inspect as message;
use crate::screen;
use minigpt_charts::Table;
use minigpt_insight::{HeadRole, HeadRoles, HeadScores};

/// What a role is called in words.
pub fn role(role: Option<HeadRole>) -> &'static str {
    match role {
        Some(HeadRole::Previous) => message::AboutPrevious.text(),
        Some(HeadRole::Duplicate) => message::AboutDuplicate.text(),
        Some(HeadRole::Induction) => message::AboutInduction.text(),
        None => message::None.text(),
    }
}

pub fn draw(roles: &HeadRoles) -> String {
    let mut table = Table::new(&[0, 1, 2, 3, 4, 5]);
    table.row([
        message::Layer.text(),
        message::Head.text(),
        message::Previous.text(),
        message::Duplicate.text(),
        message::Induction.text(),
        message::Copied.text(),
        message::Role.text(),
    ]);
    let beside = |score: f64, fresh: f64| format!("{:.0} ({:.0})", 100.0 * score, 100.0 * fresh);
    for HeadScores { layer, head, scores, baseline, role: named, copied, .. } in &roles.heads {
        table.row([
            &layer.to_string(),
            &head.to_string(),
            &beside(scores.previous, baseline.previous),
            &beside(scores.duplicate, baseline.duplicate),
            &beside(scores.induction, baseline.induction),
            &copied.map_or_else(|| "–".to_owned(), |logit| format!("{logit:+.2}")),
            role(*named),
        ]);
    }
    let copying = roles.copying;
    message::HeadRoles {
        distance: &roles.repeated.distance,
        table: &table.draw_within(screen::table_columns()),
        margin: &(100.0 * roles.margin),
        first_half_loss: &copying.first_half_loss,
        second_half_loss: &copying.second_half_loss,
    }
    .to_string()
}
