//! Muon, for the matrices inside the blocks: momentum whose singular values are all made about 1 before the step, so
//! that every direction of a matrix learns at the same pace (Jordan et al. 2024).

use crate::flat;
use candle_core::{Result, Tensor, Var};
use minigpt_kernels::{Matrix, product, symmetric_product};

/// Newton–Schulz iterations: enough for singular values between 0.7 and 1.2.
const ITERATIONS: usize = 5;
/// The coefficients of the quintic that pushes singular values towards 1.
const A: f64 = 3.4445;
const B: f64 = -4.775;
const C: f64 = 2.0315;

/// What one step does to a parameter, with a momentum of µ: `m = µ m + (1−µ) g`, `p = keep · p − rate · orthogonal(µ m + (1−µ) g)`.
#[derive(Debug, Clone, Copy)]
pub struct Update {
    /// What the gradient is multiplied with first.
    pub scale: f64,
    pub keep: f64,
    pub rate: f64,
    /// How much of the momentum stays each step.
    pub momentum: f64,
}

impl Update {
    /// Changes a parameter and its momentum, on one thread. A parameter is `matrices` matrices side by side, each of which is
    /// orthogonalised by itself.
    ///
    /// # Shapes
    /// - all: (in, matrices · out)
    pub fn apply(
        &self,
        parameter: &Var,
        momentum: &mut Tensor,
        gradient: &Tensor,
        matrices: usize,
    ) -> Result<()> {
        let in_place = [parameter.as_tensor(), momentum, gradient].into_iter().all(flat::is_flat);
        if in_place {
            self.apply_fused(parameter, momentum, gradient, matrices)
        } else {
            self.apply_composed(parameter, momentum, gradient, matrices)
        }
    }

    fn apply_composed(
        &self,
        parameter: &Var,
        momentum: &mut Tensor,
        gradient: &Tensor,
        matrices: usize,
    ) -> Result<()> {
        let fresh = (gradient * (self.scale * (1.0 - self.momentum)))?;
        *momentum = ((&*momentum * self.momentum)? + &fresh)?;
        // Nesterov: look where the momentum is going.
        let ahead = (fresh + (&*momentum * self.momentum)?)?;
        let (rows, columns) = gradient.dims2()?;
        let width = columns / matrices;
        let step = (0..matrices)
            .map(|i| orthogonal_composed(&ahead.narrow(1, i * width, width)?.contiguous()?))
            .collect::<Result<Vec<_>>>()?;
        let step = (Tensor::cat(&step, 1)? * (self.rate * size_factor(rows, width)))?;
        parameter.set(&((parameter.as_detached_tensor() * self.keep)? - step)?)
    }

    /// Matrix by matrix, in place.
    fn apply_fused(
        &self,
        parameter: &Var,
        momentum: &Tensor,
        gradient: &Tensor,
        matrices: usize,
    ) -> Result<()> {
        let (rows, columns) = gradient.dims2()?;
        let width = columns / matrices;
        let keep = self.keep as f32;
        let rate = (self.rate * size_factor(rows, width)) as f32;
        let row_of = |i: usize, row: usize| row * columns + i * width..row * columns + (i + 1) * width;
        flat::read(gradient, |g| {
            flat::change(momentum, |m| {
                flat::change(parameter, |p| {
                    for i in 0..matrices {
                        let mut x = Vec::with_capacity(rows * width);
                        for row in 0..rows {
                            self.look_ahead(&mut m[row_of(i, row)], &g[row_of(i, row)], &mut x);
                        }
                        let step = orthogonal(x, rows, width);
                        for (row, step) in step.chunks(width.max(1)).enumerate() {
                            let p = p[row_of(i, row)].iter_mut().zip(step);
                            p.for_each(|(p, step)| *p = keep * *p - rate * step);
                        }
                    }
                    Ok(())
                })
            })
        })
    }

    /// Updates some momentum, and appends where it is going (Nesterov).
    fn look_ahead(&self, m: &mut [f32], g: &[f32], ahead: &mut Vec<f32>) {
        let (stays, fresh) = (self.momentum as f32, (self.scale * (1.0 - self.momentum)) as f32);
        ahead.extend(m.iter_mut().zip(g).map(|(m, g)| {
            *m = stays * *m + fresh * g;
            stays * *m + fresh * g
        }));
    }
}

/// Wide outputs get a larger step: what counts is how much each output moves.
fn size_factor(rows: usize, width: usize) -> f64 {
    (width as f64 / rows as f64).max(1.0).sqrt()
}

/// The nearest matrix with orthonormal rows or columns, roughly. See [`orthogonal_composed`].
fn orthogonal(mut x: Vec<f32>, rows: usize, columns: usize) -> Vec<f32> {
    let factor = (1.0 / (sum_of_squares(&x).sqrt() + 1e-7)) as f32;
    x.iter_mut().for_each(|x| *x *= factor);
    newton_schulz(&mut x, rows, columns);
    x
}

fn sum_of_squares(x: &[f32]) -> f64 {
    let (whole, rest) = x.as_chunks::<8>();
    let mut sums = [0f64; 8];
    for x in whole {
        sums.iter_mut().zip(x).for_each(|(sum, &x)| *sum += f64::from(x) * f64::from(x));
    }
    sums.iter().sum::<f64>() + rest.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>()
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
    symmetric_product(&mut sum, g, g);
    sum.iter_mut().zip(gram).for_each(|(sum, g)| *sum = C as f32 * *sum + B as f32 * g);
    sum.iter_mut().step_by(n + 1).for_each(|sum| *sum += A as f32);
    sum
}

/// What all rounds together multiply X with. A round with the polynomial P makes P·G·P of G, so of a matrix that is
/// far from square only the small G needs to go through the rounds.
fn polynomial_of_all_rounds(mut gram: Vec<f32>, n: usize) -> Vec<f32> {
    let mut all = polynomial(&gram, n);
    let mut last = all.clone();
    for _ in 1..ITERATIONS {
        gram = commuting_product(&last, &commuting_product(&last, &gram, n), n);
        last = polynomial(&gram, n);
        all = commuting_product(&last, &all, n);
    }
    all
}

/// The product of two symmetric polynomials of one matrix, which is symmetric, too.
fn commuting_product(a: &[f32], b: &[f32], n: usize) -> Vec<f32> {
    let mut y = vec![0f32; n * n];
    symmetric_product(&mut y, Matrix::new(a, n, n, n), Matrix::new(b, n, n, n));
    y
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
    symmetric_product(&mut gram, a, b);
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

    /// The orthogonalised matrix, by the kernel.
    fn fused(x: &Tensor) -> Tensor {
        let (rows, columns) = x.dims2().unwrap();
        let data = x.flatten_all().unwrap().to_vec1().unwrap();
        Tensor::from_vec(orthogonal(data, rows, columns), (rows, columns), &Device::Cpu).unwrap()
    }

    fn difference(a: &Tensor, b: &Tensor) -> f32 {
        (a - b).unwrap().abs().unwrap().max_all().unwrap().to_scalar().unwrap()
    }

    /// What a step of rate 1 from zeros is, and the momentum after it.
    fn step(gradient: &Tensor, matrices: usize) -> (Tensor, Tensor) {
        let parameter = Var::zeros(gradient.shape(), gradient.dtype(), &Device::Cpu).unwrap();
        let mut momentum = gradient.zeros_like().unwrap();
        let update = Update { scale: 1.0, keep: 1.0, rate: 1.0, momentum: 0.95 };
        update.apply(&parameter, &mut momentum, gradient, matrices).unwrap();
        (parameter.as_tensor().neg().unwrap(), momentum)
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
            let (lengths, leaning) = gram(&fused(&numbers(rows, columns)));
            assert!(lengths.iter().all(|length| (0.4..1.5).contains(length)), "{lengths:?}");
            assert!(leaning < 0.4, "{leaning}");
        }
        let tall = fused(&numbers(24, 8));
        assert_eq!(tall.dims(), [24, 8]);
        assert!(gram(&tall.t().unwrap().contiguous().unwrap()).1 < 0.4);
    }

    #[test]
    fn fused_equals_composed() {
        for (rows, columns) in [(1, 1), (8, 24), (24, 8), (7, 7), (130, 40)] {
            let x = numbers(rows, columns);
            let difference = difference(&fused(&x), &orthogonal_composed(&x).unwrap());
            assert!(difference < 1e-3, "{rows} × {columns}: {difference}");
        }
    }

    #[test]
    fn a_step_in_place_is_the_composed_one() {
        for (rows, columns, matrices) in [(8, 24, 3), (24, 8, 1), (16, 16, 1)] {
            let gradient = numbers(rows, columns);
            let update = Update { scale: 0.3, keep: 0.9, rate: 0.5, momentum: 0.8 };
            let run = |composed: bool| {
                let parameter = Var::from_tensor(&numbers(rows, columns)).unwrap();
                let mut momentum = (&gradient * 0.2).unwrap();
                for _ in 0..2 {
                    let step = if composed { Update::apply_composed } else { Update::apply };
                    step(&update, &parameter, &mut momentum, &gradient, matrices).unwrap();
                }
                (parameter.as_detached_tensor(), momentum)
            };
            let ((p, m), (want_p, want_m)) = (run(false), run(true));
            assert!(difference(&p, &want_p) < 1e-3 && difference(&m, &want_m) < 1e-6);
        }
    }

    #[test]
    fn the_size_of_the_gradient_does_not_matter_and_its_direction_does() {
        let gradient = numbers(6, 10);
        let step = |scale: f64| step(&(&gradient * scale).unwrap(), 1).0;
        assert!(difference(&step(1.0), &step(1000.0)) < 1e-3);
        assert!(difference(&step(1.0), &step(-1.0).neg().unwrap()) < 1e-5);
    }

    #[test]
    fn a_joint_projection_is_orthogonalised_part_by_part_and_a_wide_matrix_as_a_whole() {
        let gradient = numbers(4, 12);
        let (joint, _) = step(&gradient, 3);
        for i in 0..3 {
            let part = |x: &Tensor| x.narrow(1, 4 * i, 4).unwrap().contiguous().unwrap();
            assert!(difference(&part(&joint), &step(&part(&gradient), 1).0) < 1e-5);
        }
        // An MLP that is three times as wide as the model has the same shape, and is one matrix.
        let (whole, _) = step(&gradient, 1);
        assert!(difference(&whole, &joint) > 1e-2);
    }
}
