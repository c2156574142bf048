//! What a fit leaves: numbers for programs, pictures, and a page to read.

use super::words;
use crate::output;
use anyhow::Result;
use minigpt_charts::XyChart;
use minigpt_files::write_file;
use minigpt_scaling::{
    Doubling, HeldOut, HeldOutErrors, IsoFlop, Law, LawIntervals, MUENNIGHOFF, Observation, RepeatedFit,
    ScalingFit, Undetermined,
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// A fit with all that is told of it.
pub struct FitReport {
    pub fit: ScalingFit,
    pub repeated: Option<RepeatedFit>,
    pub without_loss: u64,
    /// Where pictures are.
    pub pictures: Vec<PathBuf>,
}

/// The error on runs that the fit has not seen: of the largest runs, and of two other choices.
#[derive(Serialize)]
struct HeldOutAnswer {
    #[serde(flatten)]
    largest_runs: Option<HeldOut>,
    largest_size: Option<HeldOut>,
    longest_runs: Option<HeldOut>,
}

#[derive(Serialize)]
struct Answer<'a> {
    /// E, A, B, alpha, beta; null where the runs do not determine them.
    #[serde(flatten)]
    determined: Map<String, Value>,
    objective: f64,
    delta: f64,
    delta_from: minigpt_scaling::DeltaSource,
    noise: Option<f64>,
    points: usize,
    intervals: &'a LawIntervals,
    held_out: HeldOutAnswer,
    /// The best fit whether determined or not: what the curves are drawn from.
    best_fit: &'a Law,
    undetermined: Map<String, Value>,
    mean_residual: f64,
    worst_residual: f64,
    largest_flops: f64,
    /// Null where the runs are too much alike to say.
    double_data: Option<Doubling>,
    double_size: Option<Doubling>,
    isoflops: Vec<IsoFlop>,
    without_loss: u64,
    repeated: Option<Value>,
    pictures: &'a [PathBuf],
    sentences: [String; 3],
}

impl FitReport {
    /// Fits runs.
    pub fn new(
        runs: &super::runs::Runs,
        options: &minigpt_scaling::FitOptions,
        repeated: bool,
    ) -> Result<Self> {
        let repeated = if repeated { Some(RepeatedFit::new(&runs.runs, options)?) } else { None };
        // With repeated data, the plain law is that of what was seen once.
        let fit = match &repeated {
            Some(repeated) => repeated.once.clone(),
            None => ScalingFit::new(&runs.runs, options)?,
        };
        Ok(Self { fit, repeated, without_loss: runs.without_loss, pictures: Vec::new() })
    }

    /// Draws the three pictures into a folder.
    pub fn draw(&mut self, folder: &Path) -> Result<()> {
        let fit = &self.fit;
        let charts: [(&str, XyChart); 3] = [
            ("loss.svg", fit.loss_chart()),
            ("isoflop.svg", fit.isoflop_chart()),
            ("residuals.svg", fit.residual_chart()),
        ];
        for (name, chart) in charts {
            let path = folder.join(name);
            write_file(&path, chart.svg().as_bytes())?;
            self.pictures.push(path);
        }
        Ok(())
    }

    /// Keeps numbers and words in a sweep's folder.
    pub fn keep(&self, folder: &Path) -> Result<()> {
        let json = serde_json::to_string_pretty(&self.json()?)?;
        write_file(&folder.join("fit.json"), (json + "\n").as_bytes())?;
        Ok(write_file(&folder.join("report.txt"), self.describe().as_bytes())?)
    }

    pub fn describe(&self) -> String {
        words::describe(self)
    }

    pub fn json(&self) -> Result<Value> {
        let fit = &self.fit;
        let (mut determined, mut undetermined) = (Map::new(), Map::new());
        for (name, estimate, why) in fit.numbers() {
            let value = if why.is_none() { json!(estimate.value) } else { Value::Null };
            determined.insert(name.to_owned(), value);
            if let Some(why) = why {
                undetermined.insert(name.to_owned(), serde_json::to_value::<Undetermined>(why)?);
            }
        }
        let HeldOutErrors { largest_runs, largest_size, longest_runs } = fit.held_out;
        let from = largest(&fit.runs);
        Ok(serde_json::to_value(Answer {
            determined,
            objective: fit.objective,
            delta: fit.delta,
            delta_from: fit.delta_from,
            noise: fit.noise,
            points: fit.runs.len(),
            intervals: &fit.intervals,
            held_out: HeldOutAnswer { largest_runs, largest_size, longest_runs },
            best_fit: &fit.law,
            undetermined,
            mean_residual: fit.mean_residual(),
            worst_residual: fit.worst_residual(),
            largest_flops: fit.largest_flops(),
            double_data: fit.gain(from, (1.0, 2.0)).ok(),
            double_size: fit.gain(from, (2.0, 1.0)).ok(),
            isoflops: fit.isoflops(),
            without_loss: self.without_loss,
            repeated: self.repeated.as_ref().map(repeated_json),
            pictures: &self.pictures,
            sentences: words::sentences(fit),
        })?)
    }

    pub fn print(&self, json: bool) -> Result<()> {
        if json { output::json(&self.json()?) } else { output::text(self.describe()) }
    }
}

fn repeated_json(fit: &RepeatedFit) -> Value {
    json!({
        "R_D": fit.data_half_life.undetermined(0.2).is_none().then_some(fit.data_half_life.value),
        "R_N": fit.size_half_life.undetermined(0.2).is_none().then_some(fit.size_half_life.value),
        "intervals": { "R_D": fit.data_half_life.interval, "R_N": fit.size_half_life.interval },
        "best_fit": { "R_D": fit.data_half_life.value, "R_N": fit.size_half_life.value },
        "objective": fit.objective,
        "points": fit.runs,
        "left_out": fit.left_out,
        "median_residual": fit.median_residual,
        "published": MUENNIGHOFF,
    })
}

/// The largest size and the most tokens of any run.
pub fn largest(runs: &[Observation]) -> (f64, f64) {
    let most = |of: fn(&Observation) -> f64| runs.iter().map(of).fold(0.0, f64::max);
    (most(|run| run.parameters), most(|run| run.tokens))
}
