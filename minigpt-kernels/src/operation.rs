//! A fused operation is defined once, and both autograds call it: the tape of a recorded pass, which trains the crate's own
//! models, and candle's graph, for library users who call `backward` on a tensor.

use crate::tape::{is_recording, push_backward};
use candle_core::{CpuStorage, CustomOp1, CustomOp2, CustomOp3, Layout, Result, Shape, Tensor};

/// An input of a forward pass.
pub type Input<'a> = (&'a CpuStorage, &'a Layout);

/// What a recorded pass keeps for the backward pass of an operation.
pub enum Keeps {
    /// Only what the operation holds itself.
    Nothing,
    /// Its inputs.
    Inputs,
    /// Its inputs and its output.
    InputsAndOutput,
}

/// An operation on the CPU with one to three inputs and one output, all f32.
pub trait Operation: Send + Sync + 'static {
    /// Its name in error messages.
    const NAME: &'static str;
    /// What [`Operation::backward`] reads.
    const KEEPS: Keeps;

    /// The elements and the shape of the output. Called once.
    fn forward(&self, inputs: &[Input]) -> Result<(Vec<f32>, Shape)>;

    /// The gradient of each input, from that of the output; `None` if it has gone to
    /// [`gradient_buffers`](crate::gradient_buffers).
    fn backward(&self, kept: Kept, dy: &Tensor) -> Result<Vec<Option<Tensor>>>;
}

/// The inputs and the output of a forward pass, as far as they were kept.
pub struct Kept<'a> {
    inputs: &'a [&'a Tensor],
    output: Option<&'a Tensor>,
}

impl<'a> Kept<'a> {
    /// What was kept of a forward pass.
    pub fn new(inputs: &'a [&'a Tensor], output: Option<&'a Tensor>) -> Self {
        Self { inputs, output }
    }

    /// An input of the forward pass.
    pub fn input(&self, i: usize) -> Result<&'a Tensor> {
        match self.inputs.get(i) {
            Some(input) => Ok(input),
            None => candle_core::bail!("the forward pass kept no input {i}"),
        }
    }

    /// The number of inputs.
    pub fn count(&self) -> usize {
        self.inputs.len()
    }

    /// The output of the forward pass.
    pub fn output(&self) -> Result<&'a Tensor> {
        match self.output {
            Some(output) => Ok(output),
            None => candle_core::bail!("the forward pass kept no output"),
        }
    }
}

/// Applies an operation. In a recorded pass the tape knows its backward pass, otherwise candle's graph does.
pub fn apply<O: Operation>(operation: O, inputs: &[&Tensor]) -> Result<Tensor> {
    let op = CandleOp(operation);
    if !is_recording() {
        return match inputs {
            [x] => x.apply_op1(op),
            [x, w] => x.apply_op2(w, op),
            [x, w, b] => x.apply_op3(w, b, op),
            _ => candle_core::bail!("{} of {} inputs", O::NAME, inputs.len()),
        };
    }
    let y = match inputs {
        [x] => x.apply_op1_no_bwd(&op)?,
        [x, w] => x.apply_op2_no_bwd(w, &op)?,
        [x, w, b] => x.apply_op3_no_bwd(w, b, &op)?,
        _ => candle_core::bail!("{} of {} inputs", O::NAME, inputs.len()),
    };
    let (kept, output): (Vec<Tensor>, _) = match O::KEEPS {
        Keeps::Nothing => (Vec::new(), None),
        Keeps::Inputs => (inputs.iter().map(|&x| x.clone()).collect(), None),
        Keeps::InputsAndOutput => (inputs.iter().map(|&x| x.clone()).collect(), Some(y.clone())),
    };
    push_backward(O::NAME, inputs, &y, move |dy| {
        let inputs: Vec<&Tensor> = kept.iter().collect();
        op.0.backward(Kept::new(&inputs, output.as_ref()), dy)
    });
    Ok(y)
}

/// An operation as candle's graph knows it.
struct CandleOp<O>(O);

impl<O: Operation> CandleOp<O> {
    fn forward(&self, inputs: &[Input]) -> Result<(CpuStorage, Shape)> {
        let (y, shape) = self.0.forward(inputs)?;
        Ok((CpuStorage::F32(y), shape))
    }

    fn backward<const N: usize>(
        &self,
        inputs: [&Tensor; N],
        y: &Tensor,
        dy: &Tensor,
    ) -> Result<[Option<Tensor>; N]> {
        let gradients = self.0.backward(Kept::new(&inputs, Some(y)), dy)?;
        match gradients.try_into() {
            Ok(gradients) => Ok(gradients),
            Err(_) => candle_core::bail!("{}: a gradient for each of {N} inputs", O::NAME),
        }
    }
}

impl<O: Operation> CustomOp1 for CandleOp<O> {
    fn name(&self) -> &'static str {
        O::NAME
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        self.forward(&[(x, layout)])
    }

    fn bwd(&self, x: &Tensor, y: &Tensor, dy: &Tensor) -> Result<Option<Tensor>> {
        let [dx] = self.backward([x], y, dy)?;
        Ok(dx)
    }
}

impl<O: Operation> CustomOp2 for CandleOp<O> {
    fn name(&self) -> &'static str {
        O::NAME
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        lx: &Layout,
        w: &CpuStorage,
        lw: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.forward(&[(x, lx), (w, lw)])
    }

    fn bwd(
        &self,
        x: &Tensor,
        w: &Tensor,
        y: &Tensor,
        dy: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        self.backward([x, w], y, dy).map(Into::into)
    }
}

impl<O: Operation> CustomOp3 for CandleOp<O> {
    fn name(&self) -> &'static str {
        O::NAME
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        lx: &Layout,
        w: &CpuStorage,
        lw: &Layout,
        b: &CpuStorage,
        lb: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.forward(&[(x, lx), (w, lw), (b, lb)])
    }

    fn bwd(
        &self,
        x: &Tensor,
        w: &Tensor,
        b: &Tensor,
        y: &Tensor,
        dy: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        self.backward([x, w, b], y, dy).map(Into::into)
    }
}
