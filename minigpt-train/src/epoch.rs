//! The mean training loss of an epoch, kept exactly across a stop and resume within the epoch.

use crate::evaluate::Evaluation;
use serde::{Deserialize, Serialize};
use std::num::ParseFloatError;

/// A number written as a string, so that it survives any JSON reader to the bit.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ExactNumber(pub f64);

impl From<ExactNumber> for String {
    fn from(number: ExactNumber) -> Self {
        number.0.to_string()
    }
}

impl TryFrom<String> for ExactNumber {
    type Error = ParseFloatError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map(Self)
    }
}

/// The training loss of the current epoch so far, as a sum over tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpochLoss {
    /// Σ −log p(target).
    pub sum: ExactNumber,
    /// Number of targets that counted.
    pub tokens: u64,
}

impl EpochLoss {
    /// Adds the losses of a step, part by part and for each part one per micro-batch. `epochs_done` has for each micro-batch the number of
    /// the epoch that it completes. Returns the loss of the whole step, and the number and mean loss of an epoch that is complete.
    pub(crate) fn add_step(
        &mut self,
        losses: &[Evaluation],
        epochs_done: &[Option<u64>],
    ) -> (Evaluation, Option<(u64, Option<f64>)>) {
        let (mut total, mut done) = (Evaluation::default(), None);
        for (micro, epoch) in epochs_done.iter().enumerate() {
            for &loss in losses.iter().skip(micro).step_by(epochs_done.len()) {
                total.add(loss);
                self.add(loss.sum, loss.tokens);
            }
            if let Some(epoch) = epoch {
                done = Some((*epoch, self.finish()));
            }
        }
        (total, done)
    }

    /// Adds a micro-batch of the epoch.
    pub fn add(&mut self, sum: f64, tokens: u64) {
        self.sum.0 += sum;
        self.tokens += tokens;
    }

    /// Ends the epoch and returns its mean loss over tokens, or `None` if no target counted.
    pub fn finish(&mut self) -> Option<f64> {
        let Self { sum, tokens } = std::mem::take(self);
        (tokens > 0).then(|| sum.0 / tokens as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_kept_in_json_goes_on_to_the_bit() {
        let mut epoch = EpochLoss::default();
        for i in 1..500u32 {
            epoch.add(f64::from(i).sqrt() * 1e3 / 7.0, 3);
            let kept = serde_json::to_string(&epoch).unwrap();
            let read: EpochLoss = serde_json::from_str(&kept).unwrap();
            assert_eq!(read.sum.0.to_bits(), epoch.sum.0.to_bits(), "{kept}");
            epoch = read;
        }
        let mean = epoch.sum.0 / 1497.0;
        assert_eq!((epoch.finish(), epoch.finish()), (Some(mean), None));
        assert!(serde_json::from_str::<EpochLoss>(r#"{"sum": "many", "tokens": 1}"#).is_err());
    }
}
