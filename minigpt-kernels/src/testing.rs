//! How every fused operation is tested: against its composed twin, and against finite differences.

use super::{WeightLayout, constant, linear, record, reshape, with_floats};
use candle_core::{Device, Result, Tensor, Var};
use rand::SeedableRng;
use rand::rngs::SmallRng;

/// A tensor of roughly normal values.
pub fn random(shape: &[usize], seed: u64) -> Tensor {
    use rand::RngExt;
    let mut rng = SmallRng::seed_from_u64(seed);
    let data: Vec<f32> = (0..shape.iter().product())
        .map(|_| (0..4).map(|_| rng.random_range(-1.0f32..1.0)).sum::<f32>() * 0.87)
        .collect();
    Tensor::from_vec(data, shape, &Device::Cpu).unwrap()
}

/// The elements of such a tensor.
pub fn elements(n: usize, seed: u64) -> Vec<f32> {
    random(&[n], seed).to_vec1().unwrap()
}

/// Largest difference relative to the largest magnitude of `want`, or to 0.1 where all of `want` is smaller: what is
/// zero by mathematics is noise by arithmetic.
pub fn relative_difference(got: &Tensor, want: &Tensor) -> f32 {
    assert_eq!(got.dims(), want.dims());
    let compare = |got: &[f32], want: &[f32]| {
        let scale = want.iter().fold(0.1f32, |m, x| m.max(x.abs()));
        got.iter().zip(want).fold(0f32, |m, (a, b)| {
            let difference = (a - b).abs() / scale;
            if difference.is_nan() { f32::INFINITY } else { m.max(difference) }
        })
    };
    with_floats([got, want], |[got, want]| Ok(compare(got, want))).unwrap()
}

/// The output of `f`, and the gradients of its inputs for a random gradient of the output.
fn run(inputs: &[Tensor], f: impl Fn(&[Tensor]) -> Result<Tensor>) -> (Tensor, Vec<Tensor>) {
    let vars: Vec<Var> = inputs.iter().map(|t| Var::from_tensor(t).unwrap()).collect();
    let tensors: Vec<Tensor> = vars.iter().map(|v| v.as_tensor().clone()).collect();
    let y = f(&tensors).unwrap();
    let weights = random(y.dims(), 99);
    let mut grads = (&y * &weights).unwrap().sum_all().unwrap().backward().unwrap();
    let grads = tensors.iter().map(|t| grads.remove(t).unwrap_or_else(|| t.zeros_like().unwrap()));
    (y.detach(), grads.collect())
}

/// The gradients that [`run`] gives, from the tape of a recorded pass.
fn recorded_gradients(inputs: &[Tensor], f: impl Fn(&[Tensor]) -> Result<Tensor>) -> Vec<Tensor> {
    let vars: Vec<Var> = inputs.iter().map(|t| Var::from_tensor(t).unwrap()).collect();
    let tensors: Vec<Tensor> = vars.iter().map(|v| v.as_tensor().clone()).collect();
    let (sum, tape) = record(|| {
        let y = f(&tensors)?;
        let weights = constant(&random(y.dims(), 99).reshape((y.elem_count(), 1))?);
        linear(&reshape(&y, (1, y.elem_count()))?, &weights, WeightLayout::InOut, None)
    });
    let mut gradients = tape.backward(&sum.unwrap()).unwrap();
    let gradient = |x: &Tensor| match gradients.remove(x) {
        Some(gradient) => Tensor::from_vec(gradient, x.shape(), x.device()).unwrap(),
        None => x.zeros_like().unwrap(),
    };
    tensors.iter().map(gradient).collect()
}

/// Asserts that a fused operation agrees with its definition in the output and in all gradients, and that both autograds
/// compute the same gradients.
pub fn assert_same(
    inputs: &[Tensor],
    fused: impl Fn(&[Tensor]) -> Result<Tensor>,
    composed: impl Fn(&[Tensor]) -> Result<Tensor>,
    tolerance: f32,
) {
    let (y, grads) = run(inputs, &fused);
    let (y_want, grads_want) = run(inputs, composed);
    let difference = relative_difference(&y, &y_want);
    assert!(difference <= tolerance, "output differs by {difference}");
    for (i, (grad, want)) in grads.iter().zip(&grads_want).enumerate() {
        let difference = relative_difference(grad, want);
        assert!(difference <= tolerance, "gradient of input {i} differs by {difference}");
    }
    if y.elem_count() > 0 {
        for (i, (recorded, grad)) in recorded_gradients(inputs, &fused).iter().zip(&grads).enumerate() {
            let difference = relative_difference(recorded, grad);
            assert!(
                difference <= 1e-6,
                "the tape's gradient of input {i} differs from candle's by {difference}"
            );
        }
    }
}

/// Asserts that each gradient equals the slope seen by moving the input along a few random directions.
pub fn assert_gradients(inputs: &[Tensor], f: impl Fn(&[Tensor]) -> Result<Tensor>) {
    let (_, grads) = run(inputs, &f);
    let value = |inputs: &[Tensor]| -> f64 {
        let y = f(inputs).unwrap();
        let weights = random(y.dims(), 99);
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
        with_floats([&y, &weights], |[y, w]| Ok(dot(y, w))).unwrap()
    };
    for (i, grad) in grads.iter().enumerate() {
        for seed in 0..3 {
            let direction = random(grad.dims(), 1000 + seed);
            let step = 5e-3;
            let moved = |by: f64| {
                let mut inputs = inputs.to_vec();
                inputs[i] = (&inputs[i] + (&direction * by).unwrap()).unwrap();
                value(&inputs)
            };
            let slope = (moved(step) - moved(-step)) / (2.0 * step);
            let want = (grad * &direction).unwrap().sum_all().unwrap().to_scalar::<f32>().unwrap();
            let size = grad.sqr().unwrap().sum_all().unwrap().to_scalar::<f32>().unwrap().sqrt();
            let error = (slope - f64::from(want)).abs() / f64::from(size + 1e-3);
            assert!(error < 5e-3, "input {i}: slope {slope}, gradient {want}, error {error}");
        }
    }
}
