//! The parser of GBNF.

use super::{Expression, LAST_CHARACTER, Parsed, Rule};
use crate::constraint_error::{ConstraintProblem, GbnfError, GbnfProblem};
use crate::error::{Error, Result};
use std::collections::HashMap;

/// Parentheses inside each other.
const DEEPEST_GROUP: usize = 64;
/// Rules of a grammar.
const MOST_RULES: usize = 10_000;
/// The largest number in `{m,n}`.
const MOST_REPETITIONS: u32 = 100_000;

pub(super) struct Parser<'a> {
    text: &'a str,
    at: usize,
    /// Rules that were named: number, and the line that named them first.
    names: HashMap<&'a str, (usize, usize)>,
    rules: Vec<Option<Rule>>,
    refers_to: Vec<usize>,
}

impl<'a> Parser<'a> {
    pub fn parse(text: &'a str) -> Result<Parsed> {
        let (names, rules) = (HashMap::new(), Vec::new());
        let mut parser = Parser { text, at: 0, names, rules, refers_to: Vec::new() };
        parser.space(true);
        while parser.peek().is_some() {
            parser.rule()?;
        }
        parser.finish()
    }

    fn finish(self) -> Result<Parsed> {
        let Some(&(root, _)) = self.names.get("root") else {
            return Err(ConstraintProblem::from(GbnfError::NoRoot).into());
        };
        let missing = self.names.iter().filter(|(_, (number, _))| self.rules[*number].is_none());
        if let Some((name, (_, line))) = missing.min_by_key(|(_, (_, line))| *line) {
            return Err(at_line(*line, GbnfProblem::NoRule((*name).to_owned())));
        }
        Ok(Parsed { rules: self.rules.into_iter().flatten().collect(), root })
    }

    fn rule(&mut self) -> Result<()> {
        let name = self.name().ok_or_else(|| self.wrong(GbnfProblem::ExpectedName))?;
        let number = self.number(name)?;
        self.space(false);
        if !self.takes("::=") {
            return Err(self.wrong(GbnfProblem::ExpectedDefinition(name.to_owned())));
        }
        if self.rules[number].is_some() {
            return Err(self.wrong(GbnfProblem::DuplicateRule(name.to_owned())));
        }
        self.space(true);
        let body = self.alternatives(0)?;
        if self.peek().is_some() && !self.takes("\n") && !self.takes("\r") {
            return Err(self.wrong(GbnfProblem::ExpectedLineEnd));
        }
        self.rules[number] = Some(Rule { body, refers_to: std::mem::take(&mut self.refers_to) });
        self.space(true);
        Ok(())
    }

    fn alternatives(&mut self, depth: usize) -> Result<Expression> {
        let mut alternatives = vec![self.sequence(depth)?];
        loop {
            // A rule may go on in a line that begins with a bar.
            let here = self.at;
            self.space(true);
            if !self.takes("|") {
                self.at = if depth > 0 { self.at } else { here };
                break;
            }
            self.space(true);
            alternatives.push(self.sequence(depth)?);
        }
        Ok(match alternatives.len() {
            1 => alternatives.remove(0),
            _ => Expression::Alternatives(alternatives),
        })
    }

    fn sequence(&mut self, depth: usize) -> Result<Expression> {
        let mut sequence = Vec::new();
        while let Some(next) = self.peek() {
            let item = match next {
                '"' => self.literal()?,
                '[' => self.class()?,
                '.' => {
                    self.at += 1;
                    Expression::Character(vec![(0, LAST_CHARACTER)])
                }
                '(' => self.group(depth)?,
                '<' | '!' => return Err(self.wrong(GbnfProblem::Token)),
                '*' | '+' | '?' | '{' => return Err(self.wrong(GbnfProblem::NothingToRepeat(next))),
                _ => match self.name() {
                    None => break,
                    Some(name) => {
                        let number = self.number(name)?;
                        self.refers_to.push(number);
                        Expression::Rule(number)
                    }
                },
            };
            self.space(depth > 0);
            sequence.push(self.repeated(item, depth)?);
        }
        Ok(match sequence.len() {
            1 => sequence.remove(0),
            _ => Expression::Sequence(sequence),
        })
    }

    fn group(&mut self, depth: usize) -> Result<Expression> {
        if depth == DEEPEST_GROUP {
            return Err(self.wrong(GbnfProblem::TooDeep(DEEPEST_GROUP)));
        }
        self.at += 1;
        self.space(true);
        let inner = self.alternatives(depth + 1)?;
        self.space(true);
        if self.takes(")") { Ok(inner) } else { Err(self.wrong(GbnfProblem::Expected(")"))) }
    }

    fn repeated(&mut self, mut item: Expression, depth: usize) -> Result<Expression> {
        // Each sign wraps what is before it.
        for _ in 0..DEEPEST_GROUP {
            let (least, most) = match self.peek() {
                Some('*') => (0, None),
                Some('+') => (1, None),
                Some('?') => (0, Some(1)),
                Some('{') => self.braces()?,
                _ => return Ok(item),
            };
            self.at += 1;
            self.space(depth > 0);
            item = Expression::Repeated(Box::new(item), least, most);
        }
        Err(self.wrong(GbnfProblem::TooManyRepetitions))
    }

    /// The numbers of `{m}`, `{m,}` or `{m,n}`, up to its closing brace.
    fn braces(&mut self) -> Result<(u32, Option<u32>)> {
        self.at += 1;
        let inner = self.text[self.at..].split('}').next().unwrap_or_default();
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|&n| n <= MOST_REPETITIONS);
        let numbers = match inner.split_once(',') {
            None => number(inner).map(|n| (n, Some(n))),
            Some((least, most)) if most.trim().is_empty() => number(least).map(|least| (least, None)),
            Some((least, most)) => number(least).zip(number(most)).map(|(least, most)| (least, Some(most))),
        };
        let closed = self.text[self.at + inner.len()..].starts_with('}');
        match numbers.filter(|&(least, most)| closed && most.is_none_or(|most| least <= most)) {
            Some(numbers) => {
                self.at += inner.len();
                Ok(numbers)
            }
            None => Err(self.wrong(GbnfProblem::Repetition(MOST_REPETITIONS))),
        }
    }

    fn literal(&mut self) -> Result<Expression> {
        self.at += 1;
        let mut characters = Vec::new();
        while !self.takes("\"") {
            let c = self.character("\"")?;
            characters.push(Expression::Character(vec![(c, c)]));
        }
        Ok(Expression::Sequence(characters))
    }

    fn class(&mut self) -> Result<Expression> {
        self.at += 1;
        let negated = self.takes("^");
        let mut ranges = Vec::new();
        while !self.takes("]") {
            let first = self.character("]")?;
            let is_range = self.text[self.at..].starts_with('-') && !self.text[self.at..].starts_with("-]");
            if !is_range {
                ranges.push((first, first));
                continue;
            }
            self.at += 1;
            let last = self.character("]")?;
            if last < first {
                return Err(self.wrong(GbnfProblem::ReversedRange));
            }
            ranges.push((first, last));
        }
        let ranges = normalized(ranges, negated);
        if ranges.is_empty() {
            Err(self.wrong(GbnfProblem::EmptyClass))
        } else {
            Ok(Expression::Character(ranges))
        }
    }

    /// One character of a literal or a class, which may be escaped.
    fn character(&mut self, closing: &'static str) -> Result<u32> {
        let next = self.peek().ok_or_else(|| self.wrong(GbnfProblem::Expected(closing)))?;
        if next == '\n' {
            return Err(self.wrong(GbnfProblem::ExpectedBeforeLineEnd(closing)));
        }
        self.at += next.len_utf8();
        if next != '\\' {
            return Ok(next as u32);
        }
        let escaped = self.peek().ok_or_else(|| self.wrong(GbnfProblem::ExpectedEscape))?;
        self.at += escaped.len_utf8();
        let digits = match escaped {
            'n' => return Ok(u32::from('\n')),
            'r' => return Ok(u32::from('\r')),
            't' => return Ok(u32::from('\t')),
            '\\' | '"' | '[' | ']' | '-' | '^' => return Ok(escaped as u32),
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => return Err(self.wrong(GbnfProblem::UnknownEscape(escaped))),
        };
        let hex = self.text[self.at..].get(..digits).unwrap_or_default();
        let is_hex = hex.len() == digits && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        let value =
            u32::from_str_radix(hex, 16).ok().filter(|&value| is_hex && char::from_u32(value).is_some());
        let value = value.ok_or_else(|| self.wrong(GbnfProblem::EscapeDigits { escape: escaped, digits }))?;
        self.at += digits;
        Ok(value)
    }

    fn name(&mut self) -> Option<&'a str> {
        let rest = &self.text[self.at..];
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let length = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        self.at += length;
        (length > 0).then(|| &rest[..length])
    }

    fn number(&mut self, name: &'a str) -> Result<usize> {
        if let Some(&(number, _)) = self.names.get(name) {
            return Ok(number);
        }
        if self.rules.len() == MOST_RULES {
            return Err(self.wrong(GbnfProblem::TooManyRules(MOST_RULES)));
        }
        let number = self.rules.len();
        self.names.insert(name, (number, self.line()));
        self.rules.push(None);
        Ok(number)
    }

    /// Passes over white space and comments.
    fn space(&mut self, lines: bool) {
        while let Some(next) = self.peek() {
            match next {
                ' ' | '\t' => self.at += 1,
                '\r' | '\n' if lines => self.at += 1,
                '#' => {
                    let rest = &self.text[self.at..];
                    self.at += rest.find('\n').unwrap_or(rest.len());
                }
                _ => return,
            }
        }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn takes(&mut self, what: &str) -> bool {
        let there = self.text[self.at..].starts_with(what);
        self.at += if there { what.len() } else { 0 };
        there
    }

    fn line(&self) -> usize {
        1 + self.text[..self.at].matches('\n').count()
    }

    fn wrong(&self, problem: GbnfProblem) -> Error {
        at_line(self.line(), problem)
    }
}

fn at_line(line: usize, problem: GbnfProblem) -> Error {
    ConstraintProblem::from(GbnfError::Line { line, problem }).into()
}

/// Ranges in order, without overlaps and surrogates; all others if `negated`.
fn normalized(mut ranges: Vec<(u32, u32)>, negated: bool) -> Vec<(u32, u32)> {
    ranges.sort_unstable();
    let mut merged: Vec<(u32, u32)> = Vec::new();
    for (first, last) in ranges {
        match merged.last_mut() {
            Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
            _ => merged.push((first, last)),
        }
    }
    if !negated {
        return merged;
    }
    let (mut others, mut next) = (Vec::new(), 0);
    for (first, last) in merged {
        if first > next {
            others.push((next, first - 1));
        }
        next = last + 1;
    }
    if next <= LAST_CHARACTER {
        others.push((next, LAST_CHARACTER));
    }
    others
}
