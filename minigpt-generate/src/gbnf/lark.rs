//! A parsed grammar in Lark's notation.

use super::{Expression, Parsed};
use std::fmt::Write;

/// Characters of a grammar as one regular expression, with each rule written out wherever it is named.
const LONGEST_REGULAR: usize = 50_000;

impl Parsed {
    pub fn to_lark(&self) -> String {
        let regular = self.written_out().is_some_and(|length| length <= LONGEST_REGULAR);
        // Names in capitals are terminals.
        let prefix = if regular { 'R' } else { 'r' };
        let mut lark = format!("start: {prefix}{}\n", self.root);
        for (number, rule) in self.rules.iter().enumerate() {
            lark.push_str(&format!("{prefix}{number}: "));
            write_expression(&mut lark, &rule.body, prefix);
            lark.push('\n');
        }
        lark
    }

    /// How long the grammar is with each rule written out wherever it is named; none if a rule refers to itself.
    fn written_out(&self) -> Option<usize> {
        let mut lengths = vec![0; self.rules.len()];
        // Topological sort: rules without remaining references are removed, until none is left or the rest form cycles.
        let mut waits_for: Vec<usize> = self.rules.iter().map(|rule| rule.refers_to.len()).collect();
        let mut referred_by: Vec<Vec<usize>> = vec![Vec::new(); self.rules.len()];
        for (number, rule) in self.rules.iter().enumerate() {
            rule.refers_to.iter().for_each(|&other| referred_by[other].push(number));
        }
        let mut free: Vec<usize> = (0..self.rules.len()).filter(|&number| waits_for[number] == 0).collect();
        let mut taken = 0;
        while let Some(number) = free.pop() {
            taken += 1;
            lengths[number] = length(&self.rules[number].body, &lengths);
            for &other in &referred_by[number] {
                waits_for[other] -= 1;
                if waits_for[other] == 0 {
                    free.push(other);
                }
            }
        }
        (taken == self.rules.len()).then(|| lengths.into_iter().max().unwrap_or(0))
    }
}

/// The length of an expression, given those of rules.
fn length(expression: &Expression, rules: &[usize]) -> usize {
    match expression {
        Expression::Character(_) => 1,
        Expression::Rule(number) => rules[*number],
        Expression::Repeated(item, ..) => length(item, rules),
        Expression::Sequence(items) | Expression::Alternatives(items) => {
            items.iter().fold(0, |sum: usize, item| sum.saturating_add(length(item, rules)))
        }
    }
}

fn write_expression(lark: &mut String, expression: &Expression, prefix: char) {
    match expression {
        Expression::Character(ranges) => {
            lark.push_str("/[");
            for (first, last) in ranges {
                // Writing to a string can't fail.
                let _ = write!(lark, "\\x{{{first:x}}}-\\x{{{last:x}}}");
            }
            lark.push_str("]/");
        }
        Expression::Rule(number) => {
            let _ = write!(lark, "{prefix}{number}");
        }
        Expression::Sequence(items) if items.is_empty() => lark.push_str("\"\""),
        Expression::Sequence(items) => {
            for (i, item) in items.iter().enumerate() {
                lark.push_str(if i == 0 { "(" } else { " " });
                write_expression(lark, item, prefix);
            }
            lark.push(')');
        }
        Expression::Alternatives(items) => {
            for (i, item) in items.iter().enumerate() {
                lark.push_str(if i == 0 { "(" } else { " | " });
                write_expression(lark, item, prefix);
            }
            lark.push(')');
        }
        Expression::Repeated(item, least, most) => {
            lark.push('(');
            write_expression(lark, item, prefix);
            lark.push(')');
            let _ = match (least, most) {
                (0, None) => write!(lark, "*"),
                (1, None) => write!(lark, "+"),
                (0, Some(1)) => write!(lark, "?"),
                (least, None) => write!(lark, "{{{least},}}"),
                (least, Some(most)) => write!(lark, "{{{least},{most}}}"),
            };
        }
    }
}
