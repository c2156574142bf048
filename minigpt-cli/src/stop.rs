//! What ends training from outside beside Ctrl-C: a request to terminate, and a terminal that was closed.

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
