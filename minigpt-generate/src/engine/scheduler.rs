//! The loop: requests wait, get slots, are prefilled and decoded step by step, and leave. `share` deals out the tokens of a step,
//! `job` uses its logits. Everything here changes the same state, and a quarter of the lines are tests, so it stays one file.

use super::event::{EngineEvent, Usage};
use super::job::{Beams, Job};
use super::pace::Pace;
use super::request::{EngineConfig, Limits, Refused, Request, RequestId};
use super::search::Search;
use super::sequence::{Sequence, view};
use super::share::{self, Share};
use super::slots::{Feed, Slots, common_prefix};
use super::status::{EngineCounters, EngineStatus, SlotState, SlotStatus};
use super::writer::Writer;
use crate::completion::Completion;
use crate::error::{Error, Result, SettingProblem};
use minigpt_model::Gpt;
use minigpt_tokenizer::Tokenizer;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

/// Tokens of a prompt whose logits are wanted, in one step: the logits of all of them are in memory at once.
const MOST_LOGITS: usize = 64;
/// So many tokens are worth waiting for, if another text is about to read them.
const WORTH_WAITING: usize = 8;

/// Everything of an engine except the tokenizer, which each step borrows.
#[derive(Debug)]
pub(crate) struct Scheduler {
    limits: Limits,
    slots: Slots,
    queue: VecDeque<(RequestId, Waiting)>,
    running: Vec<Running>,
    pace: Pace,
    next_id: u64,
    /// Steps so far: another prompt is read first in each.
    turn: usize,
    counters: EngineCounters,
}

#[derive(Debug)]
struct Waiting {
    request: Request,
    /// Whether it is a search even with one beam.
    search: bool,
}

#[derive(Debug)]
struct Running {
    id: RequestId,
    job: Job,
}

impl Scheduler {
    pub fn new(gpt: Gpt, has_tokenizer: bool, config: &EngineConfig) -> Result<Self> {
        let limits = Limits::new(gpt.config(), config, has_tokenizer)?;
        let slots = Slots::new(gpt, limits.slots, limits.context)?;
        let pace = Pace::new(config.step, config.fixed_chunk);
        let counters = EngineCounters::default();
        Ok(Self {
            limits,
            slots,
            queue: VecDeque::new(),
            running: Vec::new(),
            pace,
            next_id: 0,
            turn: 0,
            counters,
        })
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Takes a request: a search if it has several beams, otherwise a text.
    pub fn submit(&mut self, request: Request) -> std::result::Result<RequestId, Refused> {
        let search = request.config.num_beams > 1;
        self.enqueue(request, search)
    }

    /// Takes a search, of one beam or more.
    pub fn submit_search(&mut self, request: Request) -> std::result::Result<RequestId, Refused> {
        self.enqueue(request, true)
    }

    fn enqueue(&mut self, request: Request, search: bool) -> std::result::Result<RequestId, Refused> {
        if search && request.config.constraint.is_some() {
            return Err(Error::config("num_beams", SettingProblem::SearchWithGrammar).into());
        }
        let request = self.limits.check(request)?;
        let limit = self.limits.max_queue;
        // A request that finds a slot in the next step does not wait.
        let free = self.slots.free();
        if !request.follows && self.queue.len() >= free && self.waiting().saturating_sub(free) >= limit {
            return Err(Refused::QueueFull { limit });
        }
        let id = RequestId(self.next_id);
        self.next_id += 1;
        self.queue.push_back((id, Waiting { request, search }));
        Ok(id)
    }

    /// Requests that wait for the slot of their first text.
    fn waiting(&self) -> usize {
        self.queue.iter().filter(|(_, waiting)| !waiting.request.follows).count()
    }

    /// Lets go of a request.
    pub fn cancel(&mut self, id: RequestId) {
        let before = self.queue.len() + self.running.len();
        self.queue.retain(|(queued, _)| *queued != id);
        if let Some(index) = self.running.iter().position(|running| running.id == id) {
            self.retire(index);
        }
        self.counters.cancelled += (before - self.queue.len() - self.running.len()) as u64;
    }

    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.running.is_empty()
    }

    pub fn ids(&self) -> Vec<RequestId> {
        self.queue.iter().map(|(id, _)| *id).chain(self.running.iter().map(|running| running.id)).collect()
    }

    pub fn memory_bytes(&self) -> usize {
        self.slots.memory_bytes()
    }

    pub fn status(&self) -> EngineStatus {
        let slots = (0..self.slots.len()).map(|slot| self.slot_status(slot)).collect();
        EngineStatus {
            slots,
            queued: self.queue.len(),
            waiting: self.waiting(),
            counters: self.counters,
            memory_bytes: self.memory_bytes(),
            context: self.limits.context,
        }
    }

    fn slot_status(&self, slot: usize) -> SlotStatus {
        let request = self.slots.owner(slot);
        let running = self.running.iter().find(|running| Some(running.id) == request);
        let usage = running.map(|running| running.job.usage()).unwrap_or_default();
        let state = match running.map(|running| &running.job) {
            None => SlotState::Free,
            Some(Job::Text(writer)) if !writer.prompt_read => SlotState::Reading,
            Some(Job::Search(beams)) if beams.steps == 0 => SlotState::Reading,
            Some(_) => SlotState::Writing,
        };
        let n_past = self.slots.ids(slot).len();
        let Usage { prompt_tokens, completion_tokens, .. } = usage;
        SlotStatus { state, request, n_past, prompt_tokens, completion_tokens }
    }

    /// One step: a token for every text that writes, and tokens of prompts as far as the time allows.
    pub fn step(&mut self, tokenizer: Option<&Tokenizer>) -> Vec<(RequestId, EngineEvent)> {
        let mut events = Vec::new();
        self.admit(&mut events);
        if self.running.is_empty() {
            return events;
        }
        for Running { job, .. } in &mut self.running {
            let (sequences, rule) = job.sequences_mut();
            sequences.iter_mut().for_each(|sequence| sequence.make_room(&mut self.slots, rule));
        }
        self.copy_prefixes();
        let shares = self.shares();
        let started = Instant::now();
        match self.forward(&shares) {
            Ok(logits) => self.take_logits(&shares, logits, &mut events),
            Err(error) => self.fail_all(error, &mut events),
        }
        self.advance(tokenizer, &mut events);
        self.count(&shares, started);
        events
    }

    /// Gives waiting requests slots, in the order in which they came.
    fn admit(&mut self, events: &mut Vec<(RequestId, EngineEvent)>) {
        while let Some((_, Waiting { request, search })) = self.queue.front() {
            let needed = if *search { request.config.num_beams } else { 1 };
            if self.slots.free() < needed {
                return;
            }
            let Some((id, waiting)) = self.queue.pop_front() else { return };
            let start = catch_unwind(AssertUnwindSafe(|| self.start(id, waiting, needed)));
            if let Err(error) = start.unwrap_or_else(|panic| Err(Error::panicked(&*panic))) {
                self.slots.abandon(id);
                self.fail(id, error, events);
            }
        }
    }

    fn start(&mut self, id: RequestId, Waiting { request, search }: Waiting, needed: usize) -> Result<()> {
        let context = self.limits.context;
        let seen = view(&request.prompt, context);
        let keep = request.keep_prefix && !request.prompt_logprobs;
        let mut slots = Vec::with_capacity(needed);
        for i in 0..needed {
            let seen = if i == 0 { seen } else { &[] };
            let slot = self.slots.take(id, seen, keep && i == 0, request.cache_key)?;
            slots.push(slot.ok_or(Error::NoSlot)?);
        }
        let cached_tokens = self.slots.ids(slots[0]).len();
        self.counters.cached_tokens += cached_tokens as u64;
        let sequence = Sequence::new(request.prompt.clone(), slots[0], context);
        let job = if search {
            let Request { prompt, config, logit_bias, .. } = request;
            let usage = Usage { prompt_tokens: prompt.len(), cached_tokens, completion_tokens: 0 };
            let rule = config.context;
            let search = Search::new(prompt, config, logit_bias, context);
            Job::Search(Box::new(Beams { search, sequences: vec![sequence], slots, rule, usage, steps: 0 }))
        } else {
            let writer = Writer::new(request, sequence, cached_tokens, self.limits.has_tokenizer);
            Job::Text(Box::new(writer))
        };
        self.running.push(Running { id, job });
        Ok(())
    }

    /// Copies what another text has read meanwhile and a text was about to read: samples of one prompt read it once.
    fn copy_prefixes(&mut self) {
        for index in 0..self.running.len() {
            if self.waits(index) {
                continue;
            }
            let Job::Text(writer) = &mut self.running[index].job else { continue };
            let (slot, view) = (writer.sequence.slot, writer.sequence.view());
            let have = self.slots.ids(slot).len();
            if !writer.shares_prefix() || have + 1 >= view.len() {
                continue;
            }
            let best = self.slots.best_prefix(view, writer.request.cache_key);
            if let Some((from, common)) = best.filter(|&(_, common)| common > have)
                && self.slots.copy(from, slot, common).is_ok()
            {
                writer.usage.cached_tokens += common - have;
                self.counters.cached_tokens += (common - have) as u64;
            }
        }
    }

    /// Whether a text waits for an earlier one that is about to read the same.
    fn waits(&self, index: usize) -> bool {
        let Job::Text(writer) = &self.running[index].job else { return false };
        let (view, have) = (writer.sequence.view(), self.slots.ids(writer.sequence.slot).len());
        let reads_the_same = |earlier: &Running| match &earlier.job {
            Job::Search(_) => false,
            Job::Text(other) if other.request.cache_key != writer.request.cache_key => false,
            Job::Text(other) => {
                let common = common_prefix(other.sequence.view(), &view[..view.len() - 1]);
                let ahead = self.slots.ids(other.sequence.slot).len();
                have < common && ahead < common && common >= WORTH_WAITING
            }
        };
        writer.shares_prefix() && self.running[..index].iter().any(reads_the_same)
    }

    /// What each text feeds to the model: one token if that is all that is left, otherwise what it is given of the budget.
    fn shares(&mut self) -> Vec<Share> {
        let mut shares = Vec::new();
        for (running, Running { job, .. }) in self.running.iter().enumerate() {
            for (index, sequence) in job.sequences().iter().enumerate() {
                let pending = sequence.pending(&self.slots).len();
                if pending > 0 && !(pending > 1 && self.waits(running)) {
                    let most = if job.wants_prompt_logits() { pending.min(MOST_LOGITS) } else { pending };
                    shares.push(Share { running, sequence: index, tokens: 0, most, pending });
                }
            }
        }
        let budget = self.pace.budget(shares.iter().filter(|share| share.decodes()).count());
        self.turn = self.turn.wrapping_add(1);
        share::deal(&mut shares, budget, self.turn);
        shares
    }

    fn forward(&mut self, shares: &[Share]) -> Result<Vec<Vec<Vec<f32>>>> {
        let running = &self.running;
        let feeds: Vec<Feed> = shares
            .iter()
            .map(|share| {
                let job = &running[share.running].job;
                let sequence = &job.sequences()[share.sequence];
                let ids = &sequence.pending(&self.slots)[..share.tokens];
                let logits = match (job.wants_prompt_logits(), share.tokens == share.pending) {
                    (true, _) => share.tokens,
                    (false, last) => usize::from(last),
                };
                Feed { slot: sequence.slot, ids, logits }
            })
            .collect();
        let slots = &mut self.slots;
        let forward = catch_unwind(AssertUnwindSafe(|| slots.forward(&feeds)));
        forward.unwrap_or_else(|panic| Err(Error::panicked(&*panic)))
    }

    /// Hands each text the logits behind its tokens.
    fn take_logits(
        &mut self,
        shares: &[Share],
        logits: Vec<Vec<Vec<f32>>>,
        events: &mut Vec<(RequestId, EngineEvent)>,
    ) {
        let mut failed = Vec::new();
        for (share, mut logits) in shares.iter().zip(logits) {
            let Running { id, job } = &mut self.running[share.running];
            if job.wants_prompt_logits()
                && let Job::Text(writer) = job
                && let Err(error) = writer.take_prompt_logits(&logits)
            {
                failed.push((*id, error));
                continue;
            }
            if share.tokens == share.pending {
                job.sequences_mut().0[share.sequence].logits = logits.pop();
            }
        }
        failed.into_iter().for_each(|(id, error)| self.fail(id, error, events));
    }

    /// Lets each request go on that has the logits it waits for. Whatever goes wrong in one costs that one alone.
    fn advance(&mut self, tokenizer: Option<&Tokenizer>, events: &mut Vec<(RequestId, EngineEvent)>) {
        for id in self.running.iter().map(|running| running.id).collect::<Vec<_>>() {
            let Some(index) = self.running.iter().position(|running| running.id == id) else { continue };
            let (job, slots) = (&mut self.running[index].job, &mut self.slots);
            if !job.sequences().iter().all(|sequence| sequence.logits.is_some()) {
                continue;
            }
            let mut new = Vec::new();
            let advance = || match job {
                Job::Text(writer) => {
                    let logits = writer.sequence.logits.take().unwrap_or_default();
                    writer.write(&logits, slots.context(), tokenizer, &mut new)
                }
                Job::Search(beams) => beams.advance(slots, tokenizer, &mut new),
            };
            let done = catch_unwind(AssertUnwindSafe(advance));
            self.counters.generated_tokens +=
                new.iter().filter(|event| matches!(event, EngineEvent::Token { .. })).count() as u64;
            events.extend(new.into_iter().map(|event| (id, event)));
            match done.unwrap_or_else(|panic| Err(Error::panicked(&*panic))) {
                Ok(false) => (),
                Ok(true) => {
                    self.counters.finished += 1;
                    self.retire(index);
                }
                Err(error) => self.fail(id, error, events),
            }
        }
    }

    fn fail(&mut self, id: RequestId, error: Error, events: &mut Vec<(RequestId, EngineEvent)>) {
        if let Some(index) = self.running.iter().position(|running| running.id == id) {
            let slots = self.running[index].job.slots();
            // Their cache may be incomplete.
            slots.into_iter().for_each(|slot| self.slots.truncate(slot, 0));
            self.retire(index);
        }
        self.counters.finished += 1;
        self.counters.failed += 1;
        events.push((id, EngineEvent::Failed(error)));
    }

    /// A failed pass ends all requests: their caches may be incomplete.
    fn fail_all(&mut self, error: Error, events: &mut Vec<(RequestId, EngineEvent)>) {
        let error = Arc::new(error);
        for id in self.running.iter().map(|running| running.id).collect::<Vec<_>>() {
            self.fail(id, Error::Pass(error.clone()), events);
        }
    }

    fn retire(&mut self, index: usize) {
        let running = self.running.remove(index);
        running.job.slots().into_iter().for_each(|slot| self.slots.release(slot));
    }

    fn count(&mut self, shares: &[Share], started: Instant) {
        let writers = shares.iter().filter(|share| share.decodes()).count();
        let read: usize = shares.iter().filter(|share| !share.decodes()).map(|share| share.tokens).sum();
        let took = started.elapsed();
        self.pace.measured(writers, read, took);
        self.counters.prompt_tokens += read as u64;
        self.counters.steps += 1;
        self.counters.busy += took;
        self.counters.longest_step = self.counters.longest_step.max(took);
    }

    /// What of a text waits because it could become a stop string.
    pub fn held_text(&mut self, id: RequestId) -> String {
        match self.running.iter_mut().find(|running| running.id == id).map(|running| &mut running.job) {
            Some(Job::Text(writer)) => writer.held_text(),
            _ => String::new(),
        }
    }

    fn beams(&self, id: RequestId) -> Option<&Beams> {
        match &self.running.iter().find(|running| running.id == id)?.job {
            Job::Search(beams) => Some(beams),
            Job::Text(_) => None,
        }
    }

    /// How many tokens the beams of a search have.
    pub fn search_length(&self, id: RequestId) -> usize {
        self.beams(id).map_or(0, |beams| beams.steps)
    }

    /// What a search has found so far.
    pub fn search_so_far(&self, id: RequestId, tokenizer: Option<&Tokenizer>) -> Vec<Completion> {
        self.beams(id).map(|beams| beams.search.completions(tokenizer)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::GenerationConfig;
    use minigpt_model::{Config, Device, Tensor};

    fn gpt() -> Gpt {
        let config = Config {
            vocab_size: 23,
            block_size: 32,
            n_layer: 2,
            n_head: 2,
            n_embd: 12,
            initializer_range: 0.4,
            ..Config::default()
        };
        Gpt::new(config, 3, &Device::Cpu).unwrap()
    }

    fn scheduler(gpt: Gpt, slots: usize, chunk: usize) -> Scheduler {
        let config =
            EngineConfig { slots, fixed_chunk: Some(chunk), max_queue: 3, ..EngineConfig::default() };
        Scheduler::new(gpt, false, &config).unwrap()
    }

    fn request(prompt: &[u32], max_new_tokens: usize) -> Request {
        Request::new(prompt.to_vec(), GenerationConfig { max_new_tokens, ..GenerationConfig::default() })
    }

    fn run(scheduler: &mut Scheduler) -> Vec<(RequestId, EngineEvent)> {
        let mut events = Vec::new();
        while !scheduler.is_idle() {
            events.extend(scheduler.step(None));
        }
        events
    }

    fn tokens(events: &[(RequestId, EngineEvent)], of: RequestId) -> Vec<u32> {
        let token = |(id, event): &(RequestId, EngineEvent)| match event {
            EngineEvent::Token { id: token, .. } if *id == of => Some(*token),
            _ => None,
        };
        events.iter().filter_map(token).collect()
    }

    fn failure(events: &[(RequestId, EngineEvent)], of: RequestId) -> Option<String> {
        events.iter().find_map(|(id, event)| match event {
            EngineEvent::Failed(error) if *id == of => Some(error.to_string()),
            _ => None,
        })
    }

    #[test]
    fn a_panic_costs_the_request_that_it_happens_in() {
        let mut alone = scheduler(gpt(), 1, 9);
        let only = alone.submit(request(&[1, 2, 3], 9)).unwrap();
        let want = tokens(&run(&mut alone), only);
        let mut scheduler = scheduler(gpt(), 3, 9);
        let good = scheduler.submit(request(&[1, 2, 3], 9)).unwrap();
        let bad = scheduler.submit(request(&[4, 5], 9)).unwrap();
        // Not what anybody could ask for: a token outside of the vocabulary, which is found when the bias is added.
        scheduler.queue[1].1.request.logit_bias = [(1000, 1.0)].into();
        let events = run(&mut scheduler);
        assert_eq!((tokens(&events, good), failure(&events, good)), (want.clone(), None));
        assert!(failure(&events, bad).unwrap().starts_with("internal error, generation stopped: index out"));
        let after = scheduler.submit(request(&[1, 2, 3], 9)).unwrap();
        assert_eq!(tokens(&run(&mut scheduler), after), want);
    }

    #[test]
    fn a_row_of_nan_ends_and_the_others_go_on() {
        let gpt = gpt();
        let mut alone = scheduler(gpt.clone(), 1, 9);
        let only = alone.submit(request(&[1, 2, 3], 6)).unwrap();
        let want = tokens(&run(&mut alone), only);
        // The table of positions is not a head, so that only who stands there is damaged.
        let damaged = Tensor::full(f32::NAN, (1, 12), gpt.device()).unwrap();
        let positions =
            gpt.parameters().into_iter().find(|parameter| parameter.name == "wpe.weight").unwrap();
        positions.tensor.slice_set(&damaged, 0, 15).unwrap();
        let mut scheduler = scheduler(gpt, 2, 4);
        let good = scheduler.submit(request(&[1, 2, 3], 6)).unwrap();
        let bad = scheduler.submit(request(&[7; 14], 6)).unwrap();
        let events = run(&mut scheduler);
        assert_eq!(tokens(&events, good), want);
        assert_eq!(tokens(&events, bad).len(), 2);
        assert!(failure(&events, bad).unwrap().starts_with("after 16 tokens the model gives NaN"));
        // The slot that held NaN is as good as new.
        let [first, second] = [(); 2].map(|()| scheduler.submit(request(&[1, 2, 3], 6)).unwrap());
        let events = run(&mut scheduler);
        assert_eq!((tokens(&events, first), tokens(&events, second)), (want.clone(), want));
    }

    #[test]
    fn a_cancelled_request_is_not_in_the_next_step_and_the_queue_is_bounded() {
        let mut scheduler = scheduler(gpt(), 1, 4);
        let first = scheduler.submit(request(&[1], 20)).unwrap();
        scheduler.step(None);
        let waiting: Vec<RequestId> = (0..3).map(|_| scheduler.submit(request(&[2], 2)).unwrap()).collect();
        let refused = scheduler.submit(request(&[2], 2)).unwrap_err();
        assert!(matches!(refused, Refused::QueueFull { limit: 3 }), "{refused}");
        scheduler.cancel(first);
        scheduler.cancel(waiting[1]);
        assert_eq!((scheduler.status().queued, scheduler.slots.free()), (2, 1));
        let events = run(&mut scheduler);
        assert!(tokens(&events, first).is_empty() && tokens(&events, waiting[1]).is_empty());
        assert_eq!([waiting[0], waiting[2]].map(|id| tokens(&events, id).len()), [2, 2]);
        assert_eq!(scheduler.status().counters.cancelled, 2);
    }

    #[test]
    fn samples_of_a_prompt_read_it_once() {
        let mut scheduler = scheduler(gpt(), 4, 5);
        let prompt: Vec<u32> = (0..20).collect();
        for stream in 0..3 {
            scheduler.submit(Request { stream, ..request(&prompt, 3) }).unwrap();
        }
        let cached: Vec<usize> = run(&mut scheduler)
            .iter()
            .filter_map(|(_, event)| match event {
                EngineEvent::Done { usage, .. } => Some(usage.cached_tokens),
                _ => None,
            })
            .collect();
        assert_eq!(cached, [0, 19, 19]);
        assert_eq!(scheduler.status().counters.cached_tokens, 38);
        // The next turn of a talk: what was written is in the slot, too.
        let mut scheduler = self::scheduler(gpt(), 2, 50);
        let first = scheduler.submit(request(&prompt, 4)).unwrap();
        let written = tokens(&run(&mut scheduler), first);
        let turn = [&prompt[..], &written, &[1, 2]].concat();
        scheduler.submit(request(&turn, 1)).unwrap();
        let events = run(&mut scheduler);
        let usage = events.iter().find_map(|(_, event)| match event {
            EngineEvent::Done { usage, .. } => Some(*usage),
            _ => None,
        });
        assert_eq!(usage, Some(Usage { prompt_tokens: 26, cached_tokens: 23, completion_tokens: 1 }));
    }
}
