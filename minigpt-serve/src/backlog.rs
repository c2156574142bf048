//! Events of a request that the engine has sent and the client has not been sent yet.
//!
//! The engine never waits for a client, so what a slow client has not read waits here. All clients together have a bounded
//! amount of memory: where it is used up, the answer of the client that has been behind for longest ends with an error.

use minigpt_generate::EngineEvent;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;
use tokio::sync::Notify;

/// Bytes of events that may wait for all clients together.
const ALL: usize = 128 << 20;
/// Bytes that wait for one client before no further text of its request is begun.
const ENOUGH: usize = 256 << 10;

/// An event with the text that it is about, and when it happened.
#[derive(Debug)]
pub(crate) struct Happened {
    pub row: usize,
    pub at: Instant,
    pub event: EngineEvent,
}

/// All backlogs of a server.
#[derive(Debug, Default)]
pub(crate) struct Backlogs {
    bytes: AtomicUsize,
    open: Mutex<Vec<Weak<Backlog>>>,
}

/// The backlog of one request.
#[derive(Debug)]
pub(crate) struct Backlog {
    all: Arc<Backlogs>,
    state: Mutex<State>,
    news: Notify,
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<(Happened, usize)>,
    bytes: usize,
    /// The client was too slow: its events are gone.
    dropped: bool,
}

/// The client has been too slow.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooSlow;

impl Backlogs {
    /// Bytes of events that wait, of all requests.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The backlog of a new request.
    pub fn open(self: &Arc<Self>) -> Arc<Backlog> {
        let (state, news) = (Mutex::default(), Notify::new());
        let backlog = Arc::new(Backlog { all: Arc::clone(self), state, news });
        let mut open = lock(&self.open);
        open.retain(|backlog| backlog.strong_count() > 0);
        open.push(Arc::downgrade(&backlog));
        backlog
    }

    /// Drops the events of the clients that have been behind for longest, until the others have room.
    fn make_room(&self) {
        while self.bytes() > ALL {
            let open: Vec<Arc<Backlog>> = lock(&self.open).iter().filter_map(Weak::upgrade).collect();
            let oldest = open.iter().filter_map(|backlog| Some((backlog.waits_since()?, backlog)));
            match oldest.min_by_key(|(since, _)| *since) {
                Some((_, backlog)) => backlog.drop_events(),
                None => return,
            }
        }
    }
}

impl Backlog {
    /// Takes an event, on the engine's thread. [`ControlFlow::Break`] if nobody will read it.
    pub fn push(&self, row: usize, event: EngineEvent) -> ControlFlow<()> {
        let bytes = bytes_of(&event);
        let mut state = lock(&self.state);
        if state.dropped {
            return ControlFlow::Break(());
        }
        state.bytes += bytes;
        state.events.push_back((Happened { row, at: Instant::now(), event }, bytes));
        let all = self.all.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        drop(state);
        self.news.notify_one();
        if all > ALL {
            self.all.make_room();
        }
        ControlFlow::Continue(())
    }

    /// The next event, when there is one.
    pub async fn next(&self) -> Result<Happened, TooSlow> {
        loop {
            {
                let mut state = lock(&self.state);
                if state.dropped {
                    return Err(TooSlow);
                }
                if let Some((happened, bytes)) = state.events.pop_front() {
                    state.bytes -= bytes;
                    self.all.bytes.fetch_sub(bytes, Ordering::Relaxed);
                    return Ok(happened);
                }
            }
            self.news.notified().await;
        }
    }

    /// Whether so much waits that no further text should be begun.
    pub fn is_long(&self) -> bool {
        lock(&self.state).bytes > ENOUGH
    }

    fn waits_since(&self) -> Option<Instant> {
        lock(&self.state).events.front().map(|(happened, _)| happened.at)
    }

    fn drop_events(&self) {
        let mut state = lock(&self.state);
        state.dropped = true;
        self.forget(&mut state);
        drop(state);
        self.news.notify_one();
    }

    fn forget(&self, state: &mut State) {
        self.all.bytes.fetch_sub(state.bytes, Ordering::Relaxed);
        state.bytes = 0;
        state.events = VecDeque::new();
    }
}

impl Drop for Backlog {
    fn drop(&mut self) {
        let mut state = std::mem::take(self.state.get_mut().unwrap_or_else(PoisonError::into_inner));
        self.forget(&mut state);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The memory of an event, near enough.
fn bytes_of(event: &EngineEvent) -> usize {
    let alternatives = |top: &[(u32, f64)]| size_of_val(top);
    let inside = match event {
        EngineEvent::Token { top, text, .. } => alternatives(top) + text.len(),
        EngineEvent::Prompt { logprobs, .. } => {
            size_of_val(&logprobs[..]) + logprobs.iter().map(|token| alternatives(&token.top)).sum::<usize>()
        }
        EngineEvent::Found(found) => found.iter().map(|found| 16 * found.ids.len() + 64).sum(),
        _ => 0,
    };
    size_of::<Happened>() + inside
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(alternatives: usize) -> EngineEvent {
        let top = vec![(0, 0.0); alternatives];
        EngineEvent::Token { id: 1, logprob: 0.0, top, text: "a".into(), explanation: None }
    }

    fn next(backlog: &Backlog) -> Result<usize, TooSlow> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(backlog.next()).map(|happened| happened.row)
    }

    #[test]
    fn the_client_that_has_been_behind_for_longest_makes_room_for_the_others() {
        let all = Arc::new(Backlogs::default());
        let [stuck, slow, reads] = [(); 3].map(|()| all.open());
        assert!(stuck.push(0, token(10)).is_continue());
        assert!(slow.push(0, token(10)).is_continue());
        // The third reads all that it is sent: so much that the others are in the way.
        let large = 1 << 20;
        let (mut most, mut rounds) = (0, 0);
        while stuck.push(1, token(large)).is_continue() {
            assert!(slow.push(1, token(10)).is_continue());
            assert!(reads.push(3, token(10)).is_continue());
            assert_eq!(next(&reads), Ok(3));
            most = most.max(all.bytes());
            rounds += 1;
            assert!(rounds < 1000, "the one that never reads is never dropped");
        }
        assert!(rounds > 3 && !stuck.is_long() && most <= ALL, "{rounds} {most}");
        assert_eq!((next(&stuck), next(&slow)), (Err(TooSlow), Ok(0)));
        drop((stuck, slow, reads));
        assert_eq!(all.bytes(), 0, "nothing is counted of what is gone");
    }
}
