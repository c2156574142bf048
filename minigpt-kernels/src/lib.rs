//! Fused operations for the CPU, forward and backward, matrix products, and quantised matrices.
//!
//! Each fused operation is a file: on top the same operation *composed* from plain candle operations, which is its readable
//! definition, the oracle of its tests, and what runs on a GPU or in another dtype; below it the fused forward and
//! backward. This crate is the only place that asks which device a tensor is on, and that holds `unsafe` arithmetic.
//!
//! It never knows what a GPT is: it has no layers, no parameters, no configuration, and reads no files.
//!
//! # Where to begin reading
//! - `layer_norm.rs` is a whole operation on one page, then `attention/`, first `mod.rs`, then `one_head.rs`.
//! - `product.rs` chooses the kernel for every matrix product: `small_batch.rs` for a few rows, `tiles.rs` for many, which
//!   packs its factors (`packing.rs`) and makes the result tile by tile (`tile_kernel.rs`).
//! - `panels.rs` is how weights are laid out and multiplied in inference, with a result that does not depend on the number of
//!   rows; `attention/cached.rs` is the attention that goes with it.
//! - `tape.rs` records a training pass, so that [`Tape::backward`] can compute the gradients.
//!
//! # Shapes
//! B: batch rows, T: tokens (time), C: channels, H: heads, D = C / H: the width of a head, V: the rows of a table.
//!
//! # Example
//! ```
//! use candle_core::{Device, Tensor, Var};
//! use minigpt_kernels::{WeightLayout, constant, cross_entropy, linear, record};
//!
//! # fn main() -> candle_core::Result<()> {
//! let weight = Var::from_tensor(&Tensor::new(&[[1f32, 0.0, -1.0], [0.0, 2.0, 0.0]], &Device::Cpu)?)?; // (in, out)
//! let x = Tensor::new(&[[0.5f32, 0.25]], &Device::Cpu)?;
//! let target = Tensor::new(&[1u32], &Device::Cpu)?;
//!
//! let (loss, tape) = record(|| {
//!     let logits = linear(&constant(&x), &weight, WeightLayout::InOut, None)?; // [0.5, 0.5, −0.5]
//!     cross_entropy(&logits, &target)
//! });
//! let loss = loss?;
//! assert!((loss.to_scalar::<f32>()? - 0.862).abs() < 1e-3); // −log softmax(logits)₁
//!
//! let gradient = tape.backward(&loss)?.remove(&weight).unwrap(); // (in, out), row by row
//! assert!(gradient[1] < 0.0, "a larger weight of the target lowers the loss");
//! # Ok(())
//! # }
//! ```

mod activation;
mod attention;
mod chunks;
mod cross_entropy;
mod dot;
mod dropout;
mod eight_bit;
mod element_type;
mod elements;
mod embedding;
mod gradient_buffers;
mod layer_norm;
mod linear;
mod linear_cross_entropy;
mod mapped_matrix;
mod matrix;
#[cfg(target_arch = "x86_64")]
mod packing;
mod panel_format;
mod panel_tile;
mod panels;
mod probe;
mod product;
mod quantized;
mod rope;
mod simd;
mod small_batch;
mod tape;
#[cfg(test)]
mod testing;
#[cfg(target_arch = "x86_64")]
mod tile_kernel;
#[cfg(target_arch = "x86_64")]
mod tiles;

pub use activation::{Activation, activation, activation_composed};
pub use attention::{
    AttentionMask, KeyValues, TokenRun, attention, attention_composed, attention_mix, attention_scores,
    self_attention, softmax, split_heads,
};
pub use cross_entropy::{IGNORE, cross_entropy, cross_entropy_composed, log_sum_exp};
pub use dropout::{Dropout, dropout, dropout_composed, place};
pub use element_type::{ElementType, UnknownElementType};
pub use embedding::{embedding, embedding_composed};
pub use gradient_buffers::GradientBuffers;
pub use layer_norm::{layer_norm, layer_norm_composed};
pub use linear::{WeightLayout, linear, linear_composed};
pub use linear_cross_entropy::{linear_cross_entropy, linear_cross_entropy_composed};
pub use mapped_matrix::{MappedMatrix, SharedBytes, mapped_linear};
pub use matrix::Matrix;
pub use probe::{Lanes, multiply_adds, read_all};
pub use product::{in_one_order, product, symmetric_product};
pub use quantized::{QuantizedMatrix, QuantizedProduct, quantized_linear, quantized_linear_composed};
pub use rope::{positions, rope, rope_composed};
pub use tape::{Tape, add, constant, record, reshape, scale};

use elements::{floats, fused, matrix, rows_a_task, with_floats};
