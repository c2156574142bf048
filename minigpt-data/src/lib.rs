//! Text and question/answer data sets, splits, statistics and the built-in set.

mod bad_lines;
mod batch;
mod error;
mod input_file;
mod jsonl;
mod lines;
mod loader;
mod mapped;
mod output_folder;
mod random;
mod record;
mod split;
mod text_dataset;
mod text_reader;
mod text_source;
mod tokens;

pub use bad_lines::{BadLine, BadLines};
pub use batch::{Batch, IGNORE};
pub use error::{Error, Result};
pub use input_file::InputFile;
pub use jsonl::{JsonlFile, JsonlSummary};
pub use lines::{Line, Lines, MAX_LINE};
pub use loader::{Dataset, Loader, Order, Position, Sampling};
pub use output_folder::OutputFolder;
pub use record::{Record, Role, Turn};
pub use split::{Selection, SplitOptions, SplitReport, split};
pub use text_dataset::TextDataset;
pub use text_reader::{Cleaned, TextReader};
pub use text_source::{Piece, TextSource, TextSummary};
pub use tokens::{Dtype, TokenWriter, Tokens};
