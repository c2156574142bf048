//! What was measured, beside what the machine can do: for programs and for people.

use super::times::Times;
use crate::language::messages::{bench as message, counts};
use crate::{dtype, output, screen};
use anyhow::Result;
use minigpt::limit::Limit;
use minigpt::machine;
use minigpt_charts::{Table, bytes, count, metric};
use minigpt_model::{Config, Gpt};
use serde::Serialize;

/// What one repeat does.
#[derive(Debug, Clone)]
pub struct Work {
    /// Tokens that are learned from, written or read.
    pub tokens: u64,
    /// Multiplications and additions, as `minigpt plan` counts them.
    pub flops: f64,
    /// Bytes that must come from memory, where that is what limits it.
    pub bytes_read: Option<f64>,
    /// How the weights are kept, where that can be chosen.
    pub weights: Option<Weights>,
}

/// How the weights of a model are kept.
#[derive(Debug, Clone, Serialize)]
pub struct Weights {
    dtype: String,
    weights_bytes: u64,
}

impl Weights {
    /// Those of a model.
    pub fn of(gpt: &Gpt) -> Self {
        Self { dtype: dtype::names(gpt), weights_bytes: gpt.stored_bytes() }
    }
}

/// Figures of the fastest repeat, unless they say otherwise.
#[derive(Serialize)]
pub struct Report {
    measured: &'static str,
    tokens_per_second: f64,
    median_tokens_per_second: f64,
    ms_per_step: f64,
    median_ms_per_step: f64,
    model_flops_per_second: f64,
    /// The most memory that the program had; null where the system doesn't tell.
    peak_rss_bytes: Option<u64>,
    share_of_product_rate: f64,
    #[serde(flatten)]
    weights: Option<Weights>,
    #[serde(flatten)]
    reading: Option<Reading>,
    limit: Limit,
    repeats: usize,
    tokens_per_step: u64,
    config: Config,
}

/// How fast weights, keys and values come from memory.
#[derive(Debug, Clone, Copy, Serialize)]
struct Reading {
    bytes_read_per_token: f64,
    read_bytes_per_second: f64,
    share_of_read_rate: f64,
}

impl Report {
    /// Puts times beside the machine's limit, which is measured now.
    pub fn new(measured: &'static str, config: Config, work: Work, times: &Times) -> Result<Self> {
        // The limit needs memory too, so this comes first.
        let peak_rss_bytes = machine::peak_memory();
        let limit = Limit::measure()?;
        let (best, median, tokens) = (times.best(), times.median(), work.tokens as f64);
        let model_flops_per_second = work.flops / best;
        Ok(Self {
            measured,
            tokens_per_second: tokens / best,
            median_tokens_per_second: tokens / median,
            ms_per_step: 1e3 * best,
            median_ms_per_step: 1e3 * median,
            model_flops_per_second,
            peak_rss_bytes,
            share_of_product_rate: model_flops_per_second / limit.product_flops_per_second,
            reading: work.bytes_read.map(|bytes| Reading {
                bytes_read_per_token: bytes / tokens,
                read_bytes_per_second: bytes / best,
                share_of_read_rate: bytes / best / limit.read_bytes_per_second,
            }),
            weights: work.weights,
            limit,
            repeats: times.repeats(),
            tokens_per_step: work.tokens,
            config,
        })
    }

    /// Prints it.
    pub fn show(&self, json: bool, title: &str) -> Result<()> {
        if json {
            return output::json(self);
        }
        output::text(format!("{title}\n{}\n{}", self.figures(), limits(&self.limit, Some(self))))
    }

    fn figures(&self) -> String {
        let mut table = Table::new(&[1, 2]);
        let median = message::MedianOf { repeats: &self.repeats }.to_string();
        table.row(["", message::Best.text(), &median]);
        table.row([
            message::TokensS.text(),
            &rate(self.tokens_per_second),
            &rate(self.median_tokens_per_second),
        ]);
        table.row([message::MsPerStep.text(), &rate(self.ms_per_step), &rate(self.median_ms_per_step)]);
        if let Some(peak) = self.peak_rss_bytes {
            table.row([message::PeakMemory.text(), &bytes(peak)]);
        }
        if let Some(Weights { dtype, weights_bytes }) = &self.weights {
            table.row([message::Weights.text(), dtype, &bytes(*weights_bytes)]);
        }
        table.draw_within(screen::table_columns())
    }
}

/// The machine's limit, and which part of it was reached.
pub fn limits(limit: &Limit, report: Option<&Report>) -> String {
    let threads = counts::Threads { n: limit.threads as u64 }.to_string();
    let mut table = Table::new(&[1, 2, 3]);
    let [reached, share] = report.map_or(["", ""], |_| [message::Reached.text(), message::Share.text()]);
    table.row([message::MachineLimit.text(), &threads, reached, share]);
    let flops = report.map(|report| report.model_flops_per_second);
    let read = report.and_then(|report| report.reading).map(|reading| reading.read_bytes_per_second);
    let rows = [
        (message::MatrixProducts.text(), "FLOP/s", limit.product_flops_per_second, flops),
        (message::MultiplyAdds.text(), "FLOP/s", limit.multiply_add_flops_per_second, flops),
        (message::ReadingMemory.text(), "B/s", limit.read_bytes_per_second, read),
    ];
    for (name, unit, limit, reached) in rows {
        let shown = |rate: f64| format!("{}{unit}", metric(rate));
        let share = reached.map_or_else(String::new, |reached| format!("{:.0} %", 100.0 * reached / limit));
        table.row([name, &shown(limit), &reached.map_or_else(String::new, shown), &share]);
    }
    table.draw_within(screen::table_columns())
}

/// Small numbers with digits behind the point, large ones in groups.
fn rate(number: f64) -> String {
    match number {
        n if n < 10.0 => format!("{n:.2}"),
        n if n < 1000.0 => format!("{n:.1}"),
        n => count(n.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_as_many_digits_as_they_are_worth() {
        assert_eq!([0.1234, 43.219, 999.94, 17_123.4].map(rate), ["0.12", "43.2", "999.9", "17,123"]);
    }
}
