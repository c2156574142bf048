//! Token ids as they are typed: `1,2,3`.

use crate::language::messages::common as message;
use std::str::FromStr;

/// The ids of one prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ids(pub Vec<u32>);

impl FromStr for Ids {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let ids = text.split(',').map(|id| id.trim().parse().ok()).collect::<Option<_>>();
        ids.map(Self).ok_or(message::ExpectedIds.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_parted_by_commas() {
        assert_eq!("42".parse(), Ok(Ids(vec![42])));
        assert_eq!("1, 2,3".parse(), Ok(Ids(vec![1, 2, 3])));
        assert!(["", "1,,2", "one", "-1", "4294967296"].iter().all(|text| text.parse::<Ids>().is_err()));
    }
}
