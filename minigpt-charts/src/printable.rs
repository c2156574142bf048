//! Text from a file, a name or a model, made harmless for a terminal.

use std::borrow::Cow;

/// The text with everything that would command a terminal written as a code (`\u{1b}`): control characters but line ends
/// and tabs, and what turns the direction of writing around.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(commands) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if commands(character) { shown.extend(character.escape_unicode()) } else { shown.push(character) }
    }
    Cow::Owned(shown)
}

fn commands(character: char) -> bool {
    let turns = matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || character.is_control() && character != '\n' && character != '\t'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_to_a_terminal_become_visible_and_all_else_stays() {
        let hostile = "\u{1b}]0;title\u{7} \u{9b}2J a\rb \u{202e}cba\u{7f}";
        let shown = printable(hostile);
        assert_eq!(shown, r"\u{1b}]0;title\u{7} \u{9b}2J a\u{d}b \u{202e}cba\u{7f}");
        let plain = "天空 é\n\tعربى 👍🏽";
        assert!(matches!(printable(plain), Cow::Borrowed(same) if same == plain));
    }
}
