//! A rank that waits too long is one that waits for ever: a cable was cut, or another machine stands still.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The least time to wait, unless the environment says another.
const LEAST: Duration = Duration::from_secs(60);

/// Looks at how long calls take, from a thread of its own.
#[derive(Debug)]
pub struct Watchdog {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    watched: Mutex<Watched>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Watched {
    /// When the call under way takes too long, and how long it may take.
    until: Option<(Instant, Duration)>,
    ended: bool,
}

impl Watchdog {
    /// Calls `bark` with the time that a call was given, when one takes longer.
    pub fn new(bark: impl Fn(Duration) + Send + 'static) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let seen = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("watchdog".to_owned()).spawn(move || seen.watch(&bark))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The least time that a call may take: `MINIGPT_WATCHDOG_SECONDS`, or a minute.
    pub fn least() -> Duration {
        let seconds = std::env::var("MINIGPT_WATCHDOG_SECONDS").ok().and_then(|text| text.parse().ok());
        let given = seconds.and_then(|seconds: f64| Duration::try_from_secs_f64(seconds).ok());
        given.filter(|given| !given.is_zero()).unwrap_or(LEAST)
    }

    /// Makes a call that may take so long.
    pub fn during<R>(&self, limit: Duration, call: impl FnOnce() -> R) -> R {
        self.shared.lock().until = Instant::now().checked_add(limit).map(|until| (until, limit));
        self.shared.changed.notify_all();
        let result = call();
        self.shared.lock().until = None;
        result
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self, bark: &dyn Fn(Duration)) {
        let mut watched = self.lock();
        while !watched.ended {
            let Some((until, limit)) = watched.until else {
                watched = self.changed.wait(watched).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                watched.until = None;
                drop(watched);
                bark(limit);
                watched = self.lock();
            } else {
                let waited = self.changed.wait_timeout(watched, left);
                watched = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_call_that_takes_too_long_is_told_once_and_a_short_one_never() {
        let (barked, heard) = channel();
        let watchdog = Watchdog::new(move |limit| barked.send(limit).unwrap()).unwrap();
        let limit = Duration::from_millis(20);
        watchdog.during(Duration::from_secs(60), || ());
        let told = watchdog.during(limit, || heard.recv_timeout(Duration::from_secs(10)));
        assert_eq!(told, Ok(limit));
        watchdog.during(Duration::from_secs(60), || std::thread::sleep(2 * limit));
        drop(watchdog);
        assert!(heard.try_recv().is_err());
    }
}
