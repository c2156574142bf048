//! GPT-2's first step: cutting text into words, numbers, punctuation and white space, so that no merge crosses them.
//!
//! The pattern is `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`. Written by hand it is
//! several times faster than any regex engine with look-ahead; the tests hold it against one.

use crate::unicode_class::{Class, class};

/// How many bytes must follow a piece before more text can't change it: `'` may still become `'ll`.
pub(crate) const LOOKAHEAD: usize = 2;

/// The pieces of a text, in order; together they are the text.
pub(crate) struct Pieces<'a> {
    text: &'a str,
    start: usize,
}

/// Cuts a text into pieces.
pub(crate) fn pieces(text: &str) -> Pieces<'_> {
    Pieces { text, start: 0 }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let start = self.start;
        if start == self.text.len() {
            return None;
        }
        self.start = piece_end(self.text, start);
        Some(&self.text[start..self.start])
    }
}

/// Where the piece that starts at `start` ends.
fn piece_end(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    if bytes[start] == b'\''
        && let Some(length) = contraction(&bytes[start + 1..])
    {
        return start + 1 + length;
    }
    // One space may precede a word.
    let word = start + usize::from(bytes[start] == b' ');
    match class_at(text, word) {
        Some((Class::Space, _)) => spaces_end(text, start),
        Some((found, width)) => run_end(text, word + width, found),
        None => text.len(),
    }
}

/// The length of what follows the apostrophe in `'s`, `'t`, `'m`, `'d`, `'re`, `'ve` and `'ll`.
fn contraction(after: &[u8]) -> Option<usize> {
    match after {
        [b's' | b't' | b'm' | b'd', ..] => Some(1),
        [b'r' | b'v', b'e', ..] | [b'l', b'l', ..] => Some(2),
        _ => None,
    }
}

/// White space up to the end of the text, or leaving its last character to the word after it.
fn spaces_end(text: &str, start: usize) -> usize {
    let mut end = start;
    let mut last = start;
    while let Some((Class::Space, width)) = class_at(text, end) {
        last = end;
        end += width;
    }
    if end == text.len() || last == start { end } else { last }
}

/// Where characters of one class end, from `at` on.
fn run_end(text: &str, mut at: usize, run: Class) -> usize {
    while let Some((found, width)) = class_at(text, at) {
        if found != run {
            break;
        }
        at += width;
    }
    at
}

/// Class and width in bytes of the character at a boundary of the text.
#[inline(always)]
fn class_at(text: &str, at: usize) -> Option<(Class, usize)> {
    let bytes = text.as_bytes();
    let first = *bytes.get(at)?;
    if first < 0x80 {
        return Some((class(u32::from(first)), 1));
    }
    let character = text[at..].chars().next()?;
    Some((class(character.into()), character.len_utf8()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    static PATTERN: LazyLock<fancy_regex::Regex> = LazyLock::new(|| {
        fancy_regex::Regex::new(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
            .unwrap()
    });

    fn by_hand(text: &str) -> Vec<&str> {
        pieces(text).collect()
    }

    fn by_pattern(text: &str) -> Vec<&str> {
        PATTERN.find_iter(text).map(|found| found.unwrap().as_str()).collect()
    }

    #[test]
    fn words_keep_the_space_before_them() {
        assert_eq!(
            by_hand("It's 12 a.m.,  you'll see"),
            ["It", "'s", " 12", " a", ".", "m", ".,", " ", " you", "'ll", " see"]
        );
    }

    #[test]
    fn white_space_leaves_its_last_character_to_the_next_word() {
        assert_eq!(by_hand("a \n\n  b\t\tc  "), ["a", " \n\n ", " b", "\t", "\t", "c", "  "]);
        assert_eq!(by_hand(" "), [" "]);
    }

    #[test]
    fn every_code_point_has_the_class_that_the_pattern_gives_it() {
        for character in '\0'..=char::MAX {
            let text = format!("a{character}1{character}!{character} {character}{character} '{character}");
            assert_eq!(by_hand(&text), by_pattern(&text), "{character:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn pieces_are_those_of_the_pattern(text in "[a '’lrevstdmSL\n\r\t\u{b}\u{85}\u{a0}\u{3000}\u{200b}你é\u{301}🙂1²٣!_]{0,30}") {
            prop_assert_eq!(by_hand(&text), by_pattern(&text));
        }

        #[test]
        fn any_text_is_cut_as_the_pattern_cuts_it(text in any::<String>()) {
            prop_assert_eq!(by_hand(&text), by_pattern(&text));
            prop_assert_eq!(by_hand(&text).concat(), text);
        }
    }
}
