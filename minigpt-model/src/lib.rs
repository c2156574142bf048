//! The decoder: one model for GPT-2, nanoGPT and their relatives.
//!
//! In reading order: [`config`] (what a model is) → `embedding` → [`attention`] → `mlp` → `block` → [`gpt`] (the whole
//! model in one sitting); beside them [`cache`], [`trace`], `init`, [`parameters`] (the one list of tensors),
//! [`folder`] (load and save), [`pickle`] (PyTorch's files, read as data), [`gguf`] (llama.cpp's files), [`plan`] (what a model costs), and [`ops`] (what is hot on the CPU, fused).

pub mod attention;
mod block;
pub mod cache;
pub mod config;
mod embedding;
mod error;
pub mod folder;
pub mod gguf;
pub mod gpt;
mod init;
pub mod linear;
mod mlp;
pub mod ops;
pub mod parameters;
pub mod pickle;
pub mod plan;
mod stored;
mod streamed;
pub mod trace;
mod weights;

pub use cache::Cache;
pub use config::{Activation, Config, NormPosition, PRESETS, PositionEmbedding};
pub use error::{Error, Result};
pub use gpt::{Gpt, Loss, Parameter, Pass};
pub use stored::{Numbers, Stored};
pub use trace::Trace;
pub use weights::{Packing, Source, Tensors, Weight};

pub use candle_core::{DType, Device, Tensor};
