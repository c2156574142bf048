//! The ids of a vocabulary from a file: each of 0, 1, 2, … exactly once.

use crate::error::{Error, FileProblem, Quote, Result};
use std::path::Path;

/// Tokens in the order of their ids.
pub(super) fn in_order(path: &Path, entries: Vec<(String, u32)>) -> Result<Vec<String>> {
    let malformed = |problem| Error::Malformed { path: path.to_owned(), problem };
    let mut tokens: Vec<Option<String>> = vec![None; entries.len()];
    let mut beyond = None;
    for (token, id) in entries {
        match tokens.get_mut(id as usize) {
            Some(Some(other)) => {
                let (first, second) = (Quote::new(other), Quote::new(&token));
                return Err(malformed(FileProblem::DuplicateId { first, second, id }));
            }
            Some(free) => *free = Some(token),
            None => beyond = Some((token, id)),
        }
    }
    if let (Some((token, id)), Some(gap)) = (beyond, tokens.iter().position(Option::is_none)) {
        let count = tokens.len();
        return Err(malformed(FileProblem::IdGap { token: Quote::new(&token), id, count, gap }));
    }
    Ok(tokens.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(entries: &[(&str, u32)]) -> Result<Vec<String>> {
        in_order(Path::new("v.json"), entries.iter().map(|&(token, id)| (token.to_owned(), id)).collect())
    }

    #[test]
    fn tokens_are_put_in_the_order_of_their_ids() {
        assert_eq!(order(&[("b", 1), ("a", 0)]).unwrap(), ["a", "b"]);
        assert!(order(&[]).unwrap().is_empty());
    }

    #[test]
    fn two_tokens_with_one_id_are_both_named() {
        let error = order(&[("b", 0), ("a", 0)]).unwrap_err().to_string();
        assert_eq!(error, r#"v.json: "b" and "a" both have id 0"#);
    }

    #[test]
    fn a_gap_is_named() {
        let error = order(&[("b", 0), ("a", 4_000_000_000), ("c", 1)]).unwrap_err().to_string();
        assert_eq!(
            error,
            r#"v.json: "a" has id 4000000000 in a vocabulary of 3 tokens, but no token has id 2"#
        );
    }
}
