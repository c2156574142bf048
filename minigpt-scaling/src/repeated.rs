//! Data that is seen more than once: the law of Muennighoff et al. 2023. A token that comes again is worth less each time, and
//! so is a parameter beyond what the different tokens can feed; both fade exponentially.

use crate::error::{Error, Result};
use crate::fit::{FitOptions, ScalingFit};
use crate::huber::Huber;
use crate::interval::{Estimate95, Interval};
use crate::law::Law;
use crate::observation::Observation;
use crate::random::Draws;
use serde::Serialize;

/// The authors' constants: E 1.87, A 521, B 1488, α = β = 0.353, R*_D 15.4, R*_N 5.3.
pub const MUENNIGHOFF: RepeatedLaw = RepeatedLaw {
    law: Law {
        e: 1.869_143_678_405_485_8,
        a: 520.824_951_659_918_7,
        b: 1_487.716_093_782_861,
        alpha: 0.352_659_6,
        beta: 0.352_659_6,
    },
    data_half_life: 15.387_756,
    size_half_life: 5.309_743,
};

/// Least number of runs with repeated data.
const FEWEST: usize = 4;
/// Where both constants are looked for.
const RANGE: (f64, f64) = (0.1, 1e4);
/// Places of the grid in each direction.
const GRID: usize = 16;
/// A run that saw no more than this many epochs repeats nothing.
const ONCE: f64 = 1.001;

/// L(N, D, U) = E + A·N'^(−α) + B·D'^(−β), with what size and data are worth in place of what they are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RepeatedLaw {
    /// The law of data that is seen once.
    pub law: Law,
    /// R*_D: repetitions after which a token that comes again has lost all but 1/e of its worth.
    #[serde(rename = "R_D")]
    pub data_half_life: f64,
    /// R*_N: the same for parameters beyond those that the different tokens feed.
    #[serde(rename = "R_N")]
    pub size_half_life: f64,
}

impl RepeatedLaw {
    /// The loss of so many parameters after so many tokens, of which so many are different.
    pub fn loss(&self, parameters: f64, tokens: f64, unique: f64) -> f64 {
        let Law { a, b, alpha, beta, .. } = self.law;
        let unique = unique.min(tokens);
        // The size that is best for as many tokens as are different.
        let balance = (alpha * a / (beta * b)).powf(1.0 / (alpha + beta));
        let fed = ((unique * balance).powf(beta / alpha) * balance).min(parameters);
        let worth = |base: f64, whole: f64, fading: f64| {
            let repeated = (whole / base - 1.0).max(0.0);
            base + base * fading * -(-repeated / fading).exp_m1()
        };
        self.law.loss(worth(fed, parameters, self.size_half_life), worth(unique, tokens, self.data_half_life))
    }
}

/// The law of repeated data of some runs.
#[derive(Debug, Clone)]
pub struct RepeatedFit {
    /// The law.
    pub repeated: RepeatedLaw,
    /// The fit of the runs that saw nothing twice.
    pub once: ScalingFit,
    /// R*_D with its interval.
    pub data_half_life: Estimate95,
    /// R*_N with its interval.
    pub size_half_life: Estimate95,
    /// The summed Huber loss of ln L of all runs.
    pub objective: f64,
    /// The median size of a residual.
    pub median_residual: f64,
    /// How many runs it was fitted to.
    pub runs: usize,
    /// Runs that were left out: a shorter run of the same size and data, or a smaller model of the same run, was better. A law
    /// in which more never hurts can't describe them.
    pub left_out: usize,
    draws: Vec<RepeatedLaw>,
}

impl RepeatedFit {
    /// Fits in two steps, as the authors do: the law of the runs that saw nothing twice first, then what repetition is worth.
    ///
    /// # Errors
    /// Too few runs of either kind (single pass, repeated).
    pub fn new(runs: &[Observation], options: &FitOptions) -> Result<Self> {
        let kept: Vec<Observation> = runs.iter().filter(|run| !overfits(run, runs)).copied().collect();
        let once: Vec<Observation> = runs.iter().filter(|run| run.epochs() <= ONCE).copied().collect();
        let again = kept.iter().filter(|run| run.epochs() > ONCE).count();
        if again < FEWEST {
            return Err(Error::TooFewRepeatedRuns { runs: again, fewest: FEWEST });
        }
        let once = ScalingFit::new(&once, options).map_err(|error| Error::SinglePassRuns(Box::new(error)))?;
        let huber = Huber(once.delta);
        let (values, objective) = fading(&kept, &once.law, huber, None);
        let mut random = Draws::new(options.seed, 4);
        let draws: Vec<RepeatedLaw> = once
            .draws
            .iter()
            .take(DRAWS)
            .map(|law| {
                let drawn: Vec<Observation> =
                    (0..kept.len()).map(|_| kept[random.place(kept.len())]).collect();
                with(*law, fading(&drawn, law, huber, Some(values)).0)
            })
            .collect();
        let repeated = with(once.law, values);
        let estimate = |value: f64, of: fn(&RepeatedLaw) -> f64| Estimate95 {
            value,
            interval: Interval::of(draws.iter().map(of)),
        };
        let mut residuals: Vec<f64> = kept.iter().map(|run| residual(&repeated, run).abs()).collect();
        residuals.sort_by(f64::total_cmp);
        Ok(Self {
            data_half_life: estimate(repeated.data_half_life, |law| law.data_half_life),
            size_half_life: estimate(repeated.size_half_life, |law| law.size_half_life),
            median_residual: residuals[residuals.len() / 2],
            runs: kept.len(),
            left_out: runs.len() - kept.len(),
            repeated,
            once,
            objective,
            draws,
        })
    }

    /// The loss of a run with the interval of the law.
    pub fn predict(&self, parameters: f64, tokens: f64, unique: f64) -> Estimate95 {
        let value = self.repeated.loss(parameters, tokens, unique);
        let interval = Interval::of(self.draws.iter().map(|law| law.loss(parameters, tokens, unique)));
        Estimate95 {
            value,
            interval: Interval { low: interval.low.min(value), high: interval.high.max(value) },
        }
    }
}

/// Draws behind the intervals of both constants.
const DRAWS: usize = 200;

fn with(law: Law, [data, size]: [f64; 2]) -> RepeatedLaw {
    RepeatedLaw { law, data_half_life: data.exp(), size_half_life: size.exp() }
}

/// Whether less would have been better: fewer tokens, or fewer parameters.
fn overfits(run: &Observation, runs: &[Observation]) -> bool {
    let same_data = |other: &&Observation| other.unique_tokens == run.unique_tokens && other.loss < run.loss;
    runs.iter().filter(same_data).any(|other| {
        (other.parameters == run.parameters && other.tokens < run.tokens)
            || (other.tokens == run.tokens && other.parameters < run.parameters)
    }) && run.epochs() > ONCE
}

fn residual(law: &RepeatedLaw, run: &Observation) -> f64 {
    law.loss(run.parameters, run.tokens, run.unique_tokens).ln() - run.loss.ln()
}

/// ln R*_D and ln R*_N that fit best: from the best place of a grid, or from a given one, by steps that become smaller.
fn fading(runs: &[Observation], law: &Law, huber: Huber, near: Option<[f64; 2]>) -> ([f64; 2], f64) {
    let (low, high) = (RANGE.0.ln(), RANGE.1.ln());
    let objective = |at: [f64; 2]| -> f64 {
        let law = with(*law, at);
        runs.iter().map(|run| huber.loss(residual(&law, run))).sum()
    };
    let place = |i: usize| low + (high - low) * i as f64 / (GRID - 1) as f64;
    let grid = (0..GRID).flat_map(|i| (0..GRID).map(move |j| [place(i), place(j)]));
    let starts: Vec<[f64; 2]> = near.map_or_else(|| grid.collect(), |near| vec![near]);
    let valued = starts.into_iter().map(|at| (at, objective(at)));
    let start = valued.min_by(|a, b| a.1.total_cmp(&b.1));
    let Some((mut best, mut value)) = start else { return ([0.0; 2], f64::NAN) };
    let mut step = (high - low) / GRID as f64;
    while step > 1e-4 {
        let around = [[step, 0.0], [-step, 0.0], [0.0, step], [0.0, -step], [step, step], [-step, -step]];
        let next = around
            .map(|[x, y]| [(best[0] + x).clamp(low, high), (best[1] + y).clamp(low, high)])
            .map(|at| (at, objective(at)))
            .into_iter()
            .min_by(|a, b| a.1.total_cmp(&b.1));
        match next {
            Some((at, lower)) if lower < value => (best, value) = (at, lower),
            _ => step /= 2.0,
        }
    }
    (best, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in the authors' README.
    #[test]
    fn the_authors_number_is_ours_to_the_last_digit() {
        let loss = MUENNIGHOFF.loss(6.34e9, 242e9, 25e9);
        assert!((loss - 2.225_644_088_998_447_7).abs() < 1e-14, "{loss}");
    }

    #[test]
    fn data_that_is_seen_once_has_the_plain_law_unless_the_model_is_too_large() {
        let law = MUENNIGHOFF;
        let small = 1e8;
        assert!((law.loss(small, 1e10, 1e10) - law.law.loss(small, 1e10)).abs() < 1e-12);
        assert!(law.loss(small, 4e10, 1e10) > law.law.loss(small, 4e10));
        assert!(law.loss(small, 4e10, 1e10) < law.loss(small, 1e10, 1e10));
        assert!(
            (law.loss(small, 1e15, 1e10) - law.loss(small, 1e16, 1e10)).abs() < 1e-9,
            "worth nothing at last"
        );
    }

    fn runs(noise: f64) -> Vec<Observation> {
        let law = RepeatedLaw {
            // A size that all runs are smaller than would feed on the fewest tokens.
            law: Law { e: 1.5, a: 400.0, b: 200.0, alpha: 0.35, beta: 0.35 },
            data_half_life: 12.0,
            size_half_life: 6.0,
        };
        let (mut runs, mut random) = (Vec::new(), Draws::new(5, 9));
        for i in 0..5 {
            for (unique, epochs) in
                [(1e5, 1), (2e5, 1), (4e5, 1), (8e5, 1), (1e5, 8), (1e5, 32), (1e5, 64), (2e5, 16)]
            {
                let (n, d) = (1e4 * 2_f64.powi(i), unique * f64::from(epochs));
                let loss = law.loss(n, d, unique) * (noise * random.normal()).exp();
                runs.push(Observation { parameters: n, tokens: d, unique_tokens: unique, loss });
            }
        }
        runs
    }

    #[test]
    fn what_repetition_is_worth_is_recovered_and_runs_that_overfit_are_left_out() {
        let mut runs = runs(1e-4);
        let options = FitOptions { draws: 40, ..FitOptions::default() };
        let fit = RepeatedFit::new(&runs, &options).unwrap();
        let data = fit.data_half_life;
        assert!((9.0..16.0).contains(&data.value) && data.interval.contains(12.0), "{data:?}");
        assert_eq!(fit.left_out, 0);
        let worse = Observation { tokens: 2e7, loss: 2.0 * runs[5].loss, ..runs[5] };
        runs.push(worse);
        assert_eq!(RepeatedFit::new(&runs, &options).unwrap().left_out, 1);
        let once: Vec<Observation> = runs.into_iter().filter(|run| run.epochs() <= 1.0).collect();
        assert!(RepeatedFit::new(&once, &options).unwrap_err().to_string().starts_with("0 runs saw data"));
    }
}
