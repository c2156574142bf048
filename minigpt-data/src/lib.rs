//! Training data: plain text, question/answer lines, and tokens prepared from them.
//!
//! This crate knows nothing of the model: a [`Batch`] is plain `u32` ids, no tensors. It never prints; long operations
//! report progress to a callback.
//!
//! Begin reading with `corpus.rs`, which goes the whole way from a path to batches. In the order data flows:
//!
//! 1. **Reading**: a [`Source`] is what lies at a path: a [`TextSource`] gives text chunk by chunk, a [`RecordFile`] gives
//!    [`Record`]s row by row and [`BadLines`] for what it could not use.
//! 2. **Changing**: [`prepare`] writes a folder of tokens that [`Prepared`] opens, [`split()`] writes two
//!    files, [`download()`] fetches public sets, [`stats()`] measures.
//! 3. **Learning from**: [`TextDataset`] cuts [`Tokens`] into windows, [`QaDataset`] holds encoded records, and a
//!    [`Loader`] draws a [`Batch`] from either. [`Corpus`] goes from a path to the two parts in one step.
//!
//! Batch `n` of epoch `e` is a pure function of the data, the seed, `e` and `n`: a saved [`Position`] is all it
//! takes to go on exactly where a run stopped.
//!
//! ```
//! use minigpt_data::*;
//!
//! let records = [Record::pair("1 + 1?", "2"), Record::pair("天空是什么颜色？", "蓝色。")];
//! let tokenizer = TokenizerChoice::Char.for_records(&records)?;
//! let options = QaOptions { max_length: 32, loss_on: LossOn::Answer, padding: Padding::Longest };
//! let data = QaDataset::from_records(&records, &tokenizer, options, None)?;
//!
//! let sampling = Sampling { batch_size: 2, order: Order::Shuffled, seed: 1337, drop_last: false };
//! let mut loader = Loader::new(data, sampling)?;
//! let batch = loader.next_batch()?;
//! assert_eq!((batch.rows, batch.cols), (2, 12));
//! assert_eq!(loader.position(), Position { epoch: 1, batch: 0 });
//! # Ok::<(), Error>(())
//! ```

mod bad_lines;
mod bad_row;
mod batch;
pub mod builtin;
mod catalogue;
mod corpus;
mod description;
mod download;
mod download_part;
mod download_problem;
mod encoding;
mod error;
mod file_hash;
mod glance;
mod histogram;
mod http;
mod input_file;
mod lengths;
mod lines;
mod loader;
mod name;
mod parquet;
mod prepare;
mod prepared;
mod qa_dataset;
mod qa_encoder;
mod random;
mod record;
mod record_file;
mod recorded_hash;
mod redirect;
mod row;
mod row_file;
mod source;
mod split;
mod stats;
mod text_dataset;
mod text_parts;
mod text_reader;
mod text_source;
mod tokenizer_choice;
mod tokens;
mod unknown;

pub use bad_lines::{BadLine, BadLines};
pub use bad_row::{BadRow, JsonKind, JsonProblem};
pub use batch::{Batch, IGNORE};
pub use catalogue::{Licence, PUBLIC_SETS, PublicSet, SetContents};
pub use corpus::{Corpus, CorpusKind, CorpusOptions, CorpusParts, RandomRows};
pub use description::{Damage, Description, Encodings};
pub use download::{
    Checked, DownloadEvent, DownloadOptions, Downloaded, Remote, download, download_file, download_text,
};
pub use download_problem::{DownloadProblem, FileDamage};
pub use encoding::TextEncoding;
pub use error::{Error, FormatError, OptionError, Result, Unsuitable};
pub use file_hash::FileHash;
pub use glance::Glance;
pub use histogram::{Bar, Histogram, length_chart};
pub use http::AccessToken;
pub use input_file::InputFile;
pub use lengths::{LengthSummary, Lengths};
pub use lines::{Line, Lines, MAX_LINE};
pub use loader::{Dataset, Loader, Order, Position, Sampling};
pub use name::DataName;
pub use prepare::{PrepareOptions, PrepareStage, prepare};
pub use prepared::{PartMeta, Prepared, PreparedMeta, SourceMeta, TokenizerMeta};
pub use qa_dataset::{LossOn, Padding, QaDataset, QaOptions, QaSummary};
pub use qa_encoder::{EncodeRecord, EncodedRecord, ExampleFormat, QaEncoder};
pub use record::{Example, Record, RecordForm, Role, Turn};
pub use record_file::{ReadOptions, RecordFile, RecordSummary};
pub use row::{Columns, ColumnsError, Row};
pub use row_file::Layout;
pub use source::{RANDOM, Source};
pub use split::{SplitOptions, SplitReport, SplitUnit, split, split_order};
pub use stats::{QaStats, Stats, TextStats, TokenStats, record_stats, stats};
pub use text_dataset::TextDataset;
pub use text_reader::{Cleaned, InvalidUtf8, TextReader, is_blank};
pub use text_source::{FileKind, TextChunk, TextSource, TextSummary};
pub use tokenizer_choice::{QA_SPECIALS, TokenizerChoice};
pub use tokens::{IdWidth, TokenWriter, Tokens, TokensProblem};
pub use unknown::{Unknown, UnknownNote};
