//! The runs of a fit without their losses: sizes and counts as centred logarithms, and the law as a function of five numbers
//! that suits an optimiser.

use crate::law::Law;
use crate::observation::Observation;

/// ln E, ln of both other terms at the mean run, α, β.
pub(crate) type Theta = [f64; 5];

/// ln of the smallest part of the lowest loss that a term can have; below, it is as good as zero.
pub(crate) const FLOOR: f64 = -14.0;
/// The exponents that make sense.
pub(crate) const EXPONENTS: (f64, f64) = (1e-3, 5.0);

/// ln N and ln D of all runs, less their means: without that, ln A and α could hardly be told apart.
pub(crate) struct Design {
    pub size: Vec<f64>,
    pub data: Vec<f64>,
    mean_size: f64,
    mean_data: f64,
}

impl Design {
    pub fn new(runs: &[Observation]) -> Self {
        let centred = |of: fn(&Observation) -> f64| {
            let logs: Vec<f64> = runs.iter().map(|run| of(run).ln()).collect();
            let mean = logs.iter().sum::<f64>() / logs.len().max(1) as f64;
            (logs.iter().map(|log| log - mean).collect(), mean)
        };
        let (size, mean_size) = centred(|run| run.parameters);
        let (data, mean_data) = centred(|run| run.tokens);
        Self { size, data, mean_size, mean_data }
    }

    /// The law of five numbers. A term that is as good as nothing is nothing.
    pub fn law(&self, theta: &Theta, least: f64) -> Law {
        let &[e, a, b, alpha, beta] = theta;
        let term = |log: f64, shift: f64| {
            if log <= least.ln() + FLOOR + 1e-9 { 0.0 } else { (log + shift).exp() }
        };
        Law {
            e: term(e, 0.0),
            a: term(a, alpha * self.mean_size),
            b: term(b, beta * self.mean_data),
            alpha,
            beta,
        }
    }
}
