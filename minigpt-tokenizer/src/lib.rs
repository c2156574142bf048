//! Text to token ids and back: characters, byte-level BPE, vocabulary files, streaming decode.
//!
//! This crate never knows tensors or models, reaches no network and prints nothing. Begin with [`Tokenizer`].
//!
//! ```
//! use minigpt_tokenizer::{CharTokenizer, Tokenizer};
//!
//! let gpt2 = Tokenizer::gpt2();
//! assert_eq!(gpt2.encode("Hello, world!")?, [15496, 11, 995, 0]);
//! assert_eq!(gpt2.decode(&[15496, 11, 995, 0])?, "Hello, world!");
//!
//! let characters = Tokenizer::Char(CharTokenizer::from_text(&["<pad>", "<unk>"], "你好".chars())?);
//! assert_eq!(characters.encode("你好吗")?, [2, 3, 1]);
//! # Ok::<(), minigpt_tokenizer::Error>(())
//! ```
//!
//! In reading order: `characters`, the simplest tokenizer; then byte-level BPE as a pipeline, `pretokenize` (text to
//! pieces), `merges` (a piece to tokens), `bpe` (both together), `gpt2` (the built-in vocabulary) and `train` (a new
//! one); `pipeline`, all other tokenizers that a `tokenizer.json` describes; `stream`, the same for text and ids that arrive in parts; `files`, tokenizers on disk; and `tokenizer`, one
//! name for all of it.

mod bpe;
mod byte_level;
mod characters;
mod error;
mod files;
mod fingerprint;
mod gpt2;
mod merges;
mod piece_stream;
mod pipeline;
mod pretokenize;
mod special;
mod stream;
mod tokenizer;
mod train;
mod unicode_class;
mod word_cache;

pub use bpe::BpeTokenizer;
pub use characters::{CharBuilder, CharTokenizer, PAD, SEP, UNK};
pub use error::{
    Error, Excerpt, FileProblem, LibraryProblem, Quote, Result, SpecialTokenProblem, UnsupportedReason,
};
pub use gpt2::END_OF_TEXT;
pub use pipeline::PipelineTokenizer;
pub use stream::{Incomplete, PendingBytes, StreamDecoder, StreamEncoder};
pub use tokenizer::Tokenizer;
pub use train::{BpeTrainer, TrainProgress};
