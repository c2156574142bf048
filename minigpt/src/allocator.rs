//! The allocator, and what it does with memory that is free for the moment.
#![expect(unsafe_code, reason = "an option of a C library")]

use std::ffi::{c_int, c_long};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// mimalloc's `mi_option_purge_delay`: after how many milliseconds free memory goes back to the system.
const PURGE_DELAY: c_int = 15;
/// Never.
const NEVER: c_long = -1;

/// Keeps free memory for the next step, which asks for just as much: given back to the system, it would have to be
/// cleared each time it is asked for again, which took a tenth of a training step.
pub fn keep_memory() {
    // SAFETY: a known option with a value that it may have; no thread but this one runs yet.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, NEVER) };
}
