//! What can go wrong between text and ids, in words that say what, where, and what to do.

use std::borrow::Cow;
use std::path::PathBuf;

/// A failure of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text holds a character that the vocabulary lacks, and there is no `<unk>` to stand for it.
    #[error(
        "character {} of the text is {character:?} (U+{:04X}), which is not in the vocabulary, and the vocabulary \
         has no <unk> to stand for it",
        position + 1,
        u32::from(*character)
    )]
    UnknownCharacter {
        /// The character.
        character: char,
        /// How many characters come before it.
        position: usize,
    },
    /// The text holds a byte for which a byte-level vocabulary has no token.
    #[error("byte {position} of the text is 0x{byte:02X}, for which the vocabulary has no token")]
    UnknownByte {
        /// The byte.
        byte: u8,
        /// How many bytes come before it.
        position: usize,
    },
    /// An id that no token has.
    #[error("id {id} at position {position} is beyond the vocabulary of {vocab_size} tokens")]
    UnknownId {
        /// The id.
        id: u32,
        /// How many ids come before it.
        position: usize,
        /// How many tokens there are.
        vocab_size: usize,
    },
    /// A file could not be read or written.
    #[error("could not {action} {}", path.display())]
    Io {
        /// What was being done: "read", "write".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A file could not be replaced.
    #[error(transparent)]
    File(#[from] minigpt_files::Error),
    /// A file that is not what it should be, or contradicts itself.
    #[error("{}: {}", path.display(), shortened(what))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Which entry, and what is wrong with it.
        what: String,
    },
    /// A tokenizer that can't be run as a language model needs it.
    #[error("{}: {}; such a tokenizer is not supported", path.display(), shortened(what))]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// A tokenizer that can't be made as asked.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    /// The same error in a longer text, of which so much comes before.
    pub(crate) fn moved(self, bytes: usize, characters: usize) -> Self {
        match self {
            Self::UnknownCharacter { character, position } => {
                Self::UnknownCharacter { character, position: position + characters }
            }
            Self::UnknownByte { byte, position } => Self::UnknownByte { byte, position: position + bytes },
            other => other,
        }
    }
}

/// A message without its middle where that is very long: it may quote a token, and a token in a file may be anything.
fn shortened(what: &str) -> Cow<'_, str> {
    const START: usize = 400;
    const END: usize = 100;
    let count = what.chars().count();
    if count <= START + END {
        return what.into();
    }
    let start: String = what.chars().take(START).collect();
    let end: String = what.chars().skip(count - END).collect();
    format!("{start} […] {end}").into()
}

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_quotes_a_whole_file_is_shortened() {
        let error = Error::Malformed {
            path: "v.json".into(),
            what: format!("the token {} is wrong", "你".repeat(9999)),
        };
        let text = error.to_string();
        assert!(text.starts_with("v.json: the token 你你") && text.ends_with("你 is wrong"), "{text}");
        assert!(text.chars().count() < 600);
    }
}
