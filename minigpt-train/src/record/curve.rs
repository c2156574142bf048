//! The losses of runs as a chart: what is to the right, what is a point, and what the title says. `minigpt-charts` draws.

use super::{StepRecord, Summary};
use minigpt_charts::{Curve, LineChart, Quantity, count, cut, decimal};

/// A title holds no more columns of a name than this.
const NAME: usize = 40;

/// What the horizontal axis counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Axis {
    /// Steps.
    #[default]
    Step,
    /// Tokens seen, which compares runs of different batch sizes.
    Tokens,
    /// Time of training, which compares runs of different speeds.
    Time,
}

impl Axis {
    fn of(self, record: &StepRecord) -> f64 {
        match self {
            Axis::Step => record.step as f64,
            Axis::Tokens => record.tokens as f64,
            Axis::Time => record.seconds,
        }
    }

    fn quantity(self, labels: &Labels) -> Quantity {
        match self {
            Axis::Step => Quantity { units: labels.steps, whole: true },
            Axis::Tokens => Quantity { units: labels.tokens, whole: true },
            Axis::Time => Quantity { units: labels.time, whole: false },
        }
    }
}

/// The words on a loss chart, in one language. Units of an axis come with their size in steps, tokens or seconds.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "named by what they label")]
pub struct Labels {
    pub loss: &'static str,
    pub training: &'static str,
    pub validation: &'static str,
    pub steps: &'static [(f64, &'static str)],
    pub tokens: &'static [(f64, &'static str)],
    pub time: &'static [(f64, &'static str)],
}

impl Labels {
    /// The English words.
    pub const ENGLISH: Self = Self {
        loss: "loss",
        training: "training",
        validation: "validation",
        steps: &[(1.0, "step")],
        tokens: &[(1.0, "tokens"), (1e6, "million tokens"), (1e9, "billion tokens")],
        time: &[
            (1.0, "seconds of training"),
            (60.0, "minutes of training"),
            (3600.0, "hours of training"),
            (86_400.0, "days of training"),
        ],
    };
}

/// The chart of runs by their names: training losses are its noisy points, validation losses its marked ones.
pub fn loss_chart(runs: &[(String, Vec<StepRecord>)], axis: Axis) -> LineChart {
    labeled_loss_chart(runs, axis, &Labels::ENGLISH)
}

/// The same with the words of a language on its axes and lines.
pub fn labeled_loss_chart(runs: &[(String, Vec<StepRecord>)], axis: Axis, labels: &Labels) -> LineChart {
    LineChart {
        title: title(runs),
        subtitle: subtitle(runs),
        x: axis.quantity(labels),
        y: labels.loss,
        noisy: labels.training,
        marked: labels.validation,
        curves: runs.iter().map(|(name, records)| curve(name, records, axis)).collect(),
    }
}

fn curve(name: &str, records: &[StepRecord], axis: Axis) -> Curve {
    Curve {
        name: name.to_owned(),
        noisy: records.iter().map(|record| (axis.of(record), record.loss)).collect(),
        marked: records.iter().filter_map(|record| Some((axis.of(record), record.val_loss?))).collect(),
        rises: false,
    }
}

fn title(runs: &[(String, Vec<StepRecord>)]) -> String {
    match runs {
        [(name, _)] => format!("Loss of {}", cut(name, NAME)),
        runs => format!("Loss of {} runs", runs.len()),
    }
}

/// One run in numbers; of several, how to read the lines.
fn subtitle(runs: &[(String, Vec<StepRecord>)]) -> String {
    let [(_, records)] = runs else {
        return "with points: validation, its best beside the name · without: training, smoothed".to_owned();
    };
    let summary = Summary::of(records);
    let Some(loss) = summary.last_loss else { return "no step recorded yet".to_owned() };
    let (steps, tokens) = (count(summary.steps), count(summary.tokens));
    let loss = decimal(loss, 3);
    let mut text = format!("{steps} steps · {tokens} tokens · {} · training {loss}", summary.time());
    if let (Some(best), Some(step)) = (summary.best_val_loss, summary.best_val_step) {
        text += &format!(" · best validation {} at step {}", decimal(best, 3), count(step));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str) -> (String, Vec<StepRecord>) {
        let record = |i: u64| StepRecord {
            step: i * 10,
            loss: 4.0 - i as f64 / 100.0,
            tokens: i * 7680,
            seconds: i as f64 / 2.0,
            val_loss: i.is_multiple_of(10).then_some(4.1 - i as f64 / 100.0),
            ..StepRecord::default()
        };
        (name.to_owned(), (1..=200).map(record).collect())
    }

    #[test]
    fn one_run_is_told_in_numbers() {
        let chart = loss_chart(&[run("shakespeare")], Axis::Step);
        assert_eq!(chart.title, "Loss of shakespeare");
        let numbers =
            "2,000 steps · 1,536,000 tokens · 100 s · training 2.000 · best validation 2.100 at step 2,000";
        assert_eq!(chart.subtitle, numbers);
        assert_eq!((chart.curves[0].noisy.len(), chart.curves[0].marked.len()), (200, 20));
        assert_eq!(loss_chart(&[("a".to_owned(), vec![])], Axis::Step).subtitle, "no step recorded yet");
        let long = loss_chart(&[run(&"长".repeat(30))], Axis::Step).title;
        assert_eq!(long, format!("Loss of {}…", "长".repeat(19)));
    }

    #[test]
    fn the_axis_chooses_what_is_to_the_right() {
        let runs = [run("a"), run("b")];
        let last = |axis| loss_chart(&runs, axis).curves[1].noisy[199];
        assert_eq!(
            [Axis::Step, Axis::Tokens, Axis::Time].map(last),
            [(2e3, 2.0), (1_536_000.0, 2.0), (100.0, 2.0)]
        );
        let svg = loss_chart(&runs, Axis::Time).svg();
        for part in ["Loss of 2 runs", ">a 2.100<", "seconds of training"] {
            assert!(svg.contains(part), "{part} is not in {svg}");
        }
    }
}
