//! What this machine can do, measured in a moment.

use anyhow::Result;
use minigpt_model::{DType, Device, Tensor};
use std::time::{Duration, Instant};

/// The rate of matrix products on all cores, in multiplications and additions a second: the best of a few products of
/// two 1024 × 1024 matrices.
pub fn product_rate() -> Result<f64> {
    const N: usize = 1024;
    let a = Tensor::ones((N, N), DType::F32, &Device::Cpu)?;
    let begun = Instant::now();
    let mut best = Duration::MAX;
    while begun.elapsed() < Duration::from_millis(250) {
        let start = Instant::now();
        a.matmul(&a)?;
        best = best.min(start.elapsed());
    }
    Ok(2.0 * (N * N * N) as f64 / best.as_secs_f64())
}

/// The memory that can be had without pushing anybody out, where the system tells.
pub fn available_memory() -> Option<u64> {
    bytes_in("/proc/meminfo", "MemAvailable:")
}

/// The memory that this program has, where the system tells.
pub fn resident_memory() -> Option<u64> {
    bytes_in("/proc/self/status", "VmRSS:")
}

fn bytes_in(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}
