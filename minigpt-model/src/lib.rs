//! The decoder: one model for GPT-2, nanoGPT and their relatives.
//!
//! In reading order: [`config`] (what a model is) → `embedding` → [`attention`] → `mlp` → `block` → [`gpt`] (the whole
//! model in one sitting); beside them [`cache`], [`trace`], `init`, [`parameters`] (the one list of tensors) and [`plan`]
//! (what a model costs).

pub mod attention;
mod block;
pub mod cache;
pub mod config;
mod embedding;
mod error;
mod forms;
mod gpt;
pub mod hooks;
mod init;
mod layer_by_layer;
pub mod linear;
mod mlp;
pub mod parameters;
mod pass;
pub mod plan;
mod weights;

pub use cache::Cache;
pub use config::{Activation, Config, NormPosition, PRESETS, PositionEmbedding};
pub use error::{Error, Result};
pub use forms::Parameter;
pub use gpt::{Gpt, Loss};
pub use hooks::{BlockSite, Hook, Recording, Site};
pub use parameters::Role;
pub use pass::Pass;
pub use weights::{ModelView, Tensors, Weight};

pub use candle_core::{DType, Device, Tensor};
