//! Models in files: Hugging Face folders, torch archives, nanoGPT checkpoints and GGUF files, read, written and checked.
//!
//! A model *is* a Hugging Face GPT-2 folder; other formats are converted from and to it. Files are not trusted: what they claim
//! is checked against the bytes that there are before memory is allocated. Pickles are read as data and never executed. The
//! crate never uses the network and never prints.
//!
//! Start with [`load`] and [`hugging_face::save`]; then [`OnDisk`] (a model of any format, found and mapped, not yet in
//! memory), [`MappedModel`] (its tensors) and [`convert()`] (from any format to another, [checked](check)). Each of
//! [`hugging_face`], [`torch`], [`nanogpt`], [`gguf`] and `state_dict` (two decoders that people write themselves in PyTorch)
//! has the readers and writers of a format, and an enum of what can be wrong with its files.
//!
//! # Example
//! ```
//! use minigpt_formats::{OnDisk, hugging_face, load};
//! use minigpt_model::{Config, Device, Gpt};
//!
//! let shape = Config { n_layer: 1, n_head: 2, n_embd: 8, block_size: 4, vocab_size: 10, ..Config::default() };
//! let folder = tempfile::tempdir().unwrap();
//! hugging_face::save(&Gpt::new(shape, 1, &Device::Cpu)?, folder.path())?;
//!
//! assert_eq!(OnDisk::open(folder.path())?.model()?.element_types(), ["f32"]);
//! let loaded = load(folder.path(), &Device::Cpu)?;
//! assert_eq!(loaded.gpt.config().n_embd, 8);
//! # Ok::<(), minigpt_formats::Error>(())
//! ```

mod chat_template;
pub mod check;
mod convert;
mod error;
pub mod gguf;
pub mod hugging_face;
mod layout;
mod mapped_model;
pub mod nanogpt;
mod on_disk;
mod other_tools;
mod state_dict;
pub mod tensor_view;
pub mod torch;

pub use chat_template::ChatTemplate;
pub use convert::{Conversion, Converted, Target, convert};
pub use error::{Error, ModelFileProblem, Result};
pub use mapped_model::{ExtraKeys, Loaded, MappedModel, TensorMismatch, TensorsProblem, TypeCount};
pub use on_disk::{FileFormat, OnDisk, TokenizerOrigin, load, load_config};
pub use other_tools::{ConversionNote, Feature, NotExpressible, OtherDecoder, Unsupported};
pub use state_dict::{Architecture, StateDictNote, StateDictProblem, TensorNames};

/// Called while a model is being written, with the bytes written so far and the total.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);
