//! A line that shows where tokens begin and end.

use crate::language::messages::tokenizer as message;
use minigpt_tokenizer::Tokenizer;

/// Enough to see what happens.
const SHOWN: usize = 200;
/// Backgrounds that neighbours alternate between, with black letters.
const COLOURS: [&str; 4] = ["\x1b[30;46m", "\x1b[30;43m", "\x1b[30;45m", "\x1b[30;42m"];
const PLAIN: &str = "\x1b[0m";

/// The tokens side by side: on colours, or with bars between them. What can't be seen is written visibly.
pub(super) fn view(tokenizer: &Tokenizer, ids: &[u32], colour: bool) -> String {
    let shown = ids.iter().take(SHOWN).map(|&id| visible(&tokenizer.token(id).unwrap_or_default()));
    let mut line = if colour {
        shown.zip(COLOURS.iter().cycle()).map(|(token, colour)| format!("{colour}{token}{PLAIN}")).collect()
    } else {
        shown.collect::<Vec<_>>().join("│")
    };
    if ids.len() > SHOWN {
        line.push_str(&message::AndMore { more: &(ids.len() - SHOWN) }.to_string());
    }
    line
}

/// Spaces as `·`, line ends as `⏎`, tabs as `⇥`, other characters that can't be seen as their code.
fn visible(token: &str) -> String {
    let mut text = String::new();
    for character in token.chars() {
        match character {
            ' ' => text.push('·'),
            '\n' => text.push('⏎'),
            '\t' => text.push('⇥'),
            _ if character.is_control() || character.is_whitespace() => {
                text.extend(character.escape_unicode());
            }
            _ => text.push(character),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, colour: bool) -> String {
        let gpt2 = Tokenizer::gpt2();
        view(&gpt2, &gpt2.encode(text).unwrap(), colour)
    }

    #[test]
    fn tokens_stand_between_bars_and_nothing_is_invisible() {
        assert_eq!(line("Hello, world!\n\t\u{0}\u{a0}", false), "Hello│,│·world│!│⏎│⇥│\\u{0}│\\u{a0}");
    }

    #[test]
    fn halves_of_characters_are_written_as_bytes() {
        assert_eq!(line("你", false), r"\xE4\xBD│\xA0");
    }

    #[test]
    fn on_a_terminal_tokens_have_colours() {
        assert_eq!(line("Hello,", true), "\x1b[30;46mHello\x1b[0m\x1b[30;43m,\x1b[0m");
    }

    #[test]
    fn a_long_text_is_shown_in_part() {
        assert!(line(&"a b ".repeat(1000), false).ends_with(" … and 1801 more"));
    }
}
