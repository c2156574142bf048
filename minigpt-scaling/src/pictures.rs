//! The three pictures of a fit: losses over tokens with the law, isoFLOP curves with their lowest points, and residuals.

use crate::fit::ScalingFit;
use crate::isoflop::{IsoFlop, Towards};
use crate::observation::by_size;
use minigpt_charts::{Callout, Series, XyChart, metric};

/// Points of a drawn curve.
const POINTS: usize = 60;
/// A picture shows no more sizes than it has colours; of more, some evenly among all.
const SIZES: usize = 8;

impl ScalingFit {
    /// The loss over tokens by size, with the law; dashed where no run has been.
    pub fn loss_chart(&self) -> XyChart {
        let sizes = by_size(&self.runs);
        let most = self.runs.iter().map(|run| run.tokens).fold(0.0, f64::max);
        let shown = (0..sizes.len().min(SIZES)).map(|i| {
            let count = sizes.len().min(SIZES);
            &sizes[if count < 2 { 0 } else { i * (sizes.len() - 1) / (count - 1) }]
        });
        let series = shown.map(|runs| {
            let parameters = runs[0].parameters;
            let (first, last) = (runs[0].tokens, runs[runs.len() - 1].tokens);
            let curve = |from: f64, to: f64| between(from, to, |tokens| self.law.loss(parameters, tokens));
            Series {
                name: name(parameters),
                dots: runs.iter().map(|run| (run.tokens, run.loss)).collect(),
                line: curve(first, last),
                dashed: curve(last, 2.0 * most),
                callout: None,
            }
        });
        XyChart {
            title: "Loss over tokens, by size".to_owned(),
            subtitle: format!(
                "dots: {} runs · lines: the law that fits them best · dashed: beyond the runs",
                self.runs.len()
            ),
            x: "tokens D".to_owned(),
            y: "loss".to_owned(),
            levels: Vec::new(),
            series: series.collect(),
        }
    }

    /// The loss over the size at a few budgets, with the best size of each where the runs determine it.
    pub fn isoflop_chart(&self) -> XyChart {
        let curves = self.isoflops();
        let found = curves.iter().filter(|curve| curve.minimum.is_some()).count();
        let subtitle = match (found, curves.len()) {
            (_, 0) => "too few sizes share a budget".to_owned(),
            (found, all) if found == all => {
                "ring: the best size for a budget 6·N·D · bar: its 95 % interval".to_owned()
            }
            (_, all) => format!(
                "ring: the best size · bar: 95 % interval · {} of {all} budgets have none among these sizes",
                all - found
            ),
        };
        XyChart {
            title: "Loss over size at one budget (isoFLOP)".to_owned(),
            subtitle,
            x: "parameters N".to_owned(),
            y: "loss".to_owned(),
            levels: Vec::new(),
            series: curves.iter().map(isoflop_series).collect(),
        }
    }

    /// How far each run is from the law.
    pub fn residual_chart(&self) -> XyChart {
        let sizes = by_size(&self.runs);
        let series = sizes.iter().map(|runs| {
            let residual = |run: &crate::Observation| {
                (run.tokens, 100.0 * (run.loss / self.law.loss(run.parameters, run.tokens)).ln())
            };
            Series {
                name: if sizes.len() <= SIZES { name(runs[0].parameters) } else { String::new() },
                dots: runs.iter().map(residual).collect(),
                ..Series::default()
            }
        });
        XyChart {
            title: "What the law misses".to_owned(),
            subtitle: format!(
                "loss over the law's, less 1 · mean size {:.2} %, largest {:.2} %",
                100.0 * self.mean_residual(),
                100.0 * self.worst_residual()
            ),
            x: "tokens D".to_owned(),
            y: "residual in %".to_owned(),
            levels: vec![0.0],
            series: series.collect(),
        }
    }
}

fn name(parameters: f64) -> String {
    format!("N = {}", metric(parameters).trim_end())
}

fn isoflop_series(curve: &IsoFlop) -> Series {
    let ends = (curve.points.first(), curve.points.last());
    let line = match ends {
        (Some(first), Some(last)) => between(first.0, last.0, |size| curve.at(size)),
        _ => Vec::new(),
    };
    let callout = curve.minimum.map(|minimum| Callout {
        at: (minimum.parameters.value, minimum.loss),
        range: Some((minimum.parameters.interval.low, minimum.parameters.interval.high)),
        text: metric(minimum.parameters.value).trim_end().to_owned(),
    });
    let towards = match curve.towards {
        Some(Towards::Smaller) => ": smaller",
        Some(Towards::Larger) => ": larger",
        Some(Towards::Unclear) => ": unclear",
        None => "",
    };
    let name = format!("{:.1e} FLOP{towards}", curve.flops);
    Series { name, dots: curve.points.clone(), line, callout, ..Series::default() }
}

/// A curve over an axis of powers of ten; nothing where there is no room for one.
fn between(from: f64, to: f64, height: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
    if to <= from || (to - from).is_nan() {
        return Vec::new();
    }
    let x = |i: usize| from * (to / from).powf(i as f64 / (POINTS - 1) as f64);
    (0..POINTS).map(x).map(|x| (x, height(x))).collect()
}

#[cfg(test)]
mod tests {
    use crate::{FitOptions, Law, Observation, ScalingFit};

    #[test]
    fn three_pictures_of_a_fit() {
        let law = Law { e: 1.2, a: 30.0, b: 300.0, alpha: 0.35, beta: 0.4 };
        let run = |i: i32| {
            let (n, d) = (3e3 * 2.5_f64.powi(i / 5), 1e5 * 2.5_f64.powi(i % 5));
            Observation::new(n, d, law.loss(n, d) * (1.0 + 0.0005 * f64::from(i * 7 % 5 - 2)))
        };
        let runs: Vec<Observation> = (0..30).map(run).collect();
        let fit = ScalingFit::new(&runs, &FitOptions { draws: 40, ..FitOptions::default() }).unwrap();
        let [loss, isoflop, residuals] =
            [fit.loss_chart(), fit.isoflop_chart(), fit.residual_chart()].map(|chart| chart.svg());
        assert_eq!(loss.matches("<circle").count(), 30 + 6, "a dot a run, and the legend's");
        assert!(loss.contains("class=\"dashed s0\"") && loss.contains("N = 3.0 k"));
        assert!(isoflop.contains("class=\"ring") && isoflop.contains("FLOP"));
        assert_eq!(residuals.matches("<circle").count(), 30 + 6);
    }
}
