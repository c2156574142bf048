//! How long ranks take to add up gradients and share weights, under mpirun:
//!
//!     cargo build --release -p minigpt-train --example exchange
//!     mpirun -n 2 target/release/examples/exchange 50        # megabytes; beside bench/allreduce.c
//!     mpirun -n 2 target/release/examples/exchange large     # messages beyond 2³¹ bytes arrive whole
#![expect(clippy::print_stdout, reason = "this is what it is for")]

use minigpt_train::distributed::{Exchange, Terms, nodes_of};
use minigpt_train::{Launcher, MpiRank, SingleRank};
use std::sync::Arc;
use std::time::Instant;

/// Numbers of one round, as the trainer has them.
const ROUND: usize = 1 << 23;
const TIMES: usize = 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let exchange: Arc<dyn Exchange> = match Launcher::of_this_process() {
        Some(launcher) => Arc::new(MpiRank::start(&launcher, |_| ())?),
        None => SingleRank::exchange(),
    };
    match std::env::args().nth(1).unwrap_or_default().as_str() {
        "large" => large(exchange.as_ref()),
        megabytes => speed(exchange.as_ref(), megabytes.parse().unwrap_or(50)),
    }
}

/// The sum of every rank's numbers, by their owners, and to everybody again.
fn speed(exchange: &dyn Exchange, megabytes: usize) -> Result<(), Box<dyn std::error::Error>> {
    let (rank, ranks) = (exchange.rank(), exchange.ranks());
    let numbers: Vec<f32> = (0..megabytes * 250_000).map(|i| (i % 1000 + rank) as f32).collect();
    let nodes: Vec<_> = (0..ranks).map(|rank| nodes_of(ranks, rank..rank + 1)).collect();
    let (mut times, mut all) = (Vec::new(), vec![0f32; numbers.len()]);
    for _ in 0..TIMES {
        exchange.gather(&[])?;
        let begun = Instant::now();
        for (given, taken) in numbers.chunks(ROUND).zip(all.chunks_mut(ROUND)) {
            let end = |rank: usize| rank * given.len() / ranks;
            let lengths: Vec<usize> = (0..ranks).map(|rank| end(rank + 1) - end(rank)).collect();
            let mut own = vec![0f32; lengths[rank]];
            exchange.reduce_scatter(
                &Terms { numbers: given, lengths: &lengths, nodes: &nodes, parts: ranks },
                &mut own,
            )?;
            exchange.all_gather(&own, &lengths, taken)?;
        }
        times.push(begun.elapsed().as_secs_f64());
    }
    let right =
        |(i, &sum): (usize, &f32)| sum == (0..ranks).map(|rank| (i % 1000 + rank) as f32).sum::<f32>();
    if !all.iter().enumerate().all(right) {
        return Err("the sum is wrong".into());
    }
    times.sort_by(f64::total_cmp);
    if rank == 0 {
        println!(
            "{megabytes} MB on {ranks} ranks: median {:.1} ms, best {:.1} ms",
            1e3 * times[TIMES / 2],
            1e3 * times[0]
        );
    }
    Ok(())
}

/// More bytes than an `int` counts, from the first rank to all and from all to all.
fn large(exchange: &dyn Exchange) -> Result<(), Box<dyn std::error::Error>> {
    const BYTES: usize = (1 << 31) + 12_345;
    let byte = |i: usize, rank: usize| (i / 4099 + 17 * rank) as u8;
    let mut bytes: Vec<u8> = match exchange.rank() {
        0 => (0..BYTES).map(|i| byte(i, 0)).collect(),
        _ => Vec::new(),
    };
    exchange.broadcast(&mut bytes)?;
    if bytes.len() != BYTES || !bytes.iter().enumerate().all(|(i, &found)| found == byte(i, 0)) {
        return Err("what was broadcast is not what arrived".into());
    }
    drop(bytes);
    let own: Vec<u8> = (0..BYTES / 2 + exchange.rank()).map(|i| byte(i, exchange.rank())).collect();
    for (rank, record) in exchange.gather(&own)?.iter().enumerate() {
        let whole = record.iter().enumerate().all(|(i, &found)| found == byte(i, rank));
        if record.len() != BYTES / 2 + rank || !whole {
            return Err(format!("what rank {rank} gave is not what arrived").into());
        }
    }
    if exchange.rank() == 0 {
        println!("{BYTES} bytes arrived whole on {} ranks", exchange.ranks());
    }
    Ok(())
}
