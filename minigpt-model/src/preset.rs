//! Ready-made configurations by name: GPT-2's sizes, nanoGPT's Shakespeare models, and two decoders of other
//! projects.

use crate::config::{Activation, Config, NormPosition};
use crate::error::{ModelConfigError, Result};
use std::fmt;

/// A configuration with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the descriptions below say what they are")]
pub enum Preset {
    Gpt2,
    Gpt2Medium,
    Gpt2Large,
    Gpt2Xl,
    Gpt3,
    ShakespeareChar,
    ShakespeareCpu,
    Textbook,
    Qa,
}

impl Preset {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Gpt2,
        Self::Gpt2Medium,
        Self::Gpt2Large,
        Self::Gpt2Xl,
        Self::Gpt3,
        Self::ShakespeareChar,
        Self::ShakespeareCpu,
        Self::Textbook,
        Self::Qa,
    ];

    /// The preset of this name, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == name)
    }

    /// The name that people type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gpt2 => "gpt2",
            Self::Gpt2Medium => "gpt2-medium",
            Self::Gpt2Large => "gpt2-large",
            Self::Gpt2Xl => "gpt2-xl",
            Self::Gpt3 => "gpt3",
            Self::ShakespeareChar => "shakespeare-char",
            Self::ShakespeareCpu => "shakespeare-cpu",
            Self::Textbook => "textbook",
            Self::Qa => "qa",
        }
    }

    /// The configuration.
    pub fn config(self) -> Config {
        let gpt2 = |n_layer, n_head, n_embd| Config { n_layer, n_head, n_embd, ..Config::default() };
        // nanoGPT computes GELU by the error function, and its small models have no biases.
        let nanogpt = |config: Config, dropout| {
            let config = Config { vocab_size: 65, activation_function: Activation::Gelu, ..config };
            config.with_bias(false).with_dropout(dropout)
        };
        match self {
            Self::Gpt2 => Config::default(),
            Self::Gpt2Medium => gpt2(24, 16, 1024),
            Self::Gpt2Large => gpt2(36, 20, 1280),
            Self::Gpt2Xl => gpt2(48, 25, 1600),
            Self::Gpt3 => Config { block_size: 2048, ..gpt2(96, 96, 12_288) },
            Self::ShakespeareChar => nanogpt(Config { block_size: 256, ..gpt2(6, 6, 384) }, 0.2),
            Self::ShakespeareCpu => nanogpt(Config { block_size: 64, ..gpt2(4, 4, 128) }, 0.0),
            Self::Textbook => Config {
                vocab_size: 1000,
                block_size: 100,
                n_inner: Some(512),
                activation_function: Activation::Relu,
                norm_position: NormPosition::Post,
                scale_embeddings: true,
                lm_head_bias: true,
                tie_word_embeddings: false,
                ..gpt2(2, 4, 128)
            },
            Self::Qa => Config {
                vocab_size: 4825,
                block_size: 256,
                activation_function: Activation::Gelu,
                attn_out_bias: false,
                mlp_bias: false,
                ..gpt2(6, 8, 768)
            },
        }
    }
}

impl fmt::Display for Preset {
    /// Writes a description, without the name.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(match self {
            Self::Gpt2 => "GPT-2, 124M parameters",
            Self::Gpt2Medium => "GPT-2, 355M parameters",
            Self::Gpt2Large => "GPT-2, 774M parameters",
            Self::Gpt2Xl => "GPT-2, 1.6B parameters",
            Self::Gpt3 => "GPT-3's shape, 175B parameters: for planning",
            Self::ShakespeareChar => "nanoGPT's character-level Shakespeare, 10.7M parameters",
            Self::ShakespeareCpu => {
                "the small Shakespeare model that trains on a CPU in minutes, 0.8M parameters"
            }
            Self::Textbook => "the textbook decoder: post-norm, ReLU, untied head, 0.7M parameters",
            Self::Qa => "Chinese question answering, one token per character, 46M parameters",
        })
    }
}

impl Config {
    /// The configuration of the preset of this name.
    ///
    /// # Errors
    /// No preset has this name; the error lists the presets.
    pub fn preset(name: &str) -> Result<Self> {
        let preset = Preset::named(name);
        let preset = preset.ok_or_else(|| ModelConfigError::UnknownPreset { name: name.to_owned() })?;
        Ok(preset.config())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_valid() {
        for preset in Preset::ALL {
            preset.config().validate().unwrap();
        }
        assert!(Config::preset("gpt5").unwrap_err().to_string().contains("shakespeare-char"));
    }
}
