//! What would end the program from outside: a request to terminate, a terminal that was closed, a file that may grow no
//! further.

#![expect(unsafe_code, reason = "a bus error can only be met in a signal's handler")]

use crate::language::tr;
use anyhow::{Context, Result};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Sets `stop` on SIGTERM and SIGHUP, so that the step under way is finished and saved. Once it is set, by these or by
/// anybody else, such a signal ends the process as it usually does.
pub fn on_termination(stop: &Arc<AtomicBool>) -> Result<()> {
    #[cfg(unix)]
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        let watched = signal_hook::flag::register_conditional_default(signal, Arc::clone(stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(stop)));
        watched.context("signals could not be watched")?;
    }
    #[cfg(not(unix))]
    let _ = stop;
    Ok(())
}

/// Makes a file that may grow no further an error of writing, like a full disk, instead of a signal that ends the
/// program.
pub fn never_on_large_files() -> Result<()> {
    #[cfg(unix)]
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default())
        .context("signals could not be watched")?;
    Ok(())
}

/// Says why, when a file that is mapped into memory was cut short by another program or its disk failed: the signal for
/// that would end the program without a word.
pub fn with_words_on_cut_files() -> Result<()> {
    #[cfg(unix)]
    {
        use std::fs::File;
        use std::io::Write;
        use std::mem::ManuallyDrop;
        use std::os::fd::FromRawFd;
        let why =
            tr("error: a file was cut short by another program while it was read, or its disk failed\n");
        let say_and_exit = move || {
            // SAFETY: standard error is open, and stays so: it is never dropped.
            let mut stderr = ManuallyDrop::new(unsafe { File::from_raw_fd(2) });
            let _ = stderr.write_all(why.as_bytes());
            signal_hook::low_level::exit(1);
        };
        // SAFETY: writing to a descriptor and leaving at once are allowed in a handler.
        unsafe { signal_hook::low_level::register(signal_hook::consts::SIGBUS, say_and_exit) }
            .context("signals could not be watched")?;
    }
    Ok(())
}
