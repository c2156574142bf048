//! Tensors on the CPU as the flat memory that they are: read and changed in place, by all threads.

use candle_core::{CpuStorage, DType, Device, InplaceOp1, Layout, Result, Storage, Tensor, Var};
use rayon::prelude::*;
use std::cell::RefCell;

/// Elements that make a task for a thread.
pub const TASK: usize = 1 << 14;

/// Whether a tensor is memory that can be changed in place.
pub fn is_flat(x: &Tensor) -> bool {
    x.device().is_cpu() && x.dtype() == DType::F32 && x.is_contiguous()
}

/// Gives `f` the elements of a flat tensor.
pub fn read<R>(x: &Tensor, f: impl FnOnce(&[f32]) -> Result<R>) -> Result<R> {
    let (storage, layout) = x.storage_and_layout();
    match (&*storage, layout.contiguous_offsets()) {
        (Storage::Cpu(CpuStorage::F32(data)), Some((start, end))) => f(&data[start..end]),
        _ => candle_core::bail!("a tensor that is not contiguous f32 in memory"),
    }
}

/// Gives `f` the elements of a flat tensor to change. Other tensors may be read or changed meanwhile, but not this one.
pub fn change<R>(x: &Tensor, f: impl FnOnce(&mut [f32]) -> Result<R>) -> Result<R> {
    let change = Change { f: RefCell::new(Some(f)), result: RefCell::new(None) };
    x.inplace_op1(&change)?;
    change.result.into_inner().unwrap_or_else(|| candle_core::bail!("a tensor that was not changed"))
}

/// The tensors as flat ones: themselves where they are, otherwise copies.
pub fn all_flat(tensors: &[Tensor]) -> crate::error::Result<Vec<Tensor>> {
    let flat = |x: &Tensor| {
        if is_flat(x) {
            Ok(x.clone())
        } else {
            Ok(x.to_device(&Device::Cpu)?.to_dtype(DType::F32)?.contiguous()?.detach())
        }
    };
    tensors.iter().map(flat).collect()
}

/// Puts what was changed in copies that [`all_flat`] made back into the variables that they are copies of.
pub fn put_back(flat: &[Tensor], variables: &[Tensor]) -> crate::error::Result<()> {
    for (flat, variable) in flat.iter().zip(variables).filter(|(_, variable)| !is_flat(variable)) {
        let copy = flat.to_dtype(variable.dtype())?.to_device(variable.device())?;
        Var::from_tensor(variable)?.set(&copy)?;
    }
    Ok(())
}

/// Adds the elements of one flat tensor to those of another.
pub fn add(sum: &Tensor, more: &Tensor) -> Result<()> {
    change(sum, |sum| {
        read(more, |more| {
            sum.par_chunks_mut(TASK).zip(more.par_chunks(TASK)).for_each(|(sum, more)| {
                sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
            });
            Ok(())
        })
    })
}

/// The sum of the squares of a flat tensor's elements, always in the same order.
pub fn sum_of_squares(x: &Tensor) -> Result<f64> {
    // Sixteen sums beside each other, over chunks so short that small numbers are not lost beside large ones.
    let chunk = |x: &[f32]| {
        let mut sums = [0f32; 16];
        let (whole, rest) = x.as_chunks::<16>();
        for x in whole {
            sums.iter_mut().zip(x).for_each(|(sum, x)| *sum += x * x);
        }
        let rest: f64 = rest.iter().map(|&x| f64::from(x * x)).sum();
        sums.iter().map(|&sum| f64::from(sum)).sum::<f64>() + rest
    };
    read(x, |x| {
        let parts: Vec<f64> = x.par_chunks(TASK).map(|x| x.chunks(1 << 12).map(chunk).sum()).collect();
        Ok(parts.iter().sum())
    })
}

/// The first element that is NaN or infinite, if there is one.
pub fn first_not_finite(x: &Tensor) -> Result<Option<f32>> {
    let first = |x: &[f32]| x.iter().find(|x| !x.is_finite()).copied();
    if is_flat(x) {
        read(x, |x| Ok(x.par_chunks(TASK).find_map_first(first)))
    } else {
        Ok(first(&x.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?))
    }
}

struct Change<F, R> {
    f: RefCell<Option<F>>,
    result: RefCell<Option<Result<R>>>,
}

impl<F: FnOnce(&mut [f32]) -> Result<R>, R> InplaceOp1 for Change<F, R> {
    fn name(&self) -> &'static str {
        "change"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        match (storage, layout.contiguous_offsets(), self.f.take()) {
            (CpuStorage::F32(data), Some((start, end)), Some(f)) => {
                self.result.replace(Some(f(&mut data[start..end])));
                Ok(())
            }
            _ => candle_core::bail!("a tensor that is not contiguous f32 in memory"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_changed_added_and_squared_in_place() {
        let numbers: Vec<f32> = (0..40_000).map(|i| (i % 7) as f32).collect();
        let x = Tensor::from_vec(numbers.clone(), (200, 200), &Device::Cpu).unwrap();
        let want: f64 = numbers.iter().map(|&x| f64::from(x * x)).sum();
        assert_eq!(sum_of_squares(&x).unwrap(), want);
        add(&x, &x.copy().unwrap()).unwrap();
        assert_eq!(read(&x, |x| Ok(x[8])).unwrap(), 2.0);
        assert_eq!(change(&x, |x| Ok(std::mem::replace(&mut x[8], 5.0))).unwrap(), 2.0);
        assert_eq!(read(&x, |x| Ok(x[8])).unwrap(), 5.0);
        assert!(!is_flat(&x.t().unwrap()) && read(&x.t().unwrap(), |_| Ok(())).is_err());
    }
}
