//! How many tokens of prompts a step reads: as many as fit the time that it should take, from how long steps took.

use std::time::Duration;

/// Tokens that are read in any case. So few cost hardly more than one: the time goes into reading the weights.
const LEAST: usize = 8;
/// Tokens of the first step, before anything has been measured.
const FIRST: usize = 32;
/// How much of what is expected comes from the last step.
const NEW: f64 = 0.3;

/// What steps cost, and what the next may take.
#[derive(Debug)]
pub(crate) struct Pace {
    step: f64,
    fixed: Option<usize>,
    /// Seconds of a step that only writes.
    writing: f64,
    /// Seconds that a token of a prompt takes.
    token: Option<f64>,
}

impl Pace {
    pub fn new(step: Duration, fixed: Option<usize>) -> Self {
        Self { step: step.as_secs_f64(), fixed: fixed.map(|chunk| chunk.max(1)), writing: 0.0, token: None }
    }

    /// How many tokens of prompts fit a step in which so many texts are written.
    pub fn budget(&self, writers: usize) -> usize {
        if let Some(fixed) = self.fixed {
            return fixed;
        }
        let Some(token) = self.token else { return FIRST };
        let writing = if writers > 0 { self.writing } else { 0.0 };
        (((self.step - writing) / token) as usize).max(LEAST)
    }

    /// Learns from a step.
    pub fn measured(&mut self, writers: usize, read: usize, took: Duration) {
        let took = took.as_secs_f64();
        let blend = |old: f64, new: f64| old + NEW * (new - old);
        if read == 0 {
            self.writing = if self.writing == 0.0 { took } else { blend(self.writing, took) };
            return;
        }
        let writing = if writers > 0 { self.writing } else { 0.0 };
        let token = ((took - writing) / read as f64).max(took / read as f64 / 8.0).max(1e-9);
        self.token = Some(self.token.map_or(token, |old| blend(old, token)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_comes_close_to_its_time_whatever_a_token_costs() {
        for cost in [1e-4, 1e-3, 5e-3] {
            let mut pace = Pace::new(Duration::from_millis(60), None);
            let took = |writers: usize, read: usize| {
                Duration::from_secs_f64(if writers > 0 { 0.02 } else { 0.0 } + cost * read as f64)
            };
            (0..5).for_each(|_| pace.measured(2, 0, took(2, 0)));
            for _ in 0..20 {
                let budget = pace.budget(2);
                pace.measured(2, budget, took(2, budget));
            }
            let step = took(2, pace.budget(2)).as_secs_f64();
            assert!((step - 0.06).abs() < 0.006, "{cost}: {step}");
        }
    }

    #[test]
    fn a_slow_machine_reads_a_few_tokens_all_the_same() {
        let mut pace = Pace::new(Duration::from_millis(60), None);
        pace.measured(0, 32, Duration::from_secs(20));
        assert_eq!(pace.budget(0), LEAST);
        assert_eq!(Pace::new(Duration::MAX, Some(0)).budget(3), 1);
    }
}
