//! The engine on a thread of its own: everybody is served, and whoever leaves or fails costs nobody else anything.

use minigpt_generate::{
    Engine, EngineConfig, EngineEvent, EngineThread, Error, GenerationConfig, Refused, Request, SlotState,
    Ticket,
};
use minigpt_model::{Config, Device, Gpt};
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

fn start(slots: usize, max_queue: usize) -> EngineThread {
    let config = Config {
        vocab_size: 23,
        block_size: 512,
        n_layer: 2,
        n_head: 2,
        n_embd: 16,
        initializer_range: 0.4,
        ..Config::default()
    };
    let gpt = Gpt::new(config, 3, &Device::Cpu).unwrap();
    let config = EngineConfig { slots, max_queue, ..EngineConfig::default() };
    EngineThread::start(Engine::new(gpt, None, &config).unwrap())
}

fn request(prompt: u32, max_new_tokens: usize) -> Request {
    Request::new(vec![prompt], GenerationConfig { max_new_tokens, ..GenerationConfig::default() })
}

fn submit(engine: &EngineThread, request: Request) -> (Ticket, Receiver<EngineEvent>) {
    let (send, receive) = channel();
    let listener = move |event| match send.send(event) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    };
    (engine.submit(request, listener).unwrap(), receive)
}

/// The tokens of a text, to its end.
fn text(events: &Receiver<EngineEvent>) -> Vec<u32> {
    let mut ids = Vec::new();
    loop {
        match events.recv_timeout(PATIENCE).unwrap() {
            EngineEvent::Token { id, .. } => ids.push(id),
            EngineEvent::Done { .. } => return ids,
            EngineEvent::Failed(error) => panic!("{error}"),
            _ => (),
        }
    }
}

/// Waits until the engine is as it should be.
fn until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn busy(engine: &EngineThread) -> usize {
    engine.status().slots.iter().filter(|slot| slot.state != SlotState::Free).count()
}

#[test]
fn requests_of_many_threads_are_all_answered_as_if_alone() {
    let engine = start(3, 256);
    let want: Vec<Vec<u32>> = (0..8).map(|i| text(&submit(&engine, request(i, 12)).1)).collect();
    let threads: Vec<_> = (0..8)
        .map(|i| {
            let engine = engine.clone();
            std::thread::spawn(move || {
                let (_ticket, events) = submit(&engine, request(i, 12));
                text(&events)
            })
        })
        .collect();
    for (thread, want) in threads.into_iter().zip(want) {
        assert_eq!(thread.join().unwrap(), want);
    }
    until("all slots are free", || busy(&engine) == 0);
    let counters = engine.status().counters;
    assert_eq!((counters.finished, counters.failed, counters.generated_tokens), (16, 0, 192));
}

#[test]
fn a_dropped_ticket_or_a_listener_that_leaves_stops_the_work() {
    let engine = start(2, 256);
    let (ticket, events) = submit(&engine, request(1, 100_000_000));
    events.recv_timeout(PATIENCE).unwrap();
    drop(ticket);
    until("a dropped ticket stops the work", || busy(&engine) == 0);
    let (ticket, events) = submit(&engine, request(1, 100_000_000));
    events.recv_timeout(PATIENCE).unwrap();
    drop(events);
    until("a listener that leaves stops the work", || busy(&engine) == 0);
    drop(ticket);
    assert_eq!(engine.status().counters.cancelled, 2);
}

#[test]
fn a_listener_that_panics_ends_its_own_request_alone() {
    let engine = start(2, 256);
    let (_ticket, events) = submit(&engine, request(5, 30));
    let panics = |_: EngineEvent| -> ControlFlow<()> { panic!("on purpose") };
    let _bad = engine.submit(request(1, 100_000_000), panics).unwrap();
    assert_eq!(text(&events).len(), 30);
    until("the slot is free again", || busy(&engine) == 0);
    assert_eq!(text(&submit(&engine, request(5, 30)).1).len(), 30);
}

#[test]
fn too_many_are_refused_at_once() {
    let engine = start(1, 2);
    let running = submit(&engine, request(1, 100_000_000));
    until("the first has its slot", || busy(&engine) == 1);
    let waiting: Vec<_> = (0..2).map(|i| submit(&engine, request(i, 3))).collect();
    let refused = engine.submit(request(1, 1), |_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(refused, Refused::QueueFull { limit: 2 }), "{refused}");
    let wrong = engine.submit(request(99, 1), |_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(wrong, Refused::Invalid(_)) && wrong.to_string().contains("id 99"), "{wrong}");
    drop(running);
    for (_ticket, events) in &waiting {
        assert_eq!(text(events).len(), 3);
    }
}

#[test]
fn the_queue_counts_requests_and_not_their_further_texts() {
    let engine = start(1, 2);
    let _running = submit(&engine, request(1, 100_000_000));
    until("the first has its slot", || busy(&engine) == 1);
    let further = |i: u32| submit(&engine, Request { follows: true, ..request(i, 3) });
    let mut waiting = vec![submit(&engine, request(0, 3))];
    waiting.extend((1..6).map(further));
    let status = engine.status();
    assert_eq!((status.queued, status.waiting), (6, 1));
    waiting.push(submit(&engine, request(6, 3)));
    waiting.push(further(7));
    let refused = engine.submit(request(1, 1), |_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(refused, Refused::QueueFull { limit: 2 }), "{refused}");
}

/// Panics when it is dropped, which happens on the engine's thread.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("injected");
    }
}

#[test]
fn when_a_panic_ends_the_engine_all_requests_fail_and_none_is_accepted() {
    let engine = start(1, 256);
    let (failed, failures) = channel();
    engine.on_failure(move |why| failed.send(why.to_owned()).unwrap());
    let (_running, running) = submit(&engine, request(1, 100_000_000));
    running.recv_timeout(PATIENCE).unwrap();
    let bomb = Bomb;
    let listener = move |_| {
        let _held = &bomb;
        ControlFlow::Continue(())
    };
    let ticket = engine.submit(request(3, 1), listener).unwrap();
    let (_waiting, waiting) = submit(&engine, request(2, 3));
    until("both wait", || engine.status().queued == 2);
    assert_eq!(engine.failure(), None);
    // The listener of a cancelled request is dropped, and with it the bomb.
    drop(ticket);
    assert_eq!(failures.recv_timeout(PATIENCE).unwrap(), "injected");
    for events in [running, waiting] {
        let last = events.into_iter().last();
        assert!(
            matches!(&last, Some(EngineEvent::Failed(Error::EngineFailed { message })) if message == "injected"),
            "{last:?}"
        );
    }
    let refused = engine.submit(request(1, 1), |_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(refused, Refused::EngineFailed { .. }), "{refused}");
    assert_eq!(engine.failure().as_deref(), Some("injected"));
    let (late, said) = channel();
    engine.on_failure(move |why| late.send(why.to_owned()).unwrap());
    assert_eq!(said.try_recv().unwrap(), "injected");
    engine.stop(Duration::from_secs(1));
}

#[test]
fn the_queue_is_never_taken_for_shorter_than_it_is() {
    let engine = start(1, 2);
    let _running = submit(&engine, request(1, 100_000_000));
    until("the first has its slot", || busy(&engine) == 1);
    for round in 0..300 {
        let waiting: Vec<_> = (0..2).map(|i| submit(&engine, request(i, 3))).collect();
        for again in 0..20 {
            let refused = engine.submit(request(1, 1), |_| ControlFlow::Continue(()));
            assert!(matches!(refused, Err(Refused::QueueFull { limit: 2 })), "{round} {again}: {refused:?}");
        }
        drop(waiting);
        until("nobody waits", || engine.status().queued == 0);
    }
}

#[test]
fn stopping_lets_the_short_ones_finish_and_tells_the_others() {
    let engine = start(2, 256);
    let (_long, long) = submit(&engine, request(1, 1_000_000));
    let (_short, short) = submit(&engine, request(2, 5));
    let (_waiting, waiting) = submit(&engine, request(3, 1_000_000));
    engine.stop(Duration::from_millis(300));
    assert_eq!(text(&short).len(), 5);
    for events in [long, waiting] {
        let last = events.into_iter().last();
        assert!(matches!(last, Some(EngineEvent::Failed(Error::Stopped))), "{last:?}");
    }
    let refused = engine.submit(request(1, 1), |_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(refused, Refused::Stopping), "{refused}");
    assert_eq!(busy(&engine), 0);
}
