//! The embedding turns tokens into vectors: a row of a table for each token, and something that tells its
//! position.

use crate::config::{Config, PositionEmbedding};
use crate::hooks::Site;
use crate::pass::Pass;
use crate::weights::{Tensors, Weight};
use candle_core::{DType, Device, Result, Tensor};
use minigpt_kernels as ops;

/// Token embedding and positions.
#[derive(Debug, Clone)]
pub(crate) struct Embedding {
    wte: Weight,
    width: usize,
    scale: Option<f64>,
    positions: Positions,
    dropout: f64,
}

#[derive(Debug, Clone)]
enum Positions {
    /// A learned table (`block_size`, C), added to the tokens.
    Learned(Tensor),
    /// A table (`block_size`, C) of sines and cosines, added to the tokens.
    Fixed(Tensor),
    /// Nothing to add: positions are rotary, or there are none.
    NotAdded,
}

impl Embedding {
    pub fn load(weights: &dyn Tensors, config: &Config) -> Result<Self> {
        let wte = weights.need("wte.weight")?;
        let positions = match config.position_embedding {
            PositionEmbedding::Learned => Positions::Learned(weights.need_plain("wpe.weight")?),
            PositionEmbedding::Sinusoidal => {
                let table = sinusoidal(config.block_size, config.n_embd, wte.device())?;
                Positions::Fixed(table.to_dtype(wte.dtype())?)
            }
            PositionEmbedding::Rope | PositionEmbedding::None => Positions::NotAdded,
        };
        let scale = config.scale_embeddings.then(|| (config.n_embd as f64).sqrt());
        Ok(Self { wte, width: config.n_embd, scale, positions, dropout: config.embd_pdrop })
    }

    /// The token table (V, C), which a tied head shares.
    pub fn table(&self) -> &Weight {
        &self.wte
    }

    /// Looks up tokens and adds positions.
    ///
    /// # Shapes
    /// - `ids`: (B, T), u32; output: (B, T, C)
    pub fn forward(&self, ids: &Tensor, pass: &Pass) -> Result<Tensor> {
        let (b, t) = ids.dims2()?;
        let x = self.wte.rows(&ids.flatten_all()?)?; // (B·T, C)
        let mut x = ops::reshape(&x, (b, t, self.width))?; // (B, T, C)
        if let Some(scale) = self.scale {
            x = ops::scale(&x, scale)?;
        }
        if let Some(positions) = self.added_positions(&pass.starts(b), t)? {
            x = ops::add(&x, &ops::reshape(&positions, (b, t, self.width))?)?;
        }
        pass.at(Site::Embed, pass.dropped(Site::Embed, self.dropout, x)?)
    }

    /// The vectors of T positions from the start of each row, if positions are added.
    ///
    /// # Shapes
    /// - output: (B·T, C)
    fn added_positions(&self, starts: &[usize], t: usize) -> Result<Option<Tensor>> {
        let ids = |table: &Tensor| Tensor::new(ops::positions(starts, t, table.dim(0)?), table.device());
        Ok(match &self.positions {
            Positions::Learned(table) => Some(ops::embedding(table, &ids(table)?)?),
            // A constant: gradients end here.
            Positions::Fixed(table) => Some(ops::constant(&ops::embedding_composed(table, &ids(table)?)?)),
            Positions::NotAdded => None,
        })
    }
}

/// PE(p, 2i) = sin(p / 10000^(2i/d)), PE(p, 2i+1) = cos(p / 10000^(2i/d)).
fn sinusoidal(block_size: usize, n_embd: usize, device: &Device) -> Result<Tensor> {
    let rows = (0..block_size).flat_map(|p| (0..n_embd).map(move |j| sinusoid(p, j, n_embd)));
    Tensor::from_vec(rows.collect::<Vec<f32>>(), (block_size, n_embd), device)
}

/// One element of the table of sinusoidal positions: position `p`, column `j` of `n_embd`.
pub fn sinusoid(p: usize, j: usize, n_embd: usize) -> f32 {
    let angle = p as f64 / 10_000f64.powf((j - j % 2) as f64 / n_embd as f64);
    (if j.is_multiple_of(2) { angle.sin() } else { angle.cos() }) as f32
}

/// The angles of rotary positions, as cosines and sines. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Rotations {
    cos: Tensor,
    sin: Tensor,
}

impl Rotations {
    /// The angles for all layers, or `None` if the model's positions are not rotary. Position p rotates pair
    /// i by p / 10000^(2i/D).
    pub fn of(config: &Config, dtype: DType, device: &Device) -> Result<Option<Self>> {
        if config.position_embedding != PositionEmbedding::Rope {
            return Ok(None);
        }
        let (block_size, head_width) = (config.block_size, config.head_width());
        let half = head_width / 2;
        let angle = |p: usize, i: usize| p as f64 / 10_000f64.powf(2.0 * i as f64 / head_width as f64);
        let table = |f: fn(f64) -> f64| {
            let data: Vec<f32> =
                (0..block_size).flat_map(|p| (0..half).map(move |i| f(angle(p, i)) as f32)).collect();
            Tensor::from_vec(data, (block_size, half), device)?.to_dtype(dtype)
        };
        Ok(Some(Self { cos: table(f64::cos)?, sin: table(f64::sin)? }))
    }

    /// Rotates queries and keys inside the joint projection (B, T, 3·C).
    pub fn apply(&self, qkv: &Tensor, n_head: usize, first: &[usize]) -> Result<Tensor> {
        ops::rope(qkv, n_head, &self.cos, &self.sin, first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sinusoids_start_with_zeros_and_ones_and_slow_down_along_the_width() {
        let table = sinusoidal(3, 4, &Device::Cpu).unwrap().to_vec2::<f32>().unwrap();
        assert_eq!(table[0], [0.0, 1.0, 0.0, 1.0]);
        let want = [1f64.sin(), 1f64.cos(), 0.01f64.sin(), 0.01f64.cos()];
        for (got, want) in table[1].iter().zip(want) {
            assert!((f64::from(*got) - want).abs() < 1e-7);
        }
    }
}
