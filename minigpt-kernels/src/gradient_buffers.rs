//! Where the gradients of weights are collected during backward. candle adds every gradient to zeros that it allocates
//! first, which for large weights is a good part of a step; here the first gradient is the buffer, and later ones are added
//! to it by the product that computes them.

use candle_core::{Result, Tensor, TensorId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Gradients of variables.
#[derive(Debug, Default)]
pub struct GradientBuffers(HashMap<TensorId, Vec<f32>>);

thread_local! {
    static COLLECTING: RefCell<Option<GradientBuffers>> = const { RefCell::new(None) };
}

impl GradientBuffers {
    /// Adds a gradient to what has been collected.
    pub(super) fn add(&mut self, id: TensorId, gradient: &Tensor) -> Result<()> {
        let more = gradient.flatten_all()?.to_vec1::<f32>()?;
        match self.0.entry(id) {
            Entry::Vacant(place) => {
                place.insert(more);
            }
            Entry::Occupied(mut sum) => sum.get_mut().iter_mut().zip(more).for_each(|(sum, x)| *sum += x),
        }
        Ok(())
    }

    /// Takes out the gradient of a variable, row by row.
    pub fn remove(&mut self, variable: &Tensor) -> Option<Vec<f32>> {
        self.0.remove(&variable.id())
    }
}

/// Runs `backward` on this thread and collects the gradients of the weights of fused operations, which are then missing in
/// candle's own store.
pub(super) fn collect<R>(backward: impl FnOnce() -> R) -> (R, GradientBuffers) {
    let outer = COLLECTING.replace(Some(GradientBuffers::default()));
    let result = backward();
    let buffers = COLLECTING.replace(outer).unwrap_or_default();
    (result, buffers)
}

/// Whether the gradient of this weight is being collected on this thread.
pub(super) fn collects(weight: &Tensor) -> bool {
    weight.is_variable() && COLLECTING.with_borrow(Option::is_some)
}

/// Gives `add` the gradient of a weight so far, `None` at first; it returns the new one.
pub(super) fn accumulate(weight: &Tensor, add: impl FnOnce(Option<Vec<f32>>) -> Vec<f32>) {
    // Taken out meanwhile, since `add` may itself need the buffers.
    let before =
        COLLECTING.with_borrow_mut(|buffers| buffers.as_mut().and_then(|buffers| buffers.remove(weight)));
    let after = add(before);
    COLLECTING
        .with_borrow_mut(|buffers| buffers.as_mut().map(|buffers| buffers.0.insert(weight.id(), after)));
}
