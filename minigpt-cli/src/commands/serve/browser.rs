//! An address in the browser of the person who asked for it.

use crate::language::messages::serve as message;
use crate::output;
use std::process::{Command, Stdio};

/// Opens an address; that this can't be done is no reason to stop.
pub fn open(address: &str) {
    let (program, first): (&str, &[&str]) = if cfg!(target_os = "macos") {
        ("open", &[])
    } else if cfg!(windows) {
        ("cmd", &["/c", "start", ""])
    } else {
        ("xdg-open", &[])
    };
    let started = Command::new(program)
        .args(first)
        .arg(address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match started {
        // Somebody has to wait for it, or it stays in the system's list until the server ends.
        Ok(mut child) => drop(std::thread::spawn(move || child.wait())),
        Err(error) => {
            output::note(message::NoBrowser { program: &program, error: &error, address: &address });
        }
    }
}
