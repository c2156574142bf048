//! Fused operations for the CPU, forward and backward, matrix products, and quantised matrices.
//!
//! Each fused operation is a file: on top the same operation *composed* from plain candle operations, which is its readable
//! definition, the oracle of its tests, and what runs on a GPU or in another dtype; below it the fused forward and
//! backward. This crate is the only place that asks which device a tensor is on, and that holds `unsafe` arithmetic.
//!
//! It never knows what a GPT is: it has no layers, no parameters, no configuration, and reads no files.
//!
//! # Where to start reading
//! - `ops/`: one operation per file. `ops/layer_norm.rs` is a whole operation on one page.
//! - `attention/`: first `mod.rs` (the definition), then `one_head.rs` (training) and `cached.rs` (inference).
//! - `gemm/`: matrix products. `product.rs` chooses the kernel: `small_batch.rs` for a few rows, `tiles.rs` for many, `panels.rs` for weights
//!   that are packed once for inference, with results that do not depend on the number of rows.
//! - `quant/`: matrices in 2 to 16 bits, and matrices that stay in their file.
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

mod attention;
mod chunks;
mod cpu;
mod dot;
mod elements;
mod gemm;
mod gradient_buffers;
mod ops;
mod probe;
mod quant;
mod simd;
mod tape;
#[cfg(test)]
mod testing;

pub use attention::{
    AttentionMask, KeyValues, TokenRun, attention, attention_composed, attention_mix, attention_scores,
    self_attention, softmax, split_heads,
};
pub use gemm::matrix::Matrix;
pub use gemm::product::{in_one_order, product, symmetric_product};
pub use gradient_buffers::GradientBuffers;
pub use ops::activation::{Activation, activation, activation_composed};
pub use ops::cross_entropy::{IGNORE, cross_entropy, cross_entropy_composed, log_sum_exp};
pub use ops::dropout::{Dropout, dropout, dropout_composed, place};
pub use ops::embedding::{embedding, embedding_composed};
pub use ops::layer_norm::{layer_norm, layer_norm_composed};
pub use ops::linear::{WeightLayout, linear, linear_composed};
pub use ops::linear_cross_entropy::{linear_cross_entropy, linear_cross_entropy_composed};
pub use ops::rope::{positions, rope, rope_composed};
pub use probe::{Lanes, multiply_adds, read_all};
pub use quant::element_type::{ElementType, UnknownElementType};
pub use quant::mapped_matrix::{MappedMatrix, SharedBytes, mapped_linear};
pub use quant::quantized_matrix::{
    QuantizedMatrix, QuantizedProduct, quantized_linear, quantized_linear_composed,
};
pub use tape::{Tape, add, constant, record, reshape, scale};

use elements::{floats, fused, matrix, rows_a_task, with_floats};
