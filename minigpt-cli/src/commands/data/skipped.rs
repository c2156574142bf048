//! Tells a person which lines were not used, and why.

use crate::language::{counted, t, tr};
use crate::output;
use minigpt_charts::count;
use minigpt_data::BadLines;

/// How many are shown one by one.
const SHOWN: usize = 5;

/// Writes the first bad lines to standard error.
pub(super) fn report(name: &str, bad: &BadLines) {
    if bad.total == 0 {
        return;
    }
    output::note(&format!("{name}: {} can't be used:", counted(bad.total, "line")));
    for line in bad.first.iter().take(SHOWN) {
        output::note(&format!("  line {}: {}", line.line, line.reason));
    }
    let more = bad.total.saturating_sub(SHOWN as u64);
    if more > 0 {
        output::note(&format!("  and {} more", count(more)));
    }
}

/// `2 bad lines, 1 blank`, or `none`.
pub(super) fn in_short(bad: &BadLines) -> String {
    match (bad.total, bad.blank) {
        (0, 0) => tr("none").to_owned(),
        (0, blank) => t!("{} blank", count(blank)),
        (total, 0) => t!("{} bad", count(total)),
        (total, blank) => t!("{} bad, {} blank", count(total), count(blank)),
    }
}
