//! Which heads follow which relations, as a table beside the best fixed offset.

use crate::language::{t, tr};
use crate::screen;
use minigpt_charts::{Table, count};
use minigpt_insight::Relations;

pub fn draw(relations: &Relations) -> String {
    let mut table = Table::new(&[1, 2, 3, 4, 5, 6]);
    table.row([
        tr("relation"),
        tr("pairs"),
        tr("best head"),
        tr("hits"),
        tr("share"),
        tr("best offset"),
        tr("its hits"),
        "",
    ]);
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    for score in &relations.relations {
        table.row([
            &score.relation,
            &count(score.pairs as u64),
            &format!("{}.{}", score.layer, score.head),
            &percent(score.hits),
            &percent(score.share),
            &format!("−{}", score.offset),
            &percent(score.offset_hits),
            if score.follows { tr("follows it") } else { "" },
        ]);
    }
    let none = if relations.relations.iter().any(|score| score.follows) {
        ""
    } else {
        tr("  no head follows a relation better than a fixed offset does: this model does not show syntax\n")
    };
    let long = match relations.too_long {
        0 => String::new(),
        sentences => t!("  {} sentences were too long for the model and left out\n", count(sentences as u64)),
    };
    t!(
        "\nFrom a word to the earlier one that it is related to: how often a head looks there most\n{}  a head follows a relation if it beats the best fixed offset by {:.0} points, with ten pairs at least\n{none}{long}",
        table.draw_within(screen::table_columns()),
        100.0 * relations.margin,
    )
}
