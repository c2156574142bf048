//! Which heads look at ends, as a table.

use crate::language::messages::inspect as message;
use crate::screen;
use minigpt_charts::Table;
use minigpt_insight::{Boundaries, Boundary, BoundaryHead};

fn name(boundary: Boundary) -> &'static str {
    match boundary {
        Boundary::Sentence => message::Sentence.text(),
        Boundary::Line => message::Line.text(),
        Boundary::Paragraph => message::Paragraph.text(),
    }
}

pub fn draw(boundaries: &Boundaries) -> String {
    let mut table = Table::new(&[1, 2, 3, 4, 5, 6]);
    table.row([
        message::EndOf.text(),
        message::Layer.text(),
        message::Head.text(),
        message::Share.text(),
        message::Frequency.text(),
        message::Shuffled.text(),
        message::LossWithout.text(),
        "",
    ]);
    for end in &boundaries.heads {
        let BoundaryHead { layer, head, boundary, share, frequency, shuffled, looks_there, loss_without } =
            *end;
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        table.row([
            name(boundary),
            &layer.to_string(),
            &head.to_string(),
            &percent(share),
            &percent(frequency),
            &percent(shuffled),
            &format!("{loss_without:+.4}"),
            if looks_there { message::AttendsThere.text() } else { "" },
        ]);
    }
    let counts: Vec<String> =
        boundaries.counts.iter().map(|(boundary, count)| format!("{count} × {}", name(*boundary))).collect();
    let none = if boundaries.heads.iter().any(|head| head.looks_there) {
        ""
    } else {
        message::NoHeadAttendsToEnds.text()
    };
    message::Boundaries {
        counts: &counts.join(", "),
        table: &table.draw_within(screen::table_columns()),
        margin: &(100.0 * boundaries.margin),
        none: &none,
    }
    .to_string()
}
