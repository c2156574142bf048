//! Text to token ids and back: characters, byte-level BPE, vocabulary files, streaming decode.

mod bpe;
mod characters;
mod error;
mod fingerprint;
mod gpt2;
mod merges;
mod pretokenize;
mod special;
mod stream;
mod tokenizer;
mod unicode_class;
mod word_cache;

pub use bpe::BpeTokenizer;
pub use characters::{CharBuilder, CharTokenizer, UNK};
pub use error::{Error, Result};
pub use gpt2::END_OF_TEXT;
pub use stream::{Incomplete, StreamDecoder, StreamEncoder};
pub use tokenizer::Tokenizer;
