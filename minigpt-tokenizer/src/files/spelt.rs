//! A BPE from tokens and merges as files spell them.

use crate::bpe::{BpeTokenizer, Origin, Tokens};
use crate::byte_level;
use crate::error::{Error, FileProblem, Quote, Result};
use crate::merges::{Merges, Rule};
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};
use std::path::Path;

/// Takes tokens in the order of their ids and merges in the order in which they were learnt. Special tokens are among
/// the tokens, spelt as they are.
pub(super) fn bpe(
    path: &Path,
    tokens: &[String],
    merges: &[(String, String)],
    specials: &[String],
) -> Result<BpeTokenizer> {
    let malformed = |problem| Error::Malformed { path: path.to_owned(), problem };
    let known: HashMap<&str, u32, RandomState> = tokens.iter().map(String::as_str).zip(0..).collect();
    let table = unspell(tokens, specials).map_err(malformed)?;
    let merges = rules(&known, merges).map_err(malformed)?;
    let specials =
        specials.iter().filter_map(|name| Some((name.clone(), *known.get(name.as_str())?))).collect();
    let tokenizer = BpeTokenizer::new(table, merges, specials, Origin::File);
    tokenizer.map_err(|error| malformed(FileProblem::Contents(Box::new(error))))
}

fn unspell(tokens: &[String], specials: &[String]) -> Result<Tokens, FileProblem> {
    let specials: HashSet<&str, RandomState> = specials.iter().map(String::as_str).collect();
    let mut table = Tokens::default();
    for (id, token) in tokens.iter().enumerate() {
        if specials.contains(token.as_str()) {
            table.push(token.as_bytes());
        } else {
            let bytes = byte_level::unspell(token).filter(|bytes| !bytes.is_empty());
            let problem = || FileProblem::NotByteAlphabet { token: Quote::new(token), id };
            table.push(&bytes.ok_or_else(problem)?);
        }
    }
    Ok(table)
}

fn rules(
    known: &HashMap<&str, u32, RandomState>,
    merges: &[(String, String)],
) -> Result<Merges, FileProblem> {
    let mut rules = Merges::with_capacity(merges.len());
    for (number, (left, right)) in merges.iter().enumerate() {
        let id = |token: &str| {
            known.get(token).copied().ok_or_else(|| {
                let [left, right, token] = [left, right, token].map(Quote::new);
                FileProblem::MergeNeeds { number, left, right, token }
            })
        };
        let rule = Rule { left: id(left)?, right: id(right)?, joined: id(&format!("{left}{right}"))? };
        if !rules.push(rule) {
            return Err(FileProblem::DuplicateMerge {
                number,
                left: Quote::new(left),
                right: Quote::new(right),
            });
        }
    }
    Ok(rules)
}
