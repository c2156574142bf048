//! Signals that would end the program: Ctrl-C, SIGTERM, SIGHUP, SIGXFSZ and SIGBUS.

#![expect(unsafe_code, reason = "a bus error can only be met in a signal's handler")]

use crate::language::messages::main as message;
use crate::output;
use anyhow::{Context, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What the first Ctrl-C prints.
pub fn note() -> &'static str {
    message::Stopping.text()
}

/// Two signals within this time are one wish: terminals, shells and launchers pass them on to each other's processes.
const ONE_WISH: Duration = Duration::from_secs(1);

/// How often a write that must not be interrupted is looked at.
const MOMENT: Duration = Duration::from_millis(2);

/// Whether the run is to stop: the step under way is finished and saved.
static REQUESTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// Whether everything is saved and no signal has come before.
static SAVED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// When Ctrl-C was pressed first.
static PRESSED: Mutex<Option<Instant>> = Mutex::new(None);

/// Set when a signal has asked the run to stop.
pub fn requested() -> &'static AtomicBool {
    &REQUESTED
}

/// Lets the next signal end the process as usual, unless one has already asked the run to stop: then the process is about to
/// end by itself, and a late second signal must not turn a saved run into a failed one.
pub fn nothing_to_save() {
    if !REQUESTED.load(Ordering::Relaxed) {
        SAVED.store(true, Ordering::Relaxed);
    }
}

/// Makes Ctrl-C, SIGTERM and SIGHUP stop the run after the step under way; `note` is printed on the first Ctrl-C.
///
/// The first signal wins: further SIGTERMs and SIGHUPs change nothing until the run is saved. A person who presses Ctrl-C again,
/// and not only a moment later, gives up the steps since the last checkpoint; a file or folder that is being written is finished
/// even then.
pub fn watch(note: Option<&'static str>) -> Result<()> {
    watch_with(move || ctrl_c(note))
}

/// The same with something else to do on Ctrl-C.
pub fn watch_with(on_ctrl_c: impl FnMut() + Send + 'static) -> Result<()> {
    ctrlc::set_handler(on_ctrl_c).context(message::NoCtrlC)?;
    #[cfg(unix)]
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        let watched = signal_hook::flag::register_conditional_default(signal, Arc::clone(&SAVED))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&REQUESTED)));
        watched.context(message::NoSignals)?;
    }
    Ok(())
}

/// What Ctrl-C does to a run; see [`watch`].
pub fn ctrl_c(note: Option<&'static str>) {
    let mut pressed = PRESSED.lock().unwrap_or_else(PoisonError::into_inner);
    match *pressed {
        None if !SAVED.load(Ordering::Relaxed) || REQUESTED.load(Ordering::Relaxed) => {
            *pressed = Some(Instant::now());
            // Another signal may have asked before.
            if !REQUESTED.swap(true, Ordering::Relaxed) {
                note.into_iter().for_each(output::note);
            }
        }
        Some(first) if first.elapsed() < ONE_WISH => {}
        _ => {
            while minigpt_files::writes_under_way() > 0 {
                thread::sleep(MOMENT);
            }
            std::process::exit(130);
        }
    }
}

/// Makes a file that may grow no further an error of writing, like a full disk, instead of a signal that ends the
/// program.
pub fn never_on_large_files() -> Result<()> {
    #[cfg(unix)]
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default()).context(message::NoSignals)?;
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
        let why = format!("{}\n", message::FileCut);
        let say_and_exit = move || {
            // SAFETY: standard error is open, and stays so: it is never dropped.
            let mut stderr = ManuallyDrop::new(unsafe { File::from_raw_fd(2) });
            let _ = stderr.write_all(why.as_bytes());
            signal_hook::low_level::exit(1);
        };
        // SAFETY: writing to a descriptor and leaving at once are allowed in a handler.
        unsafe { signal_hook::low_level::register(signal_hook::consts::SIGBUS, say_and_exit) }
            .context(message::NoSignals)?;
    }
    Ok(())
}
