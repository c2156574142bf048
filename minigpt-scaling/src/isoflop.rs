//! isoFLOP curves: at one budget, the loss over the size, and the parabola whose lowest point is the best size. They need no
//! law: losses between two measured counts of tokens are interpolated, none is extrapolated.

use crate::fit::ScalingFit;
use crate::interval::{Estimate95, Interval};
use crate::law::FLOPS;
use crate::observation::{Observation, by_size};
use serde::Serialize;

/// Sizes that a parabola takes at least.
const FEWEST: usize = 3;
/// Budgets that are shown.
const BUDGETS: usize = 4;
/// Budgets that are tried.
const TRIED: usize = 200;
/// The part of the draws that must agree that there is a minimum among the sizes.
const AGREEING: f64 = 0.9;

/// The loss over the size at one budget.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IsoFlop {
    /// The budget, 6·N·D.
    pub flops: f64,
    /// Sizes and the losses that they reach with it.
    pub points: Vec<(f64, f64)>,
    /// c₀ + c₁x + c₂x² with x = ln N.
    pub parabola: [f64; 3],
    /// Its lowest point, where the runs determine one.
    pub minimum: Option<IsoMinimum>,
    /// Where the lowest loss is when there is no such point.
    pub towards: Option<Towards>,
}

/// The best size at a budget.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct IsoMinimum {
    /// The size.
    pub parameters: Estimate95,
    /// The loss there.
    pub loss: f64,
}

/// In which direction the best size is, when it is not among those that were measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Towards {
    /// Smaller ones than the smallest.
    Smaller,
    /// Larger ones than the largest.
    Larger,
    /// The runs scatter too much to say.
    Unclear,
}

impl IsoFlop {
    /// The parabola's height at a size.
    pub fn at(&self, parameters: f64) -> f64 {
        height(&self.parabola, parameters.ln())
    }
}

impl ScalingFit {
    /// The isoFLOP curves of the runs, from the smallest budget up: at most four, with three sizes or more each.
    pub fn isoflops(&self) -> Vec<IsoFlop> {
        budgets(&self.runs).into_iter().filter_map(|flops| self.isoflop(flops)).collect()
    }

    fn isoflop(&self, flops: f64) -> Option<IsoFlop> {
        let points = at_budget(&self.runs, flops);
        let parabola = parabola_of(&points)?;
        let sizes = Interval::ends(points.iter().map(|point| point.0));
        let redrawn = |losses: &Vec<f64>| {
            let with = |(run, &loss): (&Observation, &f64)| Observation { loss, ..*run };
            let runs: Vec<Observation> = self.runs.iter().zip(losses).map(with).collect();
            lowest(&parabola_of(&at_budget(&runs, flops))?, &sizes)
        };
        let found: Vec<f64> = self.redrawn.iter().filter_map(redrawn).collect();
        let agree = found.len() as f64 >= AGREEING * self.redrawn.len() as f64;
        let minimum = lowest(&parabola, &sizes).filter(|_| agree).map(|value| {
            let interval = Interval::of(found);
            let interval = Interval { low: interval.low.min(value), high: interval.high.max(value) };
            IsoMinimum { parameters: Estimate95 { value, interval }, loss: height(&parabola, value.ln()) }
        });
        let towards = minimum.is_none().then(|| towards(&points, agree));
        Some(IsoFlop { flops, points, parabola, minimum, towards })
    }
}

/// Where the lowest of the points is.
fn towards(points: &[(f64, f64)], agree: bool) -> Towards {
    let best = (0..points.len()).min_by(|&a, &b| points[a].1.total_cmp(&points[b].1));
    match best {
        Some(0) if !agree => Towards::Smaller,
        Some(best) if !agree && best + 1 == points.len() => Towards::Larger,
        _ => Towards::Unclear,
    }
}

/// Budgets that at least three sizes can be compared at, evenly spread.
fn budgets(runs: &[Observation]) -> Vec<f64> {
    let all = Interval::ends(runs.iter().map(Observation::flops));
    let budget = |i: usize| all.low * (all.high / all.low).powf(i as f64 / (TRIED - 1) as f64);
    let with = |least: usize| -> Vec<f64> {
        (0..TRIED).map(budget).filter(|&flops| at_budget(runs, flops).len() >= least).collect()
    };
    // Four sizes bend a parabola better than three, where there are enough of them.
    let four = with(FEWEST + 1);
    let tried = if four.is_empty() { with(FEWEST) } else { four };
    let (Some(&first), Some(&last)) = (tried.first(), tried.last()) else { return Vec::new() };
    // A little inside of both ends, at least half an octave apart.
    let octaves = (last / first).log2();
    let count = BUDGETS.min(1 + (2.0 * octaves) as usize);
    let part = |i: usize| if count == 1 { 0.5 } else { i as f64 / (count - 1) as f64 };
    let wanted = (0..count).map(|i| first * (last / first).powf(0.04 + 0.92 * part(i)));
    let near = |flops: f64| {
        tried.iter().copied().min_by(|a, b| (a / flops).ln().abs().total_cmp(&(b / flops).ln().abs()))
    };
    wanted.filter_map(near).collect()
}

/// The losses of all sizes at a budget: ln L is interpolated over ln D between the two nearest counts.
fn at_budget(runs: &[Observation], flops: f64) -> Vec<(f64, f64)> {
    let at = |runs: &Vec<Observation>| {
        let parameters = runs.first()?.parameters;
        let tokens = flops / FLOPS / parameters;
        let means = means(runs);
        let above = means.iter().position(|(count, _)| *count >= tokens)?;
        let (high, high_loss) = means[above];
        if high == tokens {
            return Some((parameters, high_loss.exp()));
        }
        let (low, low_loss) = *means.get(above.checked_sub(1)?)?;
        let part = (tokens / low).ln() / (high / low).ln();
        Some((parameters, (low_loss + part * (high_loss - low_loss)).exp()))
    };
    by_size(runs).iter().filter_map(at).collect()
}

/// The mean ln L of runs of one size at each count of tokens, in order.
fn means(runs: &[Observation]) -> Vec<(f64, f64)> {
    let of_count = |same: &[Observation]| {
        let sum: f64 = same.iter().map(|run| run.loss.ln()).sum();
        (same[0].tokens, sum / same.len() as f64)
    };
    runs.chunk_by(|a, b| a.tokens == b.tokens).map(of_count).collect()
}

/// The least squares parabola over ln N.
fn parabola_of(points: &[(f64, f64)]) -> Option<[f64; 3]> {
    if points.len() < FEWEST {
        return None;
    }
    let mean = points.iter().map(|point| point.0.ln()).sum::<f64>() / points.len() as f64;
    // Normal equations in x less its mean.
    let (mut sums, mut right) = ([0.0; 5], [0.0; 3]);
    for (parameters, loss) in points {
        let x = parameters.ln() - mean;
        (0..5).for_each(|power| sums[power] += x.powi(power as i32));
        (0..3).for_each(|power| right[power] += loss * x.powi(power as i32));
    }
    let minor = |a: usize, b: usize, c: usize, d: usize| sums[a] * sums[d] - sums[b] * sums[c];
    let determinant = sums[0] * minor(2, 3, 3, 4) - sums[1] * minor(1, 3, 2, 4) + sums[2] * minor(1, 2, 2, 3);
    if determinant.abs() <= 1e-12 || determinant.is_nan() {
        return None;
    }
    // Cramer's rule for three unknowns.
    let solve = |column: usize| {
        let mut matrix = [[0.0; 3]; 3];
        for (i, row) in matrix.iter_mut().enumerate() {
            for (j, cell) in row.iter_mut().enumerate() {
                *cell = if j == column { right[i] } else { sums[i + j] };
            }
        }
        let [a, b, c] = matrix;
        (a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0])
            + a[2] * (b[0] * c[1] - b[1] * c[0]))
            / determinant
    };
    let [c0, c1, c2] = [solve(0), solve(1), solve(2)];
    Some([c0 - c1 * mean + c2 * mean * mean, c1 - 2.0 * c2 * mean, c2])
}

fn height(parabola: &[f64; 3], x: f64) -> f64 {
    parabola[0] + x * (parabola[1] + x * parabola[2])
}

/// The size at the lowest point, where there is one among the sizes.
fn lowest(parabola: &[f64; 3], sizes: &Interval) -> Option<f64> {
    let size = (-parabola[1] / (2.0 * parabola[2])).exp();
    (parabola[2] > 0.0 && sizes.contains(size)).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::FitOptions;
    use crate::law::Law;

    #[test]
    fn a_parabola_goes_through_three_points_and_near_more() {
        let of = |x: f64| 3.0 - 0.4 * x + 0.02 * x * x;
        let points: Vec<(f64, f64)> = [8.0, 9.0, 11.0, 13.0].map(|x: f64| (x.exp(), of(x))).to_vec();
        for count in [3, 4] {
            let found = parabola_of(&points[..count]).unwrap();
            for (found, expected) in found.into_iter().zip([3.0, -0.4, 0.02]) {
                assert!((found - expected).abs() < 1e-9, "{found} {expected}");
            }
        }
        assert_eq!(parabola_of(&points[..2]), None);
        assert_eq!(parabola_of(&[points[0]; 3]), None);
    }

    #[test]
    fn minima_are_near_the_laws_and_none_is_invented() {
        let law = Law { e: 1.2, a: 30.0, b: 300.0, alpha: 0.35, beta: 0.4 };
        let runs: Vec<Observation> = (0..30)
            .map(|i| {
                let (n, d) = (3e3 * 2.5_f64.powi(i / 5), 1e5 * 2.5_f64.powi(i % 5));
                Observation::new(n, d, law.loss(n, d) * (1.0 + 0.0005 * f64::from(i * 7 % 5 - 2)))
            })
            .collect();
        let fit = ScalingFit::new(&runs, &FitOptions { draws: 60, ..FitOptions::default() }).unwrap();
        let curves = fit.isoflops();
        assert!((3..=4).contains(&curves.len()), "{curves:?}");
        let mut found = 0;
        for curve in &curves {
            assert!(curve.points.len() >= 3 && curve.minimum.is_none() != curve.towards.is_none());
            let Some(minimum) = curve.minimum else { continue };
            let ratio = minimum.parameters.value / law.best_size(curve.flops);
            assert!((0.6..1.6).contains(&ratio), "{ratio}");
            found += 1;
        }
        assert!(found >= 1, "{curves:?}");
        // Only sizes that are far too large: the best one is smaller than all of them.
        let large: Vec<Observation> = runs
            .iter()
            .map(|run| Observation { loss: run.loss, parameters: 1e4 * run.parameters, ..*run })
            .collect();
        let relabelled: Vec<Observation> = large
            .iter()
            .map(|run| Observation { loss: law.loss(run.parameters, run.tokens), ..*run })
            .collect();
        let fit = ScalingFit::new(&relabelled, &FitOptions { draws: 20, ..FitOptions::default() }).unwrap();
        assert!(fit.isoflops().iter().all(|curve| curve.minimum.is_none()));
    }
}
