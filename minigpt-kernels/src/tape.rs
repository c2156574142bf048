//! Records a training pass, so that its gradients can be computed: candle's own backward allocates zeros and adds to them
//! for every gradient, on one thread. Here the first gradient of a tensor is kept as it is, and only a second one is added.
//!
//! Only the operations of this crate are recorded. A gradient that reaches a tensor which none of them made can't be
//! backpropagated any further and would be lost, so it is an error, unless the tensor is a variable or a [`constant`].

use super::gradient_buffers::{self, GradientBuffers};
use super::{chunks, fused, with_floats};
use candle_core::{Result, Shape, Tensor, TensorId};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// Inputs of an operation, each with its gradient.
type Gradients = Vec<(InputId, Tensor)>;

/// Computes the gradients of an operation's inputs from that of its output.
type Backward = Box<dyn FnOnce(&Tensor) -> Result<Gradients>>;

/// An operation of a recorded pass.
struct Recorded {
    name: &'static str,
    output: TensorId,
    backward: Backward,
}

/// An input of an operation, without its elements: a tensor that no backward pass asks for is not kept in memory.
#[derive(Clone, Copy)]
struct InputId {
    id: TensorId,
    is_variable: bool,
}

impl From<&Tensor> for InputId {
    fn from(x: &Tensor) -> Self {
        Self { id: x.id(), is_variable: x.is_variable() }
    }
}

/// A recorded pass: its operations, in their order.
#[derive(Default)]
pub struct Tape {
    operations: Vec<Recorded>,
    /// Tensors that need no gradient.
    constants: HashSet<TensorId>,
}

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

/// `x` as an input that needs no gradient, such as a fixed table: backward ends there. Without this, a recorded pass refuses
/// an input that is neither a variable nor the output of a recorded operation.
pub fn constant(x: &Tensor) -> Tensor {
    let x = x.detach();
    RECORDING.with_borrow_mut(|tape| tape.as_mut().map(|tape| tape.constants.insert(x.id())));
    x
}

pub(super) fn is_recording() -> bool {
    RECORDING.with_borrow(Option::is_some)
}

fn push(name: &'static str, y: &Tensor, backward: impl FnOnce(&Tensor) -> Result<Gradients> + 'static) {
    let recorded = Recorded { name, output: y.id(), backward: Box::new(backward) };
    RECORDING.with_borrow_mut(|tape| tape.as_mut().map(|tape| tape.operations.push(recorded)));
}

impl Tape {
    /// The gradients of all variables that a scalar of the pass depends on.
    ///
    /// # Errors
    /// The scalar, or a tensor that a gradient reaches, was made by an operation that is not recorded: a gradient would be
    /// lost there.
    pub fn backward(self, scalar: &Tensor) -> Result<GradientBuffers> {
        let outputs: HashSet<TensorId> = self.operations.iter().map(|op| op.output).collect();
        if !outputs.contains(&scalar.id()) {
            candle_core::bail!("the scalar of a recorded pass was made by an operation that is not recorded");
        }
        let ends_at = |x: &InputId| x.is_variable || self.constants.contains(&x.id);
        let mut gradients: HashMap<TensorId, Tensor> = HashMap::new();
        gradients.insert(scalar.id(), scalar.ones_like()?);
        let (done, mut collected) = gradient_buffers::collect(|| -> Result<_> {
            for Recorded { name, output, backward } in self.operations.into_iter().rev() {
                let Some(dy) = gradients.remove(&output) else { continue };
                for (x, dx) in backward(&dy)? {
                    if !outputs.contains(&x.id) && !ends_at(&x) {
                        candle_core::bail!(
                            "a gradient of shape {:?} reached a tensor that no recorded operation made: an input of \
                             `{name}`. Make it with an operation of this crate, or pass it as a `constant` if it needs \
                             no gradient",
                            dx.dims()
                        );
                    }
                    let sum = match gradients.remove(&x.id) {
                        Some(before) => sum(&before, &dx)?,
                        None => dx,
                    };
                    gradients.insert(x.id, sum);
                }
            }
            Ok(gradients)
        });
        for (id, gradient) in done? {
            if !self.constants.contains(&id) {
                collected.add(id, &gradient)?;
            }
        }
        Ok(collected)
    }
}

/// Records an operation by what computes the gradients of its inputs from that of its output; `None` for an input whose
/// gradient goes elsewhere. What `backward` holds is all that is kept of the forward pass.
pub(super) fn push_backward(
    name: &'static str,
    inputs: &[&Tensor],
    output: &Tensor,
    backward: impl FnOnce(&Tensor) -> Result<Vec<Option<Tensor>>> + 'static,
) {
    let inputs: Vec<_> = inputs.iter().map(|&x| InputId::from(x)).collect();
    push(name, output, move |dy| {
        let gradients = inputs.into_iter().zip(backward(dy)?);
        Ok(gradients.filter_map(|(x, dx)| Some((x, dx?))).collect())
    });
}

/// The same elements in another shape.
pub fn reshape(x: &Tensor, shape: impl Into<Shape>) -> Result<Tensor> {
    let y = x.reshape(shape.into())?;
    if is_recording() {
        let shape = x.shape().clone();
        push_backward("reshape", &[x], &y, move |dy| Ok(vec![Some(dy.reshape(shape)?)]));
    }
    Ok(y)
}

/// The same elements in row-major order.
pub(super) fn contiguous(x: &Tensor) -> Result<Tensor> {
    let y = x.contiguous()?;
    if is_recording() && y.id() != x.id() {
        push_backward("contiguous", &[x], &y, |dy| Ok(vec![Some(dy.clone())]));
    }
    Ok(y)
}

/// The sum of two tensors of one shape.
pub fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if !is_recording() {
        return a + b;
    }
    let y = sum(a, b)?;
    push_backward("add", &[a, b], &y, |dy| Ok(vec![Some(dy.clone()); 2]));
    Ok(y)
}

/// All elements times one factor.
pub fn scale(x: &Tensor, factor: f64) -> Result<Tensor> {
    let y = (x * factor)?;
    if !is_recording() {
        return Ok(y);
    }
    let y = y.detach();
    push_backward("scale", &[x], &y, move |dy| Ok(vec![Some((dy * factor)?)]));
    Ok(y)
}

/// The sum of two tensors, on all threads of the current pool.
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
    use super::super::{Activation, WeightLayout, activation, cross_entropy, embedding, layer_norm, linear};
    use super::*;
    use candle_core::{Device, Var};

    #[test]
    fn gradients_of_a_recorded_pass_are_those_of_candle() {
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
            cross_entropy(&linear(&x, &table, WeightLayout::OutIn, None)?, &ids)
        };
        let plain: Tensor = pass().unwrap();
        let want = plain.backward().unwrap();
        let (loss, tape) = record(pass);
        let loss = loss.unwrap();
        assert_eq!(loss.to_scalar::<f32>().unwrap(), plain.to_scalar::<f32>().unwrap());
        let mut got = tape.backward(&loss).unwrap();
        for variable in [&table, &w, &b, &n] {
            let want = want.get(variable).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
            let got = got.remove(variable).unwrap();
            assert_eq!(got.len(), want.len());
            for (got, want) in got.iter().zip(want) {
                assert!((got - want).abs() <= 1e-5 * (1.0 + want.abs()), "{got} is not {want}");
            }
        }
    }

    /// A linear layer on a tensor made by `middle`, and its sum by cross-entropy.
    fn pass_with(middle: impl Fn(&Tensor) -> Result<Tensor>) -> Result<GradientBuffers> {
        let w = Var::from_tensor(&random(&[6, 6], 1)).unwrap();
        let ids = Tensor::new(&[3u32, 5, 3, 0], &Device::Cpu).unwrap();
        let (loss, tape) = record(|| {
            let x = embedding(&w, &ids)?;
            cross_entropy(&linear(&middle(&x)?, &w, WeightLayout::InOut, None)?, &ids)
        });
        tape.backward(&loss?)
    }

    #[test]
    fn an_operation_that_is_not_recorded_is_refused_where_its_gradient_would_be_lost() {
        assert!(pass_with(|x| scale(x, 2.0)).is_ok());
        for plain in [|x: &Tensor| x * 2.0, |x: &Tensor| x.sqr(), |x: &Tensor| x.narrow(1, 0, 6)?.relu()] {
            let error = pass_with(plain).unwrap_err().to_string();
            assert!(error.contains("a gradient of shape [4, 6] reached a tensor"), "{error}");
            assert!(error.contains("an input of `linear`"), "{error}");
        }
    }

    #[test]
    fn a_loss_that_is_not_recorded_is_refused() {
        let w = Var::from_tensor(&random(&[6, 6], 1)).unwrap();
        let ids = Tensor::new(&[3u32], &Device::Cpu).unwrap();
        let (loss, tape) = record(|| cross_entropy(&embedding(&w, &ids)?, &ids)? / 4.0);
        let error = tape.backward(&loss.unwrap()).unwrap_err().to_string();
        assert!(error.contains("the scalar of a recorded pass"), "{error}");
    }

    #[test]
    fn an_input_without_a_gradient_is_refused_unless_it_is_a_constant() {
        let fixed = random(&[4, 6], 7);
        let error = pass_with(|x| add(x, &fixed)).unwrap_err().to_string();
        assert!(error.contains("[4, 6]") && error.contains("an input of `add`"), "{error}");
        let mut gradients = pass_with(|x| add(x, &constant(&fixed))).unwrap();
        assert!(gradients.remove(&fixed).is_none());
    }

    #[test]
    fn a_variable_as_a_constant_gets_no_gradient() {
        let (w, frozen) = (random(&[6, 6], 1), Var::from_tensor(&random(&[6, 6], 2)).unwrap());
        let w = Var::from_tensor(&w).unwrap();
        let ids = Tensor::new(&[3u32, 5], &Device::Cpu).unwrap();
        let (loss, tape) = record(|| {
            let x = linear(&embedding(&w, &ids)?, &constant(&frozen), WeightLayout::OutIn, None)?;
            cross_entropy(&x, &ids)
        });
        let mut gradients = tape.backward(&loss.unwrap()).unwrap();
        assert!(gradients.remove(&w).is_some() && gradients.remove(&frozen).is_none());
    }
}
