//! One name for all kinds of tokenizers, and what they have in common.

use crate::bpe::{BpeState, BpeTokenizer};
use crate::characters::CharTokenizer;
use crate::error::{Error, Result};
use crate::files;
use crate::gpt2;
use crate::pipeline::PipelineTokenizer;
use crate::special::{Part, Specials};
use crate::stream::{StreamDecoder, StreamEncoder};
use std::borrow::Cow;
use std::path::Path;

/// Text to ids and back.
#[derive(Debug, Clone)]
pub enum Tokenizer {
    /// One token a character.
    Char(CharTokenizer),
    /// Byte-level BPE: GPT-2's or one trained here.
    Bpe(BpeTokenizer),
    /// Any other, as its `tokenizer.json` describes it.
    Pipeline(PipelineTokenizer),
}

impl Tokenizer {
    /// GPT-2's own BPE of 50,257 tokens; made once and shared.
    pub fn gpt2() -> Self {
        Self::Bpe(gpt2::gpt2())
    }

    /// Opens a `tokenizer.json`, a `{"word2id", "id2word"}` vocabulary file, or a folder that holds `tokenizer.json`
    /// or `vocab.json` with `merges.txt`.
    pub fn open(path: &Path) -> Result<Self> {
        files::open(path)
    }

    /// Writes `tokenizer.json` and `tokenizer_config.json`, which Hugging Face tools open too. Files of a kind that is not
    /// made here are written as they were read, byte for byte.
    pub fn save(&self, folder: &Path) -> Result<()> {
        files::save(self, folder)
    }

    /// The ids of a text; the names of special tokens in it are ordinary text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        self.encode_into(text, &mut BpeState::default(), &mut ids)?;
        Ok(ids)
    }

    /// The ids of a text in which the names of special tokens mean those tokens. They begin with what the tokenizer's
    /// post-processor puts before every text, such as `<s>`, where it has one.
    pub fn encode_with_special(&self, text: &str) -> Result<Vec<u32>> {
        match self {
            Self::Pipeline(tokenizer) => tokenizer.encode_with_special(text),
            _ => self.encode_parts(text, None),
        }
    }

    /// The same for a text in which a guard, a character that stands for nothing, makes the name that it lies in ordinary
    /// text. Whoever puts guards into what others wrote can join it with names that are meant.
    pub fn encode_with_guard(&self, text: &str, guard: char) -> Result<Vec<u32>> {
        match self {
            Self::Pipeline(tokenizer) => tokenizer.encode_with_guard(text, guard),
            _ => self.encode_parts(text, Some(guard)),
        }
    }

    fn encode_parts(&self, text: &str, guard: Option<char>) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        let mut state = BpeState::default();
        let (mut bytes, mut chars) = (0, 0);
        for part in self.specials().split(text) {
            match part {
                Part::Special(id) => {
                    ids.push(id);
                    let name = self.token_bytes(id).unwrap_or_default();
                    bytes += name.len();
                    chars += String::from_utf8_lossy(name).chars().count();
                }
                Part::Text(part) => {
                    let part = match guard {
                        Some(guard) => Cow::from(part.replace(guard, "")),
                        None => Cow::from(part),
                    };
                    self.encode_into(&part, &mut state, &mut ids)
                        .map_err(|error| error.moved(bytes, chars))?;
                    bytes += part.len();
                    chars += part.chars().count();
                }
            }
        }
        Ok(ids)
    }

    /// The text of ids; bytes that are no UTF-8 become U+FFFD, special tokens their names.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        let mut bytes = Vec::with_capacity(ids.len() * 4);
        for (position, &id) in ids.iter().enumerate() {
            let token = match position {
                0 => self.first_token_bytes(id),
                _ => self.token_bytes(id).map(Cow::from),
            };
            let vocab_size = self.vocab_size();
            bytes.extend_from_slice(&token.ok_or(Error::UnknownId { id, position, vocab_size })?);
        }
        bytes.truncate(bytes.len() - self.held_at_end(&bytes));
        Ok(String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
    }

    /// One token to look at: its text, with bytes that are not whole characters written `\xE4`.
    pub fn token(&self, id: u32) -> Option<String> {
        let mut text = String::new();
        for chunk in self.token_bytes(id)?.utf8_chunks() {
            text.push_str(chunk.valid());
            chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02X}")));
        }
        Some(text)
    }

    /// How many bytes of text a token stands for: none for a special one, or one that is not in the vocabulary.
    pub fn byte_length(&self, id: u32) -> usize {
        let special = self.specials().iter().any(|(_, special)| special == id);
        if special { 0 } else { self.token_bytes(id).unwrap_or_default().len() }
    }

    /// How many tokens there are; ids are below it.
    pub fn vocab_size(&self) -> usize {
        match self {
            Self::Char(tokenizer) => tokenizer.vocab_size(),
            Self::Bpe(tokenizer) => tokenizer.vocab_size(),
            Self::Pipeline(tokenizer) => tokenizer.vocab_size(),
        }
    }

    /// The id of a special token such as `<pad>`, `<sep>` or `<|endoftext|>`.
    pub fn special_id(&self, token: &str) -> Option<u32> {
        self.specials().id(token)
    }

    /// The names of the special tokens.
    pub fn special_names(&self) -> impl Iterator<Item = &str> {
        self.specials().iter().map(|(name, _)| name)
    }

    /// The same, but text that has no token is left out instead of refused.
    pub fn leaving_out(self) -> Self {
        match self {
            Self::Char(characters) => Self::Char(characters.leaving_out()),
            Self::Bpe(bpe) => Self::Bpe(bpe),
            Self::Pipeline(pipeline) => Self::Pipeline(pipeline.leaving_out()),
        }
    }

    /// The characters of a text that have no token of their own. A byte-level tokenizer has one for every byte.
    pub fn unknown(&self, text: &str) -> Vec<char> {
        match self {
            Self::Char(characters) => characters.unknown(text).collect(),
            Self::Bpe(_) => Vec::new(),
            Self::Pipeline(pipeline) => pipeline.unknown(text),
        }
    }

    /// Like [`Self::unknown`], for text in which the names of special tokens mean those tokens.
    pub fn unknown_beside_special(&self, text: &str) -> Vec<char> {
        let parts = self.specials().split(text).into_iter();
        let texts = parts.filter_map(|part| match part {
            Part::Text(text) => Some(self.unknown(text)),
            Part::Special(_) => None,
        });
        texts.flatten().collect()
    }

    /// Decodes ids as they come.
    pub fn decoder(&self) -> StreamDecoder<'_> {
        StreamDecoder::new(self)
    }

    /// Encodes text as it comes.
    pub fn encoder(&self) -> StreamEncoder<'_> {
        StreamEncoder::new(self)
    }

    /// A hash of vocabulary and rules: equal where two tokenizers give the same ids, stable between versions.
    pub fn fingerprint(&self) -> String {
        crate::fingerprint::fingerprint(self)
    }

    fn encode_into(&self, text: &str, state: &mut BpeState, ids: &mut Vec<u32>) -> Result<()> {
        match self {
            Self::Char(tokenizer) => tokenizer.encode_into(text, ids),
            Self::Bpe(tokenizer) => tokenizer.encode_into(text, state, ids),
            Self::Pipeline(tokenizer) => tokenizer.encode_into(text, ids),
        }
    }

    pub(crate) fn specials(&self) -> &Specials {
        match self {
            Self::Char(tokenizer) => tokenizer.specials(),
            Self::Bpe(tokenizer) => tokenizer.specials(),
            Self::Pipeline(tokenizer) => tokenizer.specials(),
        }
    }

    /// The bytes of a token, which may be a part of a character.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        match self {
            Self::Char(tokenizer) => tokenizer.token(id).map(str::as_bytes),
            Self::Bpe(tokenizer) => tokenizer.token(id),
            Self::Pipeline(tokenizer) => tokenizer.token(id),
        }
    }

    /// The bytes of a token with which a text begins: some decoders leave out the space before the first word.
    pub(crate) fn first_token_bytes(&self, id: u32) -> Option<Cow<'_, [u8]>> {
        match self {
            Self::Pipeline(tokenizer) => tokenizer.first_token(id).map(Cow::from),
            _ => self.token_bytes(id).map(Cow::from),
        }
    }

    /// How many bytes at the end of a text are not shown if it ends there.
    pub(crate) fn held_at_end(&self, bytes: &[u8]) -> usize {
        match self {
            Self::Pipeline(tokenizer) => tokenizer.held_at_end(bytes),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpt2_gives_the_ids_that_tiktoken_gives() {
        let gpt2 = Tokenizer::gpt2();
        assert_eq!(gpt2.vocab_size(), 50_257);
        assert_eq!(gpt2.encode("Hello, world!").unwrap(), [15496, 11, 995, 0]);
        assert_eq!(gpt2.encode("你好").unwrap(), [19526, 254, 25001, 121]);
        assert_eq!(gpt2.encode_with_special("a<|endoftext|>").unwrap(), [64, 50256]);
        assert_eq!(gpt2.encode("<|endoftext|>").unwrap(), [27, 91, 437, 1659, 5239, 91, 29]);
        assert_eq!(gpt2.decode(&[19526, 254, 25001, 121, 50256]).unwrap(), "你好<|endoftext|>");
        assert_eq!(gpt2.token(19526).unwrap(), "\\xE4\\xBD");
    }
    #[test]
    fn positions_of_errors_count_special_tokens_too() {
        let tokenizer = Tokenizer::Char(CharTokenizer::from_text(&["<sep>"], "你好".chars()).unwrap());
        let error = tokenizer.encode_with_special("你<sep>好!").unwrap_err().to_string();
        assert!(error.starts_with("character 8 of the text is '!'"), "{error}");
    }

    #[test]
    fn a_special_token_is_found_by_its_name() {
        assert_eq!(Tokenizer::gpt2().special_id(crate::END_OF_TEXT), Some(50_256));
        assert_eq!(Tokenizer::gpt2().special_id("<sep>"), None);
    }
}
