//! What can go wrong between text and ids, in words that say what, where, and what to do.

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
    /// A file larger than any tokenizer is.
    #[error("{} has {size} bytes, more than the {limit} that a tokenizer's file may have", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
        /// The largest accepted.
        limit: u64,
    },
    /// A file that is not the JSON it should be.
    #[error("{} is not a tokenizer's JSON", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong, and in which line and column.
        source: serde_json::Error,
    },
    /// A file whose content contradicts itself.
    #[error("{}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Which entry, and what is wrong with it.
        what: String,
    },
    /// A tokenizer of a kind that this crate does not have.
    #[error("{}: {what}; only GPT-2's byte-level BPE and MiniGPT's character vocabularies are supported", path.display())]
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

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;
