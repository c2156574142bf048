//! Sampling settings by purpose: story, code, summary or exact.

use crate::config::GenerationConfig;
use crate::error::{Error, Result, SettingProblem};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// The purpose of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// Surprising: temperature 0.9, the 40 likeliest tokens.
    Story,
    /// Careful: temperature 0.6, the 20 likeliest.
    Code,
    /// Sober: temperature 0.4, the 10 likeliest.
    Summary,
    /// The likeliest token, always.
    Exact,
}

impl Style {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Story, Self::Code, Self::Summary, Self::Exact];

    /// The name of the style.
    pub fn name(self) -> &'static str {
        match self {
            Self::Story => "story",
            Self::Code => "code",
            Self::Summary => "summary",
            Self::Exact => "exact",
        }
    }

    /// Sets `do_sample`, `temperature` and `top_k`.
    pub fn apply(self, config: &mut GenerationConfig) {
        let (do_sample, temperature, top_k) = match self {
            Self::Story => (true, 0.9, 40),
            Self::Code => (true, 0.6, 20),
            Self::Summary => (true, 0.4, 10),
            Self::Exact => (false, 1.0, 0),
        };
        (config.do_sample, config.temperature, config.top_k) = (do_sample, temperature, top_k);
    }
}

impl FromStr for Style {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let style = Self::ALL.into_iter().find(|style| style.name() == name);
        style.ok_or_else(|| Error::config("style", SettingProblem::UnknownStyle(name.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_style_is_valid_and_found_by_its_name() {
        for style in Style::ALL {
            assert_eq!(style.name().parse::<Style>().unwrap(), style);
            let mut config = GenerationConfig { seed: 7, ..GenerationConfig::default() };
            style.apply(&mut config);
            config.validate().unwrap();
            assert_eq!((config.is_greedy(), config.seed), (style == Style::Exact, 7));
        }
        assert!("poem".parse::<Style>().unwrap_err().to_string().contains("story, code, summary or exact"));
    }
}
