//! What one request may ask for: texts × tokens × log-probabilities, known before anything is computed.
//!
//! Each number that an answer holds takes time, and memory until its client has read it: about 100 bytes as JSON. So there is a
//! limit for one request, and one for all requests that are not yet answered to the end.

use crate::problem::Problem;
use axum::http::StatusCode;
use minigpt_generate::Request;
use std::sync::{Arc, Mutex, PoisonError};

/// Tokens of one answer, each counted once more for every alternative that comes with it.
pub(crate) const MOST_OF_ONE_REQUEST: usize = 1 << 20;
/// The same of all requests under way.
const MOST_OF_ALL: usize = 2 << 20;
/// Requests below this are always let in: their number is limited.
const SMALL: usize = 1024;

/// Bytes of the answers, other than completions, that wait for their clients to read them: of all together, and up to which size
/// an answer is always let in.
const UNSENT: usize = 128 << 20;
const SMALL_ANSWER: usize = 16 << 10;

/// What the requests under way have taken of what all have together.
#[derive(Debug)]
pub(crate) struct Budgets {
    taken: Mutex<usize>,
    most: usize,
    small: usize,
}

impl Default for Budgets {
    /// What completions have asked for.
    fn default() -> Self {
        Self { taken: Mutex::default(), most: MOST_OF_ALL, small: SMALL }
    }
}

/// The share of one request, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    all: Arc<Budgets>,
    size: usize,
}

/// What one text comes to: what it may write, and what it says again of its prompt, with their alternatives.
pub(crate) fn size(row: &Request, context: usize) -> usize {
    let room = context.saturating_sub(row.prompt.len());
    let echoed = if row.prompt_logprobs { row.prompt.len() } else { 0 };
    let tokens = row.config.max_new_tokens.min(room) + echoed;
    tokens.saturating_mul(1 + row.top_logprobs.unwrap_or(0))
}

/// Refuses a request that asks for too much.
pub(crate) fn check(size: usize) -> Result<(), Problem> {
    if size <= MOST_OF_ONE_REQUEST {
        return Ok(());
    }
    let message = format!(
        "this asks for up to {size} numbers (texts × tokens × (1 + log-probabilities of each)); {MOST_OF_ONE_REQUEST} is the \
         most in one request: ask for fewer texts, tokens or log-probabilities"
    );
    Err(Problem::bad(message).with_code("request_too_large"))
}

impl Budgets {
    /// The bytes of answers that have not been sent.
    pub fn of_answers() -> Self {
        Self { taken: Mutex::default(), most: UNSENT, small: SMALL_ANSWER }
    }

    /// Lets a request in, if what is under way leaves room for it.
    pub fn share(self: &Arc<Self>, size: usize) -> Result<Share, Problem> {
        let size = if size <= self.small { 0 } else { size };
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.saturating_add(size) > self.most {
            let message =
                "the answers that are being written leave no room for one of this size: try again later";
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, message).with_code("answers_too_large");
            return Err(Problem { retry_after: Some(1), ..problem });
        }
        *taken += size;
        Ok(Share { all: Arc::clone(self), size })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        *self.all.taken.lock().unwrap_or_else(PoisonError::into_inner) -= self.size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_is_bounded_and_small_requests_always_find_room() {
        let all = Arc::new(Budgets::default());
        let shares: Vec<Share> = (0..2).map(|_| all.share(MOST_OF_ONE_REQUEST).unwrap()).collect();
        let refused = all.share(SMALL + 1).unwrap_err();
        assert_eq!((refused.status, refused.retry_after), (StatusCode::TOO_MANY_REQUESTS, Some(1)));
        let small = all.share(SMALL).unwrap();
        drop(shares);
        drop(small);
        assert_eq!(*all.taken.lock().unwrap(), 0);
        assert!(all.share(MOST_OF_ONE_REQUEST).is_ok());
    }
}
