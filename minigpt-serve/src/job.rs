//! The rows of one request in the engine: as many at once as there are slots, so that one long list of prompts never fills the
//! queue, and none of them once the client has gone.

use crate::problem::Problem;
use crate::record::Account;
use crate::served_model::ServedModel;
use minigpt_generate::{EngineEvent, Refused, Request, Ticket};
use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::sleep;

/// How long a row waits that found the queue full while others of its request are under way.
const RETRY: Duration = Duration::from_millis(20);

/// Rows that are written, and rows that wait. Dropped, all of them are cancelled.
pub(crate) struct Job {
    model: Arc<ServedModel>,
    account: Arc<Account>,
    waiting: VecDeque<(usize, Request)>,
    running: HashMap<usize, Ticket>,
    rows: usize,
    sender: UnboundedSender<(usize, EngineEvent)>,
    events: UnboundedReceiver<(usize, EngineEvent)>,
}

impl Job {
    /// Hands the first rows to the engine.
    ///
    /// # Errors
    /// A row that can't be written, or a full queue.
    pub fn start(
        model: &Arc<ServedModel>,
        account: &Arc<Account>,
        rows: Vec<Request>,
    ) -> Result<Self, Problem> {
        if let Some(row) = rows.iter().find(|row| row.prompt.len() > model.context) {
            return Err(Problem::too_long(row.prompt.len(), model.context));
        }
        let (sender, events) = unbounded_channel();
        let mut job = Self {
            rows: rows.len(),
            model: Arc::clone(model),
            account: Arc::clone(account),
            waiting: rows.into_iter().enumerate().collect(),
            running: HashMap::new(),
            sender,
            events,
        };
        account.note(|record| record.model = Some(job.model.name.clone()));
        match job.submit() {
            Err(refused) if job.running.is_empty() => Err(refused.into()),
            Err(Refused::QueueFull { .. }) | Ok(()) => Ok(job),
            Err(refused) => Err(refused.into()),
        }
    }

    /// Fills the slots with rows that wait.
    fn submit(&mut self) -> Result<(), Refused> {
        while self.running.len() < self.model.slots {
            let Some((index, row)) = self.waiting.front() else { break };
            let (index, sender) = (*index, self.sender.clone());
            let sink = move |event| match sender.send((index, event)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            };
            let ticket = self.model.engine.submit(row.clone(), sink)?;
            self.running.insert(index, ticket);
            self.waiting.pop_front();
        }
        Ok(())
    }

    /// What happened next, and in which row. None when all rows have ended.
    ///
    /// # Errors
    /// A row failed; the others are given up with it.
    pub async fn next(&mut self) -> Result<Option<(usize, EngineEvent)>, Problem> {
        while self.running.is_empty() && !self.waiting.is_empty() {
            match self.submit() {
                Err(Refused::QueueFull { .. }) => sleep(RETRY).await,
                submitted => submitted?,
            }
        }
        if self.running.is_empty() {
            return Ok(None);
        }
        let (index, event) = loop {
            match self.events.recv().await {
                None => return Ok(None),
                // What a row says after its end was on its way when it ended.
                Some((index, _)) if !self.running.contains_key(&index) => {}
                Some(happened) => break happened,
            }
        };
        match &event {
            EngineEvent::Token { .. } => self.account.token(),
            EngineEvent::Found(found) => {
                let tokens = found.first().map_or(0, |found| found.ids.len());
                (0..tokens).for_each(|_| self.account.token());
            }
            EngineEvent::Done { usage, .. } => {
                self.account.note(|record| {
                    record.prompt_tokens += usage.prompt_tokens;
                    record.cached_tokens += usage.cached_tokens;
                });
                self.finish(index);
            }
            EngineEvent::Failed(_) => {
                self.running.clear();
                self.waiting.clear();
            }
            _ => {}
        }
        match event {
            EngineEvent::Failed(error) => Err(error.into()),
            event => Ok(Some((index, event))),
        }
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Lets go of a row that has ended, and lets the next one begin.
    fn finish(&mut self, index: usize) {
        self.running.remove(&index);
        // A full queue is tried again when another row ends, or before the next wait.
        let _ = self.submit();
    }
}
