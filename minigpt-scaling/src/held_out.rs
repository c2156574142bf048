//! How well runs are predicted that were kept from the fit: the largest ones, because those are what people want to know
//! before they train them.

use crate::fit::{FEWEST_SIZES, Fitter};
use crate::observation::{Observation, by_size};
use serde::Serialize;

/// The part of the runs that is held out by arithmetic.
const PART: usize = 5;
/// What five numbers need.
const FEWEST: usize = 6;

/// The error on runs that a fit has not seen, as parts of their loss.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HeldOut {
    /// How many runs.
    pub runs: usize,
    /// The mean size of the error.
    pub mean_error: f64,
    /// The largest one.
    pub worst_error: f64,
}

/// Three such tests; none where too few runs would be left to fit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HeldOutErrors {
    /// The fifth of the runs with the most arithmetic.
    pub largest_runs: Option<HeldOut>,
    /// All runs of the largest size.
    pub largest_size: Option<HeldOut>,
    /// The runs with the most tokens.
    pub longest_runs: Option<HeldOut>,
}

impl HeldOutErrors {
    pub(crate) fn of(runs: &[Observation], delta: f64) -> Self {
        let mut sorted = runs.to_vec();
        sorted.sort_by(|a, b| a.flops().total_cmp(&b.flops()));
        let kept = sorted.len() - sorted.len().div_ceil(PART);
        let limit = sorted.get(kept).map_or(f64::MAX, Observation::flops);
        let most = |of: fn(&Observation) -> f64| runs.iter().map(of).fold(0.0, f64::max);
        let (size, tokens) = (most(|run| run.parameters), most(|run| run.tokens));
        let test = |held: &dyn Fn(&Observation) -> bool| {
            let (test, train): (Vec<Observation>, Vec<Observation>) = runs.iter().partition(|run| held(run));
            judge(&train, &test, delta)
        };
        Self {
            largest_runs: test(&|run| run.flops() >= limit),
            largest_size: test(&|run| run.parameters >= size),
            longest_runs: test(&|run| run.tokens >= tokens),
        }
    }
}

fn judge(train: &[Observation], test: &[Observation], delta: f64) -> Option<HeldOut> {
    let mut counts: Vec<u64> = train.iter().map(|run| run.tokens.to_bits()).collect();
    counts.sort_unstable();
    counts.dedup();
    let fits = train.len() >= FEWEST && by_size(train).len() >= FEWEST_SIZES && counts.len() >= FEWEST_SIZES;
    if !fits || test.is_empty() {
        return None;
    }
    let (fitter, losses) = (Fitter::new(train, delta), train.iter().map(|run| run.loss).collect::<Vec<_>>());
    let law = fitter.law(&fitter.fit(&losses, 4, None).0, &losses);
    let error = |run: &Observation| (law.loss(run.parameters, run.tokens) / run.loss - 1.0).abs();
    let errors: Vec<f64> = test.iter().map(error).collect();
    Some(HeldOut {
        runs: test.len(),
        mean_error: errors.iter().sum::<f64>() / errors.len() as f64,
        worst_error: errors.into_iter().fold(0.0, f64::max),
    })
}
