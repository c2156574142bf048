//! Copying: how much better a model predicts what it has read once already, and which heads write the copied token.

use crate::attribution::{LogitDirection, check_defined, deviation};
use crate::error::Result;
use crate::repeated::RepeatedTokens;
use crate::subject::{Subject, floats};
use crate::surprisal::logprob;
use candle_core::Tensor;
use minigpt_model::{BlockSite, Pass, Recording, Site};
use serde::Serialize;

/// How well a model repeats random tokens that it has read once. A model that knows nothing has ln V in both halves; so has one
/// that knows language and can't copy, or more.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Copying {
    /// The mean loss of the first half's tokens but the first, in nats.
    pub first_half_loss: f64,
    /// The mean loss of the second half's tokens, all of which the first half could tell.
    pub second_half_loss: f64,
}

/// # Shapes
/// - `logits`: (B, T, V)
pub(crate) fn losses(logits: &Tensor, repeated: &RepeatedTokens) -> Result<Copying> {
    let (mut first, mut second) = ((0.0, 0), (0.0, 0));
    for (row, ids) in repeated.sequences.iter().enumerate() {
        let logits = logits.get(row)?;
        for (at, &id) in ids.iter().enumerate().skip(1) {
            let loss = -logprob(&floats(&logits.get(at - 1)?)?, id);
            // The repeated first token of the second half can't be foreseen by anybody who does not count.
            let half = match at.cmp(&repeated.distance) {
                std::cmp::Ordering::Less => &mut first,
                std::cmp::Ordering::Equal => continue,
                std::cmp::Ordering::Greater => &mut second,
            };
            *half = (half.0 + loss, half.1 + 1);
        }
    }
    let mean = |(sum, count): (f64, usize)| sum / count.max(1) as f64;
    Ok(Copying { first_half_loss: mean(first), second_half_loss: mean(second) })
}

/// What each head adds to the logit of the token that comes when the text repeats, over what it adds to a token on average;
/// the mean over the second half of the first sequence, by layer and head. None where attribution is not defined.
pub(crate) fn copied(subject: &Subject, repeated: &RepeatedTokens) -> Result<Option<Vec<f64>>> {
    let config = subject.config();
    if check_defined(config).is_err() {
        return Ok(None);
    }
    let ids = &repeated.sequences[0];
    let end = subject.residual_before(config.n_layer);
    let z = |layer| Site::Block(layer, BlockSite::Z);
    let mut seen = Recording::of((0..config.n_layer).map(z).chain([end]));
    subject.gpt.forward(&subject.gpt.ids(&[ids])?, &Pass::new().with_hook(&mut seen))?;
    let kept = seen.into_kept();
    let rows = |site: &Site| kept.get(site).map_or(Ok(Vec::new()), floats);
    let (ends, width, queries) = (rows(&end)?, config.n_embd, repeated.distance..ids.len() - 1);
    let average = LogitDirection::average(subject)?;
    // The direction of each query's token over the average one, divided by the deviation that the final norm meets there.
    let directions = queries.clone().map(|query| {
        let sigma = deviation(&ends[query * width..][..width], config.layer_norm_epsilon);
        let direction = LogitDirection::of(subject, ids[query + 1])?;
        Ok(direction.minus(&average).into_iter().map(|x| (x / sigma) as f32).collect::<Vec<f32>>())
    });
    let directions: Vec<Vec<f32>> = directions.collect::<Result<_>>()?;
    let directions =
        Tensor::from_vec(directions.concat(), (queries.len(), width), &candle_core::Device::Cpu)?;

    let mut copied = Vec::with_capacity(config.n_layer * config.n_head);
    for layer in 0..config.n_layer {
        let name = format!("h.{layer}.attn.c_proj.weight");
        let c_proj = subject.gpt.view().tensors.need_plain(&name)?; // (C, C), [in, out]
        let c_proj = c_proj.to_device(&candle_core::Device::Cpu)?.to_dtype(candle_core::DType::F32)?;
        let before = floats(&directions.matmul(&c_proj.t()?)?)?; // (queries, C): what each element of z adds
        let z = rows(&z(layer))?;
        let mut sums = vec![0.0; config.n_head];
        for (query, before) in queries.clone().zip(before.chunks(width)) {
            for (at, (z, before)) in z[query * width..][..width].iter().zip(before).enumerate() {
                sums[at / config.head_width()] += f64::from(*z) * f64::from(*before);
            }
        }
        copied.extend(sums.iter().map(|sum| sum / queries.len() as f64));
    }
    Ok(Some(copied))
}
