//! Which threads do the arithmetic, and that there are any.
#![expect(unsafe_code, reason = "the environment is the only way to tell candle")]

use anyhow::{Context, Result};
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

/// Starts the threads that share the work. Left to the first use of them, a system that gives none would end the
/// program there.
pub fn start() -> Result<()> {
    let started = rayon::ThreadPoolBuilder::new().build_global();
    started.context("the system gives no more threads; RAYON_NUM_THREADS says how many are asked for")
}
