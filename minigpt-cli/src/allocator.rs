//! The allocator, and what it does with memory that is free for the moment.
#![expect(unsafe_code, reason = "an option of a C library")]

use std::ffi::{c_int, c_long};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// mimalloc's `mi_option_allow_large_os_pages`: whether to ask the system for pages of 2 MB.
const LARGE_PAGES: c_int = 6;
const YES: c_long = 1;
/// mimalloc's `mi_option_purge_delay`: after how many milliseconds free memory goes back to the system.
const PURGE_DELAY: c_int = 15;
/// Never.
const NEVER: c_long = -1;
/// At once.
const AT_ONCE: c_long = 0;

/// Keeps free memory for the next step, which asks for just as much: given back to the system, it would have to be
/// cleared each time it is asked for again, which took a tenth of a training step. Large pages are found faster.
pub fn keep_memory() {
    // SAFETY: known options with values that they may have; no thread but this one runs yet.
    unsafe {
        libmimalloc_sys::mi_option_set(PURGE_DELAY, NEVER);
        libmimalloc_sys::mi_option_set(LARGE_PAGES, YES);
    }
}

/// Does work whose free memory goes back to the system at once: opening a model takes twice the memory that the model has, and
/// a server would keep it for ever.
pub fn giving_back<T>(work: impl FnOnce() -> T) -> T {
    let set = |delay| {
        // SAFETY: a known option with a value that it may have; mimalloc reads and writes its options atomically.
        unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, delay) };
    };
    set(AT_ONCE);
    let done = work();
    // SAFETY: may be called at any time, from any thread.
    unsafe { libmimalloc_sys::mi_collect(true) };
    set(NEVER);
    done
}
