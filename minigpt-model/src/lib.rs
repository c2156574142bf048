//! The decoder: one model for GPT-2, nanoGPT and their relatives.
//!
//! In reading order: [`config`] (the settings of a model) → `embedding` → [`attention`] → `mlp` → `block` → [`Gpt`]. Besides: [`Pass`] (one run
//! of the model: positions, cache, dropout, hooks), [`hooks`] (sites at which a tensor can be seen or replaced), [`cache`], `init` and
//! `loading`, [`parameters`] (the list of tensors), [`plan`] (memory and compute of a model), `forms` (the same model trainable, quantised, or
//! as a view for writers) and `layer_by_layer` (a forward pass over a model that stays in its files).
//!
//! [`Block`], [`CausalSelfAttention`], [`Mlp`], [`LayerNorm`] and [`MultiHeadAttention`] can be used by themselves.
//!
//! This crate never reads a file, tokenizes, prints, or reads a clock.
//!
//! ```
//! use minigpt_model::{BlockSite, Config, Device, Gpt, Pass, Recording, Site};
//!
//! let shape = Config { n_layer: 2, n_head: 2, n_embd: 8, block_size: 16, vocab_size: 10, ..Config::default() };
//! let gpt = Gpt::new(shape, 1, &Device::Cpu)?;
//!
//! // What does head 0 of block 1 look at?
//! let pattern = Site::Block(1, BlockSite::Pattern);
//! let mut seen = Recording::of([pattern]);
//! let logits = gpt.forward(&gpt.ids(&[[3, 1, 4]])?, &Pass::new().with_hook(&mut seen))?;
//! assert_eq!(logits.dims(), [1, 3, 10]); // (B, T, V)
//! assert_eq!(seen.get(pattern).unwrap().dims(), [1, 2, 3, 3]); // (B, H, T, T)
//! # Ok::<(), minigpt_model::Error>(())
//! ```

pub mod attention;
mod block;
pub mod cache;
pub mod config;
mod embedding;
mod error;
mod forms;
mod gpt;
mod head;
pub mod hooks;
mod init;
mod layer_by_layer;
mod layer_source;
pub mod linear;
mod loading;
mod loss;
mod mlp;
mod multi_head_attention;
pub mod parameters;
mod pass;
pub mod plan;
mod weights;

pub use attention::{CausalSelfAttention, MultiHeadAttention};
pub use block::Block;
pub use cache::Cache;
pub use config::{Activation, Config, NormPosition, PRESETS, PositionEmbedding};
pub use embedding::sinusoid;
pub use error::{Error, IdsError, ModelConfigError, Result};
pub use forms::{Parameter, Stored};
pub use gpt::{Gpt, TokenChunk};
pub use hooks::{BlockSite, Hook, Recording, Site};
pub use init::Initialization;
pub use linear::{LayerNorm, Linear};
pub use loss::Loss;
pub use mlp::Mlp;
pub use parameters::ParameterRole;
pub use pass::Pass;
pub use weights::{ModelView, Tensors, Weight};

pub use candle_core::{DType, Device, Tensor};
