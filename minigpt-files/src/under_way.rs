//! Which files and folders are being written right now, for a program that wants to end only between two of them.

use std::sync::atomic::{AtomicUsize, Ordering};

static WRITES: AtomicUsize = AtomicUsize::new(0);

/// The number of files and folders that this process is writing: begun, and not in their place yet.
pub fn writes_under_way() -> usize {
    WRITES.load(Ordering::SeqCst)
}

/// One of them, as long as this lives.
#[derive(Debug)]
pub(crate) struct UnderWay(());

impl UnderWay {
    pub fn begin() -> Self {
        WRITES.fetch_add(1, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        WRITES.fetch_sub(1, Ordering::SeqCst);
    }
}
