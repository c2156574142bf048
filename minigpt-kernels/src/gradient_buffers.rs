//! Where the gradients of weights go while a loss is taken back. candle adds every gradient to zeros that it makes first,
//! which for large weights is a good part of a step; here each goes into one buffer, and what comes later is added to it
//! by the product that makes it.

use candle_core::{Result, Tensor, TensorId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Gradients of variables.
#[derive(Debug, Default)]
pub struct GradientBuffers(HashMap<TensorId, Vec<f32>>);

thread_local! {
    static OPEN: RefCell<Option<GradientBuffers>> = const { RefCell::new(None) };
}

impl GradientBuffers {
    /// Adds a gradient to what there is.
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

    /// The gradient of a variable, which is then no longer there.
    pub fn remove(&mut self, variable: &Tensor) -> Option<Vec<f32>> {
        self.0.remove(&variable.id())
    }
}

/// Takes a loss back (that is what `backward` does, on this thread), and collects the gradients of the weights of fused
/// operations. They are then missing in what candle collects.
pub(super) fn collect<R>(backward: impl FnOnce() -> R) -> (R, GradientBuffers) {
    let outer = OPEN.replace(Some(GradientBuffers::default()));
    let result = backward();
    let buffers = OPEN.replace(outer).unwrap_or_default();
    (result, buffers)
}

/// Whether somebody collects the gradient of this weight.
pub(super) fn is_open(weight: &Tensor) -> bool {
    weight.is_variable() && OPEN.with_borrow(Option::is_some)
}

/// Gives `add` the gradient that a weight has so far, or `None` for the first; it returns the new one.
pub(super) fn pour(weight: &Tensor, add: impl FnOnce(Option<Vec<f32>>) -> Vec<f32>) {
    // Taken out meanwhile: what computes must not find the buffers borrowed.
    let before = OPEN.with_borrow_mut(|buffers| buffers.as_mut().and_then(|buffers| buffers.remove(weight)));
    let after = add(before);
    OPEN.with_borrow_mut(|buffers| buffers.as_mut().map(|buffers| buffers.0.insert(weight.id(), after)));
}
