//! Huber's loss: quadratic for small residuals, linear for large ones, so that a few odd runs don't bend the law.

/// Huber's loss with the residual from which it is linear.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Huber(pub f64);

impl Huber {
    pub fn loss(self, residual: f64) -> f64 {
        let size = residual.abs();
        if size <= self.0 { 0.5 * size * size } else { self.0 * (size - 0.5 * self.0) }
    }

    /// Its derivative.
    pub fn slope(self, residual: f64) -> f64 {
        residual.clamp(-self.0, self.0)
    }

    /// Its second derivative.
    pub fn curvature(self, residual: f64) -> f64 {
        if residual.abs() <= self.0 { 1.0 } else { 0.0 }
    }

    /// What a residual counts in least squares that are repeated with new weights.
    pub fn weight(self, residual: f64) -> f64 {
        if residual.abs() <= self.0 { 1.0 } else { self.0 / residual.abs() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `scipy.special.huber(1e-3, [0, 5e-4, 1e-3, -0.02])`
    #[test]
    fn it_is_what_scipy_calls_huber() {
        let found = [0.0, 5e-4, 1e-3, -0.02].map(|residual| Huber(1e-3).loss(residual));
        for (found, expected) in found.into_iter().zip([0.0, 1.25e-7, 5e-7, 1.95e-5]) {
            assert!((found - expected).abs() < 1e-18, "{found} {expected}");
        }
    }

    #[test]
    fn slope_and_curvature_are_its_derivatives() {
        let (huber, step) = (Huber(0.1), 1e-6);
        for residual in [-0.3, -0.05, 0.02, 0.5] {
            let slope = (huber.loss(residual + step) - huber.loss(residual - step)) / (2.0 * step);
            assert!((slope - huber.slope(residual)).abs() < 1e-8, "{residual}");
            let curvature = (huber.slope(residual + step) - huber.slope(residual - step)) / (2.0 * step);
            assert!((curvature - huber.curvature(residual)).abs() < 1e-8, "{residual}");
        }
    }
}
