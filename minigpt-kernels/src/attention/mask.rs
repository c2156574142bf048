//! Which keys a query may see: as an argument of attention, and in the form that its kernel reads.

use candle_core::{Result, Storage, Tensor};

/// The keys that each query may see: all, those up to its own position, and of these only the allowed ones.
#[derive(Debug, Clone, Default)]
pub struct AttentionMask {
    /// The position of the first query of each batch row, if the mask is causal.
    causal: Option<Vec<usize>>,
    /// u8, broadcastable to (B, H, Tq, Tk).
    allowed: Option<Tensor>,
}

impl AttentionMask {
    /// Every key.
    pub fn all() -> Self {
        Self::default()
    }

    /// Query `i` of batch row `b` sees the keys 0 to `first[b] + i`: those up to its own position.
    pub fn causal(first: &[usize]) -> Self {
        Self { causal: Some(first.to_vec()), allowed: None }
    }

    /// Of these, only the keys where `allowed` (u8, broadcastable to (B, H, Tq, Tk)) is not 0.
    pub fn and(self, allowed: &Tensor) -> Result<Self> {
        let allowed = match &self.allowed {
            Some(other) => (other.ne(0u8)?.broadcast_mul(&allowed.ne(0u8)?))?,
            None => allowed.clone(),
        };
        Ok(Self { allowed: Some(allowed), ..self })
    }

    /// How many keys, counted from the first, a causal mask leaves to query `i` of batch row `b`.
    fn causal_keys(&self, b: usize, i: usize, tk: usize) -> usize {
        self.causal.as_ref().map_or(tk, |first| (first[b] + i + 1).min(tk))
    }

    /// 1 where a query may attend, 0 elsewhere, broadcastable to (B, H, Tq, Tk); `None` if it may attend everywhere.
    pub(super) fn tensor(&self, tq: usize, tk: usize, like: &Tensor) -> Result<Option<Tensor>> {
        let causal = self.causal.as_ref().map(|first| {
            let rows = (0..first.len()).flat_map(|b| (0..tq).map(move |i| (b, i)));
            let mask: Vec<u8> = rows
                .flat_map(|(b, i)| {
                    let keys = self.causal_keys(b, i, tk);
                    (0..tk).map(move |j| u8::from(j < keys))
                })
                .collect();
            Tensor::from_vec(mask, (first.len(), 1, tq, tk), like.device())
        });
        match (causal.transpose()?, &self.allowed) {
            (Some(causal), Some(allowed)) => Ok(Some(causal.broadcast_mul(&allowed.ne(0u8)?)?)),
            (causal, allowed) => Ok(causal.or_else(|| allowed.clone())),
        }
    }

    /// Calls `f` with the mask in the form in which each head reads it.
    pub(super) fn with_view<R>(
        &self,
        shape @ [_, _, _, tk]: [usize; 4],
        f: impl FnOnce(MaskView) -> R,
    ) -> Result<R> {
        let Some(allowed) = &self.allowed else { return Ok(f(MaskView { mask: self, tk, allowed: None })) };
        let allowed = allowed.broadcast_as(&shape[..])?;
        let (storage, layout) = allowed.storage_and_layout();
        let Storage::Cpu(storage) = &*storage else { candle_core::bail!("the mask is not on the CPU") };
        let elements = &storage.as_slice::<u8>()?[layout.start_offset()..];
        let strides = std::array::from_fn(|i| layout.stride()[i]);
        Ok(f(MaskView { mask: self, tk, allowed: Some((elements, strides)) }))
    }
}

/// The mask of all heads.
#[derive(Clone, Copy)]
pub(super) struct MaskView<'a> {
    mask: &'a AttentionMask,
    tk: usize,
    /// The elements of `allowed`, and its strides in (B, H, Tq, Tk).
    allowed: Option<(&'a [u8], [usize; 4])>,
}

impl MaskView<'_> {
    /// How many keys, counted from the first, queries 0 to `i` of batch row `b` need at most.
    pub fn keys(&self, b: usize, i: usize) -> usize {
        self.mask.causal_keys(b, i, self.tk)
    }

    /// Sets the scores of query `i` to negative infinity where it may not attend.
    pub fn hide(&self, b: usize, h: usize, i: usize, scores: &mut [f32]) {
        scores[self.keys(b, i)..].fill(f32::NEG_INFINITY);
        if let Some((allowed, [sb, sh, si, sj])) = self.allowed {
            let start = b * sb + h * sh + i * si;
            for (j, score) in scores.iter_mut().enumerate() {
                if allowed[start + j * sj] == 0 {
                    *score = f32::NEG_INFINITY;
                }
            }
        }
    }
}
