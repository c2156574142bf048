//! The law of some runs: fitted, with an interval for every number, and judged by runs that it has not seen.

use crate::design::{Design, Theta};
use crate::error::{Error, Result};
use crate::held_out::HeldOutErrors;
use crate::huber::Huber;
use crate::interval::{Estimate95, Interval, Undetermined};
use crate::law::Law;
use crate::levenberg::minimise;
use crate::observation::{Observation, by_size, seed_noise};
use crate::projection::Projection;
use crate::random::Draws;
use serde::Serialize;

/// Five parameters, one run to validate on, one for the scatter.
pub const FEWEST_RUNS: usize = 7;
/// More runs would take too long to fit.
const MOST_RUNS: usize = 5000;
/// Least number of sizes, and of token counts.
pub const FEWEST_SIZES: usize = 3;
/// Where the Huber loss becomes linear when no run was repeated: as Hoffmann et al. have it.
const DELTA: f64 = 1e-3;
/// Noise that is smaller than this is an accident of two runs.
const LEAST_DELTA: f64 = 2e-4;
/// The δ with which a fit from far away begins.
const COARSE: f64 = 0.02;
/// Minima of the grid that are followed.
const STARTS: usize = 4;
/// The width of the kernel over the mean residual, but for its dependence on the number of runs: Silverman's rule, with
/// √(π/2) from the mean to the standard deviation.
const SMOOTH: f64 = 1.06 * 1.2533;
/// The part of the lowest loss below which a term is as good as nothing.
const NOTHING: f64 = 1e-3;

/// How to fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FitOptions {
    /// Huber's δ for residuals of ln L. Default: the scatter of repeated runs, or 0.001 without any.
    pub delta: Option<f64>,
    /// Bootstrap samples per interval.
    pub draws: usize,
    /// Random seed.
    pub seed: u64,
}

impl Default for FitOptions {
    fn default() -> Self {
        Self { delta: None, draws: 500, seed: 0 }
    }
}

/// Where the δ of a fit comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeltaSource {
    /// Given by the caller.
    Given,
    /// From runs that differ in nothing but the seed.
    SeedNoise,
    /// The default, because no run was repeated.
    Usual,
}

/// An interval for each number of a law.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LawIntervals {
    /// Of E.
    #[serde(rename = "E")]
    pub e: Interval,
    /// Of A.
    #[serde(rename = "A")]
    pub a: Interval,
    /// Of B.
    #[serde(rename = "B")]
    pub b: Interval,
    /// Of α.
    pub alpha: Interval,
    /// Of β.
    pub beta: Interval,
}

impl LawIntervals {
    fn of(draws: &[Law]) -> Self {
        let interval = |of: fn(&Law) -> f64| Interval::of(draws.iter().map(of));
        Self {
            e: interval(|law| law.e),
            a: interval(|law| law.a),
            b: interval(|law| law.b),
            alpha: interval(|law| law.alpha),
            beta: interval(|law| law.beta),
        }
    }

    /// In the order of [`Law::named`].
    pub fn all(&self) -> [Interval; 5] {
        [self.e, self.a, self.b, self.alpha, self.beta]
    }
}

/// A fitted law with its intervals and residuals.
#[derive(Debug, Clone)]
pub struct ScalingFit {
    /// The best law.
    pub law: Law,
    /// The summed Huber loss of ln L there.
    pub objective: f64,
    /// The residual from which the Huber loss is linear.
    pub delta: f64,
    /// Where δ comes from.
    pub delta_from: DeltaSource,
    /// The scatter of ln L over seeds, where runs were repeated.
    pub noise: Option<f64>,
    /// 95 % of the bootstrap.
    pub intervals: LawIntervals,
    /// How well runs are predicted that were kept from the fit.
    pub held_out: HeldOutErrors,
    /// The runs.
    pub runs: Vec<Observation>,
    /// ln L less the law's, of each run.
    pub residuals: Vec<f64>,
    /// The laws of the bootstrap.
    pub(crate) draws: Vec<Law>,
    /// The losses that each of them was fitted to.
    pub(crate) redrawn: Vec<Vec<f64>>,
    /// Residuals as large as those of new runs.
    pub(crate) scatter: Vec<f64>,
    pub(crate) seed: u64,
}

impl ScalingFit {
    /// Fits the law to runs.
    ///
    /// # Errors
    /// Too few runs, sizes or token counts to determine five parameters.
    pub fn new(runs: &[Observation], options: &FitOptions) -> Result<Self> {
        enough(runs)?;
        let noise = seed_noise(runs);
        let (delta, delta_from) = match (options.delta, noise) {
            (Some(delta), _) if delta > 0.0 && delta.is_finite() => (delta, DeltaSource::Given),
            (Some(delta), _) => {
                return Err(Error::Delta { delta });
            }
            (None, Some(noise)) => (noise.max(LEAST_DELTA), DeltaSource::SeedNoise),
            (None, None) => (DELTA, DeltaSource::Usual),
        };
        let fitter = Fitter::new(runs, delta);
        let losses: Vec<f64> = runs.iter().map(|run| run.loss).collect();
        let (theta, objective) = fitter.fit(&losses, STARTS, None);
        let law = fitter.law(&theta, &losses);
        let expected: Vec<f64> = runs.iter().map(|run| law.loss(run.parameters, run.tokens)).collect();
        let residuals: Vec<f64> =
            losses.iter().zip(&expected).map(|(loss, expected)| (loss / expected).ln()).collect();
        // A fit of five numbers takes as much of the scatter away.
        let count = runs.len() as f64;
        let inflation = (count / (count - 5.0)).sqrt() * wider_for_few(count - 5.0);
        let scatter: Vec<f64> = residuals.iter().map(|residual| inflation * residual).collect();
        let redrawn = redraw(&expected, &scatter, options);
        let draw = |losses: &Vec<f64>| fitter.law(&fitter.fit(losses, 1, Some(&theta)).0, losses);
        let draws: Vec<Law> = redrawn.iter().map(draw).collect();
        Ok(Self {
            law,
            objective,
            delta,
            delta_from,
            noise,
            intervals: LawIntervals::of(&draws),
            held_out: HeldOutErrors::of(runs, delta),
            runs: runs.to_vec(),
            residuals,
            draws,
            redrawn,
            scatter,
            seed: options.seed,
        })
    }

    /// The numbers of the law with their intervals, by name; and why those that the runs do not determine are not known.
    pub fn numbers(&self) -> [(&'static str, Estimate95, Option<Undetermined>); 5] {
        let least = self.runs.iter().map(|run| run.loss).fold(f64::MAX, f64::min);
        let mut intervals = self.intervals.all().into_iter();
        self.law.named().map(|(name, value)| {
            let interval = intervals.next().unwrap_or(Interval::of([]));
            let estimate = Estimate95 { value, interval };
            // A and B have no scale of their own; what they stand for has that of a loss.
            let floor = if name == "E" { NOTHING * least } else { 2.0 * crate::design::EXPONENTS.0 };
            let vanishes = match name {
                "A" | "alpha" => self.vanishes(|law, run| law.terms(run.parameters, run.tokens).size),
                "B" | "beta" => self.vanishes(|law, run| law.terms(run.parameters, run.tokens).data),
                _ => false,
            };
            let narrow = match name {
                "A" | "alpha" => self.reaches(f64::INFINITY, self.counts().low).err(),
                "B" | "beta" => self.reaches(self.sizes().low, f64::INFINITY).err(),
                _ => self.spans_enough().err(),
            };
            let why = match narrow {
                Some(narrow) => Some(narrow),
                None if vanishes => Some(Undetermined::ReachesZero),
                None => estimate.undetermined(floor),
            };
            (name, estimate, why)
        })
    }

    /// Whether a term could be nothing at all, also for the run where it is largest.
    fn vanishes(&self, term: impl Fn(&Law, &Observation) -> f64) -> bool {
        let largest = |law: &Law| self.runs.iter().map(|run| term(law, run)).fold(0.0, f64::max);
        let least = self.runs.iter().map(|run| run.loss).fold(f64::MAX, f64::min);
        Interval::of(self.draws.iter().map(largest)).low < NOTHING * least
    }

    /// The arithmetic of the largest run.
    pub fn largest_flops(&self) -> f64 {
        self.runs.iter().map(Observation::flops).fold(0.0, f64::max)
    }

    /// The mean size of a residual: how far a run usually is from the law, as a part of its loss.
    pub fn mean_residual(&self) -> f64 {
        self.residuals.iter().map(|residual| residual.abs()).sum::<f64>() / self.residuals.len() as f64
    }

    /// The largest one.
    pub fn worst_residual(&self) -> f64 {
        self.residuals.iter().map(|residual| residual.abs()).fold(0.0, f64::max)
    }
}

/// Losses that other seeds might have given: what the law says, with a residual of some run. A fit that weighs residuals by
/// their size, not its square, goes right through some runs; so many residuals of zero would make it look too certain, so
/// each is smoothed as a kernel estimate would be.
fn redraw(expected: &[f64], scatter: &[f64], options: &FitOptions) -> Vec<Vec<f64>> {
    let mut random = Draws::new(options.seed, 1);
    let mean = scatter.iter().map(|residual| residual.abs()).sum::<f64>() / scatter.len() as f64;
    let width = SMOOTH * mean * (scatter.len() as f64).powf(-0.2);
    let mut draw = |loss: &f64| loss * (random.of(scatter) + width * random.normal()).exp();
    (0..options.draws.max(2)).map(|_| expected.iter().map(&mut draw).collect()).collect()
}

/// How much wider a 95 % interval is where the scatter is known from so few residuals only: Student's quantile over the normal
/// one, by its expansion (within 4 % from two degrees of freedom on).
fn wider_for_few(freedom: f64) -> f64 {
    let normal = 1.96;
    (normal + 2.372 / freedom + 2.823 / freedom.powi(2) + 2.556 / freedom.powi(3)) / normal
}

/// Returns an error if the runs can't determine five parameters.
fn enough(runs: &[Observation]) -> Result<()> {
    if runs.len() > MOST_RUNS {
        return Err(Error::TooManyRuns { runs: runs.len(), most: MOST_RUNS });
    }
    let mut tokens: Vec<u64> = runs.iter().map(|run| run.tokens.to_bits()).collect();
    tokens.sort_unstable();
    tokens.dedup();
    let (sizes, token_counts) = (by_size(runs).len(), tokens.len());
    if runs.len() >= FEWEST_RUNS && sizes >= FEWEST_SIZES && token_counts >= FEWEST_SIZES {
        return Ok(());
    }
    Err(Error::TooFewRuns { runs: runs.len(), sizes, token_counts })
}

/// Fits the law to any losses of the same runs.
pub(crate) struct Fitter {
    design: Design,
    projection: Projection,
    huber: Huber,
}

impl Fitter {
    pub fn new(runs: &[Observation], delta: f64) -> Self {
        let design = Design::new(runs);
        Self { projection: Projection::new(&design), design, huber: Huber(delta) }
    }

    /// The best fit that is found from so many minima of the grid, and from a law that may be near.
    pub fn fit(&self, losses: &[f64], starts: usize, near: Option<&Theta>) -> (Theta, f64) {
        let logs: Vec<f64> = losses.iter().map(|loss| loss.ln()).collect();
        let starts = self.projection.starts(losses, self.huber, starts);
        let minimum = |huber: Huber, start: &Theta| minimise(&self.design, &logs, huber, start);
        // From far away, with a loss that is quadratic for longer first.
        let far = starts
            .iter()
            .map(|start| minimum(self.huber, &minimum(Huber(self.huber.0.max(COARSE)), start).0));
        let near = near.map(|near| minimum(self.huber, near));
        far.chain(near).min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(([0.0; 5], f64::NAN))
    }

    pub fn law(&self, theta: &Theta, losses: &[f64]) -> Law {
        self.design.law(theta, losses.iter().copied().fold(f64::MAX, f64::min))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    const TRUTH: Law = Law { e: 1.2, a: 30.0, b: 150.0, alpha: 0.35, beta: 0.4 };

    /// Six sizes and four counts of tokens, as a sweep has them, with so much noise in ln L.
    fn sweep(noise: f64, seed: u64) -> Vec<Observation> {
        let mut random = Draws::new(seed, 9);
        let run = |i: i32| {
            let (n, d) = (1.5e4 * 2.2_f64.powi(i / 4), 1.2e5 * 2_f64.powi(i % 4));
            Observation::new(n, d, TRUTH.loss(n, d) * (noise * random.normal()).exp())
        };
        (0..24).map(run).collect()
    }

    #[test]
    fn without_noise_the_law_is_recovered() {
        let fit = ScalingFit::new(&sweep(0.0, 0), &FitOptions { draws: 3, ..FitOptions::default() }).unwrap();
        for ((name, found), (_, truth)) in fit.law.named().into_iter().zip(TRUTH.named()) {
            assert!((found / truth - 1.0).abs() < 1e-3, "{name} is {found}, not {truth}");
        }
        assert!(fit.objective < 1e-12 && fit.mean_residual() < 1e-6, "{}", fit.objective);
        let held = fit.held_out.largest_runs.unwrap();
        assert!(held.runs == 5 && held.worst_error < 1e-4, "{held:?}");
    }

    /// What an interval promises: of 100 sweeps with noise, at least 90 have the truth inside, for every number of the law and
    /// for a prediction beyond the runs.
    #[test]
    fn intervals_hold_the_truth_in_at_least_90_of_100_draws() {
        let judge = |seed: u64| {
            let options = FitOptions { draws: 120, seed, ..FitOptions::default() };
            let fit = ScalingFit::new(&sweep(0.003, seed), &options).unwrap();
            let inside = fit.numbers().into_iter().zip(TRUTH.named());
            let mut inside: Vec<bool> =
                inside.map(|((_, found, _), (_, truth))| found.interval.contains(truth)).collect();
            // A run of four times the arithmetic of the largest, which scatters too.
            let (n, d) = (1.5e6, 2e6);
            let new = TRUTH.loss(n, d) * (0.003 * Draws::new(seed, 8).normal()).exp();
            let loss = fit.predict(n, d).unwrap().loss;
            inside.push(loss.interval.contains(new));
            // An interval that held everything would say nothing.
            assert!(loss.interval.high - loss.interval.low < 0.1 * loss.value, "{loss:?}");
            inside
        };
        let half = |from: u64| thread::spawn(move || (from..from + 50).map(judge).collect::<Vec<_>>());
        let judged: Vec<Vec<bool>> =
            [half(0), half(50)].into_iter().flat_map(|half| half.join().unwrap()).collect();
        for (i, what) in ["E", "A", "B", "alpha", "beta", "prediction"].iter().enumerate() {
            let inside = judged.iter().filter(|inside| inside[i]).count();
            assert!(inside >= 90, "{what}: {inside} of 100");
        }
    }

    #[test]
    fn a_few_odd_runs_do_not_bend_the_law() {
        let mut runs = sweep(0.001, 1);
        runs[7].loss *= 1.5;
        runs[13].loss *= 1.2;
        let fit = ScalingFit::new(&runs, &FitOptions { draws: 3, ..FitOptions::default() }).unwrap();
        let there = fit.law.loss(1e6, 1e6) / TRUTH.loss(1e6, 1e6);
        assert!((there - 1.0).abs() < 0.01, "{there}");
    }

    #[test]
    fn what_the_runs_do_not_determine_is_said() {
        // Losses that fall by a power of the data alone, to nothing.
        let runs: Vec<Observation> = sweep(0.0, 0)
            .into_iter()
            .enumerate()
            .map(|(i, run)| {
                let noise = 1.0 + 0.01 * ((i * 37 % 11) as f64 / 5.0 - 1.0);
                Observation { loss: noise * 30.0 * run.tokens.powf(-0.2), ..run }
            })
            .collect();
        let fit = ScalingFit::new(&runs, &FitOptions { draws: 100, ..FitOptions::default() }).unwrap();
        let why: Vec<bool> = fit.numbers().iter().map(|(_, _, why)| why.is_some()).collect();
        assert_eq!(why[..2], [true, true], "E and A: {:?}", fit.numbers());
        assert!(why[3], "alpha: {:?}", fit.numbers());
    }

    #[test]
    fn delta_comes_from_seeds_where_runs_were_repeated() {
        let mut runs = sweep(0.003, 2);
        let options = FitOptions { draws: 3, ..FitOptions::default() };
        assert_eq!(ScalingFit::new(&runs, &options).unwrap().delta_from, DeltaSource::Usual);
        runs.push(Observation { loss: runs[0].loss * 1.01, ..runs[0] });
        let fit = ScalingFit::new(&runs, &options).unwrap();
        assert_eq!(fit.delta_from, DeltaSource::SeedNoise);
        assert!((fit.delta - 1.01_f64.ln() / 2_f64.sqrt()).abs() < 1e-9, "{}", fit.delta);
        let given = FitOptions { delta: Some(-1.0), ..options };
        assert!(ScalingFit::new(&runs, &given).unwrap_err().to_string().starts_with("delta is -1"));
    }

    /// Few runs, and runs that are much alike: a prediction is withheld, or its interval holds the truth.
    #[test]
    fn predictions_of_few_or_narrow_runs_hold_the_truth_or_are_withheld() {
        const DRAWS: u64 = 60;
        // Runs along each side, the spans of sizes and counts, the noise, and whether a larger size is predicted.
        for (side, sizes, counts, noise, told) in [
            (3, 4.0_f64, 8.0_f64, 1e-4, true),
            (3, 2.5, 8.0, 0.003, true),
            (4, 4.0, 4.0, 0.003, true),
            (3, 1.02, 8.0, 1e-4, false),
            (4, 1.5, 8.0, 0.003, false),
        ] {
            let last = f64::from(side - 1);
            let judge = |seed: u64| {
                let mut random = Draws::new(seed, 9);
                let run = |i: i32| {
                    let n = 2e4 * sizes.powf(f64::from(i / side) / last);
                    let d = 2e5 * counts.powf(f64::from(i % side) / last);
                    Observation::new(n, d, TRUTH.loss(n, d) * (noise * random.normal()).exp())
                };
                let runs: Vec<Observation> = (0..side * side).map(run).collect();
                let fit = ScalingFit::new(&runs, &FitOptions { draws: 80, seed, ..FitOptions::default() });
                let (fit, (n, d)) = (fit.unwrap(), (2e4 * sizes, 2e5 * counts));
                let [near, far] = [2.0, 10.0].map(|times| {
                    let loss = fit.predict(times * n, d).map(|prediction| prediction.loss.interval);
                    loss.map(|interval| interval.contains(TRUTH.loss(times * n, d)))
                });
                let gain = fit.gain((n, d), (2.0, 1.0)).map(|doubling| doubling.gain.interval);
                let gain = gain.map(|gain| gain.contains(TRUTH.loss(n, d) - TRUTH.loss(2.0 * n, d)));
                let inside = fit.predict(n, d).unwrap().loss.interval.contains(TRUTH.loss(n, d));
                ([Ok(inside), near, far, gain], fit.best_model(1e12).map(|_| true))
            };
            let half = |from: u64| (from..from + DRAWS / 2).map(judge).collect::<Vec<_>>();
            let judged = thread::scope(|scope| {
                let second = scope.spawn(|| half(DRAWS / 2));
                [half(0), second.join().unwrap()].concat()
            });
            for (i, what) in ["inside", "twice the size", "ten times", "gain"].into_iter().enumerate() {
                let place = format!("{side}×{side} runs, sizes {sizes}, noise {noise}: {what}");
                if told || i == 0 {
                    let held = judged.iter().filter(|(found, _)| found[i] == Ok(true)).count() as u64;
                    assert!(held >= DRAWS * 9 / 10, "{place}: {held} of {DRAWS}");
                } else {
                    let why = Err(Undetermined::SizesTooNarrow);
                    let all = judged.iter().all(|(found, best)| found[i] == why && *best == why);
                    assert!(all, "{place} is told");
                }
            }
        }
    }

    #[test]
    fn an_interval_from_few_runs_is_wider() {
        for (freedom, quantile) in [(2.0, 4.303), (4.0, 2.776), (11.0, 2.201), (100.0, 1.984)] {
            let found = 1.96 * wider_for_few(freedom);
            assert!((found / quantile - 1.0_f64).abs() < 0.04, "{freedom}: {found}");
        }
    }

    #[test]
    fn too_few_and_too_many_runs_are_errors() {
        let runs = sweep(0.0, 0);
        let said =
            |runs: &[Observation]| ScalingFit::new(runs, &FitOptions::default()).unwrap_err().to_string();
        assert!(said(&runs[..6]).starts_with("6 runs of 2 sizes and 4 token counts"));
        assert!(said(&runs[..8]).contains("3 sizes"));
        assert!(said(&[]).starts_with("0 runs"));
        assert!(said(&vec![runs[0]; 5001]).starts_with("5001 runs are too many to fit"));
    }

    #[test]
    fn what_is_far_beyond_the_runs_is_marked() {
        let fit =
            ScalingFit::new(&sweep(0.003, 3), &FitOptions { draws: 50, ..FitOptions::default() }).unwrap();
        let largest = fit.runs.iter().map(|run| run.parameters).fold(0.0, f64::max);
        assert!(
            !fit.predict(3.0 * largest, 2e6).unwrap().extrapolation
                && fit.predict(30.0 * largest, 2e6).unwrap().extrapolation
        );
        assert!(fit.best_model(11.0 * fit.largest_flops()).unwrap().extrapolation);
        let best = fit.best_model(fit.largest_flops()).unwrap();
        assert!(!best.extrapolation && best.parameters.interval.contains(best.parameters.value));
        let doubled = fit.gain((largest, 9.6e5), (1.0, 2.0)).unwrap();
        assert!(
            doubled.gain.value > 0.0 && (doubled.before - doubled.after - doubled.gain.value).abs() < 1e-12
        );
        assert!(doubled.gain.interval.low > 0.0 && doubled.gain.interval.contains(doubled.gain.value));
    }
}
