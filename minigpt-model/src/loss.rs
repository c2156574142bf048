//! A loss that can be added up.

use crate::error::Result;
use candle_core::Tensor;

/// A loss as a sum, so that batches and micro-batches add up to the same mean over tokens.
#[derive(Debug, Clone)]
pub struct Loss {
    /// Σ −log p(target), a scalar.
    pub sum: Tensor,
    /// Number of targets that counted.
    pub tokens: usize,
}

impl Loss {
    /// The sum as a number.
    pub fn value(&self) -> Result<f64> {
        Ok(f64::from(self.sum.to_scalar::<f32>()?))
    }

    /// The mean over the targets that counted.
    pub fn mean(&self) -> Result<Tensor> {
        Ok((&self.sum / self.tokens.max(1) as f64)?)
    }
}
