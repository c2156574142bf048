//! What heads do, as a table: scores beside those of fresh weights, and a role where there is one.

use crate::language::{t, tr};
use crate::screen;
use minigpt_charts::Table;
use minigpt_insight::{HeadRole, HeadRoles, HeadScores};

/// What a role is called in words.
pub fn role(role: Option<HeadRole>) -> &'static str {
    match role {
        Some(HeadRole::Previous) => tr("looks at the token before"),
        Some(HeadRole::Duplicate) => tr("looks at the same token before"),
        Some(HeadRole::Induction) => tr("induction: looks behind the same token before"),
        None => tr("none"),
    }
}

pub fn draw(roles: &HeadRoles) -> String {
    let mut table = Table::new(&[0, 1, 2, 3, 4, 5]);
    table.row([
        tr("layer"),
        tr("head"),
        tr("previous"),
        tr("duplicate"),
        tr("induction"),
        tr("copied"),
        tr("role"),
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
    t!(
        "\nWhat heads do on {} random tokens, repeated: percent of attention (in brackets: with fresh weights)\n{}  a role is named where a head beats fresh weights by {:.0} points; copied: what it adds to the logit of the token that is repeated\n  loss {:.3} in the first half, {:.3} in the second\n",
        roles.repeated.distance,
        table.draw_within(screen::table_columns()),
        100.0 * roles.margin,
        copying.first_half_loss,
        copying.second_half_loss,
    )
}
