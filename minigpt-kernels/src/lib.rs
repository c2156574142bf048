//! Fused operations for the CPU, forward and backward, matrix products, and quantised matrices.
//!
//! Each fused operation is a file: on top the same operation *composed* from plain candle operations, which is its readable
//! definition, the oracle of its tests, and what runs in other dtypes than f32 or on a GPU; below it the fused forward and
//! backward. This crate is the only place that asks which device a tensor is on, and that holds `unsafe` arithmetic.
//!
//! It has no layers, no parameters and no configuration, and reads no files: it does not know what a GPT is.
//!
//! # Autograd
//! The models of this workspace are trained by a tape: [`record`] runs a pass and [`Tape::backward`] computes the gradients of its
//! variables, on all threads and without the zeros that candle allocates for each gradient. Only operations of this crate can
//! be recorded. Outside of `record`, the same operations are nodes of candle's graph, so `Tensor::backward` works on anything
//! that a library user composes from them and candle's own operations. Both call one backward pass per operation
//! (`operation.rs`).
//!
//! # GPUs
//! The features `cuda` and `metal` pass a tensor on a GPU to the composed definitions. They have never been run: no such device
//! was at hand. Tests run the definitions on the CPU, in f32 and in f64.
//!
//! # Where to start reading
//! - `ops/`: one operation per file. `ops/layer_norm.rs` is a whole operation on one page.
//! - `attention/`: first `mod.rs` (the definition), then `one_head.rs` (training), `key_values.rs` and `cached.rs` (inference).
//! - `gemm/`: matrix products. `driver.rs` is the loop nest, with results that do not depend on the number of rows.
//! - `quant/`: matrices in 2 to 16 bits, and matrices that stay in their file.
//! - `operation.rs` is what a fused operation has to define, `tape.rs` records a training pass.
//! - `cpu.rs`: the table of micro-kernels, chosen once for this CPU. Intrinsics are in it and in the `micro/` folders only.
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
mod elements;
mod gemm;
mod gradient_buffers;
mod operation;
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
pub use gemm::{product, symmetric_product};
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
