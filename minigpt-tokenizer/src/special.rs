//! Special tokens: names such as `<sep>` or `<|endoftext|>` that are one token when they are meant as such.
//!
//! They are ordinary text unless the caller asks for them, so that a user's text can't forge one.

use crate::error::{Quote, Result, SpecialTokenProblem};
use aho_corasick::{AhoCorasick, MatchKind};
use foldhash::fast::RandomState;
use hashbrown::HashSet;

/// The special tokens of one tokenizer.
#[derive(Debug, Clone)]
pub(crate) struct Specials {
    tokens: Vec<(String, u32)>,
    finder: Option<AhoCorasick>,
}

/// A stretch of text between special tokens, or one of them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    Text(&'a str),
    Special(u32),
}

impl Specials {
    /// Takes names with their ids; the order is kept.
    pub(crate) fn new(tokens: Vec<(String, u32)>) -> Result<Self> {
        check_names(tokens.iter().map(|(name, _)| name.as_str()))?;
        let finder = (!tokens.is_empty())
            .then(|| {
                AhoCorasick::builder()
                    .match_kind(MatchKind::LeftmostLongest)
                    .build(tokens.iter().map(|(name, _)| name))
            })
            .transpose()
            .map_err(|error| SpecialTokenProblem::Search(error.to_string()))?;
        Ok(Self { tokens, finder })
    }

    /// Names and ids in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, u32)> {
        self.tokens.iter().map(|(name, id)| (name.as_str(), *id))
    }

    pub(crate) fn id(&self, name: &str) -> Option<u32> {
        self.iter().find(|(known, _)| *known == name).map(|(_, id)| id)
    }

    /// Cuts the text at its special tokens; where two could start, the longest is meant.
    pub(crate) fn split<'a>(&self, text: &'a str) -> Vec<Part<'a>> {
        let mut parts = Vec::new();
        let mut rest = 0;
        for found in self.finder.iter().flat_map(|finder| finder.find_iter(text)) {
            if rest < found.start() {
                parts.push(Part::Text(&text[rest..found.start()]));
            }
            parts.push(Part::Special(self.tokens[found.pattern()].1));
            rest = found.end();
        }
        if rest < text.len() {
            parts.push(Part::Text(&text[rest..]));
        }
        parts
    }
}

/// More special tokens, or longer ones, than any model has: such a file is broken or hostile.
const MOST: usize = 10_000;
const LONGEST: usize = 1000;

/// Checks that names are distinct and have at least two characters, so that no name can be mistaken for a character.
pub(crate) fn check_names<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), SpecialTokenProblem> {
    let mut seen = HashSet::<&str, RandomState>::default();
    for name in names {
        if name.chars().nth(1).is_none() {
            return Err(SpecialTokenProblem::TooShort(Quote::new(name)));
        }
        if name.len() > LONGEST {
            return Err(SpecialTokenProblem::TooLong { name: Quote::new(name), limit: LONGEST });
        }
        if !seen.insert(name) {
            return Err(SpecialTokenProblem::Duplicate(Quote::new(name)));
        }
        if seen.len() > MOST {
            return Err(SpecialTokenProblem::TooMany(MOST));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specials(names: &[&str]) -> Result<Specials> {
        Specials::new(names.iter().map(|name| (*name).to_owned()).zip(0..).collect())
    }

    #[test]
    fn text_is_cut_at_special_tokens() {
        let specials = specials(&["<sep>", "<pad>"]).unwrap();
        let parts = specials.split("a<sep>b<<pad><pad>");
        assert_eq!(
            parts,
            [Part::Text("a"), Part::Special(0), Part::Text("b<"), Part::Special(1), Part::Special(1)]
        );
        assert_eq!(specials.split(""), []);
    }

    #[test]
    fn the_longest_of_two_names_is_meant() {
        let specials = specials(&["<a", "<a>"]).unwrap();
        assert_eq!(specials.split("<a>"), [Part::Special(1)]);
    }

    #[test]
    fn without_special_tokens_all_is_text() {
        assert_eq!(specials(&[]).unwrap().split("<sep>"), [Part::Text("<sep>")]);
    }

    #[test]
    fn names_are_distinct_and_longer_than_a_character() {
        assert!(specials(&["<a>", "<a>"]).unwrap_err().to_string().contains("appears twice"));
        assert!(specials(&["中"]).unwrap_err().to_string().contains("at least two characters"));
        assert!(specials(&[""]).is_err());
        assert!(specials(&[&"<".repeat(2000)]).unwrap_err().to_string().contains("longer than 1000 bytes"));
    }
}
