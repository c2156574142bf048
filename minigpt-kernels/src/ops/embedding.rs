//! Rows of a table by their ids.

use crate::operation::{Input, Keeps, Kept, Operation, apply};
use crate::tape::contiguous;
use crate::{floats, fused, gradient_buffers, with_floats};
use candle_core::{Result, Shape, Tensor};

/// The definition of [`embedding`].
pub fn embedding_composed(table: &Tensor, ids: &Tensor) -> Result<Tensor> {
    table.index_select(ids, 0)
}

/// The rows of a table, fused on the CPU.
///
/// # Shapes
/// - `table`: (V, C); `ids`: (N), u32; output: (N, C)
pub fn embedding(table: &Tensor, ids: &Tensor) -> Result<Tensor> {
    if !fused(table) {
        return embedding_composed(table, ids);
    }
    apply(Embedding { ids: ids.to_vec1()? }, &[&contiguous(table)?])
}

struct Embedding {
    ids: Vec<u32>,
}

impl Embedding {
    /// Adds each row of the gradient `dy` to the row of the table that it came from.
    fn add(&self, dtable: &mut [f32], dy: &[f32]) {
        let width = dy.len() / self.ids.len().max(1);
        for (&id, dy) in self.ids.iter().zip(dy.chunks(width.max(1))) {
            let row = &mut dtable[id as usize * width..][..width];
            row.iter_mut().zip(dy).for_each(|(row, dy)| *row += dy);
        }
    }
}

impl Operation for Embedding {
    const NAME: &'static str = "embedding";
    const KEEPS: Keeps = Keeps::Inputs;

    fn forward(&self, inputs: &[Input]) -> Result<(Vec<f32>, Shape)> {
        let (table, layout) = inputs[0];
        let (rows, width) = layout.shape().dims2()?;
        let table = floats(table, layout)?;
        if let Some(id) = self.ids.iter().find(|&&id| id as usize >= rows) {
            candle_core::bail!("row {id} of a table that has {rows}");
        }
        let mut y = Vec::with_capacity(self.ids.len() * width);
        self.ids.iter().for_each(|&id| y.extend_from_slice(&table[id as usize * width..][..width]));
        Ok((y, (self.ids.len(), width).into()))
    }

    fn backward(&self, kept: Kept, dy: &Tensor) -> Result<Vec<Option<Tensor>>> {
        let table = kept.input(0)?;
        with_floats([dy], |[dy]| {
            let add = |before: Option<Vec<f32>>| {
                let mut sum = before.unwrap_or_else(|| vec![0f32; table.elem_count()]);
                self.add(&mut sum, dy);
                sum
            };
            if gradient_buffers::collects(table) {
                gradient_buffers::accumulate(table, add);
                return Ok(vec![None]);
            }
            Ok(vec![Some(Tensor::from_vec(add(None), table.shape(), table.device())?)])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_gradients, assert_same, random};
    use candle_core::Device;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn fused_equals_composed(rows in 1usize..40, width in 1usize..20, n in 1usize..60, seed: u64) {
            let ids: Vec<u32> = (0..n).map(|i| ((i as u64 * 7919 + seed) % rows as u64) as u32).collect();
            let ids = Tensor::new(ids, &Device::Cpu).unwrap();
            let table = random(&[rows, width], seed);
            assert_same(&[table], |t| embedding(&t[0], &ids), |t| embedding_composed(&t[0], &ids), 1e-5);
        }
    }

    #[test]
    fn gradients_equal_finite_differences() {
        let ids = Tensor::new(&[2u32, 0, 2], &Device::Cpu).unwrap();
        assert_gradients(&[random(&[3, 4], 1)], |t| embedding(&t[0], &ids));
    }

    #[test]
    fn a_row_that_is_not_there_is_an_error() {
        let ids = Tensor::new(&[3u32], &Device::Cpu).unwrap();
        assert!(embedding(&random(&[3, 4], 1), &ids).is_err());
    }
}
