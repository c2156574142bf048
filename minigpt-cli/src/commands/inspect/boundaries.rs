//! Which heads look at ends, as a table.

use crate::language::{t, tr};
use crate::screen;
use minigpt_charts::Table;
use minigpt_insight::{Boundaries, Boundary, BoundaryHead};

fn name(boundary: Boundary) -> &'static str {
    match boundary {
        Boundary::Sentence => tr("sentence"),
        Boundary::Line => tr("line"),
        Boundary::Paragraph => tr("paragraph"),
    }
}

pub fn draw(boundaries: &Boundaries) -> String {
    let mut table = Table::new(&[1, 2, 3, 4, 5, 6]);
    table.row([
        tr("end of"),
        tr("layer"),
        tr("head"),
        tr("share"),
        tr("frequency"),
        tr("shuffled"),
        tr("loss without"),
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
            if looks_there { tr("looks there") } else { "" },
        ]);
    }
    let counts: Vec<String> =
        boundaries.counts.iter().map(|(boundary, count)| format!("{count} × {}", name(*boundary))).collect();
    let none = if boundaries.heads.iter().any(|head| head.looks_there) {
        ""
    } else {
        tr("  no head looks at ends more than their frequency and shuffled text explain\n")
    };
    t!(
        "\nAttention on the ends of sentences, lines and paragraphs ({})\n{}  a head looks there if its share beats both baselines by {:.0} points; loss without: what the tokens right behind lose when it is off\n{none}",
        counts.join(", "),
        table.draw_within(screen::table_columns()),
        100.0 * boundaries.margin,
    )
}
