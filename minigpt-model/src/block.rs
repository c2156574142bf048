//! A block: attention, then the MLP, each added to the residual stream, with the norms before or after.

use crate::attention::SelfAttention;
use crate::config::{Config, NormPosition};
use crate::embedding::Rotations;
use crate::hooks::{BlockSite, Site};
use crate::linear::Norm;
use crate::mlp::Mlp;
use crate::pass::{Pass, Residual};
use crate::weights::Tensors;
use candle_core::{Result, Tensor};

#[derive(Debug, Clone)]
pub(crate) struct Block {
    ln_1: Norm,
    attn: SelfAttention,
    ln_2: Norm,
    mlp: Mlp,
    norm_position: NormPosition,
    after_attn: Residual,
    after_mlp: Residual,
}

impl Block {
    pub fn load(
        weights: &dyn Tensors,
        layer: usize,
        config: &Config,
        rotations: Option<Rotations>,
    ) -> Result<Self> {
        let (eps, dropout) = (config.layer_norm_epsilon, config.resid_pdrop);
        let site = |site| Site::Block(layer, site);
        let (attn_out, resid_mid) = (site(BlockSite::AttnOut), site(BlockSite::ResidMid));
        let (mlp_out, resid_post) = (site(BlockSite::MlpOut), site(BlockSite::ResidPost));
        Ok(Self {
            ln_1: Norm::load(weights, &format!("h.{layer}.ln_1"), eps, site(BlockSite::Ln1))?,
            attn: SelfAttention::load(weights, layer, config, rotations)?,
            ln_2: Norm::load(weights, &format!("h.{layer}.ln_2"), eps, site(BlockSite::Ln2))?,
            mlp: Mlp::load(weights, layer, config)?,
            norm_position: config.norm_position,
            after_attn: Residual { addend: attn_out, sum: resid_mid, dropout },
            after_mlp: Residual { addend: mlp_out, sum: resid_post, dropout },
        })
    }

    /// # Shapes
    /// - `x`: (B, T, C); output: the same
    pub fn forward(&self, x: &Tensor, pass: &Pass) -> Result<Tensor> {
        let Self { ln_1, attn, ln_2, mlp, after_attn, after_mlp, .. } = self;
        match self.norm_position {
            NormPosition::Pre => {
                let x = pass.residual(x, attn.forward(&ln_1.forward(x, pass)?, pass)?, *after_attn)?;
                pass.residual(&x, mlp.forward(&ln_2.forward(&x, pass)?, pass)?, *after_mlp)
            }
            NormPosition::Post => {
                let x = ln_1.forward(&pass.residual(x, attn.forward(x, pass)?, *after_attn)?, pass)?;
                ln_2.forward(&pass.residual(&x, mlp.forward(&x, pass)?, *after_mlp)?, pass)
            }
        }
    }

    /// The block for the tokens alone that a pass keeps: of the others it leaves keys and values in the cache, which is all
    /// that later tokens ask for.
    ///
    /// # Shapes
    /// - `x`: (N, 1, C); output: (kept, 1, C)
    pub fn forward_kept(&self, x: &Tensor, pass: &Pass) -> Result<Tensor> {
        let Self { ln_1, attn, ln_2, mlp, after_attn, after_mlp, .. } = self;
        let kept = pass.kept(x)?;
        match self.norm_position {
            NormPosition::Pre => {
                let x =
                    pass.residual(&kept, attn.forward_kept(&ln_1.forward(x, pass)?, pass)?, *after_attn)?;
                pass.residual(&x, mlp.forward(&ln_2.forward(&x, pass)?, pass)?, *after_mlp)
            }
            NormPosition::Post => {
                let x =
                    ln_1.forward(&pass.residual(&kept, attn.forward_kept(x, pass)?, *after_attn)?, pass)?;
                ln_2.forward(&pass.residual(&x, mlp.forward(&x, pass)?, *after_mlp)?, pass)
            }
        }
    }
}
