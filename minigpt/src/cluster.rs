//! Estimates the speed-up of training on several machines: each computes the gradients of a part of the batch, and the
//! network carries the exchange.
//!
//! The cost model is α–β: the time of a message is a latency plus its bytes over the bandwidth, for the traffic that the ranks
//! really exchange ([`Traffic`]). Computation and exchange do not overlap.

use crate::error::{Error, Result};
use minigpt_model::Config;
use minigpt_model::plan::Plan;
use minigpt_train::OptimizerKind;
use minigpt_train::distributed::Traffic;
use serde::Serialize;
use std::str::FromStr;

/// Share of an Ethernet's bandwidth that is payload over TCP.
const PAYLOAD: f64 = 0.94;

/// The network between the machines.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Network {
    /// Bandwidth in each direction.
    pub bytes_per_second: f64,
    /// Latency of a message in seconds.
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
        // Latencies of MPI over TCP on an idle network.
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

/// A number with one of the units.
fn with_unit(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    Some(number.trim().parse::<f64>().ok()? * factor)
}

/// The speed of a number of machines.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ClusterSpeed {
    /// Number of machines.
    pub machines: usize,
    /// Rows of a batch, over all machines.
    pub batch_size: usize,
    /// Seconds per step on one machine.
    pub alone_seconds: f64,
    /// Seconds per step on all of them.
    pub seconds: f64,
    /// Speed-up over one machine.
    pub speed_up: f64,
}

/// Estimated speed of several machines.
#[derive(Debug, Clone, Serialize)]
pub struct ClusterPlan {
    /// The network between them.
    pub network: Network,
    /// Seconds of communication per step.
    pub exchange_seconds: f64,
    /// Bytes received per step by the busiest machine.
    pub exchange_bytes: u64,
    /// The part of the model that the one with the most of it owns: 1/machines where tensors can be divided evenly.
    pub largest_share: f64,
    /// Smallest batch for which they are faster than one machine. `None` if there is none.
    pub pays_from: Option<usize>,
    /// Smallest batch for which they reach half of the ideal speed-up.
    pub half_from: Option<usize>,
    /// Memory per machine: weights, gradients, its share of the moments, activations of its part of the batch.
    pub bytes_a_rank: u64,
    /// Speed of smaller numbers of machines, and of this one.
    pub by_machines: Vec<ClusterSpeed>,
    /// Speed with larger batches.
    pub by_batch: Vec<ClusterSpeed>,
}

impl ClusterPlan {
    /// Estimates it for a model whose training takes `seconds_per_row` per row of the batch on one machine.
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
            // All wait for the machine with the most rows.
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

/// Seconds of communication per step.
fn seconds(traffic: Traffic, network: Network) -> f64 {
    traffic.bytes as f64 / network.bytes_per_second + traffic.messages as f64 * network.latency
}

/// A number of rows, rounded up, if it is realistic.
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
