//! Activation patching: where does a model keep what makes two texts different? Two texts of equal length, a clean and a
//! corrupted one; what stood somewhere in the clean pass is put into the corrupted one, and one reads how much of the clean
//! answer comes back: (patched − corrupt) / (clean − corrupt) of the difference of two logits behind the last token.

use crate::error::{InvalidRequest, Result, Undefined};
use crate::subject::{Subject, last_row};
use candle_core::{DType, Tensor};
use minigpt_model::{BlockSite, Hook, Pass, Recording, Site};
use serde::Serialize;
use std::collections::BTreeMap;

/// Numbers that all rows of one pass may take: logits and what a block holds.
const MOST_NUMBERS: usize = 1 << 25;

/// How much of the clean answer comes back, by place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Patching {
    /// The token that the clean text leads to.
    pub answer: u32,
    /// Its name; none without a tokenizer.
    pub answer_token: Option<String>,
    /// The token that it is held against: what the corrupted text leads to.
    pub other: u32,
    /// Its name; none without a tokenizer.
    pub other_token: Option<String>,
    /// logit(answer) − logit(other) behind the clean text.
    pub clean: f64,
    /// The same behind the corrupted text.
    pub corrupt: f64,
    /// `[layer][position]`: the residual stream as it enters a block, at one position.
    pub layers_positions: Vec<Vec<f64>>,
    /// `[layer][head]`: a head's mix of values, at all positions.
    pub layers_heads: Vec<Vec<f64>>,
}

/// A hook that puts other values in the place of what stands at one site: `values` wherever `chosen` is not 0.
struct Patch<'a> {
    site: Site,
    values: &'a Tensor,
    chosen: Tensor,
}

impl Hook for Patch<'_> {
    fn wants(&self, site: Site) -> bool {
        site == self.site
    }

    fn at(&mut self, _: Site, x: &Tensor) -> candle_core::Result<Option<Tensor>> {
        let chosen = self.chosen.broadcast_as(x.shape())?;
        chosen.where_cond(&self.values.broadcast_as(x.shape())?, x).map(Some)
    }
}

/// A hook that puts recorded values in the place of whatever stands at their sites.
#[derive(Debug, Clone)]
pub struct Transplant(pub BTreeMap<Site, Tensor>);

impl Hook for Transplant {
    fn wants(&self, site: Site) -> bool {
        self.0.contains_key(&site)
    }

    fn at(&mut self, site: Site, _: &Tensor) -> candle_core::Result<Option<Tensor>> {
        Ok(self.0.get(&site).cloned())
    }
}

/// How much of the clean answer comes back when what stood at a place in the clean pass is put into the corrupted one. The
/// two tokens are the likeliest behind each text (of the corrupted one the likeliest that is not the answer), unless they are
/// given.
///
/// Takes about layers × (positions + heads) passes over a text. Positions before the first token in which the texts differ
/// are the same in both, and give 0.
pub fn patch(
    subject: &Subject,
    clean: &[u32],
    corrupt: &[u32],
    answer: Option<u32>,
    other: Option<u32>,
) -> Result<Patching> {
    let first = check_texts(subject, clean, corrupt)?;
    let config = subject.config();
    let sites = |layer| [subject.residual_before(layer), Site::Block(layer, BlockSite::Z)];
    let mut seen = Recording::of((0..config.n_layer).flat_map(sites));
    let clean_logits = last_row(&subject.logits(clean, &mut seen)?)?;
    let corrupt_logits = last_row(&subject.logits(corrupt, &mut Recording::default())?)?;
    let metric = Metric::new(subject, &clean_logits, &corrupt_logits, answer, other)?;
    let site = |site: Site| seen.get(site).ok_or(Undefined::NotReached(site));

    let (t, h) = (clean.len(), config.n_head);
    let (mut layers_positions, mut layers_heads) = (Vec::new(), Vec::new());
    for layer in 0..config.n_layer {
        let [residual, z] = sites(layer);
        let moved = patched(subject, corrupt, residual, site(residual)?, (t, first), &metric)?;
        layers_positions.push([vec![0.0; first], moved].concat());
        layers_heads.push(patched(subject, corrupt, z, site(z)?, (h, 0), &metric)?);
    }
    let Metric { answer, other, clean, corrupt } = metric;
    let (answer_token, other_token) = (subject.name(answer), subject.name(other));
    Ok(Patching { answer, answer_token, other, other_token, clean, corrupt, layers_positions, layers_heads })
}

/// The first token in which two texts differ.
fn check_texts(subject: &Subject, clean: &[u32], corrupt: &[u32]) -> Result<usize> {
    subject.check_text(clean)?;
    subject.check_text(corrupt)?;
    if clean.len() != corrupt.len() {
        let (clean, corrupt) = (clean.len(), corrupt.len());
        return Err(InvalidRequest::DifferentLengths { clean, corrupt }.into());
    }
    let first = clean.iter().zip(corrupt).position(|(a, b)| a != b);
    first.ok_or_else(|| InvalidRequest::SameTexts.into())
}

/// The difference of two logits, and its values in both passes.
struct Metric {
    answer: u32,
    other: u32,
    clean: f64,
    corrupt: f64,
}

impl Metric {
    fn new(
        subject: &Subject,
        clean: &[f32],
        corrupt: &[f32],
        answer: Option<u32>,
        other: Option<u32>,
    ) -> Result<Self> {
        [answer, other].into_iter().flatten().try_for_each(|id| subject.check_token(id))?;
        let answer = answer.unwrap_or_else(|| subject.likeliest(clean, 1)[0].id);
        let other = match other {
            Some(other) => other,
            // If both texts lead to the same token: the runner-up after the corrupted one.
            None => {
                let best = subject.likeliest(corrupt, 2);
                best.iter().find(|token| token.id != answer).map_or(answer, |token| token.id)
            }
        };
        if answer == other {
            let name = subject.name(answer).unwrap_or_default();
            return Err(InvalidRequest::SameAnswer { id: answer, name }.into());
        }
        let difference =
            |logits: &[f32]| f64::from(logits[answer as usize]) - f64::from(logits[other as usize]);
        let (clean, corrupt) = (difference(clean), difference(corrupt));
        if clean == corrupt {
            return Err(Undefined::EqualDifferences.into());
        }
        Ok(Self { answer, other, clean, corrupt })
    }

    fn share(&self, logits: &[f32]) -> f64 {
        let difference = f64::from(logits[self.answer as usize]) - f64::from(logits[self.other as usize]);
        (difference - self.corrupt) / (self.clean - self.corrupt)
    }
}

/// What comes back with each of the places `from..count` of a site put into the corrupted pass: positions of the residual
/// stream (1, T, C), or heads of z (1, T, H, D). A row of a batch is one place.
fn patched(
    subject: &Subject,
    corrupt: &[u32],
    site: Site,
    clean: &Tensor,
    (count, from): (usize, usize),
    metric: &Metric,
) -> Result<Vec<f64>> {
    let config = subject.config();
    let axis = clean.rank() - 2; // T of (1, T, C), H of (1, T, H, D)
    let a_row = corrupt.len() * (config.vocab_size + 8 * config.n_embd + config.inner());
    let rows = (MOST_NUMBERS / a_row.max(1)).max(1);
    let mut shares = Vec::new();
    for first in (from..count).step_by(rows) {
        let places: Vec<usize> = (first..count.min(first + rows)).collect();
        let chosen = places.iter().flat_map(|place| (0..count).map(move |at| u8::from(at == *place)));
        let mut shape = vec![places.len(), 1, 1, 1];
        shape.truncate(clean.rank());
        shape[axis] = count;
        let chosen = Tensor::from_vec(chosen.collect::<Vec<u8>>(), shape, clean.device())?;
        let mut hook = Patch { site, values: clean, chosen };
        let ids = subject.gpt.ids(&vec![corrupt; places.len()])?;
        let logits = subject.gpt.forward(&ids, &Pass::new().with_hook(&mut hook))?; // (B, T, V)
        let last = logits.narrow(1, corrupt.len() - 1, 1)?.squeeze(1)?.to_dtype(DType::F32)?; // (B, V)
        shares.extend(last.to_vec2::<f32>()?.iter().map(|logits| metric.share(logits)));
    }
    Ok(shares)
}
