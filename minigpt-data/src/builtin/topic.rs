//! A topic asks every row of a table in the same phrasings.

use super::group::{Group, Kind, Question};
use super::stable_hash::stable_hash;
use super::table::Table;
use super::typing::{self, Language};
use serde::Deserialize;
use std::collections::HashMap;

/// A file of `data/`: tables by name, and the topics that use them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Subject {
    tables: HashMap<String, String>,
    topic: Vec<TopicEntry>,
}

/// A topic as a file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TopicEntry {
    name: String,
    /// The name of the table of facts.
    facts: String,
    /// The name of the table of unknown things.
    unknown: Option<String>,
    /// Pairs of columns: each fact is also asked with their cells exchanged.
    #[serde(default)]
    both_ways: Vec<(String, String)>,
    #[serde(default)]
    en: Wording,
    #[serde(default)]
    zh: Wording,
}

impl Subject {
    /// Reads a file of `data/`.
    ///
    /// # Panics
    /// The file is malformed.
    pub(super) fn parse(text: &str) -> Self {
        toml::from_str(text).unwrap_or_else(|error| panic!("a subject of the built-in set: {error}"))
    }

    /// Its topics with their tables.
    pub(super) fn topics(self) -> Vec<Topic> {
        let Self { tables, topic } = self;
        let table = |name: &str| {
            let text = tables.get(name).unwrap_or_else(|| panic!("no table {name:?} in this file"));
            Table::parse(text)
        };
        let topics = topic.into_iter().map(|entry| Topic {
            facts: table(&entry.facts).both_ways(&entry.both_ways),
            unknown: entry.unknown.as_deref().map(table).unwrap_or_default(),
            name: entry.name,
            en: entry.en,
            zh: entry.zh,
        });
        topics.collect()
    }
}

/// A kind of question: a table of facts, and how each language asks for them.
pub(super) struct Topic {
    /// Names the topic in keys: no two topics share it.
    name: String,
    /// What is known: one fact per row.
    facts: Table,
    /// Things to ask about in the same words that the model should admit not to know; only the columns that
    /// questions use.
    unknown: Table,
    en: Wording,
    zh: Wording,
}

/// The phrasings of a question and its one answer, with `{column}` for cells: see [`Table::fill`].
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wording {
    /// Phrasings, written properly; none if the topic isn't for this language.
    ask: Vec<String>,
    answer: String,
}

/// With fewer rows than this, a held-out question would be among few that show its phrasing.
const ROWS_TO_HOLD_OUT: usize = 6;
/// One unknown thing in so many is kept from training altogether.
const UNSEEN_ONE_IN: u64 = 6;

impl Topic {
    /// Every fact of the topic in both languages, and its unknown things.
    pub(super) fn groups(&self) -> Vec<Group> {
        let known = self.facts.rows().iter().flat_map(|row| self.known(row));
        let unknown = self.unknown.rows().iter().flat_map(|row| self.unknown(row));
        known.chain(unknown).filter(|group| !group.questions.is_empty()).collect()
    }

    fn known(&self, row: &[String]) -> Vec<Group> {
        let fact = format!("{}: {}", self.name, row.join(" | "));
        let group = |language, wording: &Wording| {
            let answer = self.facts.fill(&wording.answer, row)?;
            let questions = self.questions(&self.facts, row, &fact, language, wording);
            Some(Group { fact: fact.clone(), language, questions, answer, kind: Kind::Known })
        };
        [group(Language::English, &self.en), group(Language::Chinese, &self.zh)]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Unknown things come in a few of the phrasings only: many different ones teach more than many questions each.
    fn unknown(&self, row: &[String]) -> Vec<Group> {
        let fact = format!("{} unknown: {}", self.name, row.join(" | "));
        let hash = stable_hash(&[&fact]);
        let (kind, phrasings) = match hash % UNSEEN_ONE_IN {
            0 => (Kind::Unseen, 2),
            1 => (Kind::Unknown, 4),
            _ => (Kind::Unknown, 2),
        };
        let group = |language: Language, wording: &Wording| {
            let mut questions = self.questions(&self.unknown, row, &fact, language, wording);
            if !questions.is_empty() {
                let start = (hash / UNSEEN_ONE_IN) as usize % questions.len();
                questions.rotate_left(start);
                questions.truncate(phrasings);
            }
            Group { fact: fact.clone(), language, questions, answer: language.i_dont_know().into(), kind }
        };
        vec![group(Language::English, &self.en), group(Language::Chinese, &self.zh)]
    }

    fn questions(
        &self,
        table: &Table,
        row: &[String],
        fact: &str,
        language: Language,
        wording: &Wording,
    ) -> Vec<Question> {
        let mut questions: Vec<Question> = Vec::new();
        for (index, template) in wording.ask.iter().enumerate() {
            let Some(text) = table.fill(template, row) else { continue };
            let turn = stable_hash(&[fact]).wrapping_add(index as u64);
            let text = typing::in_turn(&text, language, turn);
            if questions.iter().all(|earlier| earlier.text != text) {
                questions.push(Question {
                    text,
                    phrasing: format!("{}: {template}", self.name),
                    may_be_held_out: self.facts.rows().len() >= ROWS_TO_HOLD_OUT,
                });
            }
        }
        questions
    }
}
