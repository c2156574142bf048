//! What the set is about: one file per subject in `data/`.
//!
//! A `.toml` file has tables of facts and topics that ask for their rows (see [`Topic`]); a `.txt` file has dialogues
//! (see [`Dialogue`]). The files are part of the program, so a malformed one is a bug and panics.

use super::dialogue::Dialogue;
use super::group::Group;
use super::topic::{Subject, Topic};

/// Subjects with tables, in the order of the set.
const TABLES: [&str; 11] = [
    include_str!("data/countries.toml"),
    include_str!("data/places.toml"),
    include_str!("data/animals.toml"),
    include_str!("data/food.toml"),
    include_str!("data/colours.toml"),
    include_str!("data/numbers.toml"),
    include_str!("data/calendar.toml"),
    include_str!("data/science.toml"),
    include_str!("data/people.toml"),
    include_str!("data/words.toml"),
    include_str!("data/sayings.toml"),
];

/// Dialogues with their answers.
const DIALOGUES: [&str; 4] = [
    include_str!("data/chat.txt"),
    include_str!("data/minigpt.txt"),
    include_str!("data/language_models.txt"),
    include_str!("data/nature.txt"),
];

/// Questions that no table can answer: about today, the person who asks and the future, and noise.
const UNANSWERABLE: &str = include_str!("data/unanswerable.txt");

/// The whole set, subject by subject.
pub(super) fn groups() -> Vec<Group> {
    let topics = TABLES.into_iter().flat_map(|text| Subject::parse(text).topics());
    let mut groups: Vec<Group> = topics.flat_map(|topic: Topic| topic.groups()).collect();
    let dialogues = DIALOGUES.into_iter().flat_map(Dialogue::parse);
    let dialogues = dialogues.chain(Dialogue::parse_unanswerable(UNANSWERABLE));
    groups.extend(dialogues.flat_map(|dialogue| dialogue.groups()));
    groups
}
