//! The loss as a sum and a count, so that micro-batches add up to the mean of the whole batch.

use crate::error::Result;
use candle_core::Tensor;

/// A loss as a sum over tokens and their number. The sums of micro-batches add up, their means would not.
#[derive(Debug, Clone)]
pub struct Loss {
    /// Σ −log p(target), a scalar.
    pub sum: Tensor,
    /// The number of targets, without ignored ones.
    pub tokens: usize,
}

impl Loss {
    /// The sum as an `f64`.
    pub fn value(&self) -> Result<f64> {
        Ok(f64::from(self.sum.to_scalar::<f32>()?))
    }

    /// The mean over the targets.
    pub fn mean(&self) -> Result<Tensor> {
        Ok((&self.sum / self.tokens.max(1) as f64)?)
    }
}
