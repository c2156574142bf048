//! Suggested commands, so that they work when they are copied: words with spaces, quotes and leading dashes.

use minigpt_tokenizer::Tokenizer;
use std::path::Path;

/// A word of a command line, in quotes where a shell would not take it as one.
pub fn word(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+:@%,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// A file or a folder as an argument. One whose name begins with a dash is named by way of its folder.
pub fn path(path: &Path) -> String {
    let text = path.display().to_string();
    if text.starts_with('-') { word(&format!("./{text}")) } else { word(&text) }
}

/// An option with its value. A value that begins with a dash is attached, so that it is not taken for an option.
pub fn option(name: &str, value: &str) -> String {
    let joint = if value.starts_with('-') { '=' } else { ' ' };
    format!("{name}{joint}{}", word(value))
}

/// A text that a tokenizer can encode, as the option `--prompt`: the given one, or a single character of its vocabulary. Token
/// ids where there is no tokenizer.
pub fn prompt(tokenizer: Option<&Tokenizer>, text: &str) -> String {
    let Some(tokenizer) = tokenizer else { return "--ids 0".to_owned() };
    let line = text.trim().lines().next().unwrap_or_default();
    let fits = |text: &str| {
        !text.is_empty()
            && !text.contains(char::is_control)
            && tokenizer.unknown_beside_special(text).is_empty()
            && tokenizer.encode_with_special(text).is_ok_and(|ids| !ids.is_empty())
    };
    if fits(line) {
        return option("--prompt", line);
    }
    let tokens = (0..tokenizer.vocab_size() as u32).filter_map(|id| tokenizer.token(id));
    let usable: Vec<String> = tokens.filter(|token| token.chars().count() == 1 && fits(token)).collect();
    let letter = usable.iter().find(|token| token.chars().all(char::is_alphabetic)).or(usable.first());
    letter.map_or_else(|| "--ids 0".to_owned(), |letter| option("--prompt", letter))
}

#[cfg(test)]
mod tests {
    use super::*;
    use minigpt_tokenizer::CharTokenizer;

    #[test]
    fn what_a_shell_would_tear_apart_is_quoted() {
        assert_eq!(word("runs/西游记/best"), "runs/西游记/best");
        assert_eq!(word("it's $5"), "'it'\\''s $5'");
        assert_eq!(word(""), "''");
        assert_eq!(path(Path::new("-my run")), "'./-my run'");
        assert_eq!(option("--prompt", "---"), "--prompt=---");
        assert_eq!(option("--prompt", "-x 'y'"), "--prompt='-x '\\''y'\\'''");
    }

    /// Every command in backticks that any message suggests is one that this program understands. The catalogues hold all
    /// messages, in English and in Chinese.
    #[test]
    fn commands_in_messages_are_understood() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("messages");
        let folders = ["", "en", "zh"].map(|language| std::fs::read_dir(folder.join(language)).unwrap());
        let files =
            folders.into_iter().flatten().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
        let catalogues: Vec<String> = files.map(|path| std::fs::read_to_string(path).unwrap()).collect();
        let mut seen = 0;
        for line in catalogues.iter().flat_map(|catalogue| catalogue.lines()) {
            for command in line
                .split('`')
                .skip(1)
                .step_by(2)
                .filter(|part| part.starts_with("minigpt ") && !part.starts_with("minigpt {"))
            {
                // What a message fills in is a word.
                let command = command
                    .split('{')
                    .map(|part| part.split_once('}').map_or(part.to_owned(), |(_, rest)| format!("x{rest}")));
                let command = command.collect::<String>().replace("\\\"", "\"");
                let words = command.split(' ').map(std::ffi::OsString::from);
                let is_help = |error: &clap::Error| {
                    use clap::error::ErrorKind::{
                        DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, InvalidValue,
                        MissingRequiredArgument,
                    };
                    // A message may name a command without all that it takes, or with NAME for what a person chooses.
                    [DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, MissingRequiredArgument]
                        .contains(&error.kind())
                        || error.kind() == InvalidValue
                            && ["'NAME'", "'xx'"].iter().any(|name| error.to_string().contains(name))
                };
                let understood = crate::arguments::parse(words);
                assert!(
                    understood.as_ref().err().is_none_or(is_help),
                    "{command}: {}",
                    understood.err().unwrap()
                );
                seen += 1;
            }
        }
        assert!(seen > 50, "{seen} commands");
    }

    #[test]
    fn a_prompt_is_one_that_the_tokenizer_can_encode() {
        let tokenizer = Tokenizer::Char(CharTokenizer::from_text(&["<sep>"], "-!你好".chars()).unwrap());
        assert_eq!(prompt(Some(&tokenizer), "你好<sep>\n你"), "--prompt '你好<sep>'");
        assert_eq!(prompt(Some(&tokenizer), "hello"), "--prompt 你");
        assert_eq!(prompt(Some(&tokenizer), "---"), "--prompt=---");
        assert_eq!(prompt(None, "x"), "--ids 0");
    }
}
