//! The mean training loss of an epoch, kept exactly while the epoch lasts: a run may stop and go on within it.

use serde::{Deserialize, Serialize};
use std::num::ParseFloatError;

/// A number that is read as the very same number that was written, which JSON's numbers promise only to the last digit but one.
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

/// The epoch under way: its training loss so far, as a sum over tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpochLoss {
    /// Σ −log p(target).
    pub sum: ExactNumber,
    /// How many targets counted.
    pub tokens: u64,
}

impl EpochLoss {
    /// A micro-batch of the epoch was learned.
    pub fn add(&mut self, sum: f64, tokens: u64) {
        self.sum.0 += sum;
        self.tokens += tokens;
    }

    /// The mean over tokens of the epoch that is over; none where nothing counted. The next one begins.
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
