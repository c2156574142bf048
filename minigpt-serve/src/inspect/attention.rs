//! Attention as it travels: one head whole in f16, all heads of a layer small in bytes; and one head's vectors.

use super::encode::base64;
use crate::problem::Problem;
use half::f16;
use minigpt_insight::Subject;
use minigpt_model::{BlockSite, Recording, Site};
use serde_json::{Value, json};

/// Rows of weights in f16, little-endian.
pub(super) fn halves(rows: &[Vec<f32>]) -> Vec<u8> {
    rows.iter().flatten().flat_map(|&weight| f16::from_f32(weight).to_le_bytes()).collect()
}

/// Heads with at most `size` cells along a side; a cell has the greatest weight of those that it stands for, as 255·√weight, so
/// that small weights keep their differences.
pub(super) fn small(heads: &[Vec<Vec<f32>>], size: usize) -> Vec<u8> {
    let t = heads.first().map_or(0, Vec::len);
    let side = t.min(size);
    let mut bytes = vec![0u8; heads.len() * side * side];
    for (head, cells) in heads.iter().zip(bytes.chunks_mut((side * side).max(1))) {
        for (query, row) in head.iter().enumerate() {
            for (key, &weight) in row.iter().enumerate() {
                let cell = &mut cells[query * side / t * side + key * side / t];
                *cell = (*cell).max((255.0 * weight.max(0.0).sqrt()).round() as u8);
            }
        }
    }
    bytes
}

/// Queries, keys, values and mixes of one head at all positions.
pub(super) fn one_head(subject: &Subject, ids: &[u32], layer: usize, head: usize) -> Result<Value, Problem> {
    subject.check_text(ids)?;
    subject.check_layer(layer)?;
    subject.check_head(head)?;
    let sites = [BlockSite::Q, BlockSite::K, BlockSite::V, BlockSite::Z].map(|site| Site::Block(layer, site));
    let mut seen = Recording::of(sites);
    subject.logits(ids, &mut seen)?;
    let mut numbers = sites.iter().enumerate().map(|(at, &site)| -> minigpt_insight::Result<String> {
        let x = seen.get(site).ok_or(minigpt_insight::Undefined::NotReached(site))?;
        // (1, H, T, D), and z (1, T, H, D).
        let axis = if at == 3 { 2 } else { 1 };
        let x = x.narrow(axis, head, 1)?.to_dtype(candle_core::DType::F32)?.flatten_all()?;
        Ok(base64::floats(&x.to_vec1::<f32>()?))
    });
    let mut next = || numbers.next().transpose().map(Option::unwrap_or_default);
    Ok(
        json!({ "layer": layer, "head": head, "width": subject.config().head_width(), "q": next()?, "k": next()?, "v": next()?, "z": next()? }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_map_has_the_greatest_weight_of_each_cell() {
        let head = vec![
            vec![1.0, 0.0, 0.0, 0.0],
            vec![0.25, 0.75, 0.0, 0.0],
            vec![0.0, 0.0, 1.0, 0.0],
            vec![0.0, 0.04, 0.0, 0.96],
        ];
        assert_eq!(small(std::slice::from_ref(&head), 2), [255, 0, 51, 255]);
        assert_eq!(small(&[head], 9).len(), 16);
        assert!(small(&[], 4).is_empty());
    }

    #[test]
    fn halves_are_little_endian() {
        assert_eq!(halves(&[vec![1.0, 0.5]]), [0x00, 0x3c, 0x00, 0x38]);
    }
}
