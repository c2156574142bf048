//! Access to the elements of candle's tensors for fused operations, and the number of rows that make a task for a thread.

use crate::gemm::matrix::Matrix;
use candle_core::{CpuStorage, DType, Layout, Result, Storage, Tensor};

/// Whether fused operations support this tensor.
pub fn fused(x: &Tensor) -> bool {
    x.device().is_cpu() && x.dtype() == DType::F32
}

/// The elements of a contiguous f32 tensor on the CPU, as custom operations get them.
pub fn floats<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&storage.as_slice::<f32>()?[start..end]),
        None => candle_core::bail!("a fused operation needs a contiguous tensor, not {layout:?}"),
    }
}

/// The same, as a matrix.
pub fn matrix<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<Matrix<'a>> {
    let (rows, columns) = layout.shape().dims2()?;
    Ok(Matrix::new(floats(storage, layout)?, rows, columns, columns))
}

/// Calls `f` with the elements of tensors on the CPU. Tensors that are not contiguous are copied first.
pub fn with_floats<const N: usize, R>(
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

/// Rows of this width that are worth a task of their own.
pub fn rows_a_task(width: usize) -> usize {
    (8192 / width.max(1)).max(1)
}
