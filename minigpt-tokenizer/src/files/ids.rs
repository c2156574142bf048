//! The ids of a vocabulary from a file: each of 0, 1, 2, … exactly once.

use crate::error::{Error, Result};
use std::path::Path;

/// Tokens in the order of their ids.
pub(super) fn in_order(path: &Path, entries: Vec<(String, u32)>) -> Result<Vec<String>> {
    let malformed = |what| Error::Malformed { path: path.to_owned(), what };
    let mut tokens: Vec<Option<String>> = vec![None; entries.len()];
    let mut beyond = None;
    for (token, id) in entries {
        match tokens.get_mut(id as usize) {
            Some(Some(other)) => return Err(malformed(format!("{other:?} and {token:?} both have id {id}"))),
            Some(free) => *free = Some(token),
            None => beyond = Some((token, id)),
        }
    }
    if let (Some((token, id)), Some(gap)) = (beyond, tokens.iter().position(Option::is_none)) {
        let count = tokens.len();
        let what = format!("{token:?} has id {id} in a vocabulary of {count} tokens, and none has id {gap}");
        return Err(malformed(what));
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
        assert_eq!(error, r#"v.json: "a" has id 4000000000 in a vocabulary of 3 tokens, and none has id 2"#);
    }
}
