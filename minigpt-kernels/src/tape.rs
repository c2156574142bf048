//! What a pass did, so that it can be taken back: candle's own record of it costs zeros and an addition for every
//! gradient, on one thread. Here a gradient is kept as it comes, and added only where a second one comes.
//!
//! Only operations of this module are recorded; a pass that is to be taken back consists of nothing else.

use super::gradient_buffers::{self, GradientBuffers};
use super::{chunks, fused, with_floats};
use candle_core::{CustomOp1, CustomOp2, CustomOp3, Result, Shape, Tensor, TensorId};
use std::cell::RefCell;
use std::collections::HashMap;

/// Tensors with their gradients.
type Gradients = Vec<(Tensor, Tensor)>;

/// How a gradient goes back through an operation.
type Back = Box<dyn FnOnce(&Tensor) -> Result<Gradients>>;

/// An operation that was made, and what came out of it.
struct Made {
    y: TensorId,
    back: Back,
}

/// All operations of a pass, in their order.
#[derive(Default)]
pub struct Tape(Vec<Made>);

thread_local! {
    static RECORDING: RefCell<Option<Tape>> = const { RefCell::new(None) };
}

/// Runs a pass on this thread, and records it.
pub fn record<R>(pass: impl FnOnce() -> R) -> (R, Tape) {
    let outer = RECORDING.replace(Some(Tape::default()));
    let result = pass();
    let tape = RECORDING.replace(outer).unwrap_or_default();
    (result, tape)
}

fn is_recording() -> bool {
    RECORDING.with_borrow(Option::is_some)
}

fn push(y: &Tensor, back: impl FnOnce(&Tensor) -> Result<Gradients> + 'static) {
    let made = Made { y: y.id(), back: Box::new(back) };
    RECORDING.with_borrow_mut(|tape| tape.as_mut().map(|tape| tape.0.push(made)));
}

impl Tape {
    /// The gradients of all variables that a scalar of the pass depends on.
    pub fn backward(self, scalar: &Tensor) -> Result<GradientBuffers> {
        let mut gradients: HashMap<TensorId, Tensor> = HashMap::new();
        gradients.insert(scalar.id(), scalar.ones_like()?);
        let (done, mut collected) = gradient_buffers::collect(|| -> Result<_> {
            for Made { y, back } in self.0.into_iter().rev() {
                let Some(dy) = gradients.remove(&y) else { continue };
                for (x, dx) in back(&dy)? {
                    let sum = match gradients.remove(&x.id()) {
                        Some(before) => sum(&before, &dx)?,
                        None => dx,
                    };
                    gradients.insert(x.id(), sum);
                }
            }
            Ok(gradients)
        });
        for (id, gradient) in done? {
            collected.add(id, &gradient)?;
        }
        Ok(collected)
    }
}

/// Makes an operation with one input.
pub(super) fn apply1(x: &Tensor, op: impl CustomOp1 + Send + Sync + 'static) -> Result<Tensor> {
    if !is_recording() {
        return x.apply_op1(op);
    }
    let y = x.apply_op1_no_bwd(&op)?;
    let (x, out) = (x.clone(), y.clone());
    push(&y, move |dy| Ok(op.bwd(&x, &out, dy)?.map(|dx| (x, dx)).into_iter().collect()));
    Ok(y)
}

/// Makes an operation with two inputs.
pub(super) fn apply2(x: &Tensor, w: &Tensor, op: impl CustomOp2 + Send + Sync + 'static) -> Result<Tensor> {
    if !is_recording() {
        return x.apply_op2(w, op);
    }
    let y = x.apply_op2_no_bwd(w, &op)?;
    let (x, w, out) = (x.clone(), w.clone(), y.clone());
    push(&y, move |dy| {
        let (dx, dw) = op.bwd(&x, &w, &out, dy)?;
        Ok([dx.map(|dx| (x, dx)), dw.map(|dw| (w, dw))].into_iter().flatten().collect())
    });
    Ok(y)
}

/// Makes an operation with three inputs.
pub(super) fn apply3(
    x: &Tensor,
    w: &Tensor,
    b: &Tensor,
    op: impl CustomOp3 + Send + Sync + 'static,
) -> Result<Tensor> {
    if !is_recording() {
        return x.apply_op3(w, b, op);
    }
    let y = x.apply_op3_no_bwd(w, b, &op)?;
    let (x, w, b, out) = (x.clone(), w.clone(), b.clone(), y.clone());
    push(&y, move |dy| {
        let (dx, dw, db) = op.bwd(&x, &w, &b, &out, dy)?;
        Ok([dx.map(|dx| (x, dx)), dw.map(|dw| (w, dw)), db.map(|db| (b, db))].into_iter().flatten().collect())
    });
    Ok(y)
}

/// The same numbers in another shape.
pub fn reshape(x: &Tensor, shape: impl Into<Shape>) -> Result<Tensor> {
    let y = x.reshape(shape.into())?;
    if is_recording() {
        let x = x.clone();
        push(&y, move |dy| Ok(vec![(x.clone(), dy.reshape(x.shape())?)]));
    }
    Ok(y)
}

/// The same numbers row by row.
pub(super) fn contiguous(x: &Tensor) -> Result<Tensor> {
    let y = x.contiguous()?;
    if is_recording() && y.id() != x.id() {
        let x = x.clone();
        push(&y, move |dy| Ok(vec![(x, dy.clone())]));
    }
    Ok(y)
}

/// The sum of two tensors of one shape, as a block adds what it found to the residual stream.
pub fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if !is_recording() {
        return a + b;
    }
    let y = sum(a, b)?;
    let (a, b) = (a.clone(), b.clone());
    push(&y, move |dy| Ok(vec![(a, dy.clone()), (b, dy.clone())]));
    Ok(y)
}

/// All numbers times one.
pub fn scale(x: &Tensor, factor: f64) -> Result<Tensor> {
    let y = (x * factor)?;
    if is_recording() {
        let (x, y) = (x.clone(), y.detach());
        push(&y, move |dy| Ok(vec![(x, (dy * factor)?)]));
        return Ok(y);
    }
    Ok(y)
}

/// The sum of two gradients, on all threads of the current pool.
fn sum(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if !fused(a) || a.shape() != b.shape() {
        return a + b;
    }
    let sum = with_floats([a, b], |[a, b]| {
        Ok(chunks::collect(a.len(), |range| a[range.clone()].iter().zip(&b[range]).map(|(a, b)| a + b)))
    })?;
    Tensor::from_vec(sum, a.shape(), a.device())
}

#[cfg(test)]
mod tests {
    use super::super::testing::random;
    use super::super::{Activation, WeightLayout, activation, embedding, layer_norm, linear};
    use super::*;
    use candle_core::{Device, Var};

    #[test]
    fn what_is_taken_back_equals_what_candle_takes_back() {
        let variable = |shape: &[usize], seed| Var::from_tensor(&random(shape, seed)).unwrap();
        let (table, w, b, n) =
            (variable(&[9, 6], 1), variable(&[6, 6], 2), variable(&[6], 3), variable(&[6], 4));
        let ids = Tensor::new(&[3u32, 8, 3, 0], &Device::Cpu).unwrap();
        let pass = || {
            let x = scale(&reshape(&embedding(&table, &ids)?, (2, 2, 6))?, 1.5)?;
            let y = reshape(&layer_norm(&x, &n, None, 1e-5)?, (4, 6))?;
            let y = activation(&linear(&y, &w, WeightLayout::InOut, Some(&b))?, Activation::Gelu)?;
            let x = add(&reshape(&x, (4, 6))?, &y)?;
            // The table once more, as a tied head.
            super::super::cross_entropy(&linear(&x, &table, WeightLayout::OutIn, None)?, &ids)
        };
        let plain: Tensor = pass().unwrap();
        let want = plain.backward().unwrap();
        let (loss, tape) = record(pass);
        let loss = loss.unwrap();
        assert_eq!(loss.to_scalar::<f32>().unwrap(), plain.to_scalar::<f32>().unwrap());
        let mut got = tape.backward(&loss).unwrap();
        for variable in [&table, &w, &b, &n] {
            let want = want.get(variable).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
            for (got, want) in got.remove(variable).unwrap().iter().zip(want) {
                assert!((got - want).abs() <= 1e-5 * (1.0 + want.abs()), "{got} is not {want}");
            }
        }
    }
}
