//! The engine on a thread of its own, for servers: requests come from any thread, and each has somebody who is told what
//! happens to it.

use super::request::{Limits, Refused, Request, RequestId};
use super::status::EngineStatus;
use super::{Engine, EngineEvent};
use crate::error::{Error, panic_message};
use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Who is told what happens to a request.
type Listener = Box<dyn FnMut(EngineEvent) -> ControlFlow<()> + Send>;

/// An engine that runs on a thread of its own. A clone is another handle to the same; when the last is dropped, the engine
/// ends.
#[derive(Clone)]
pub struct EngineThread {
    handle: Arc<Handle>,
}

/// A request on its way. Dropped, the request is cancelled before the next step.
#[derive(Debug)]
#[must_use]
pub struct Ticket {
    shared: Arc<Shared>,
    number: u64,
}

struct Handle {
    shared: Arc<Shared>,
    limits: Limits,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    woken: Condvar,
}

/// What the handles and the loop tell each other.
#[derive(Default)]
struct State {
    new: Vec<(u64, Request, Listener)>,
    cancelled: Vec<u64>,
    next: u64,
    status: EngineStatus,
    /// When all that still runs is given up, once there are to be no more requests.
    stop: Option<Instant>,
    ended: bool,
    /// What the panic said that ended the loop, if one did.
    failure: Option<String>,
    on_failure: Vec<OnFailure>,
}

/// Called with what the panic said that ended the loop.
type OnFailure = Box<dyn FnOnce(&str) + Send>;

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

impl fmt::Debug for EngineThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineThread").field("limits", &self.handle.limits).finish()
    }
}

impl EngineThread {
    /// Starts the loop.
    pub fn start(engine: Engine) -> Self {
        let limits = engine.scheduler.limits().clone();
        let shared = Arc::new(Shared::default());
        shared.lock().status = engine.status();
        let run = { Arc::clone(&shared) };
        let thread = std::thread::Builder::new().name("engine".to_owned()).spawn(move || {
            Loop { engine, shared: run, listeners: HashMap::new(), numbers: HashMap::new() }.run();
        });
        if let Err(error) = &thread {
            let mut state = shared.lock();
            (state.ended, state.failure) = (true, Some(error.to_string()));
        }
        Self { handle: Arc::new(Handle { shared, limits, thread: Mutex::new(thread.ok()) }) }
    }

    /// Takes a request. `listener` is told what happens to it, on the engine's thread: it must not block, and stops the
    /// request by returning [`ControlFlow::Break`].
    pub fn submit(
        &self,
        request: Request,
        listener: impl FnMut(EngineEvent) -> ControlFlow<()> + Send + 'static,
    ) -> Result<Ticket, Refused> {
        let request = self.handle.limits.check(request)?;
        let shared = &self.handle.shared;
        let mut state = shared.lock();
        if let Some(message) = &state.failure {
            return Err(Refused::EngineFailed { message: message.clone() });
        }
        if state.stop.is_some() || state.ended {
            return Err(Refused::Stopping);
        }
        let limit = self.handle.limits.max_queue;
        let free = state.status.slots.iter().filter(|slot| slot.request.is_none()).count();
        let texts = state.new.len() + state.status.queued;
        let waiting = requests(&state.new) + state.status.waiting;
        if !request.follows && texts >= free && waiting.saturating_sub(free) >= limit {
            return Err(Refused::QueueFull { limit });
        }
        let number = state.next;
        state.next += 1;
        state.new.push((number, request, Box::new(listener)));
        drop(state);
        shared.woken.notify_all();
        Ok(Ticket { shared: Arc::clone(shared), number })
    }

    /// What the engine is doing, as of the last step. Answers at once, whatever is computed.
    pub fn status(&self) -> EngineStatus {
        let state = self.handle.shared.lock();
        let mut status = state.status.clone();
        status.queued += state.new.len();
        status.waiting += requests(&state.new);
        status
    }

    /// What ended the engine's thread, if a panic did. From then on every request is refused.
    pub fn failure(&self) -> Option<String> {
        self.handle.shared.lock().failure.clone()
    }

    /// Calls a function, on the engine's thread, if a panic ends that thread: with what the panic said, after every request
    /// has been failed. Called at once if that has happened already.
    pub fn on_failure(&self, call: impl FnOnce(&str) + Send + 'static) {
        let mut state = self.handle.shared.lock();
        match state.failure.clone() {
            None => state.on_failure.push(Box::new(call)),
            Some(failure) => {
                drop(state);
                call(&failure);
            }
        }
    }

    /// Takes no more requests, gives the running ones so much time, and returns when the loop has ended. What is not done
    /// by then fails with [`Error::Stopped`].
    pub fn stop(&self, grace: Duration) {
        self.handle.shared.lock().stop = Some(Instant::now() + grace);
        self.handle.shared.woken.notify_all();
        let thread = self.handle.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // Whatever ended it, it has ended.
            drop(thread.join());
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.lock().stop.get_or_insert_with(Instant::now);
        self.shared.woken.notify_all();
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if !state.ended {
            state.cancelled.push(self.number);
            drop(state);
            self.shared.woken.notify_all();
        }
    }
}

/// Requests among new texts: those that count in the queue.
fn requests(new: &[(u64, Request, Listener)]) -> usize {
    new.iter().filter(|(_, request, _)| !request.follows).count()
}

struct Loop {
    engine: Engine,
    shared: Arc<Shared>,
    listeners: HashMap<RequestId, (u64, Listener)>,
    numbers: HashMap<u64, RequestId>,
}

impl Loop {
    fn run(mut self) {
        let looped = catch_unwind(AssertUnwindSafe(|| {
            while self.receive() {
                let events = self.engine.step();
                // A client that reads that its text is done finds the slot free.
                self.shared.lock().status = self.engine.status();
                events.into_iter().for_each(|(id, event)| self.tell(id, event));
            }
        }));
        self.fail_all(looped.err().map(|panic| panic_message(&*panic)));
    }

    /// Takes no more requests and fails those that are under way: nobody waits for an answer that never comes.
    fn fail_all(self, failure: Option<String>) {
        let Self { mut engine, shared, listeners, .. } = self;
        let mut state = shared.lock();
        (state.ended, state.failure) = (true, failure.clone());
        let (new, on_failure) = (std::mem::take(&mut state.new), std::mem::take(&mut state.on_failure));
        drop(state);
        let error = || match &failure {
            None => Error::Stopped,
            Some(message) => Error::EngineFailed { message: message.clone() },
        };
        let running = listeners.into_values().map(|(_, listener)| listener);
        for mut listener in running.chain(new.into_iter().map(|(.., listener)| listener)) {
            let told = AssertUnwindSafe(move || listener(EngineEvent::Failed(error())));
            drop(catch_unwind(told));
        }
        match failure {
            None => {
                engine.scheduler.ids().into_iter().for_each(|id| engine.cancel(id));
                shared.lock().status = engine.status();
            }
            Some(failure) => on_failure.into_iter().for_each(|call| call(&failure)),
        }
    }

    /// Waits for something to do, and takes what has come; false when it is time to end.
    fn receive(&mut self) -> bool {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        state.status = self.engine.status();
        loop {
            let idle = self.engine.is_idle() && state.new.is_empty();
            let over = state.stop.is_some_and(|end| idle || Instant::now() >= end);
            if over {
                return false;
            }
            if !idle {
                break;
            }
            state.cancelled.clear();
            state = shared.woken.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let (new, cancelled) = (std::mem::take(&mut state.new), std::mem::take(&mut state.cancelled));
        // Between two locks they still count, or the queue would look shorter than it is.
        state.status.queued += new.len();
        state.status.waiting += requests(&new);
        drop(state);
        for (number, request, listener) in new {
            self.begin(number, request, listener);
        }
        for number in cancelled {
            if let Some(id) = self.numbers.get(&number).copied() {
                self.end(id);
                self.engine.cancel(id);
            }
        }
        self.shared.lock().status = self.engine.status();
        true
    }

    fn begin(&mut self, number: u64, request: Request, mut listener: Listener) {
        match self.engine.submit(request) {
            Ok(id) => {
                self.listeners.insert(id, (number, listener));
                self.numbers.insert(number, id);
            }
            // Counted and checked before, but the count was that of another moment.
            Err(refused) => {
                drop(catch_unwind(AssertUnwindSafe(|| listener(EngineEvent::Failed(refused.into())))));
            }
        }
    }

    fn tell(&mut self, id: RequestId, event: EngineEvent) {
        let Some((_, listener)) = self.listeners.get_mut(&id) else { return };
        let last = matches!(event, EngineEvent::Done { .. } | EngineEvent::Failed(_));
        let told = catch_unwind(AssertUnwindSafe(|| listener(event)));
        let leaves = !matches!(told, Ok(ControlFlow::Continue(())));
        if last || leaves {
            self.end(id);
        }
        if leaves && !last {
            self.engine.cancel(id);
        }
    }

    fn end(&mut self, id: RequestId) {
        if let Some((number, _)) = self.listeners.remove(&id) {
            self.numbers.remove(&number);
        }
    }
}
