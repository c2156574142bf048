//! In how many bits a model is kept to run it.

use clap::ValueEnum;
use minigpt_model::Packing;

/// `--dtype` of the commands that run a model.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RunDtype {
    /// Plain numbers in 32 bits; what a file has in fewer bits stays so.
    F32,
    /// 16 bits.
    F16,
    /// 16 bits with the range of 32.
    Bf16,
    /// 8 bits, in blocks with a common scale.
    #[value(name = "q8_0")]
    Q8_0,
}

impl RunDtype {
    /// How many bytes a number takes.
    pub fn bytes(self) -> f64 {
        match self {
            Self::F32 => 4.0,
            Self::F16 | Self::Bf16 => 2.0,
            Self::Q8_0 => 34.0 / 32.0,
        }
    }

    /// What to do with the matrices of a model on the way into memory.
    pub fn packing(self) -> Option<Packing> {
        match self {
            Self::F32 => None,
            Self::F16 => Some(Packing::F16),
            Self::Bf16 => Some(Packing::Bf16),
            Self::Q8_0 => Some(Packing::Q8_0),
        }
    }
}
