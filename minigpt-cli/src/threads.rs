//! The threads that compute.
#![expect(unsafe_code, reason = "the environment is the only way to tell candle")]

use crate::arguments::numbers;
use crate::language::messages::main as message;
use anyhow::{Context, Result};
use minigpt::machine;
use minigpt_train::Launcher;
use std::env;

/// Keeps candle from using threads of its own for element-wise work. They wait by spinning, on the same cores as the
/// threads that train on a part of the batch each: a step of a small model takes twice as long with them. A person
/// who sets the variable is obeyed.
pub fn choose() {
    const CANDLE: &str = "CANDLE_NUM_THREADS";
    if env::var_os(CANDLE).is_none() {
        // SAFETY: nothing but this thread runs yet.
        unsafe { env::set_var(CANDLE, "1") };
    }
}

/// Parses a number of threads.
pub fn number(text: &str) -> Result<u16, String> {
    match numbers::whole(text)? {
        0 => Err(message::NoThreads.to_string()),
        threads => Ok(threads),
    }
}

/// Starts the threads that share the work: as many as asked for, or one for each core. Left to the first use of them, a
/// system that gives none would end the program there.
pub fn start(threads: Option<usize>) -> Result<()> {
    // 0 leaves it to rayon, which asks the environment and then the system.
    let threads = threads.or_else(of_a_rank).unwrap_or(0);
    let started = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    started.context(message::NoMoreThreads)
}

/// Several ranks on one machine share its cores, unless their launcher or a person has divided them.
fn of_a_rank() -> Option<usize> {
    Launcher::of_this_process()?;
    let (own, all) = machine::cores_of_this_process()?;
    (own == all && env::var_os("RAYON_NUM_THREADS").is_none())
        .then_some((all / Launcher::ranks_here()?).max(1))
}
