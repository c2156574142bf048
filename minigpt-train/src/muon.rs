//! Muon, for the matrices inside the blocks: momentum whose singular values are all made about 1 before the step, so
//! that every direction of a matrix learns at the same pace (Jordan et al. 2024).

use candle_core::{Result, Tensor};

/// How much of the momentum stays each step.
pub const MOMENTUM: f64 = 0.95;
/// Newton–Schulz iterations: enough for singular values between 0.7 and 1.2.
const ITERATIONS: usize = 5;
/// The coefficients of the quintic that pushes singular values towards 1.
const A: f64 = 3.4445;
const B: f64 = -4.775;
const C: f64 = 2.0315;

/// The step of a matrix, and its new momentum, from its gradient and its momentum.
///
/// # Shapes
/// - `gradient`, `momentum`, outputs: (in, out)
pub fn update(gradient: &Tensor, momentum: &Tensor) -> Result<(Tensor, Tensor)> {
    let momentum = ((momentum * MOMENTUM)? + (gradient * (1.0 - MOMENTUM))?)?;
    // Nesterov: look where the momentum is going.
    let ahead = ((gradient * (1.0 - MOMENTUM))? + (&momentum * MOMENTUM)?)?;
    let (rows, columns) = gradient.dims2()?;
    // A joint projection is several square matrices side by side; each is turned by itself.
    let parts = if columns % rows == 0 && columns / rows == 3 { 3 } else { 1 };
    let turned = (0..parts)
        .map(|i| orthogonal(&ahead.narrow(1, i * columns / parts, columns / parts)?.contiguous()?))
        .collect::<Result<Vec<_>>>()?;
    let turned = Tensor::cat(&turned, 1)?;
    // Wide outputs get a larger step: what counts is how much each output moves.
    let scale = ((columns / parts) as f64 / rows as f64).max(1.0).sqrt();
    Ok(((turned * scale)?, momentum))
}

/// The nearest matrix with orthonormal rows or columns, roughly.
fn orthogonal(x: &Tensor) -> Result<Tensor> {
    let (rows, columns) = x.dims2()?;
    if rows > columns {
        return orthogonal(&x.t()?.contiguous()?)?.t()?.contiguous();
    }
    let norm = f64::from(x.sqr()?.sum_all()?.to_scalar::<f32>()?).sqrt();
    let mut x = (x / (norm + 1e-7))?;
    for _ in 0..ITERATIONS {
        let a = x.matmul(&x.t()?)?; // (rows, rows)
        let b = ((&a * B)? + (a.matmul(&a)? * C)?)?;
        x = ((&x * A)? + b.matmul(&x)?)?;
    }
    Ok(x)
}
