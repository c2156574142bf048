//! GBNF, llama.cpp's notation for grammars, as the Lark form that llguidance compiles.
//!
//! A grammar without recursion becomes one regular expression, unless that would be very long. In any other, every terminal is a single character: a lexer
//! takes the longest match, and so only terminals of which none begins another keep the meaning of the grammar.

mod lark;
mod parser;

use crate::error::Result;
use parser::Parser;

/// The largest code point.
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
