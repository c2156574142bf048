//! Text as it is written: whole characters only, and nothing of a stop string.

use minigpt_tokenizer::{PendingBytes, Tokenizer};

/// Turns tokens into text that can be shown at once. What might become a stop string waits until it is clear.
#[derive(Debug)]
pub struct TextStream<'a> {
    tokenizer: &'a Tokenizer,
    state: TextState,
}

/// The same for whoever keeps the tokenizer elsewhere.
#[derive(Debug)]
pub(crate) struct TextState {
    pending: PendingBytes,
    stop: StopStrings,
}

impl<'a> TextStream<'a> {
    /// A text that has not begun.
    pub fn new(tokenizer: &'a Tokenizer, stop_strings: &[String]) -> Self {
        Self { tokenizer, state: TextState::new(stop_strings) }
    }

    /// Takes a token and gives the text that can be shown now. A token that the tokenizer does not know (a model's
    /// vocabulary may be the larger one) is shown as U+FFFD. After a stop string there is no more text.
    pub fn push(&mut self, id: u32) -> String {
        self.state.push(self.tokenizer, id)
    }

    /// Whether a stop string has come.
    pub fn stopped(&self) -> bool {
        self.state.stopped_by().is_some()
    }

    /// Gives what waited in vain for the rest of a stop string. A character whose last bytes did not come is left out.
    pub fn finish(&mut self) -> String {
        self.state.finish()
    }
}

impl TextState {
    pub fn new(stop_strings: &[String]) -> Self {
        Self { pending: PendingBytes::default(), stop: StopStrings::new(stop_strings) }
    }

    /// As [`TextStream::push`].
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> String {
        let text = self.pending.push(tokenizer, id).unwrap_or_else(|| "\u{FFFD}".to_owned());
        self.stop.push(&text)
    }

    /// The stop string that has come, if one has.
    pub fn stopped_by(&self) -> Option<&str> {
        self.stop.stopped.map(|which| self.stop.strings[which].as_str())
    }

    /// As [`TextStream::finish`].
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.stop.held)
    }
}

/// Passes text on up to the first stop string.
#[derive(Debug)]
struct StopStrings {
    strings: Vec<String>,
    /// The end of the text so far, as far as it begins a stop string.
    held: String,
    /// Which of the strings has come.
    stopped: Option<usize>,
}

impl StopStrings {
    fn new(strings: &[String]) -> Self {
        Self { strings: strings.to_vec(), held: String::new(), stopped: None }
    }

    fn push(&mut self, text: &str) -> String {
        if self.stopped.is_some() {
            return String::new();
        }
        self.held.push_str(text);
        let clear = match self.first_match() {
            Some((start, which)) => {
                self.stopped = Some(which);
                start
            }
            None => self.held.len() - self.begun(),
        };
        let rest = self.held.split_off(clear);
        let clear = std::mem::replace(&mut self.held, rest);
        if self.stopped.is_some() {
            self.held.clear();
        }
        clear
    }

    /// Where the stop string starts that is complete first, and which one it is. Of those that end together, the longest.
    fn first_match(&self) -> Option<(usize, usize)> {
        let place = |(which, stop): (usize, &String)| {
            self.held.find(stop.as_str()).map(|start| (start + stop.len(), start, which))
        };
        self.strings.iter().enumerate().filter_map(place).min().map(|(_, start, which)| (start, which))
    }

    /// The length of the longest end of the text that begins a stop string.
    fn begun(&self) -> usize {
        let beginnings =
            self.strings.iter().flat_map(|stop| stop.char_indices().map(|(end, _)| &stop[..end]));
        beginnings.filter(|beginning| self.held.ends_with(beginning)).map(str::len).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn strings(stop: &[&str]) -> Vec<String> {
        stop.iter().map(|&s| s.to_owned()).collect()
    }

    /// The parts that are shown as each piece comes, and what is left at the end.
    fn shown(stop: &[&str], pieces: &[&str]) -> (Vec<String>, String, bool) {
        let mut filter = StopStrings::new(&strings(stop));
        let parts = pieces.iter().map(|piece| filter.push(piece)).collect();
        (parts, filter.held.clone(), filter.stopped.is_some())
    }

    #[test]
    fn a_stop_string_is_found_across_tokens_and_not_shown() {
        let (parts, rest, stopped) = shown(&["<end>"], &["a <", "en", "d> b", "c"]);
        assert_eq!((parts.concat().as_str(), rest.as_str(), stopped), ("a ", "", true));
    }

    #[test]
    fn what_only_begins_like_a_stop_string_is_shown_when_that_is_clear() {
        let (parts, rest, stopped) = shown(&["<end>"], &["a<", "e", "x", "<en"]);
        assert_eq!(parts, ["a", "", "<ex", ""]);
        assert_eq!((rest.as_str(), stopped), ("<en", false));
    }

    #[test]
    fn a_beginning_inside_a_beginning_is_not_missed() {
        assert_eq!(shown(&["aab"], &["a", "a", "a", "b"]).0.concat(), "a");
        assert_eq!(shown(&["。\n", "\n\n"], &["好。", "\n"]).0, ["好", ""]);
    }

    #[test]
    fn the_stop_string_that_ends_first_counts_however_the_text_is_cut() {
        assert_eq!(shown(&["bcd", "c"], &["abcd"]).0, ["ab"]);
        assert_eq!(shown(&["bcd", "c"], &["ab", "cd"]).0, ["a", "b"]);
        assert_eq!(shown(&["c", "bc"], &["abc"]).0, ["a"]);
    }

    #[test]
    fn half_a_character_is_never_shown() {
        let gpt2 = Tokenizer::gpt2();
        let mut stream = TextStream::new(&gpt2, &[]);
        let parts: Vec<String> = [19526, 254, 25001, 121, 19526].map(|id| stream.push(id)).into();
        assert_eq!(parts, ["", "你", "", "好", ""]);
        assert_eq!(stream.finish(), "");
    }

    #[test]
    fn a_token_that_the_tokenizer_does_not_know_is_shown_as_such() {
        let gpt2 = Tokenizer::gpt2();
        let mut stream = TextStream::new(&gpt2, &[]);
        assert_eq!([64, 50_300, 64].map(|id| stream.push(id)), ["a", "\u{FFFD}", "a"]);
    }

    proptest! {
        #[test]
        fn however_the_text_is_cut_the_same_is_shown(
            text in "[ab好]{0,24}", stop in prop::collection::vec("[ab好]{1,4}", 0..3), cuts in prop::collection::vec(1usize..4, 24),
        ) {
            let characters: Vec<char> = text.chars().collect();
            let (mut filter, mut got, mut at) = (StopStrings::new(&stop), String::new(), 0);
            for cut in cuts {
                let end = (at + cut).min(characters.len());
                got += &filter.push(&characters[at..end].iter().collect::<String>());
                at = end;
            }
            got += &filter.held;
            // Letter by letter, the first time that the text ends in a stop string.
            let mut want = String::new();
            for c in characters {
                want.push(c);
                if let Some(found) = stop.iter().filter(|s| want.ends_with(s.as_str())).map(String::len).max() {
                    want.truncate(want.len() - found);
                    break;
                }
            }
            prop_assert_eq!(got, want);
        }
    }
}
