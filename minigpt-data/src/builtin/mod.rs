//! The built-in set: questions and answers in English and Chinese, so that the first command needs no download.
//!
//! It is made from tables of facts and several phrasings of each question. Some (fact, phrasing) pairs are held
//! out while the same fact is trained on in other phrasings, and the same phrasing with other facts: a model that
//! answers them has learnt both, and can be *scored* by exact match, because a fact has one answer a language.
//!
//! To read it: `data/` has one file per subject. To add to it:
//!
//! - **a fact**: a line in a table;
//! - **a phrasing**: a line in a topic's `ask`;
//! - **a topic**: a `[[topic]]` with its table, its phrasings and its answer; a new file also needs a line in `topics.rs`.
//!
//! The tests say if two facts now share a question, if a length or the number of characters got out of hand, and
//! they hold a fingerprint of the whole set, to be renewed with every change that is meant.

mod dialogue;
mod group;
mod stable_hash;
mod table;
#[cfg(test)]
mod tests;
mod topic;
mod topics;
mod typing;

use std::collections::HashSet;

use crate::record::Record;
use group::{Group, Kind};
use serde::Serialize;

/// What the set is called where a path is expected; a file of that name is `./builtin`.
pub const NAME: &str = "builtin";

/// A question and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// What a person asks.
    pub question: String,
    /// What the model should say: the same for all phrasings of a fact in a language.
    pub answer: String,
}

impl From<Pair> for Record {
    fn from(pair: Pair) -> Self {
        Record::pair(pair.question, pair.answer)
    }
}

/// What to train on, topic by topic: shuffle it.
pub fn train() -> Vec<Pair> {
    let groups = topics::groups();
    groups.iter().filter(|group| group.kind != Kind::Unseen).flat_map(trained).collect()
}

/// (fact, phrasing) pairs kept from [`train`], each fact of which is there in other phrasings.
pub fn held_out() -> Vec<Pair> {
    let groups = topics::groups();
    groups.iter().filter_map(|group| held_out_index(group).map(|index| pair(group, index))).collect()
}

/// Questions in known forms about things that [`train`] never mentions: the answer is always not to know.
///
/// A harder test than [`held_out`], apart from it because it asks for judgement and not for what was learnt.
pub fn unseen() -> Vec<Pair> {
    let groups = topics::groups();
    let unseen = groups.iter().filter(|group| group.kind == Kind::Unseen);
    unseen.flat_map(|group| (0..group.questions.len()).map(|index| pair(group, index))).collect()
}

/// How many facts the set knows; one that both languages ask for counts once.
pub fn facts() -> usize {
    let groups = topics::groups();
    let known = groups.iter().filter(|group| group.kind == Kind::Known);
    known.map(|group| group.fact.as_str()).collect::<HashSet<_>>().len()
}

/// Of each hundred groups that can spare a question, so many hold one out.
const HELD_OUT_PERCENT: u64 = 60;
/// Phrasings of a fact that training keeps in any case.
const TRAINED_AT_LEAST: usize = 3;

/// The question of a group that is kept from training, if any: a fixed rule, so that scores can be compared.
fn held_out_index(group: &Group) -> Option<usize> {
    let hash = stable_hash::stable_hash(&["held out", &group.fact, group.language.name()]);
    let spare: Vec<usize> =
        (0..group.questions.len()).filter(|&index| group.questions[index].may_be_held_out).collect();
    let can_spare =
        group.kind != Kind::Unseen && group.questions.len() > TRAINED_AT_LEAST && !spare.is_empty();
    let chosen = can_spare && hash % 100 < HELD_OUT_PERCENT;
    chosen.then(|| spare[(hash / 100) as usize % spare.len()])
}

fn trained(group: &Group) -> Vec<Pair> {
    let held_out = held_out_index(group);
    (0..group.questions.len())
        .filter(|&index| Some(index) != held_out)
        .map(|index| pair(group, index))
        .collect()
}

fn pair(group: &Group, index: usize) -> Pair {
    Pair { question: group.questions[index].text.clone(), answer: group.answer.clone() }
}
