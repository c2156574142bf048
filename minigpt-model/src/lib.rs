//! The decoder: one model for GPT-2, nanoGPT and their relatives.
//!
//! Start with `gpt.rs`, the whole forward pass, and follow it down: `embedding`, `block`, [`attention`],
//! `mlp`, `head`. [`config`] has the choices in which GPT-2's relatives differ, `preset` some of them by
//! name. Layers get positions, cache, dropout and [`hooks`] from a [`Pass`].
//!
//! Around the decoder: [`parameters`] lists its tensors, `init` and `loading` create models, `forms` changes
//! them (trainable, quantized, …), `layer_by_layer` runs a model that stays in its files, and [`plan`]
//! computes memory and arithmetic.
//!
//! [`Block`], [`CausalSelfAttention`], [`Mlp`], [`LayerNorm`], [`MultiHeadAttention`] and
//! [`scaled_dot_product_attention`](attention::scaled_dot_product_attention) can be used by themselves.
//!
//! This crate never reads files, tokenizes, prints, or reads a clock.
//!
//! # Example
//! ```
//! use minigpt_model::{BlockSite, Config, Device, Gpt, Pass, Recording, Site};
//!
//! let shape = Config { n_layer: 2, n_head: 2, n_embd: 8, block_size: 16, vocab_size: 10, ..Config::default() };
//! let gpt = Gpt::new(shape, 1, &Device::Cpu)?;
//!
//! // Run a pass, and record the attention pattern of block 1 on the way.
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
mod ids;
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
mod preset;
mod weights;

pub use attention::{CausalSelfAttention, MultiHeadAttention};
pub use block::Block;
pub use cache::Cache;
pub use config::{Activation, Config, NormPosition, PositionEmbedding};
pub use embedding::sinusoid;
pub use error::{Error, IdsError, ModelConfigError, Result};
pub use forms::{Parameter, Stored};
pub use gpt::{Gpt, TokenChunk};
pub use hooks::{BlockSite, Hook, Recording, Site, UnknownSite};
pub use init::Initialization;
pub use linear::{LayerNorm, Linear};
pub use loss::Loss;
pub use mlp::Mlp;
pub use parameters::ParameterRole;
pub use pass::Pass;
pub use preset::Preset;
pub use weights::{ModelView, Tensors, Weight};

pub use candle_core::{DType, Device, Tensor};
