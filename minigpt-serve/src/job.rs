//! The texts of one request in the engine: as many at once as there are slots, so that one long list of prompts never fills the
//! queue, and none of them once the client has gone.

use crate::backlog::{Backlog, TooSlow};
use crate::budget;
use crate::problem::Problem;
use crate::record::Account;
use crate::served_model::ServedModel;
use minigpt_generate::{EngineEvent, Refused, Request, Ticket};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// Texts that are written, and texts that wait. Dropped, all of them are cancelled.
pub(crate) struct Job {
    model: Arc<ServedModel>,
    account: Arc<Account>,
    waiting: VecDeque<(usize, Request)>,
    running: HashMap<usize, Ticket>,
    rows: usize,
    backlog: Arc<Backlog>,
}

impl Job {
    /// Hands the first texts to the engine.
    ///
    /// # Errors
    /// The request asks for too much, a text can't be written, or the queue is full.
    pub fn start(
        model: &Arc<ServedModel>,
        account: &Arc<Account>,
        mut rows: Vec<Request>,
    ) -> Result<Self, Problem> {
        let answer = |row: &Request| usize::from(row.config.max_new_tokens > 0);
        if let Some(row) = rows.iter().find(|row| row.prompt.len() + answer(row) > model.context) {
            return Err(Problem::too_long(row.prompt.len(), model.context));
        }
        let size = rows.iter().map(|row| budget::size(row, model.context)).fold(0, usize::saturating_add);
        budget::check(size)?;
        account.hold(account.app().budgets.share(size)?);
        for (index, row) in rows.iter_mut().enumerate() {
            // Only the first text waits in the queue as a request; the others follow it.
            (row.follows, row.cache_key) = (index > 0, account.key());
        }
        let mut job = Self {
            rows: rows.len(),
            model: Arc::clone(model),
            account: Arc::clone(account),
            waiting: rows.into_iter().enumerate().collect(),
            running: HashMap::new(),
            backlog: account.app().backlogs.open(),
        };
        account.note(|record| record.model = Some(job.model.name.clone()));
        job.submit()?;
        Ok(job)
    }

    /// Fills the slots with texts that wait, unless the client is far behind.
    fn submit(&mut self) -> Result<(), Refused> {
        let behind = !self.running.is_empty() && self.backlog.is_long();
        while self.running.len() < self.model.slots && !behind {
            let Some((index, row)) = self.waiting.pop_front() else { break };
            let backlog = Arc::clone(&self.backlog);
            let ticket = self.model.engine.submit(row, move |event| backlog.push(index, event))?;
            self.running.insert(index, ticket);
        }
        Ok(())
    }

    /// What happened next, when, and in which text. None when all texts have ended.
    ///
    /// # Errors
    /// A text failed, or the client reads too slowly; the other texts are given up with it.
    pub async fn next(&mut self) -> Result<Option<(usize, Instant, EngineEvent)>, Problem> {
        self.submit()?;
        if self.running.is_empty() {
            return Ok(None);
        }
        let happened = loop {
            match self.backlog.next().await {
                // Events of a text that has ended were on their way when it ended.
                Ok(happened) if !self.running.contains_key(&happened.row) => {}
                Ok(happened) => break happened,
                Err(TooSlow) => {
                    self.give_up();
                    let message =
                        "the answer was ended because the client did not read it: others need the memory";
                    return Err(Problem::unavailable(message));
                }
            }
        };
        match &happened.event {
            EngineEvent::Token { .. } => self.account.tokens(1, happened.at),
            EngineEvent::Found(found) => {
                self.account.tokens(found.first().map_or(0, |found| found.ids.len()), happened.at);
            }
            EngineEvent::Done { usage, .. } => {
                self.account.note(|record| {
                    record.prompt_tokens += usage.prompt_tokens;
                    record.cached_tokens += usage.cached_tokens;
                });
                self.running.remove(&happened.row);
                self.submit()?;
            }
            EngineEvent::Failed(_) => self.give_up(),
            _ => {}
        }
        match happened.event {
            EngineEvent::Failed(error) => Err(error.into()),
            event => Ok(Some((happened.row, happened.at, event))),
        }
    }

    /// How many texts there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    fn give_up(&mut self) {
        self.running.clear();
        self.waiting.clear();
    }
}
