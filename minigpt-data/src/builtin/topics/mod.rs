//! What the set is about, one subject a file.

mod animals;
mod calendar;
mod chat;
mod colours;
mod countries;
mod food;
mod language_models;
mod minigpt;
mod nature;
mod numbers;
mod people;
mod places;
mod sayings;
mod science;
mod unanswerable;
mod words;

use super::dialogue::Dialogue;
use super::group::Group;
use super::table::Table;
use super::topic::{Topic, Wording};

/// The whole set, subject by subject.
pub(super) fn groups() -> Vec<Group> {
    let topics = [
        countries::topics(),
        places::topics(),
        animals::topics(),
        food::topics(),
        colours::topics(),
        numbers::topics(),
        calendar::topics(),
        science::topics(),
        people::topics(),
        words::topics(),
        sayings::topics(),
    ];
    let dialogues = [
        chat::dialogues(),
        minigpt::dialogues(),
        language_models::dialogues(),
        nature::dialogues(),
        unanswerable::dialogues(),
    ];
    let mut groups: Vec<Group> = topics.iter().flatten().flat_map(Topic::groups).collect();
    groups.extend(dialogues.iter().flatten().flat_map(Dialogue::groups));
    groups
}
