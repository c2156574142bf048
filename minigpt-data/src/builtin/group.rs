//! What topics and dialogues come to: one fact in one language, all its questions and their one answer.

use super::typing::Language;

/// One fact in one language: every way it is asked, and its one answer.
pub(super) struct Group {
    /// The fact, the same in both languages; it names the fact in hashes, so it must not change with its position.
    pub fact: String,
    pub language: Language,
    pub questions: Vec<Question>,
    pub answer: String,
    pub kind: Kind,
}

pub(super) struct Question {
    pub text: String,
    /// What makes this a phrasing that other facts share: its template, or for a dialogue how it was typed.
    #[cfg_attr(not(test), expect(dead_code, reason = "only the tests look at it"))]
    pub phrasing: String,
    /// Whether training without it still shows this fact and this phrasing.
    pub may_be_held_out: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// In a table or a dialogue.
    Known,
    /// Answered with "I don't know that yet.".
    Unknown,
    /// As `Unknown`, about something that training never mentions.
    Unseen,
}
