//! Tells a person which lines were not used, and why.

use crate::language::local;
use crate::language::messages::counts;
use crate::language::messages::data as message;
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
    output::note(message::UnusableLines {
        name: &name,
        total: &(counts::Lines { n: bad.total }.to_string()),
    });
    for line in bad.first.iter().take(SHOWN) {
        output::note(format!("  {}", local(line)));
    }
    let more = bad.total.saturating_sub(SHOWN as u64);
    if more > 0 {
        output::note(message::AndMore { more: &count(more) });
    }
}

/// `2 bad lines, 1 blank`, or `none`.
pub(super) fn in_short(bad: &BadLines) -> String {
    match (bad.total, bad.blank) {
        (0, 0) => message::None.text().to_owned(),
        (0, blank) => message::Blank { blank: &count(blank) }.to_string(),
        (total, 0) => message::Bad { bad: &count(total) }.to_string(),
        (total, blank) => message::BadAndBlank { bad: &count(total), blank: &count(blank) }.to_string(),
    }
}
