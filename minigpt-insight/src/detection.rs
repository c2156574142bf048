//! A second opinion on heads: how well attention weights match a pattern that a kind of head would show, as the
//! `detect_head` of transformer_lens measures it.

use serde::Serialize;

/// How well a head's weights match a pattern, in two measures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Detection {
    /// Σ a·d / Σ a: the share of attention on the pattern's places.
    pub mul: f64,
    /// 1 − Σ |a − d| / T: 1 where the weights are the pattern, down to −1.
    pub abs: f64,
}

/// The three patterns that heads are held against.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Detections {
    /// Each token looks at the one before.
    pub previous: Detection,
    /// Each token looks at the earlier places of the same token.
    pub duplicate: Detection,
    /// Each token looks at what came behind the earlier places of the same token.
    pub induction: Detection,
}

impl Detections {
    /// How well the weights (T, T) of a head over these tokens match.
    pub fn of(pattern: &[f32], ids: &[u32]) -> Self {
        let same = |query: usize, key: usize| key < query && ids[query] == ids[key];
        Self {
            previous: detect(pattern, ids.len(), |query, key| query == key + 1),
            duplicate: detect(pattern, ids.len(), same),
            induction: detect(pattern, ids.len(), |query, key| key > 0 && same(query, key - 1)),
        }
    }

    pub(crate) fn add(&mut self, other: &Self, share: f64) {
        let pairs = [
            (&mut self.previous, other.previous),
            (&mut self.duplicate, other.duplicate),
            (&mut self.induction, other.induction),
        ];
        for (sum, other) in pairs {
            sum.mul += share * other.mul;
            sum.abs += share * other.abs;
        }
    }
}

fn detect(pattern: &[f32], t: usize, expected: impl Fn(usize, usize) -> bool) -> Detection {
    let (mut on, mut all, mut off) = (0.0, 0.0, 0.0);
    for (query, weights) in pattern.chunks(t).enumerate() {
        for (key, &weight) in weights[..=query].iter().enumerate() {
            let (weight, expected) = (f64::from(weight), f64::from(u8::from(expected(query, key))));
            on += weight * expected;
            all += weight;
            off += (weight - expected).abs();
        }
    }
    Detection { mul: on / all, abs: 1.0 - off / t as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_induction_head_is_recognised() {
        // a b a b: the second a looks behind the first one, the second b behind the first b, at the second a.
        let ids = [7, 8, 7, 8];
        let pattern = [1., 0., 0., 0., 1., 0., 0., 0., 0., 1., 0., 0., 0., 0., 1., 0.];
        let Detections { induction, previous, duplicate } = Detections::of(&pattern, &ids);
        assert_eq!(induction.mul, 0.5, "the first two tokens have nothing to repeat");
        assert_eq!(induction.abs, 0.5);
        assert_eq!(previous.mul, 0.75);
        assert_eq!(duplicate.mul, 0.0);
    }
}
