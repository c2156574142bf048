//! Lines become messages and commands, typed or piped.

/// What somebody said.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    /// Something for the model.
    Message(String),
    /// `/set temperature 0.7`, without its slash.
    Command(String),
}

/// A message that may take several lines: one that ends with a backslash goes on in the next, and all between two `"""`
/// belongs together.
#[derive(Default)]
pub struct Lines {
    text: String,
    quoted: bool,
}

const QUOTES: &str = "\"\"\"";

impl Lines {
    /// Whether something has begun and not ended.
    pub fn is_open(&self) -> bool {
        self.quoted || !self.text.is_empty()
    }

    /// How much there is of it, in bytes.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// The next line; what was said if it ends here.
    pub fn push(&mut self, line: &str) -> Option<Said> {
        let mut line = line;
        if !self.is_open()
            && let Some(rest) = line.trim_start().strip_prefix(QUOTES)
        {
            // An earlier message comes back as one line with all of its line ends.
            (self.quoted, line) = (true, rest.strip_prefix('\n').unwrap_or(rest));
        }
        let (rest, goes_on) = if self.quoted {
            line.trim_end().strip_suffix(QUOTES).map_or((line, true), |rest| (rest, false))
        } else {
            line.strip_suffix('\\').map_or((line, false), |rest| (rest, true))
        };
        if self.quoted {
            self.text.push_str(rest);
        } else {
            self.text.push_str(&rest.replace("\\\n", "\n"));
        }
        if goes_on {
            // Nothing stands in the line that only opens.
            if !(self.quoted && self.text.is_empty()) {
                self.text.push('\n');
            }
            return None;
        }
        self.finish()
    }

    /// What was said if nothing more comes; nothing where that is empty.
    pub fn finish(&mut self) -> Option<Said> {
        let Self { text, quoted } = std::mem::take(self);
        if text.trim().is_empty() {
            return None;
        }
        // In quotes, what looks like a command is text. Chinese keyboards have a wide slash.
        match text.strip_prefix(['/', '／']) {
            Some(command) if !quoted => Some(Said::Command(command.to_owned())),
            _ if quoted => Some(Said::Message(text.strip_suffix('\n').unwrap_or(&text).to_owned())),
            _ => Some(Said::Message(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Vec<Said> {
        let mut lines = Lines::default();
        let mut said: Vec<Said> = text.lines().filter_map(|line| lines.push(line)).collect();
        said.extend(lines.finish());
        said
    }

    fn message(text: &str) -> Said {
        Said::Message(text.to_owned())
    }

    #[test]
    fn a_line_is_a_message_and_an_empty_one_is_none() {
        assert_eq!(said("one\n\n  \ntwo"), [message("one"), message("two")]);
    }

    #[test]
    fn messages_go_on_behind_a_backslash_and_between_quotes() {
        assert_eq!(said("one\\\ntwo\nthree"), [message("one\ntwo"), message("three")]);
        assert_eq!(said("\"\"\"\none\n\n two\n\"\"\"\nthree"), [message("one\n\n two"), message("three")]);
        assert_eq!(said("\"\"\"one\ntwo\"\"\""), [message("one\ntwo")]);
        assert_eq!(said("\"\"\"one\"\"\"\ntwo"), [message("one"), message("two")]);
        assert_eq!(said("\"\"\"\n\"\"\"\ntwo"), [message("two")]);
        assert_eq!(said("she said \"\"\"hm\"\"\""), [message("she said \"\"\"hm\"\"\"")]);
        // What has no end when the input ends is said all the same.
        assert_eq!(said("\"\"\"one\ntwo"), [message("one\ntwo")]);
        assert_eq!(said("one\\"), [message("one\n")]);
    }

    #[test]
    fn an_earlier_message_means_the_same_when_it_comes_back_as_one_line() {
        for typed in ["\"\"\"\none\ntwo\n\"\"\"", "\"\"\"one\ntwo\"\"\"", "one\\\ntwo"] {
            let again = Lines::default().push(typed);
            assert_eq!(
                (again, said(typed)),
                (Some(message("one\ntwo")), vec![message("one\ntwo")]),
                "{typed:?}"
            );
        }
    }

    #[test]
    fn both_slashes_begin_a_command_and_quotes_make_it_text() {
        assert_eq!(
            said("/help\n／set top_k 5"),
            ["help", "set top_k 5"].map(|c| Said::Command(c.to_owned()))
        );
        assert_eq!(said("\"\"\"/help\"\"\""), [message("/help")]);
    }
}
