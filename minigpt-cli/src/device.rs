//! Where the arithmetic happens: the one place that chooses.

use crate::language::messages::common as message;
use anyhow::{Context, Result};
use clap::ValueEnum;
use minigpt_model::Device;

/// What can do the arithmetic.
#[derive(Clone, Copy, ValueEnum)]
pub enum DeviceKind {
    /// The processor.
    Cpu,
    /// An NVIDIA GPU; needs a build with `--features cuda`.
    Cuda,
    /// An Apple GPU; needs a build with `--features metal`.
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
