//! What ranks agree on after every step: whether to stop, whether the time is up, whether to save. A rank that decided by itself would
//! leave the others waiting in the next collective call.

use super::RankError;
use crate::error::Result;

/// What one rank asks for. Whatever any rank asks for, all ranks do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Requests {
    /// This rank was told to stop.
    pub stop: bool,
    /// The time limit is over, by rank 0's clock.
    pub time_is_up: bool,
    /// A checkpoint is due, by rank 0's clock.
    pub save: bool,
}

impl Requests {
    fn to_bits(self) -> u8 {
        u8::from(self.stop) | u8::from(self.time_is_up) << 1 | u8::from(self.save) << 2
    }

    fn from_bits(bits: u8) -> Self {
        Self { stop: bits & 1 != 0, time_is_up: bits & 2 != 0, save: bits & 4 != 0 }
    }
}

/// Encodes a rank's requests and numbers for a gather.
pub fn encode(requests: Requests, numbers: &[f64]) -> Vec<u8> {
    let mut record = vec![requests.to_bits()];
    record.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    record
}

/// Decodes the records of all ranks: the union of their requests, and the numbers of each rank.
///
/// # Errors
/// A malformed record.
pub fn decode(records: &[Vec<u8>]) -> Result<(Requests, Vec<Vec<f64>>)> {
    let (mut bits, mut numbers) = (0, Vec::new());
    for (rank, record) in records.iter().enumerate() {
        let Some((own, rest)) = record.split_first().filter(|(_, rest)| rest.len() % 8 == 0) else {
            return Err(RankError::Malformed { rank }.into());
        };
        bits |= own;
        numbers.push(rest.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect());
    }
    Ok((Requests::from_bits(bits), numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_any_rank_apply_to_all_and_numbers_survive_to_the_bit() {
        let stop = Requests { stop: true, ..Requests::default() };
        let save = Requests { save: true, ..Requests::default() };
        let records =
            [encode(stop, &[0.1, -0.0]), encode(save, &[]), encode(Requests::default(), &[f64::NAN])];
        let (agreed, numbers) = decode(&records).unwrap();
        assert_eq!(agreed, Requests { stop: true, save: true, time_is_up: false });
        assert_eq!(
            numbers[0].iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
            [0.1f64.to_bits(), (-0f64).to_bits()]
        );
        assert!(numbers[1].is_empty() && numbers[2][0].is_nan());
        assert!(decode(&[vec![]]).is_err() && decode(&[vec![0; 4]]).is_err());
    }
}
