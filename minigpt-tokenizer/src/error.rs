//! Errors of encoding, decoding and tokenizer files.

use std::fmt;
use std::path::PathBuf;

/// A failure of this crate. Positions are 0-based.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the text of each variant says what it is")]
pub enum Error {
    #[error(
        "character {} of the text is {character:?} (U+{:04X}), which is not in the vocabulary, and there is no <unk> \
         token to replace it",
        position + 1,
        u32::from(*character)
    )]
    UnknownCharacter { character: char, position: usize },
    #[error("byte {position} of the text is 0x{byte:02X}, for which the vocabulary has no token")]
    UnknownByte { byte: u8, position: usize },
    #[error("id {id} at position {position} is outside the vocabulary of {vocab_size} tokens")]
    UnknownId { id: u32, position: usize, vocab_size: usize },
    #[error("a word of {bytes} bytes is too long to encode")]
    WordTooLong { bytes: usize },
    #[error("the tokenizer can't encode this text: {0}")]
    Encode(LibraryProblem),
    #[error("could not create the folder {}", path.display())]
    CreateFolder { path: PathBuf, source: std::io::Error },
    #[error("could not write {}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    File(#[from] minigpt_files::Error),
    /// A file that does not hold a tokenizer, or contradicts itself.
    #[error("{}: {problem}", path.display())]
    Malformed { path: PathBuf, problem: FileProblem },
    /// A tokenizer that a language model can't use.
    #[error("{}: {reason}; this tokenizer is not supported", path.display())]
    Unsupported { path: PathBuf, reason: UnsupportedReason },
    #[error("{0}")]
    SpecialTokens(#[from] SpecialTokenProblem),
    #[error("the word {word} is neither one character nor a special token such as <sep>")]
    NotAWord { word: Quote },
    #[error("the character {token} appears twice")]
    DuplicateCharacter { token: Quote },
    #[error("the token {token} (id {id}) is not one character")]
    NotACharacter { token: Quote, id: u32 },
    #[error(
        "a vocabulary of {vocab_size} tokens is too small: 256 bytes and {specials} special tokens need at least {least}"
    )]
    VocabularyTooSmall { vocab_size: usize, specials: usize, least: usize },
    #[error("the distinct words take {bytes} bytes, too many to learn a vocabulary from")]
    TooManyWords { bytes: usize },
}

/// What is wrong with a tokenizer's file.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the text of each variant says what it is")]
pub enum FileProblem {
    #[error("not a tokenizer's JSON: {0}")]
    Json(Excerpt),
    #[error("{0}")]
    Library(LibraryProblem),
    /// The tokenizer that the file describes can't be built.
    #[error("{0}")]
    Contents(Box<Error>),
    #[error("the folder holds neither tokenizer.json nor vocab.json with merges.txt")]
    EmptyFolder,
    #[error("neither a tokenizer.json (no \"model\") nor a vocabulary file (no \"word2id\")")]
    Unrecognized,
    #[error("not UTF-8 at byte {0}")]
    NotUtf8(usize),
    #[error("line {line} is not a merge: {text}")]
    MergeLine { line: usize, text: Quote },
    #[error("not a merge: {0}")]
    Merge(Quote),
    #[error("merge {number} ({left} with {right}) needs {token}, which is not a token")]
    MergeNeeds { number: usize, left: Quote, right: Quote, token: Quote },
    #[error("merge {number} ({left} with {right}) appears twice")]
    DuplicateMerge { number: usize, left: Quote, right: Quote },
    #[error("the token {0} appears twice")]
    DuplicateToken(Quote),
    #[error("the token {token} (id {id}) is not spelled in GPT-2's byte alphabet")]
    NotByteAlphabet { token: Quote, id: usize },
    #[error("{first} and {second} both have id {id}")]
    DuplicateId { first: Quote, second: Quote, id: u32 },
    #[error("{token} has id {id} in a vocabulary of {count} tokens, but no token has id {gap}")]
    IdGap { token: Quote, id: u32, count: usize, gap: usize },
    #[error("a vocabulary file needs {0:?}")]
    MissingKey(&'static str),
    #[error("id2word: {0} is not an id")]
    NotAnId(Quote),
    #[error("id {id} is {in_word2id} in word2id but {in_id2word} in id2word")]
    WordsDisagree { id: usize, in_word2id: Quote, in_id2word: Quote },
    #[error("id2word has {word} with id {id}, which word2id lacks")]
    NotInWord2Id { word: Quote, id: usize },
    #[error("word2id has {word} with id {id}, which id2word lacks")]
    NotInId2Word { word: Quote, id: usize },
    #[error("the model has no vocabulary of tokens with ids")]
    NoVocabulary,
    #[error("the vocabulary is empty")]
    EmptyVocabulary,
    #[error("id {largest} in a vocabulary of {tokens} tokens")]
    SparseIds { largest: usize, tokens: usize },
    #[error("the added token {token} has id {id}, but id {known} in the vocabulary")]
    AddedTokenId { token: Quote, id: u64, known: u32 },
    #[error("the decoder can't be run token by token")]
    Decoder,
    #[error("the post-processor drops the text")]
    PostProcessor,
}

/// A failure of the `tokenizers` crate.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the text of each variant says what it is")]
pub enum LibraryProblem {
    /// In the crate's words.
    #[error("{0}")]
    Reported(Excerpt),
    #[error("the tokenizer's tables contradict each other")]
    Panicked,
}

/// Why a language model can't use a tokenizer.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the text of each variant says what it is")]
pub enum UnsupportedReason {
    #[error("the BPE sets \"dropout\", so the same text gets other ids every time")]
    Dropout,
    #[error("the decoder ({}) can't show text token by token", kinds.join(", "))]
    Decoder { kinds: Vec<String> },
    #[error("the normalizer can make a text a million times longer")]
    NormalizerGrowth,
    #[error("the size of the normalizer's table is wrong")]
    NormalizerTable,
    #[error("the post-processor's template uses {0}, which is not among its special_tokens")]
    TemplateToken(Quote),
}

/// What is wrong with the names of special tokens.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the text of each variant says what it is")]
pub enum SpecialTokenProblem {
    #[error("the special token {0} is too short: it needs at least two characters")]
    TooShort(Quote),
    #[error("the special token {name} is longer than {limit} bytes")]
    TooLong { name: Quote, limit: usize },
    #[error("the special token {0} appears twice")]
    Duplicate(Quote),
    #[error("more than {0} special tokens")]
    TooMany(usize),
    #[error("the special tokens can't be searched for: {0}")]
    Search(String),
}

impl Error {
    /// Moves the position from a part of a text, which starts at `bytes` and `characters`, to the whole text.
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

/// Text from a file in quotation marks. A token in a file may be of any length, so the middle of a long one is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quote(String);

impl Quote {
    pub(crate) fn new(text: &str) -> Self {
        Self(without_middle(text, 200))
    }
}

impl fmt::Display for Quote {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// A message of another crate, which may quote a file at any length: the middle of a long one is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt(String);

impl Excerpt {
    pub(crate) fn new(message: &impl fmt::Display) -> Self {
        Self(without_middle(&message.to_string(), 500))
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn without_middle(text: &str, longest: usize) -> String {
    let (start, end) = (longest * 4 / 5, longest / 5);
    let count = text.chars().count();
    if count <= longest {
        return text.to_owned();
    }
    let first: String = text.chars().take(start).collect();
    let last: String = text.chars().skip(count - end).collect();
    format!("{first} […] {last}")
}

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_tokens_and_messages_are_shortened() {
        let quote = Quote::new(&"你".repeat(9999)).to_string();
        assert!(quote.starts_with("\"你你") && quote.ends_with("你\"") && quote.contains(" […] "), "{quote}");
        assert!(quote.chars().count() < 250);
        let message =
            Excerpt::new(&format!("invalid type: string \"{}\" at line 1", "x".repeat(9999))).to_string();
        assert!(message.starts_with("invalid type") && message.ends_with("at line 1"), "{message}");
        assert!(message.chars().count() < 600);
        assert_eq!(Quote::new("a\n").to_string(), r#""a\n""#);
    }
}
