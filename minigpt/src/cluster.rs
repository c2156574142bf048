//! What several machines would buy: how long a step takes when each learns from a part of the batch, and what they tell
//! each other is paid for by a network.
//!
//! The model is the usual α–β one: a message takes a latency, and its bytes take their time. What is counted is what the
//! ranks really exchange ([`Traffic`]); computing and exchanging don't overlap.

use crate::error::{Error, Result};
use minigpt_model::Config;
use minigpt_model::plan::Plan;
use minigpt_train::OptimizerKind;
use minigpt_train::distributed::Traffic;
use serde::Serialize;
use std::str::FromStr;

/// The part of an Ethernet's rate that is left for what is sent over TCP.
const PAYLOAD: f64 = 0.94;

/// What connects machines.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Network {
    /// In each direction at once.
    pub bytes_per_second: f64,
    /// Seconds before the first byte of a message is there.
    pub latency: f64,
}

/// A network that is neither known by name nor described.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown network {0}; use 1GbE, 10GbE, 100GbE, or a bandwidth and a latency, for example 25Gbit,10us"
)]
pub struct UnknownNetwork(pub String);

impl FromStr for Network {
    type Err = Error;

    /// `1GbE`, `10GbE`, `100GbE`, or a bandwidth and a latency: `25Gbit,10us`, `3GB,50us`.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::from(UnknownNetwork(text.to_owned()));
        // What MPI over TCP shows between two processes on a network that is not busy.
        for (name, gigabits, latency) in
            [("1GbE", 1.0, 50e-6), ("10GbE", 10.0, 25e-6), ("100GbE", 100.0, 15e-6)]
        {
            if text.eq_ignore_ascii_case(name) {
                return Ok(Self { bytes_per_second: gigabits * 1e9 / 8.0 * PAYLOAD, latency });
            }
        }
        let (bandwidth, latency) = text.split_once(',').ok_or_else(wrong)?;
        let units = [("gbit", 1e9 / 8.0), ("mbit", 1e6 / 8.0), ("gb", 1e9), ("mb", 1e6)];
        let bandwidth = bandwidth.trim().to_lowercase();
        let bandwidth = bandwidth.strip_suffix("/s").unwrap_or(&bandwidth);
        let bytes_per_second = with_unit(bandwidth, &units).ok_or_else(wrong)?;
        let units = [("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)];
        let latency = with_unit(&latency.trim().to_lowercase(), &units).ok_or_else(wrong)?;
        if !(bytes_per_second > 0.0 && latency >= 0.0 && bytes_per_second.is_finite() && latency.is_finite())
        {
            return Err(wrong());
        }
        Ok(Self { bytes_per_second, latency })
    }
}

/// A number and the first unit that stands behind it.
fn with_unit(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    Some(number.trim().parse::<f64>().ok()? * factor)
}

/// What some machines make of a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ClusterSpeed {
    /// How many machines.
    pub machines: usize,
    /// Rows in a step's batch, on all of them together.
    pub batch_size: usize,
    /// A step on one machine.
    pub alone_seconds: f64,
    /// A step on all of them.
    pub seconds: f64,
    /// How many times as fast they are.
    pub speed_up: f64,
}

/// What several machines would buy.
#[derive(Debug, Clone, Serialize)]
pub struct ClusterPlan {
    /// What connects them.
    pub network: Network,
    /// What they tell each other in a step, in seconds.
    pub exchange_seconds: f64,
    /// Bytes that come to the busiest of them in a step.
    pub exchange_bytes: u64,
    /// The part of the model that the one with the most of it owns: 1/machines where tensors can be divided evenly.
    pub largest_share: f64,
    /// Rows from which they are faster than one of them; none where no batch is large enough.
    pub pays_from: Option<usize>,
    /// Rows from which they are half as fast as machines without a network between them would be.
    pub half_from: Option<usize>,
    /// Memory on each: weights, gradients, its part of the moments, activations of its part of the batch.
    pub bytes_a_rank: u64,
    /// Fewer machines, and these.
    pub by_machines: Vec<ClusterSpeed>,
    /// Larger batches.
    pub by_batch: Vec<ClusterSpeed>,
}

impl ClusterPlan {
    /// For a model and a batch of which each row takes a machine so long.
    pub fn new(
        config: &Config,
        kind: OptimizerKind,
        (batch_size, block_size): (usize, usize),
        seconds_per_row: f64,
        machines: usize,
        network: Network,
    ) -> Self {
        let traffic = Traffic::new(config, kind, machines);
        let exchange_seconds = seconds(traffic, network);
        let speed = |machines: usize, batch_size: usize| {
            let alone_seconds = seconds_per_row * batch_size as f64;
            // The machine with the most rows is waited for.
            let own = seconds_per_row * batch_size.div_ceil(machines) as f64;
            let seconds = own + seconds(Traffic::new(config, kind, machines), network);
            ClusterSpeed { machines, batch_size, alone_seconds, seconds, speed_up: alone_seconds / seconds }
        };
        let fewer = std::iter::successors(Some(2), |n| Some(2 * n)).take_while(|&n| n < machines);
        let plan = Plan::new(config, batch_size.div_ceil(machines), block_size);
        let moments = plan.train_memory.moments;
        let total = plan.parameters.total.max(1);
        let saved_a_row = seconds_per_row * (1.0 - 1.0 / machines as f64);
        let half = machines as f64 * exchange_seconds / seconds_per_row;
        Self {
            network,
            exchange_seconds,
            exchange_bytes: traffic.bytes,
            largest_share: traffic.largest_share as f64 / total as f64,
            pays_from: rows(exchange_seconds / saved_a_row),
            half_from: rows(half),
            bytes_a_rank: plan.train_bytes - moments + moments / machines as u64,
            by_machines: fewer.chain([machines]).map(|n| speed(n, batch_size)).collect(),
            by_batch: [1, 4, 16, 64].map(|times| speed(machines, times * batch_size)).to_vec(),
        }
    }
}

/// How long the exchange of a step takes.
fn seconds(traffic: Traffic, network: Network) -> f64 {
    traffic.bytes as f64 / network.bytes_per_second + traffic.messages as f64 * network.latency
}

/// A number of rows as one that can be had.
fn rows(least: f64) -> Option<usize> {
    (least.is_finite() && least < 1e12).then(|| (least.ceil() as usize).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Result<Network> {
        text.parse()
    }

    #[test]
    fn networks_have_names_or_a_bandwidth_and_a_latency() {
        assert_eq!(network("10gbe").unwrap().bytes_per_second, 1.25e9 * PAYLOAD);
        let given = network("25Gbit, 10us").unwrap();
        assert_eq!(given.bytes_per_second, 3.125e9);
        assert!((given.latency - 1e-5).abs() < 1e-12, "{given:?}");
        assert_eq!(network("300MB/s,1ms").unwrap(), Network { bytes_per_second: 3e8, latency: 1e-3 });
        for wrong in ["", "wifi", "10", "10Gbit", "0Gbit,1us", "1Gbit,-1us", "nangbit,1us"] {
            let error = network(wrong).unwrap_err().to_string();
            assert!(error.contains("unknown network"), "{wrong}: {error}");
        }
    }

    #[test]
    fn machines_pay_where_a_step_takes_longer_than_the_exchange() {
        let config = Config {
            n_layer: 6,
            n_head: 6,
            n_embd: 384,
            vocab_size: 65,
            block_size: 256,
            ..Config::default()
        };
        let plan =
            |batch, network| ClusterPlan::new(&config, OptimizerKind::AdamW, (batch, 256), 0.1, 2, network);
        let free = Network { bytes_per_second: 1e18, latency: 0.0 };
        assert!((plan(16, free).by_machines[0].speed_up - 2.0).abs() < 1e-6);
        let slow = network("1GbE").unwrap();
        let planned = plan(16, slow);
        // 10.7 million parameters: half of them to each of the two, and back, at 117 MB a second.
        assert!((0.35..0.4).contains(&planned.exchange_seconds), "{planned:?}");
        let pays = planned.pays_from.unwrap();
        assert!(plan(pays + 2, slow).by_machines[0].speed_up > 1.0);
        assert!(plan(pays.saturating_sub(2).max(1), slow).by_machines[0].speed_up < 1.0);
        let whole = Plan::new(&config, 8, 256);
        assert_eq!(planned.bytes_a_rank, whole.train_bytes - whole.train_memory.moments / 2);
    }
}
