//! The logit lens: what the model would say if it stopped after a layer. The residual stream there goes through the final
//! norm, whose mean and deviation are taken anew, and the output head. Models without a final norm go without it.

use crate::error::Result;
use crate::subject::{LikelyToken, Subject, floats};
use candle_core::Tensor;
use minigpt_model::{Hook, Site};
use serde::Serialize;

/// Positions that go through the head at a time: their logits, not those of a whole text, are in memory.
const CHUNK: usize = 32;

/// What every layer would say at every position.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lens {
    /// `lens[layer][position]`: candidates, likeliest first. Layer 0 is the embedding, layer n what block n − 1 left; the
    /// last are the model's own.
    pub lens: Vec<Vec<Vec<LikelyToken>>>,
    /// `lens_logits[layer][position]`, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lens_logits: Option<Vec<Vec<Vec<f32>>>>,
}

/// What to show of each layer and position.
#[derive(Debug, Clone, Copy)]
pub struct LensOptions {
    /// How many candidates.
    pub top: usize,
    /// Whether all logits are wanted too: (layers + 1) × tokens × vocabulary numbers.
    pub logits: bool,
}

struct LensHook<'a> {
    subject: &'a Subject<'a>,
    options: LensOptions,
    lens: Lens,
}

/// What every layer would say at every position of a text.
pub fn lens(subject: &Subject, ids: &[u32], options: LensOptions) -> Result<Lens> {
    subject.check_text(ids)?;
    let lens = Lens { lens: Vec::new(), lens_logits: options.logits.then(Vec::new) };
    let mut hook = LensHook { subject, options, lens };
    subject.logits(ids, &mut hook)?;
    Ok(hook.lens)
}

impl LensHook<'_> {
    /// # Shapes
    /// - `residual`: (1, T, C)
    fn look(&mut self, residual: &Tensor) -> Result<()> {
        let residual = residual.squeeze(0)?; // (T, C)
        let (t, vocabulary) = (residual.dim(0)?, self.subject.config().vocab_size);
        let (mut candidates, mut all) = (Vec::with_capacity(t), Vec::new());
        for from in (0..t).step_by(CHUNK) {
            let part = residual.narrow(0, from, CHUNK.min(t - from))?;
            for logits in floats(&self.subject.gpt.unembed(&part)?)?.chunks(vocabulary) {
                candidates.push(self.subject.likeliest(logits, self.options.top));
                if self.options.logits {
                    all.push(logits.to_vec());
                }
            }
        }
        self.lens.lens.push(candidates);
        if let Some(logits) = &mut self.lens.lens_logits {
            logits.push(all);
        }
        Ok(())
    }
}

impl Hook for LensHook<'_> {
    fn wants(&self, site: Site) -> bool {
        (0..=self.subject.config().n_layer).any(|layer| site == self.subject.residual_before(layer))
    }

    fn at(&mut self, _: Site, x: &Tensor) -> candle_core::Result<Option<Tensor>> {
        self.look(x).map_err(candle_core::Error::wrap)?;
        Ok(None)
    }
}
