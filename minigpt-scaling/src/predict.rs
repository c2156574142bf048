//! What a law says about runs that nobody has made, with the interval of what it does not know.

use crate::fit::ScalingFit;
use crate::interval::{Estimate95, Interval, Undetermined};
use crate::law::{FLOPS, Law, LossTerms, flops};
use crate::random::Draws;
use serde::Serialize;

/// Beyond so many times the arithmetic of the largest run, a prediction is an extrapolation.
pub const FARTHEST: f64 = 10.0;

/// Runs whose sizes, or counts of tokens, span less than this factor say nothing about others: their exponent is a guess.
pub const NARROWEST: f64 = 2.0;

/// The loss that a run would reach.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Prediction {
    /// N.
    pub parameters: f64,
    /// D.
    pub tokens: f64,
    /// 6·N·D.
    pub flops: f64,
    /// The loss; its interval holds a new run, with the scatter that runs have.
    pub loss: Estimate95,
    /// What it is the sum of.
    pub terms: LossTerms,
    /// Its arithmetic over that of the largest run.
    pub times_largest: f64,
    /// Whether that is too far to be trusted.
    pub extrapolation: bool,
}

/// The model that makes the most of an amount of arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BestModel {
    /// The budget.
    pub flops: f64,
    /// N.
    pub parameters: Estimate95,
    /// D.
    pub tokens: Estimate95,
    /// The loss that it would reach.
    pub loss: Estimate95,
    /// The budget over the arithmetic of the largest run.
    pub times_largest: f64,
    /// Whether that is too far to be trusted.
    pub extrapolation: bool,
    /// Whether the size is inside of what was measured.
    pub measured_size: bool,
}

/// What a doubling takes off the loss.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Doubling {
    /// The loss before.
    pub before: f64,
    /// The loss after.
    pub after: f64,
    /// The difference, with its interval.
    pub gain: Estimate95,
    /// Whether the doubled run is too far from those that were made.
    pub extrapolation: bool,
}

impl BestModel {
    /// Its size and its tokens.
    pub fn run(&self) -> (f64, f64) {
        (self.parameters.value, self.tokens.value)
    }
}

impl ScalingFit {
    /// The loss of a size after some tokens.
    ///
    /// # Errors
    /// The size, or the count of tokens, is outside of runs that are too much alike in it to say what happens there.
    pub fn predict(&self, parameters: f64, tokens: f64) -> Result<Prediction, Undetermined> {
        self.reaches(parameters, tokens)?;
        let mut random = Draws::new(self.seed, 2);
        let loss = |law: &Law| law.loss(parameters, tokens) * random.of(&self.scatter).exp();
        let interval = Interval::of(self.draws.iter().map(loss));
        let terms = self.law.terms(parameters, tokens);
        let (flops, times_largest) = self.distance(flops(parameters, tokens));
        Ok(Prediction {
            parameters,
            tokens,
            flops,
            loss: Estimate95 { value: terms.total(), interval: with(interval, terms.total()) },
            terms,
            times_largest,
            extrapolation: times_largest > FARTHEST,
        })
    }

    /// The best size for a budget of FLOPs.
    ///
    /// # Errors
    /// The runs do not determine it: they are too much alike, or one of the law's terms could be nothing.
    pub fn best_model(&self, budget: f64) -> Result<BestModel, Undetermined> {
        self.spans_enough()?;
        let mut random = Draws::new(self.seed, 3);
        let size = |law: &Law| law.best_size(budget);
        let tokens = |law: &Law| budget / FLOPS / law.best_size(budget);
        let loss = |law: &Law| law.loss(size(law), tokens(law));
        let of = |number: &dyn Fn(&Law) -> f64| Estimate95 {
            value: number(&self.law),
            interval: with(Interval::of(self.draws.iter().map(number)), number(&self.law)),
        };
        let (parameters, tokens) = (of(&size), of(&tokens));
        for estimate in [parameters, tokens] {
            if !estimate.value.is_finite() {
                return Err(Undetermined::ReachesZero);
            }
            estimate.undetermined(0.0).map_or(Ok(()), Err)?;
        }
        let scattered = self.draws.iter().map(|law| loss(law) * random.of(&self.scatter).exp());
        let loss =
            Estimate95 { value: loss(&self.law), interval: with(Interval::of(scattered), loss(&self.law)) };
        let (flops, times_largest) = self.distance(budget);
        Ok(BestModel {
            flops,
            parameters,
            tokens,
            loss,
            times_largest,
            extrapolation: times_largest > FARTHEST,
            measured_size: self.sizes().contains(parameters.value),
        })
    }

    /// What it would buy to multiply size and tokens of a run, the law's own uncertainty alone.
    ///
    /// # Errors
    /// As [`Self::predict`].
    pub fn gain(
        &self,
        (parameters, tokens): (f64, f64),
        (size, data): (f64, f64),
    ) -> Result<Doubling, Undetermined> {
        self.reaches(parameters, tokens)?;
        self.reaches(size * parameters, data * tokens)?;
        let gain = |law: &Law| law.loss(parameters, tokens) - law.loss(size * parameters, data * tokens);
        let interval = with(Interval::of(self.draws.iter().map(gain)), gain(&self.law));
        Ok(Doubling {
            before: self.law.loss(parameters, tokens),
            after: self.law.loss(size * parameters, data * tokens),
            gain: Estimate95 { value: gain(&self.law), interval },
            extrapolation: self.distance(flops(size * parameters, data * tokens)).1 > FARTHEST,
        })
    }

    /// Refuses a run outside of runs that are too much alike to say anything about it.
    pub(crate) fn reaches(&self, parameters: f64, tokens: f64) -> Result<(), Undetermined> {
        let outside = |ends: Interval, at: f64| ends.high < NARROWEST * ends.low && !ends.contains(at);
        if outside(self.sizes(), parameters) {
            return Err(Undetermined::SizesTooNarrow);
        }
        if outside(self.counts(), tokens) {
            return Err(Undetermined::TokensTooNarrow);
        }
        Ok(())
    }

    /// Refuses runs that are too much alike in size or tokens.
    pub(crate) fn spans_enough(&self) -> Result<(), Undetermined> {
        self.reaches(f64::INFINITY, self.counts().low)?;
        self.reaches(self.sizes().low, f64::INFINITY)
    }

    /// From the smallest to the largest size of any run.
    pub fn sizes(&self) -> Interval {
        Interval::ends(self.runs.iter().map(|run| run.parameters))
    }

    /// From the fewest to the most tokens of any run.
    pub fn counts(&self) -> Interval {
        Interval::ends(self.runs.iter().map(|run| run.tokens))
    }

    fn distance(&self, flops: f64) -> (f64, f64) {
        (flops, flops / self.largest_flops())
    }
}

/// An interval never excludes the number that it is about.
fn with(interval: Interval, value: f64) -> Interval {
    Interval { low: interval.low.min(value), high: interval.high.max(value) }
}
