//! Peak speed of this machine, measured in about a second on all threads. Speeds drift, in particular on shared machines:
//! compare only measurements made together.

use crate::error::Result;
use minigpt_kernels::{self as ops, Lanes, WeightLayout, multiply_adds, read_all};
use minigpt_model::{DType, Device, Tensor};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Minimum duration of a measurement.
const SPAN: Duration = Duration::from_millis(100);

/// Minimum number of repetitions.
const TIMES: usize = 4;

/// The best measured rates.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Limit {
    /// Number of threads.
    pub threads: usize,
    /// FLOP/s of the product of two 2048 × 2048 matrices.
    pub product_flops_per_second: f64,
    /// FLOP/s of multiply-adds in registers.
    pub multiply_add_flops_per_second: f64,
    /// Bandwidth of reading memory that is in no cache.
    pub read_bytes_per_second: f64,
}

impl Limit {
    /// Measures all three rates.
    pub fn measure() -> Result<Self> {
        Ok(Self {
            threads: rayon::current_num_threads(),
            product_flops_per_second: product_rate(2048)?,
            multiply_add_flops_per_second: multiply_add_rate()?,
            read_bytes_per_second: read_rate()?,
        })
    }
}

/// FLOP/s of the product of two n × n matrices, as the layers compute it.
pub fn product_rate(n: usize) -> Result<f64> {
    let a = Tensor::ones((n, n), DType::F32, &Device::Cpu).map_err(minigpt_model::Error::from)?;
    best_rate(|| {
        ops::linear(&a, &a, WeightLayout::InOut, None).map_err(minigpt_model::Error::from)?;
        Ok(2.0 * (n * n * n) as f64)
    })
}

/// The faster of two register widths.
fn multiply_add_rate() -> Result<f64> {
    const ROUNDS: usize = 100_000;
    let rate = |lanes| {
        best_rate(|| Ok(rayon::broadcast(|_| multiply_adds(ROUNDS, lanes)).into_iter().sum::<usize>() as f64))
    };
    Ok(rate(Lanes::Eight)?.max(rate(Lanes::Sixteen)?))
}

fn read_rate() -> Result<f64> {
    /// 256 MB, more than a cache holds; ones, because zeros would share one page.
    const NUMBERS: usize = 1 << 26;
    let numbers = vec![1f32; NUMBERS];
    let part = NUMBERS.div_ceil(rayon::current_num_threads());
    let parts: Vec<&[f32]> = numbers.chunks(part).collect();
    best_rate(|| {
        std::hint::black_box(rayon::broadcast(|thread| parts.get(thread.index()).map(|part| read_all(part))));
        Ok(size_of_val(&numbers[..]) as f64)
    })
}

/// The best rate of some work, which returns its amount. The first run is for warm-up.
fn best_rate(mut work: impl FnMut() -> Result<f64>) -> Result<f64> {
    work()?;
    let begun = Instant::now();
    let (mut best, mut times) = (0f64, 0);
    while times < TIMES || begun.elapsed() < SPAN {
        let start = Instant::now();
        let amount = work()?;
        best = best.max(amount / start.elapsed().as_secs_f64().max(1e-9));
        times += 1;
    }
    Ok(best)
}
