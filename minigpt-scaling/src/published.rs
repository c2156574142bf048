//! The law that others have published, and where it says nothing: a number that doesn't apply is worse than none.

use crate::law::{Law, LossTerms, flops};
use crate::predict::FARTHEST;
use serde::Serialize;

/// Besiroglu et al. 2024, who fitted the runs of Hoffmann et al. 2022 once more: the constants in that paper contradict its
/// own data.
pub const CHINCHILLA: Law = Law { e: 1.8172, a: 482.01, b: 2085.43, alpha: 0.3478, beta: 0.3658 };
/// Where these come from, in words.
pub const CHINCHILLA_SOURCE: &str =
    "Besiroglu et al. 2024, a replication of Hoffmann et al. 2022, for web text in about 32,000 tokens";

/// The smallest vocabulary whose tokens are like those of the published runs (32,000): pieces of words.
const SMALLEST_VOCABULARY: u64 = 8_000;
/// The smallest model of the published runs, about.
const SMALLEST_MODEL: f64 = 40e6;
/// The fewest tokens that make sense beside those runs, which saw billions.
const FEWEST_TOKENS: f64 = 100e6;
/// The arithmetic of their largest run, about.
const LARGEST_FLOPS: f64 = 3e21;

/// The loss that the published law expects.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ExpectedLoss {
    /// In nats a token.
    pub loss: f64,
    /// What it is the sum of.
    pub terms: LossTerms,
    /// The constants.
    pub law: Law,
    /// Who published them, and for what.
    pub source: &'static str,
    /// Whether it is farther than ten times the arithmetic of the largest run behind the law.
    pub extrapolation: bool,
}

/// Why the published law says nothing about a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Withheld {
    /// A loss a token means something else with tokens that are so small.
    SmallVocabulary,
    /// Far smaller than any model behind the law.
    SmallModel,
    /// Far fewer tokens than any run behind the law saw.
    FewTokens,
}

impl Withheld {
    /// The reason in words.
    pub fn reason(self) -> &'static str {
        match self {
            Self::SmallVocabulary => {
                "the published law is for vocabularies of about 32,000 pieces of words; a loss a token means something else here"
            }
            Self::SmallModel => "the published law is for models of 40 million parameters and more",
            Self::FewTokens => "the published law is for runs of billions of tokens",
        }
    }
}

/// The loss that the published law expects of a model; or why it says nothing about it.
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
        source: CHINCHILLA_SOURCE,
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
