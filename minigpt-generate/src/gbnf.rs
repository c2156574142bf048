//! GBNF, llama.cpp's notation for grammars, as the Lark form that llguidance compiles.
//!
//! A grammar without recursion becomes one regular expression, unless that would be very long. In any other, every terminal is a single character: a lexer
//! takes the longest match, and so only terminals of which none begins another keep the meaning of the grammar.

use crate::constraint_error::{ConstraintProblem, GbnfError, GbnfProblem};
use crate::error::{Error, Result};
use std::collections::HashMap;
use std::fmt::Write;

/// Parentheses inside each other.
const DEEPEST_GROUP: usize = 64;
/// Rules of a grammar.
const MOST_RULES: usize = 10_000;
/// The largest number in `{m,n}`.
const MOST_REPETITIONS: u32 = 100_000;
/// Characters of a grammar as one regular expression, with each rule written out wherever it is named.
const LONGEST_REGULAR: usize = 50_000;
const LAST_CHARACTER: u32 = 0x10_FFFF;

/// One side of a rule.
#[derive(Debug, Clone, PartialEq)]
enum Expression {
    /// One character of these ranges.
    Character(Vec<(u32, u32)>),
    Rule(usize),
    Sequence(Vec<Expression>),
    Alternatives(Vec<Expression>),
    Repeated(Box<Expression>, u32, Option<u32>),
}

#[derive(Debug)]
struct Rule {
    body: Expression,
    /// The rules that it refers to.
    refers_to: Vec<usize>,
}

/// A grammar with its rules by number.
#[derive(Debug)]
struct Parsed {
    rules: Vec<Rule>,
    root: usize,
}

/// The Lark form of a GBNF grammar.
///
/// # Errors
/// What is wrong or not supported, with the number of its line.
pub(crate) fn to_lark(text: &str) -> Result<String> {
    Ok(Parser::parse(text)?.to_lark())
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    /// Rules that were named: number, and the line that named them first.
    names: HashMap<&'a str, (usize, usize)>,
    rules: Vec<Option<Rule>>,
    refers_to: Vec<usize>,
}

impl<'a> Parser<'a> {
    fn parse(text: &'a str) -> Result<Parsed> {
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

impl Parsed {
    fn to_lark(&self) -> String {
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
        // Rules that refer to none that are left are taken away, until there are none or all that are left are in a circle.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constraint::{Grammar, GrammarCompiler};
    use minigpt_tokenizer::{CharTokenizer, Tokenizer};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn complaint(text: &str) -> String {
        let error = to_lark(text).unwrap_err().to_string();
        error.trim_start_matches("the schema or grammar can't be followed: ").to_owned()
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        assert_eq!(complaint("# nothing"), "the grammar has no rule named root");
        assert_eq!(complaint("root ::= a\n\na ::= b"), "line 3: there is no rule named b");
        assert_eq!(complaint("root ::= \"a\"\nroot ::= \"b\""), "line 2: the rule root is defined twice");
        assert_eq!(complaint("root ::= \"a\nb\""), "line 1: expected \" before the end of the line");
        assert_eq!(
            complaint("root ::= [b-a]"),
            "line 1: the range of a character class ends before it begins"
        );
        assert_eq!(complaint("root ::= \"\\q\""), "line 1: unknown escape \\q");
        assert_eq!(
            complaint("root ::= \"\\ud800\""),
            "line 1: \\u needs 4 hexadecimal digits of a character"
        );
        assert_eq!(complaint("root ::= *"), "line 1: nothing to repeat before *");
        assert_eq!(complaint("root ::= (\"a\"\n"), "line 2: expected )");
        assert_eq!(complaint("root = x"), "line 1: expected ::= after root");
        assert!(complaint("root ::= <think>").starts_with("line 1: tokens such as"));
        assert!(complaint("root ::= \"a\"{3,2}").starts_with("line 1: a repetition has one number"));
        assert_eq!(complaint("root ::= []"), "line 1: a character class without characters");
        assert_eq!(complaint("root ::= \"a\" }"), "line 1: expected the end of the line");
    }

    #[test]
    fn a_grammar_without_recursion_becomes_terminals() {
        let lark = to_lark("root ::= \"hi\" name? # a comment\nname ::= [a-b] | \".\"\n").unwrap();
        assert_eq!(
            lark,
            "start: R0\nR0: ((/[\\x{68}-\\x{68}]/ /[\\x{69}-\\x{69}]/) (R1)?)\nR1: (/[\\x{61}-\\x{62}]/ | (/[\\x{2e}-\\x{2e}]/))\n"
        );
        assert!(to_lark("root ::= \"(\" root? \")\"").unwrap().starts_with("start: r0\n"));
    }

    #[test]
    fn everything_that_llama_cpp_writes_is_read() {
        let text = "root  ::= (expr \"=\" ws term \"\\n\")+\r\nexpr  ::= term ([-+*/] term)*\nterm  ::=\n  ident\n  | num\n  | \"(\" ws expr \")\" ws\n\
            ident ::= [a-z] [a-z0-9_]* ws # words\nnum   ::= [0-9]{1,15} ws\nws    ::= [ \\t\\n]{0,20}\n\
            any-char ::= . [^\"\\\\\\x7F\\x00-\\x1F] \"\\u00e9\\U0001F980\" ( [\\]\\[] | \"\" )";
        Parser::parse(text).unwrap();
    }

    /// The places where a match of an expression at `start` may end, by the definition: all that rules match is collected until
    /// nothing is new.
    fn ends(rules: &[Rule], text: &[char]) -> Vec<Vec<BTreeSet<usize>>> {
        let mut known = vec![vec![BTreeSet::new(); text.len() + 1]; rules.len()];
        loop {
            let before = known.clone();
            for (number, rule) in rules.iter().enumerate() {
                for (start, known) in known[number].iter_mut().enumerate() {
                    known.extend(matches(&rule.body, &before, text, start));
                }
            }
            if known == before {
                return known;
            }
        }
    }

    fn matches(
        expression: &Expression,
        known: &[Vec<BTreeSet<usize>>],
        text: &[char],
        start: usize,
    ) -> BTreeSet<usize> {
        let after = |expression: &Expression, starts: &BTreeSet<usize>| -> BTreeSet<usize> {
            starts.iter().flat_map(|&start| matches(expression, known, text, start)).collect()
        };
        match expression {
            Expression::Character(ranges) => {
                let c = text.get(start).map(|&c| c as u32);
                let fits = c.is_some_and(|c| ranges.iter().any(|&(first, last)| (first..=last).contains(&c)));
                fits.then_some(start + 1).into_iter().collect()
            }
            Expression::Rule(number) => known[*number][start].clone(),
            Expression::Sequence(items) => {
                items.iter().fold(BTreeSet::from([start]), |starts, item| after(item, &starts))
            }
            Expression::Alternatives(items) => {
                items.iter().flat_map(|item| matches(item, known, text, start)).collect()
            }
            Expression::Repeated(item, least, most) => {
                let mut now = BTreeSet::from([start]);
                let mut all = BTreeSet::new();
                // More repetitions than characters find nothing new.
                let most = most.unwrap_or(u32::MAX).min(least + text.len() as u32 + 1);
                for round in 0..=most {
                    if round >= *least {
                        all.extend(now.iter().copied());
                    }
                    now = after(item, &now);
                }
                all
            }
        }
    }

    fn expression() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            4 => prop::sample::select(vec!["\"a\"", "\"b\"", "\"ab\"", "[ab]", "[^a]", "\"\""]).prop_map(str::to_owned),
            2 => prop::sample::select(vec!["root", "x"]).prop_map(str::to_owned),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 1..4).prop_map(|items| items.join(" ")),
                prop::collection::vec(inner.clone(), 2..4)
                    .prop_map(|items| format!("({})", items.join(" | "))),
                (inner, prop::sample::select(vec!["*", "+", "?", "{2}", "{1,2}", "{0,1}"]))
                    .prop_map(|(item, sign)| format!("({item}){sign}")),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]

        /// Whether a text is accepted, and each of its beginnings can be written, is as the definition says.
        #[test]
        fn the_lark_form_accepts_the_same_texts(root in expression(), x in expression()) {
            let grammar = format!("root ::= {root}\nx ::= {x} | \"c\"");
            let tokenizer = Tokenizer::Char(CharTokenizer::from_text(&[], "abc".chars()).unwrap());
            let compiler = GrammarCompiler::new(&tokenizer, 3).unwrap();
            let parsed = Parser::parse(&grammar).unwrap();
            let Ok(constraint) = compiler.compile(&Grammar::Gbnf(grammar.clone())) else {
                // A grammar without any text, or with none but the empty one.
                for text in ["a", "b", "c", "ab", "ba", "aa"] {
                    let text: Vec<char> = text.chars().collect();
                    prop_assert!(!ends(&parsed.rules, &text)[parsed.root][0].contains(&text.len()), "{} {:?}", grammar, text);
                }
                return Ok(());
            };
            // All texts of up to four letters.
            let mut texts = vec![Vec::new()];
            for length in 0..4 {
                let longer: Vec<Vec<char>> = texts.iter().filter(|text: &&Vec<char>| text.len() == length)
                    .flat_map(|text| "abc".chars().map(move |c| [&text[..], &[c]].concat())).collect();
                texts.extend(longer);
            }
            for text in texts {
                let ids = tokenizer.encode(&text.iter().collect::<String>()).unwrap();
                let accepted = constraint.accepts(&ids);
                let wanted = ends(&parsed.rules, &text)[parsed.root][0].contains(&text.len());
                prop_assert_eq!(accepted, wanted, "{} {:?}", grammar, text);
            }
        }
    }
}
