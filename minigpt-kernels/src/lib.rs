//! What is hot on the CPU, fused by hand with its own backward pass, one operation a file.
//!
//! Each fused operation stands below the same thing *composed* from plain candle operations: the readable
//! definition, the oracle of the fused one's tests, and what runs on a GPU or in another precision. This is the only
//! place that asks which device a tensor is on.

mod activation;
mod attention;
mod chunks;
mod cross_entropy;
mod dot;
mod dropout;
mod element_type;
mod embedding;
mod gradient_buffers;
mod layer_norm;
mod linear;
mod mapped_matrix;
mod matrix;
mod probe;
mod quantized;
mod rope;
mod simd;
mod small_batch;
mod tape;
#[cfg(test)]
mod testing;
#[cfg(target_arch = "x86_64")]
mod tiles;

pub use activation::{Activation, activation, activation_composed};
pub use attention::{Visible, attention, attention_composed, self_attention, split_heads};
pub use cross_entropy::{IGNORE, cross_entropy, cross_entropy_composed, log_sum_exp};
pub use dropout::{Dropout, dropout, dropout_composed, place};
pub use element_type::{ElementType, UnknownElementType};
pub use embedding::{embedding, embedding_composed};
pub use gradient_buffers::GradientBuffers;
pub use layer_norm::{layer_norm, layer_norm_composed};
pub use linear::{WeightLayout, linear, linear_composed};
pub use mapped_matrix::{MappedMatrix, SharedBytes, mapped_linear};
pub use matrix::{Matrix, product};
pub use probe::{Lanes, multiply_adds, read_all};
pub use quantized::{QuantizedMatrix, quantized_linear, quantized_linear_composed};
pub use rope::{rope, rope_composed};
pub use tape::{Tape, add, record, reshape, scale};

use candle_core::{CpuStorage, DType, Layout, Result, Storage, Tensor};

/// Whether the fused operations can take this tensor.
fn fused(x: &Tensor) -> bool {
    x.device().is_cpu() && x.dtype() == DType::F32
}

/// The elements of a contiguous f32 tensor on the CPU, as custom operations are handed them.
fn floats<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&storage.as_slice::<f32>()?[start..end]),
        None => candle_core::bail!("a fused operation needs a contiguous tensor, not {layout:?}"),
    }
}

/// Gives `f` the elements of tensors on the CPU, copying first those that are not contiguous.
fn with_floats<const N: usize, R>(
    tensors: [&Tensor; N],
    f: impl FnOnce([&[f32]; N]) -> Result<R>,
) -> Result<R> {
    let tensors = tensors.iter().map(|x| x.contiguous()).collect::<Result<Vec<_>>>()?;
    let guards: Vec<_> = tensors.iter().map(Tensor::storage_and_layout).collect();
    let mut slices = [&[][..]; N];
    for (slice, (storage, layout)) in slices.iter_mut().zip(&guards) {
        *slice = match &**storage {
            Storage::Cpu(storage) => floats(storage, layout)?,
            _ => candle_core::bail!("a fused operation needs a tensor on the CPU"),
        };
    }
    f(slices)
}

/// How many rows of this width make a piece of work that is worth giving to a thread.
fn rows_a_task(width: usize) -> usize {
    (8192 / width.max(1)).max(1)
}

/// The positions of `t` tokens a row, row by row, from the row's first on. Positions beyond `size`, which only padding
/// can have, become the last one.
pub fn positions(first: &[usize], t: usize, size: usize) -> Vec<u32> {
    first.iter().flat_map(|&p| (p..p + t).map(|p| p.min(size - 1) as u32)).collect()
}
