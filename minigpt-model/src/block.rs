//! A transformer block: attention, then the MLP, each added to the residual stream.

use crate::attention::CausalSelfAttention;
use crate::config::{Config, NormPosition};
use crate::embedding::Rotations;
use crate::hooks::{BlockSite, Site};
use crate::linear::LayerNorm;
use crate::mlp::Mlp;
use crate::pass::{Pass, Residual};
use crate::weights::Tensors;
use candle_core::{Result, Tensor};

/// A transformer block, with the norms before (pre) or after (post) attention and MLP.
///
/// # Example
/// ```
/// use minigpt_model::{Config, DType, Device, Gpt, Pass, Tensor};
///
/// let shape = Config { n_layer: 1, n_head: 2, n_embd: 8, ..Config::default() };
/// let gpt = Gpt::new(shape, 1, &Device::Cpu)?;
/// let (block, pass) = (&gpt.blocks()[0], Pass::new());
/// let x = Tensor::ones((1, 3, 8), DType::F32, &Device::Cpu)?; // (B, T, C)
///
/// // The block by hand, from its parts:
/// let attended = (&x + block.attn().forward(&block.ln_1().forward(&x, &pass)?, &pass)?)?;
/// let y = (&attended + block.mlp().forward(&block.ln_2().forward(&attended, &pass)?, &pass)?)?;
/// assert_eq!(block.forward(&x, &pass)?.to_vec3::<f32>()?, y.to_vec3::<f32>()?);
/// # Ok::<(), minigpt_model::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Block {
    ln_1: LayerNorm,
    attn: CausalSelfAttention,
    ln_2: LayerNorm,
    mlp: Mlp,
    norm_position: NormPosition,
    layer: usize,
    dropout: f64,
}

impl Block {
    /// Creates a block from its parts, without dropout.
    pub fn new(
        ln_1: LayerNorm,
        attn: CausalSelfAttention,
        ln_2: LayerNorm,
        mlp: Mlp,
        norm_position: NormPosition,
    ) -> Self {
        Self { ln_1, attn, ln_2, mlp, norm_position, layer: 0, dropout: 0.0 }
    }

    pub(crate) fn load(
        weights: &dyn Tensors,
        layer: usize,
        config: &Config,
        rotations: Option<Rotations>,
    ) -> Result<Self> {
        let norm = |name: &str, site| {
            let site = Site::Block(layer, site);
            LayerNorm::load(weights, &format!("h.{layer}.{name}"), config.layer_norm_epsilon, site)
        };
        Ok(Self {
            ln_1: norm("ln_1", BlockSite::Ln1)?,
            attn: CausalSelfAttention::load(weights, layer, config, rotations)?,
            ln_2: norm("ln_2", BlockSite::Ln2)?,
            mlp: Mlp::load(weights, layer, config)?,
            norm_position: config.norm_position,
            layer,
            dropout: config.resid_pdrop,
        })
    }

    /// The norm around attention.
    pub fn ln_1(&self) -> &LayerNorm {
        &self.ln_1
    }

    /// The attention.
    pub fn attn(&self) -> &CausalSelfAttention {
        &self.attn
    }

    /// The norm around the MLP.
    pub fn ln_2(&self) -> &LayerNorm {
        &self.ln_2
    }

    /// The MLP.
    pub fn mlp(&self) -> &Mlp {
        &self.mlp
    }

    /// Adds attention and MLP to the residual stream.
    ///
    /// # Shapes
    /// - `x`: (B, T, C); output: (B, T, C), or in the last block of a cached pass (selected, 1, C)
    pub fn forward(&self, x: &Tensor, pass: &Pass) -> Result<Tensor> {
        let Self { ln_1, attn, ln_2, mlp, layer, .. } = self;
        let (after_attn, after_mlp) = (self.residual(BlockSite::AttnOut), self.residual(BlockSite::MlpOut));
        let selected = pass.select(*layer, x)?;
        match self.norm_position {
            NormPosition::Pre => {
                let x = pass.residual(&selected, attn.forward(&ln_1.forward(x, pass)?, pass)?, after_attn)?;
                pass.residual(&x, mlp.forward(&ln_2.forward(&x, pass)?, pass)?, after_mlp)
            }
            NormPosition::Post => {
                let x = ln_1.forward(&pass.residual(&selected, attn.forward(x, pass)?, after_attn)?, pass)?;
                ln_2.forward(&pass.residual(&x, mlp.forward(&x, pass)?, after_mlp)?, pass)
            }
        }
    }

    /// The residual connection after attention or the MLP.
    fn residual(&self, addend: BlockSite) -> Residual {
        let sum = if addend == BlockSite::AttnOut { BlockSite::ResidMid } else { BlockSite::ResidPost };
        let site = |site| Site::Block(self.layer, site);
        Residual { addend: site(addend), sum: site(sum), dropout: self.dropout }
    }
}
