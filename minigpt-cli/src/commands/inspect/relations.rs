//! Which heads follow which relations, as a table beside the best fixed offset.

use crate::language::messages::inspect as message;
use crate::screen;
use minigpt_charts::{Table, count};
use minigpt_insight::Relations;

pub fn draw(relations: &Relations) -> String {
    let mut table = Table::new(&[1, 2, 3, 4, 5, 6]);
    table.row([
        message::Relation.text(),
        message::Pairs.text(),
        message::BestHead.text(),
        message::BestHits.text(),
        message::Share.text(),
        message::BestOffset.text(),
        message::OffsetHits.text(),
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
            if score.follows { message::FollowsIt.text() } else { "" },
        ]);
    }
    let none =
        if relations.relations.iter().any(|score| score.follows) { "" } else { message::NoSyntax.text() };
    let long = match relations.too_long {
        0 => String::new(),
        sentences => message::SentencesTooLong { sentences: &count(sentences as u64) }.to_string(),
    };
    message::Relations {
        table: &table.draw_within(screen::table_columns()),
        margin: &(100.0 * relations.margin),
        none: &none,
        long: &long,
    }
    .to_string()
}
