//! Where the arithmetic happens: the one place that chooses.

use crate::language::messages::common as message;
use anyhow::{Context, Result};
use clap::ValueEnum;
use minigpt_model::Device;

/// What can do the arithmetic.
#[derive(Clone, Copy, ValueEnum)]
pub enum DeviceKind {
    /// CPU.
    Cpu,
    /// NVIDIA GPU; needs a build with `--features cuda`.
    // PyTorch's names.
    #[value(aliases = ["cuda:0", "cuda:1", "cuda:2", "cuda:3"])]
    Cuda,
    /// Apple GPU; needs a build with `--features metal`.
    #[value(alias = "mps")]
    Metal,
}

impl DeviceKind {
    /// Opens the device.
    pub fn open(self) -> Result<Device> {
        match self {
            Self::Cpu => Ok(Device::Cpu),
            Self::Cuda => Device::new_cuda(0).context(message::NoCuda),
            Self::Metal => Device::new_metal(0).context(message::NoMetal),
        }
    }
}
