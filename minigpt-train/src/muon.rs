//! Muon, for the matrices inside the blocks: momentum whose singular values are all made about 1 before the step, so
//! that every direction of a matrix learns at the same pace (Jordan et al. 2024).

use candle_core::{DType, Result, Tensor};
use minigpt_kernels::{Matrix, product};

/// How much of the momentum stays each step.
pub const MOMENTUM: f64 = 0.95;
/// Newton–Schulz iterations: enough for singular values between 0.7 and 1.2.
const ITERATIONS: usize = 5;
/// The coefficients of the quintic that pushes singular values towards 1.
const A: f64 = 3.4445;
const B: f64 = -4.775;
const C: f64 = 2.0315;

/// The step of `matrices` matrices side by side, and their new momentum, from their gradient and their momentum. Each is
/// orthogonalised by itself.
///
/// # Shapes
/// - `gradient`, `momentum`, outputs: (in, matrices · out)
pub fn update(gradient: &Tensor, momentum: &Tensor, matrices: usize) -> Result<(Tensor, Tensor)> {
    let momentum = ((momentum * MOMENTUM)? + (gradient * (1.0 - MOMENTUM))?)?;
    // Nesterov: look where the momentum is going.
    let ahead = ((gradient * (1.0 - MOMENTUM))? + (&momentum * MOMENTUM)?)?;
    let (rows, columns) = gradient.dims2()?;
    let width = columns / matrices;
    let step = (0..matrices)
        .map(|i| orthogonal(&ahead.narrow(1, i * width, width)?.contiguous()?))
        .collect::<Result<Vec<_>>>()?;
    // Wide outputs get a larger step: what counts is how much each output moves.
    let scale = (width as f64 / rows as f64).max(1.0).sqrt();
    Ok(((Tensor::cat(&step, 1)? * scale)?, momentum))
}

/// The nearest matrix with orthonormal rows or columns, roughly.
fn orthogonal(x: &Tensor) -> Result<Tensor> {
    if !(x.device().is_cpu() && x.dtype() == DType::F32) {
        return orthogonal_composed(x);
    }
    let (rows, columns) = x.dims2()?;
    let mut data = x.flatten_all()?.to_vec1::<f32>()?;
    let norm = data.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
    data.iter_mut().for_each(|x| *x = (f64::from(*x) / (norm + 1e-7)) as f32);
    newton_schulz(&mut data, rows, columns);
    Tensor::from_vec(data, (rows, columns), x.device())
}

/// [`orthogonal_composed`] on one thread, for a matrix of norm 1. The matrices of a model are many, and too small to be
/// split over threads.
fn newton_schulz(x: &mut Vec<f32>, rows: usize, columns: usize) {
    let short = rows.min(columns);
    if 2 * short <= rows.max(columns) {
        let all = polynomial_of_all_rounds(gram(x, rows, columns), short);
        *x = times(&all, x, rows, columns);
        return;
    }
    for _ in 0..ITERATIONS {
        *x = times(&polynomial(&gram(x, rows, columns), short), x, rows, columns);
    }
}

/// What one round multiplies X with: a + b·G + c·G², where G = X·Xᵀ.
fn polynomial(gram: &[f32], n: usize) -> Vec<f32> {
    let mut sum = vec![0f32; n * n];
    let g = Matrix::new(gram, n, n, n);
    product(&mut sum, false, C as f32, g, g);
    sum.iter_mut().zip(gram).for_each(|(sum, g)| *sum += B as f32 * g);
    sum.iter_mut().step_by(n + 1).for_each(|sum| *sum += A as f32);
    sum
}

/// What all rounds together multiply X with. A round with the polynomial P makes P·G·P of G, so of a matrix that is
/// far from square only the small G needs to go through the rounds.
fn polynomial_of_all_rounds(mut gram: Vec<f32>, n: usize) -> Vec<f32> {
    let mut all = polynomial(&gram, n);
    let mut last = all.clone();
    for _ in 1..ITERATIONS {
        gram = times(&last, &times(&last, &gram, n, n), n, n);
        last = polynomial(&gram, n);
        all = times(&last, &all, n, n);
    }
    all
}

/// P·X of a wide matrix, X·P of a tall one. All P are symmetric polynomials of one matrix, so their order is no matter.
fn times(p: &[f32], x: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let (n, x) = (rows.min(columns), Matrix::new(x, rows, columns, columns));
    let p = Matrix::new(p, n, n, n);
    let (a, b) = if rows <= columns { (p, x) } else { (x, p) };
    let mut y = vec![0f32; rows * columns];
    product(&mut y, false, 1.0, a, b);
    y
}

/// X·Xᵀ of a wide matrix, Xᵀ·X of a tall one: the smaller of the two.
fn gram(x: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let (view, short) = (Matrix::new(x, rows, columns, columns), rows.min(columns));
    let (a, b) = if rows <= columns { (view, view.t()) } else { (view.t(), view) };
    let mut gram = vec![0f32; short * short];
    product(&mut gram, false, 1.0, a, b);
    gram
}

/// The definition of [`orthogonal`].
fn orthogonal_composed(x: &Tensor) -> Result<Tensor> {
    let (rows, columns) = x.dims2()?;
    if rows > columns {
        return orthogonal_composed(&x.t()?.contiguous()?)?.t()?.contiguous();
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

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, IndexOp};

    fn numbers(rows: usize, columns: usize) -> Tensor {
        let data: Vec<f32> = (0..rows * columns).map(|i| ((i * i + 3 * i) as f32 * 0.37).sin()).collect();
        Tensor::from_vec(data, (rows, columns), &Device::Cpu).unwrap()
    }

    /// How long the rows of a matrix are, and how much they lean on each other.
    fn gram(x: &Tensor) -> (Vec<f32>, f32) {
        let gram = x.matmul(&x.t().unwrap()).unwrap();
        let n = gram.dim(0).unwrap();
        let at = |i: usize, j: usize| gram.i((i, j)).unwrap().to_scalar::<f32>().unwrap();
        let off =
            (0..n).flat_map(|i| (0..i).map(move |j| (i, j))).fold(0f32, |m, (i, j)| m.max(at(i, j).abs()));
        ((0..n).map(|i| at(i, i)).collect(), off)
    }

    #[test]
    fn rows_become_orthogonal_and_about_as_long_as_each_other() {
        for (rows, columns) in [(8, 24), (8, 8), (5, 50)] {
            let (lengths, leaning) = gram(&orthogonal(&numbers(rows, columns)).unwrap());
            assert!(lengths.iter().all(|length| (0.4..1.5).contains(length)), "{lengths:?}");
            assert!(leaning < 0.4, "{leaning}");
        }
        let tall = orthogonal(&numbers(24, 8)).unwrap();
        assert_eq!(tall.dims(), [24, 8]);
        assert!(gram(&tall.t().unwrap().contiguous().unwrap()).1 < 0.4);
    }

    #[test]
    fn fused_equals_composed() {
        for (rows, columns) in [(1, 1), (8, 24), (24, 8), (7, 7), (130, 40)] {
            let (x, y) = (numbers(rows, columns), numbers(rows, columns));
            let difference = (orthogonal(&x).unwrap() - orthogonal_composed(&y).unwrap()).unwrap();
            let difference = difference.abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap();
            assert!(difference < 1e-3, "{rows} × {columns}: {difference}");
        }
    }

    #[test]
    fn the_size_of_the_gradient_does_not_matter_and_its_direction_does() {
        let (gradient, zeros) = (numbers(6, 10), numbers(6, 10).zeros_like().unwrap());
        let step = |scale: f64| update(&(&gradient * scale).unwrap(), &zeros, 1).unwrap().0;
        let difference = |a: &Tensor, b: &Tensor| {
            (a - b).unwrap().abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap()
        };
        assert!(difference(&step(1.0), &step(1000.0)) < 1e-3);
        assert!(difference(&step(1.0), &step(-1.0).neg().unwrap()) < 1e-5);
    }

    #[test]
    fn a_joint_projection_is_orthogonalised_part_by_part_and_a_wide_matrix_as_a_whole() {
        let gradient = numbers(4, 12);
        let zeros = gradient.zeros_like().unwrap();
        let (joint, _) = update(&gradient, &zeros, 3).unwrap();
        for i in 0..3 {
            let part = |x: &Tensor| x.narrow(1, 4 * i, 4).unwrap().contiguous().unwrap();
            let (alone, _) = update(&part(&gradient), &part(&zeros), 1).unwrap();
            let difference = (part(&joint) - alone).unwrap().abs().unwrap().max_all().unwrap();
            assert!(difference.to_scalar::<f32>().unwrap() < 1e-5);
        }
        // An MLP that is three times as wide as the model has the same shape, and is one matrix.
        let (whole, _) = update(&gradient, &zeros, 1).unwrap();
        let difference = (whole - joint).unwrap().abs().unwrap().max_all().unwrap();
        assert!(difference.to_scalar::<f32>().unwrap() > 1e-2);
    }
}
