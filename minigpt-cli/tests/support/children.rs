//! Programs that tests start end with their tests, also when the tests are killed.

use std::process::Command;

/// Lets the system kill the program as soon as the thread that starts it has ended. On other systems than Linux it may go on.
pub fn end_with_test(command: &mut Command) -> &mut Command {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, set_parent_process_death_signal};
        use std::os::unix::process::CommandExt;
        let bind = || Ok(set_parent_process_death_signal(Some(Signal::KILL))?);
        // SAFETY: between fork and exec, the closure makes one system call and allocates nothing.
        #[expect(unsafe_code, reason = "the standard library has no safe way to run this in the child")]
        unsafe {
            command.pre_exec(bind);
        }
    }
    command
}
