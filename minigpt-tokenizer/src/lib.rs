//! Text to token ids and back: characters, byte-level BPE, vocabulary files, streaming decode.

mod bpe;
mod byte_level;
mod characters;
mod error;
mod files;
mod fingerprint;
mod gpt2;
mod merges;
mod piece_stream;
mod pretokenize;
mod special;
mod stream;
mod tokenizer;
mod train;
mod unicode_class;
mod word_cache;

pub use bpe::BpeTokenizer;
pub use characters::{CharBuilder, CharTokenizer, UNK};
pub use error::{Error, Result};
pub use gpt2::END_OF_TEXT;
pub use stream::{Incomplete, StreamDecoder, StreamEncoder};
pub use tokenizer::Tokenizer;
pub use train::{BpeTrainer, TrainProgress};
