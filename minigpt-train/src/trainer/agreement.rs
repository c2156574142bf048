//! What ranks agree on after every step: whether to stop, whether the time is up, whether to save. A rank that did so by
//! itself would leave the others waiting.

use super::Trainer;
use crate::error::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};

/// What a rank wants; what any of them wants is what they all do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Wishes {
    /// Somebody asked this rank to stop.
    pub stop: bool,
    /// The run has had its time, by the first rank's clock.
    pub time_is_up: bool,
    /// A checkpoint is due, by the first rank's clock.
    pub save: bool,
}

impl Wishes {
    fn bits(self) -> u8 {
        u8::from(self.stop) | u8::from(self.time_is_up) << 1 | u8::from(self.save) << 2
    }

    fn from_bits(bits: u8) -> Self {
        Self { stop: bits & 1 != 0, time_is_up: bits & 2 != 0, save: bits & 4 != 0 }
    }
}

/// A rank's record: its wishes, and numbers.
fn record(wishes: Wishes, numbers: &[f64]) -> Vec<u8> {
    let mut record = vec![wishes.bits()];
    record.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    record
}

/// The wishes of all ranks together, and the numbers of each.
fn read(records: &[Vec<u8>]) -> Result<(Wishes, Vec<Vec<f64>>)> {
    let (mut bits, mut numbers) = (0, Vec::new());
    for (rank, record) in records.iter().enumerate() {
        let Some((own, rest)) = record.split_first().filter(|(_, rest)| rest.len() % 8 == 0) else {
            return Err(Error::OtherRank(format!("rank {rank} said something that no rank says")));
        };
        bits |= own;
        numbers.push(rest.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect());
    }
    Ok((Wishes::from_bits(bits), numbers))
}

impl Trainer {
    /// Tells the other ranks some numbers and what this one wants, and hears theirs.
    pub(super) fn tell(&mut self, numbers: &[f64], stop: &AtomicBool) -> Result<Vec<Vec<f64>>> {
        let records = self.ranks.gather(&record(self.wishes(stop), numbers))?;
        let (agreed, numbers) = read(&records)?;
        self.agreed = agreed;
        Ok(numbers)
    }

    /// The same after something that takes one rank much longer than another.
    pub(super) fn tell_patiently(&mut self, numbers: &[f64], stop: &AtomicBool) -> Result<Vec<Vec<f64>>> {
        let records = self.ranks.gather_patiently(&record(self.wishes(stop), numbers))?;
        let (agreed, numbers) = read(&records)?;
        self.agreed = agreed;
        Ok(numbers)
    }

    fn wishes(&self, stop: &AtomicBool) -> Wishes {
        let minutes = self.config.max_minutes;
        let time_is_up = minutes > 0.0 && self.began.elapsed().as_secs_f64() >= 60.0 * minutes;
        let first = self.ranks.is_first();
        Wishes {
            stop: stop.load(Ordering::Relaxed),
            time_is_up: first && time_is_up,
            save: first && self.save_is_due_by_the_clock(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_rank_wants_all_do_and_numbers_stay_as_they_are() {
        let stop = Wishes { stop: true, ..Wishes::default() };
        let save = Wishes { save: true, ..Wishes::default() };
        let records = [record(stop, &[0.1, -0.0]), record(save, &[]), record(Wishes::default(), &[f64::NAN])];
        let (agreed, numbers) = read(&records).unwrap();
        assert_eq!(agreed, Wishes { stop: true, save: true, time_is_up: false });
        assert_eq!(
            numbers[0].iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
            [0.1f64.to_bits(), (-0f64).to_bits()]
        );
        assert!(numbers[1].is_empty() && numbers[2][0].is_nan());
        assert!(read(&[vec![]]).is_err() && read(&[vec![0; 4]]).is_err());
    }
}
