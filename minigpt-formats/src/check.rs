//! Checks a conversion: the written model must compute the same as the original.

use crate::error::Result;
use candle_core::Tensor;
use minigpt_model::ModelView;
use minigpt_model::parameters::specs;

/// Why two models do not compute the same.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what the variants and fields are")]
pub enum CheckProblem {
    #[error("the two models have different shapes")]
    Shapes,
    #[error("a logit is {logit}: {culprit}")]
    Logit { logit: f32, culprit: Culprit },
    #[error(transparent)]
    NotFinite(#[from] Culprit),
    #[error("the written model computes something else: a logit differs by {difference}; nothing was kept")]
    Different { difference: f32 },
}

/// Where values come from that are not finite.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what the variants and fields are")]
pub enum Culprit {
    #[error("{name} of the model itself has values that are not finite")]
    Original { name: String },
    #[error(
        "{name} overflows in the element type that it was written in (its largest value is {largest}); nothing was kept, \
         choose a type with a larger range"
    )]
    Overflow { name: String, largest: f32 },
    #[error("all weights are finite, but the activations overflow")]
    Activations,
}

/// How far the logits of two models are apart. All of them are finite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogitsComparison {
    /// The largest difference of a logit.
    pub largest_difference: f32,
    /// The largest logit of the first model.
    pub largest_logit: f32,
}

/// Compares the logits of two models for a fixed prompt. A layer of each is in memory at a time.
///
/// # Errors
/// The models have different shapes; or a logit of either is not finite, and the error names the first tensor with such
/// values.
pub fn compare_logits(one: ModelView, other: ModelView) -> Result<LogitsComparison> {
    let length = one.config.block_size.min(32);
    let ids: Vec<u32> = (0..length).map(|i| ((i * 7919 + 11) % one.config.vocab_size) as u32).collect();
    if one.config.vocab_size != other.config.vocab_size || one.config.block_size != other.config.block_size {
        return Err(CheckProblem::Shapes.into());
    }
    let logits = |model: ModelView| -> Result<Vec<f32>> { Ok(model.logits(&ids)?.flatten_all()?.to_vec1()?) };
    let (first, second) = (logits(one)?, logits(other)?);
    // `f32::max` ignores NaN.
    if let Some(logit) = first.iter().chain(&second).find(|logit| !logit.is_finite()) {
        let culprit = not_finite(one, other)?.unwrap_or(Culprit::Activations);
        return Err(CheckProblem::Logit { logit: *logit, culprit }.into());
    }
    let difference = first.iter().zip(&second).fold(0f32, |most, (a, b)| most.max((a - b).abs()));
    let largest_logit = first.iter().fold(0f32, |most, a| most.max(a.abs()));
    Ok(LogitsComparison { largest_difference: difference, largest_logit })
}

/// Checks that a written model is finite where the original is, and computes the same, and returns the largest difference
/// of a logit. What fewer bits cost is returned, not judged; where nothing should change (`exact`), nothing may.
///
/// # Errors
/// See [`compare_logits`]; values that overflowed in writing; and a difference where there should be none.
pub fn check_written(original: ModelView, written: ModelView, exact: bool) -> Result<f32> {
    let LogitsComparison { largest_difference, largest_logit } = compare_logits(original, written)?;
    // A few tokens do not see every weight.
    if let Some(culprit) = overflow(original, written)? {
        return Err(CheckProblem::NotFinite(culprit).into());
    }
    if exact && largest_difference > 1e-4 * largest_logit.max(1.0) {
        return Err(CheckProblem::Different { difference: largest_difference }.into());
    }
    Ok(largest_difference)
}

/// The first tensor with values that are not finite: in the original, or since it was written.
fn not_finite(original: ModelView, written: ModelView) -> Result<Option<Culprit>> {
    for spec in specs(original.config) {
        if let Some(tensor) = original.tensors.plain(&spec.name)?
            && !is_finite(&tensor)?
        {
            return Ok(Some(Culprit::Original { name: spec.name }));
        }
    }
    overflow(original, written)
}

/// The first tensor that is finite in the original and not in the written model.
fn overflow(original: ModelView, written: ModelView) -> Result<Option<Culprit>> {
    for spec in specs(original.config) {
        let (Some(before), Some(after)) =
            (original.tensors.plain(&spec.name)?, written.tensors.plain(&spec.name)?)
        else {
            continue;
        };
        if !is_finite(&after)? && is_finite(&before)? {
            let largest = before.abs()?.flatten_all()?.max(0)?.to_scalar::<f32>()?;
            return Ok(Some(Culprit::Overflow { name: spec.name, largest }));
        }
    }
    Ok(None)
}

fn is_finite(tensor: &Tensor) -> candle_core::Result<bool> {
    // 0 · x is 0, or NaN where x is not finite.
    Ok(tensor.affine(0.0, 0.0)?.sum_all()?.to_scalar::<f32>()? == 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use minigpt_model::{Config, Device, Gpt, Weight};
    use std::collections::HashMap;

    /// A small model of which one element was set.
    fn with(name: &str, value: f32) -> Gpt {
        let config =
            Config { n_layer: 2, n_head: 2, n_embd: 8, block_size: 64, vocab_size: 20, ..Config::default() };
        let gpt = Gpt::new(config.clone(), 1, &Device::Cpu).unwrap();
        let mut weights: HashMap<String, Weight> = HashMap::new();
        for parameter in gpt.parameters() {
            let mut values = parameter.tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            if parameter.name == name
                && let Some(last) = values.last_mut()
            {
                *last = value;
            }
            let tensor = Tensor::from_vec(values, parameter.tensor.dims(), &Device::Cpu).unwrap();
            weights.insert(parameter.name, Weight::Plain(tensor));
        }
        Gpt::from_tensors(config, weights).unwrap()
    }

    fn error(original: &Gpt, written: &Gpt) -> String {
        check_written(original.view(), written.view(), false).unwrap_err().to_string()
    }

    /// Regression: `f32::max` dropped NaN, so that a broken conversion differed by 0.
    #[test]
    fn a_logit_that_is_not_finite_fails_on_either_side_and_names_the_tensor() {
        let whole = with("", 0.0);
        assert_eq!(check_written(whole.view(), whole.view(), true).unwrap(), 0.0);
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let broken = with("h.1.mlp.c_fc.weight", value);
            assert!(error(&whole, &broken).contains("h.1.mlp.c_fc.weight overflows"), "{value}");
            assert!(error(&broken, &whole).contains("h.1.mlp.c_fc.weight of the model itself"), "{value}");
            assert!(error(&broken, &broken).contains("h.1.mlp.c_fc.weight of the model itself"), "{value}");
        }
    }

    #[test]
    fn an_overflow_that_no_logit_shows_is_found() {
        // The last position is beyond the prompt.
        let (whole, broken) = (with("wpe.weight", 1.0), with("wpe.weight", f32::INFINITY));
        assert!(compare_logits(whole.view(), broken.view()).is_ok());
        assert!(error(&whole, &broken).contains("wpe.weight overflows"));
    }

    #[test]
    fn a_difference_is_an_error_only_where_there_should_be_none() {
        let (one, other) = (with("ln_f.weight", 1.0), with("ln_f.weight", 1.5));
        assert!(check_written(one.view(), other.view(), false).unwrap() > 1e-3);
        let error = check_written(one.view(), other.view(), true).unwrap_err().to_string();
        assert!(error.contains("computes something else"), "{error}");
    }
}
