//! The law of Hoffmann et al. 2022: the loss of a model after it has seen some tokens, as a sum of three terms.

use serde::Serialize;

/// Multiplications and additions of training, a parameter and token.
pub const FLOPS: f64 = 6.0;

/// L(N, D) = E + A·N^(−α) + B·D^(−β).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Law {
    /// E: what no model gets below, the text's own uncertainty.
    #[serde(rename = "E")]
    pub e: f64,
    /// A: what a model of one parameter would lack.
    #[serde(rename = "A")]
    pub a: f64,
    /// B: what a model that has seen one token would lack.
    #[serde(rename = "B")]
    pub b: f64,
    /// How fast size helps.
    pub alpha: f64,
    /// How fast data helps.
    pub beta: f64,
}

/// A loss as the sum that it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LossTerms {
    /// What stays with any model and any amount of data.
    pub floor: f64,
    /// What a larger model would take away.
    pub size: f64,
    /// What more data would take away.
    pub data: f64,
}

impl LossTerms {
    /// The loss.
    pub fn total(&self) -> f64 {
        self.floor + self.size + self.data
    }
}

impl Law {
    /// The terms of the loss of so many parameters after so many tokens.
    pub fn terms(&self, parameters: f64, tokens: f64) -> LossTerms {
        LossTerms {
            floor: self.e,
            size: self.a * parameters.powf(-self.alpha),
            data: self.b * tokens.powf(-self.beta),
        }
    }

    /// The loss of so many parameters after so many tokens.
    pub fn loss(&self, parameters: f64, tokens: f64) -> f64 {
        self.terms(parameters, tokens).total()
    }

    /// The size that makes the most of a budget of FLOPs = 6·N·D. It has a closed form: at the minimum both terms fall
    /// equally fast.
    pub fn best_size(&self, flops: f64) -> f64 {
        let sum = self.alpha + self.beta;
        let balance = (self.alpha * self.a / (self.beta * self.b)).powf(1.0 / sum);
        balance * (flops / FLOPS).powf(self.beta / sum)
    }

    /// The parameters by the names that people know them by.
    pub fn named(&self) -> [(&'static str, f64); 5] {
        [("E", self.e), ("A", self.a), ("B", self.b), ("alpha", self.alpha), ("beta", self.beta)]
    }
}

/// The arithmetic of a run as the field counts it: 6·N·D.
pub fn flops(parameters: f64, tokens: f64) -> f64 {
    FLOPS * parameters * tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAW: Law = Law { e: 1.8, a: 400.0, b: 2000.0, alpha: 0.35, beta: 0.37 };

    #[test]
    fn the_terms_are_those_of_the_formula() {
        let terms = LAW.terms(1e8, 1e9);
        assert!((terms.size - 400.0 / 1e8_f64.powf(0.35)).abs() < 1e-12);
        assert!((terms.total() - LAW.loss(1e8, 1e9)).abs() < 1e-12);
        assert!(LAW.loss(2e8, 1e9) < LAW.loss(1e8, 1e9) && LAW.loss(1e8, 2e9) < LAW.loss(1e8, 1e9));
    }

    #[test]
    fn no_other_size_is_better_for_the_budget_than_the_best() {
        for budget in [1e15, 1e18, 1e21] {
            let best = LAW.best_size(budget);
            let loss = |size: f64| LAW.loss(size, budget / FLOPS / size);
            for factor in [0.5, 0.9, 0.99, 1.01, 1.1, 2.0] {
                assert!(loss(best * factor) > loss(best), "{factor} of {best}");
            }
        }
    }
}
