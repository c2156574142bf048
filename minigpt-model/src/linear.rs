//! The linear layer and the layer norm: the parts that the other layers are made of.

use crate::hooks::Site;
use crate::pass::Pass;
use crate::weights::{Tensors, Weight};
use candle_core::{Result, Tensor};
use minigpt_kernels::{self as ops, WeightLayout};

/// A linear layer: `x · W + b`.
///
/// The weight is stored `[in, out]`, as in GPT-2's files; PyTorch's `nn.Linear` has it the other way round.
///
/// # Example
/// ```
/// use minigpt_model::{Device, Linear, Tensor};
///
/// let weight = Tensor::new(&[[1f32, 0.0, 2.0], [0.0, 1.0, 1.0]], &Device::Cpu)?; // (in, out)
/// let bias = Tensor::new(&[0.5f32, 0.0, 0.0], &Device::Cpu)?;
/// let x = Tensor::new(&[[3f32, 4.0]], &Device::Cpu)?;
/// let y = Linear::new(weight, Some(bias)).forward(&x)?;
/// assert_eq!(y.to_vec2::<f32>()?, [[3.5, 4.0, 10.0]]);
/// # Ok::<(), minigpt_model::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Linear {
    weight: Weight,
    bias: Option<Tensor>,
}

impl Linear {
    /// Creates a layer from its weight (in, out) and its bias (out).
    pub fn new(weight: Tensor, bias: Option<Tensor>) -> Self {
        Self { weight: Weight::Plain(weight), bias }
    }

    /// The weight (in, out), unless it is quantized or still in its file.
    pub fn weight(&self) -> Option<&Tensor> {
        match &self.weight {
            Weight::Plain(weight) => Some(weight),
            Weight::Mapped(_) | Weight::Quantized(_) => None,
        }
    }

    /// The bias (out), if there is one.
    pub fn bias(&self) -> Option<&Tensor> {
        self.bias.as_ref()
    }

    pub(crate) fn load(weights: &dyn Tensors, name: &str) -> Result<Self> {
        let weight = weights.need(&format!("{name}.weight"))?;
        Ok(Self { weight, bias: weights.plain(&format!("{name}.bias"))? })
    }

    /// Applies the layer to the last dimension.
    ///
    /// # Shapes
    /// - `x`: (…, in); output: (…, out)
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.weight.linear(x, WeightLayout::InOut, self.bias.as_ref())
    }
}

/// Layer norm: each vector is shifted to mean 0, scaled to variance 1, multiplied by a learned weight and,
/// with a bias, shifted again.
///
/// # Example
/// ```
/// use minigpt_model::{Device, LayerNorm, Pass, Tensor};
///
/// let weight = Tensor::new(&[1f32, 1.0, 2.0], &Device::Cpu)?;
/// let norm = LayerNorm::new(weight, None, 1e-5);
/// let x = Tensor::new(&[[1f32, 2.0, 3.0]], &Device::Cpu)?;
/// let y = norm.forward(&x, &Pass::new())?.to_vec2::<f32>()?;
/// assert!((y[0][0] + 1.2247).abs() < 1e-4 && y[0][1].abs() < 1e-4 && (y[0][2] - 2.4495).abs() < 1e-4);
/// # Ok::<(), minigpt_model::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct LayerNorm {
    weight: Tensor,
    bias: Option<Tensor>,
    eps: f64,
    /// Where hooks see the output. A norm outside of a model has no site.
    site: Option<Site>,
}

impl LayerNorm {
    /// Creates a norm from its weight (C) and its bias (C). GPT-2's `eps` is 1e-5.
    pub fn new(weight: Tensor, bias: Option<Tensor>, eps: f64) -> Self {
        Self { weight, bias, eps, site: None }
    }

    pub(crate) fn load(weights: &dyn Tensors, name: &str, eps: f64, site: Site) -> Result<Self> {
        let weight = weights.need_plain(&format!("{name}.weight"))?;
        let bias = weights.plain(&format!("{name}.bias"))?;
        Ok(Self { weight, bias, eps, site: Some(site) })
    }

    /// Normalizes the last dimension.
    ///
    /// # Shapes
    /// - `x`: (…, C); output: (…, C)
    pub fn forward(&self, x: &Tensor, pass: &Pass) -> Result<Tensor> {
        let y = ops::layer_norm(x, &self.weight, self.bias.as_ref(), self.eps)?;
        match self.site {
            Some(site) => pass.at(site, y),
            None => Ok(y),
        }
    }
}
