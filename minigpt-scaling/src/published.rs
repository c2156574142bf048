//! The published (Chinchilla) law, withheld from models that it does not apply to.

use crate::law::{Law, LossTerms, flops};
use crate::predict::FARTHEST;
use serde::{Serialize, Serializer};
use std::fmt;

/// Besiroglu et al. 2024, who fitted the runs of Hoffmann et al. 2022 once more: the constants in that paper contradict its
/// own data.
pub const CHINCHILLA: Law = Law { e: 1.8172, a: 482.01, b: 2085.43, alpha: 0.3478, beta: 0.3658 };
/// The smallest vocabulary whose tokens are like those of the published runs (32,000): pieces of words.
const SMALLEST_VOCABULARY: u64 = 8_000;
/// Parameters of the smallest model of the published runs, roughly.
const SMALLEST_MODEL: f64 = 40e6;
/// Fewer tokens can't be compared with those runs, which saw billions.
const FEWEST_TOKENS: f64 = 100e6;
/// FLOPs of their largest run, roughly.
const LARGEST_FLOPS: f64 = 3e21;

/// The loss according to the published law.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ExpectedLoss {
    /// In nats per token.
    pub loss: f64,
    /// Its terms.
    pub terms: LossTerms,
    /// The constants.
    pub law: Law,
    /// Where the constants were published.
    pub source: Publication,
    /// Whether it is farther than ten times the arithmetic of the largest run behind the law.
    pub extrapolation: bool,
}

/// The publication a law's constants come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publication {
    /// Of [`CHINCHILLA`].
    Chinchilla,
}

impl fmt::Display for Publication {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Chinchilla => f.write_str(
                "Besiroglu et al. 2024, a replication of Hoffmann et al. 2022, for web text with a vocabulary of about \
                 32,000 tokens",
            ),
        }
    }
}

impl Serialize for Publication {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Why the published law does not apply to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the text of each variant says what it is")]
pub enum Withheld {
    #[error(
        "the published law is for vocabularies of about 32,000 subwords; a loss per token means something else here"
    )]
    SmallVocabulary,
    #[error("the published law is for models of at least 40 million parameters")]
    SmallModel,
    #[error("the published law is for runs of billions of tokens")]
    FewTokens,
}

/// The loss of a model according to the published law.
///
/// # Errors
/// The reason, if the law does not apply to the model.
pub fn expected_loss(parameters: u64, tokens: u64, vocab_size: u64) -> Result<ExpectedLoss, Withheld> {
    let (n, d) = (parameters as f64, tokens as f64);
    if vocab_size < SMALLEST_VOCABULARY {
        return Err(Withheld::SmallVocabulary);
    }
    if n < SMALLEST_MODEL {
        return Err(Withheld::SmallModel);
    }
    if d < FEWEST_TOKENS {
        return Err(Withheld::FewTokens);
    }
    let terms = CHINCHILLA.terms(n, d);
    Ok(ExpectedLoss {
        loss: terms.total(),
        terms,
        law: CHINCHILLA,
        source: Publication::Chinchilla,
        extrapolation: flops(n, d) > FARTHEST * LARGEST_FLOPS,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_withheld_where_it_says_nothing() {
        let why = |n, d, v| expected_loss(n, d, v).unwrap_err();
        assert_eq!(why(10_745_088, 200_000_000, 65), Withheld::SmallVocabulary);
        assert_eq!(why(10_000_000, 200_000_000, 50_257), Withheld::SmallModel);
        assert_eq!(why(124_439_808, 300_000, 50_257), Withheld::FewTokens);
    }

    #[test]
    fn chinchilla_and_gpt3_are_where_they_should_be() {
        // 70 billion parameters and 1.4 trillion tokens.
        let chinchilla = expected_loss(70_000_000_000, 1_400_000_000_000, 32_000).unwrap();
        assert!((chinchilla.loss - 1.9737).abs() < 0.005, "{}", chinchilla.loss);
        assert!((chinchilla.terms.total() - chinchilla.loss).abs() < 1e-12);
        assert!(chinchilla.extrapolation);
        assert!(!expected_loss(124_439_808, 2_488_796_160, 50_257).unwrap().extrapolation);
    }
}
