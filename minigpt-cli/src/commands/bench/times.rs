//! The same work several times over: how long it took at best, and in the middle.

use crate::language::messages::bench as message;
use crate::progress::Progress;
use anyhow::Result;
use std::time::Duration;

/// How long each repeat took, the shortest first.
#[derive(Debug)]
pub struct Times(Vec<Duration>);

impl Times {
    /// Does the work `warm_up` times for nothing and `repeats` times, at least once, for the record. The work itself
    /// says how long its measured part took.
    pub fn of(warm_up: u32, repeats: u32, mut work: impl FnMut() -> Result<Duration>) -> Result<Self> {
        let repeats = repeats.max(1);
        let mut progress =
            Progress::of_steps(message::Measuring.text(), u64::from(warm_up) + u64::from(repeats));
        let mut times = Vec::new();
        for repeat in 0..u64::from(warm_up) + u64::from(repeats) {
            let time = work()?;
            if repeat >= u64::from(warm_up) {
                times.push(time);
            }
            progress.advance(1);
        }
        progress.finish();
        times.sort();
        Ok(Self(times))
    }

    /// How many there are.
    pub fn repeats(&self) -> usize {
        self.0.len()
    }

    /// The shortest, in seconds.
    pub fn best(&self) -> f64 {
        self.seconds(0)
    }

    /// As many were shorter as were longer; of an even number the mean of the two in the middle.
    pub fn median(&self) -> f64 {
        (self.seconds((self.0.len() - 1) / 2) + self.seconds(self.0.len() / 2)) / 2.0
    }

    /// Never zero, however coarse the clock is.
    fn seconds(&self, at: usize) -> f64 {
        self.0[at].as_secs_f64().max(1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(milliseconds: &[u64], warm_up: u32) -> Times {
        let mut next = milliseconds.iter();
        let repeats = milliseconds.len() as u32 - warm_up;
        Times::of(warm_up, repeats, || Ok(Duration::from_millis(*next.next().unwrap()))).unwrap()
    }

    #[test]
    fn the_warm_up_does_not_count() {
        let times = times(&[1, 30, 10, 20], 1);
        assert_eq!((times.repeats(), times.best(), times.median()), (3, 0.01, 0.02));
    }

    #[test]
    fn the_median_of_an_even_number_lies_in_the_middle() {
        assert_eq!(times(&[40, 10, 30, 20], 0).median(), 0.025);
        assert_eq!(times(&[10], 0).median(), 0.01);
    }
}
