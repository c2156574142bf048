//! What the set promises to those who train on it and are scored by it.

use std::collections::{HashMap, HashSet};

use super::group::{Group, Kind};
use super::stable_hash::stable_hash;
use super::typing::{Language, hurried};
use super::{Pair, facts, held_out, held_out_index, topics, train, unseen};

/// Changes with any question or answer: renew it when the change is meant.
const FINGERPRINT: u64 = 2_809_814_201_619_190_201;

fn everything() -> Vec<Pair> {
    [train(), held_out(), unseen()].concat()
}

fn characters(pairs: &[Pair]) -> HashSet<char> {
    pairs.iter().flat_map(|pair| pair.question.chars().chain(pair.answer.chars())).collect()
}

/// Questions and their group, without the one held out.
fn trained_questions(group: &Group) -> impl Iterator<Item = &str> {
    let held_out = held_out_index(group);
    let questions = group.questions.iter().enumerate();
    questions.filter(move |(index, _)| Some(*index) != held_out).map(|(_, question)| question.text.as_str())
}

#[test]
fn the_set_is_as_large_as_it_says() {
    let (train, held_out) = (train().len(), held_out().len());
    assert!(facts() >= 300, "{} facts", facts());
    assert!(train + held_out >= 4_000, "{} pairs", train + held_out);
    assert!(held_out >= 300, "{held_out} held out");
    let share = held_out as f64 / (train + held_out) as f64;
    assert!((0.08..=0.10).contains(&share), "{share} held out");
}

#[test]
fn both_languages_have_their_share() {
    let pairs = [train(), held_out()].concat();
    let groups = topics::groups();
    let chinese: HashSet<&str> = groups
        .iter()
        .filter(|group| group.language == Language::Chinese)
        .flat_map(|group| group.questions.iter().map(|question| question.text.as_str()))
        .collect();
    let share = pairs.iter().filter(|pair| chinese.contains(pair.question.as_str())).count() as f64
        / pairs.len() as f64;
    assert!((0.4..=0.6).contains(&share), "{share} Chinese");
}

#[test]
fn no_text_is_empty_or_has_spaces_around_it() {
    for Pair { question, answer } in everything() {
        for text in [&question, &answer] {
            assert!(!text.is_empty() && text.trim() == text, "{question:?} {answer:?}");
            assert!(!text.contains("  ") && !text.contains(['{', '}', '|', '\n']), "{question:?} {answer:?}");
        }
    }
}

#[test]
fn answers_are_sentences() {
    for Pair { question, answer } in everything() {
        assert!(answer.ends_with(['.', '!', '?', '。', '！', '？']), "{question:?} {answer:?}");
        assert!(!answer.starts_with(char::is_lowercase) || answer.starts_with("softmax"), "{answer:?}");
    }
}

#[test]
fn no_question_comes_twice() {
    let mut seen = HashSet::new();
    for Pair { question, .. } in everything() {
        assert!(seen.insert(question.clone()), "{question:?}");
    }
}

#[test]
fn a_question_has_one_answer_however_it_is_typed() {
    let mut answers: HashMap<String, Pair> = HashMap::new();
    for pair in everything() {
        let plain = hurried(&pair.question, Language::English);
        let earlier = answers.entry(plain).or_insert_with(|| pair.clone());
        assert_eq!(earlier.answer, pair.answer, "{:?} and {:?}", earlier.question, pair.question);
    }
}

#[test]
fn a_fact_has_one_answer_a_language() {
    let mut answers = HashMap::new();
    for group in topics::groups() {
        let earlier = answers.insert((group.fact.clone(), group.language), group.answer);
        assert_eq!(earlier, None, "two groups for {:?}", group.fact);
    }
}

#[test]
fn a_held_out_fact_is_trained_in_three_other_phrasings_of_its_language() {
    let trained: HashSet<String> = train().into_iter().map(|pair| pair.question).collect();
    for group in topics::groups() {
        if let Some(index) = held_out_index(&group) {
            assert!(!trained.contains(&group.questions[index].text), "{:?}", group.questions[index].text);
            let others = trained_questions(&group).filter(|question| trained.contains(*question)).count();
            assert!(others >= 3, "{:?}", group.fact);
        }
    }
}

#[test]
fn a_held_out_phrasing_is_trained_with_five_other_facts() {
    let groups = topics::groups();
    let mut facts_of: HashMap<(&str, Language), HashSet<&str>> = HashMap::new();
    for group in groups.iter().filter(|group| group.kind != Kind::Unseen) {
        let held_out = held_out_index(group);
        for (index, question) in group.questions.iter().enumerate() {
            if Some(index) != held_out {
                facts_of.entry((&question.phrasing, group.language)).or_default().insert(&group.fact);
            }
        }
    }
    for group in &groups {
        if let Some(index) = held_out_index(group) {
            let phrasing = &group.questions[index].phrasing;
            let facts = facts_of.get(&(phrasing.as_str(), group.language)).map_or(0, HashSet::len);
            assert!(facts >= 5, "{phrasing:?} is trained with {facts} facts");
        }
    }
}

#[test]
fn a_held_out_question_typed_both_ways_has_its_twin_in_training() {
    let plain = |pair: &Pair| hurried(&pair.question, Language::English);
    let trained: HashSet<String> = train().iter().map(plain).collect();
    for group in topics::groups().iter().filter(|group| group.fact.starts_with("dialogue")) {
        if let Some(index) = held_out_index(group) {
            let question = &group.questions[index].text;
            assert!(trained.contains(&hurried(question, Language::English)), "{question:?}");
        }
    }
}

#[test]
fn every_fact_and_every_known_question_is_either_trained_or_held_out() {
    let known: usize = topics::groups()
        .iter()
        .filter(|group| group.kind != Kind::Unseen)
        .map(|group| group.questions.len())
        .sum();
    assert_eq!(train().len() + held_out().len(), known);
    assert!(topics::groups().iter().all(|group| trained_questions(group).count() >= 2));
}

#[test]
fn not_knowing_is_trained_held_out_and_asked_about_unseen_things() {
    let admits = |pair: &&Pair| {
        [Language::English, Language::Chinese].iter().any(|language| pair.answer == language.i_dont_know())
    };
    assert!(train().iter().filter(admits).count() >= 400);
    assert!(held_out().iter().filter(admits).count() >= 30);
    assert!(unseen().len() >= 50 && unseen().iter().all(|pair| admits(&pair)));
}

#[test]
fn a_small_vocabulary_is_enough_and_training_shows_all_of_it() {
    let trained = characters(&train());
    assert!(trained.len() < 1_200, "{} characters", trained.len());
    let missing: Vec<char> = characters(&held_out()).difference(&trained).copied().collect();
    assert!(missing.is_empty(), "only in held-out questions: {missing:?}");
}

#[test]
fn each_chinese_character_of_an_answer_comes_several_times() {
    let mut counts: HashMap<char, usize> = HashMap::new();
    for pair in train() {
        for character in pair.answer.chars().filter(|character| !character.is_ascii()) {
            *counts.entry(character).or_default() += 1;
        }
    }
    let rare: Vec<_> = counts.iter().filter(|(_, count)| **count < 3).collect();
    assert!(rare.is_empty(), "{rare:?}");
}

#[test]
fn pairs_are_short() {
    let mut lengths: Vec<usize> =
        everything().iter().map(|pair| pair.question.chars().count() + pair.answer.chars().count()).collect();
    lengths.sort_unstable();
    let at = |percent: usize| lengths[(lengths.len() - 1) * percent / 100];
    assert!(at(50) <= 40 && at(95) <= 75 && at(100) <= 100, "{} {} {}", at(50), at(95), at(100));
}

#[test]
fn the_set_is_the_one_that_scores_were_measured_on() {
    let mut texts: Vec<String> = Vec::new();
    for pairs in [train(), held_out(), unseen()] {
        texts.extend(pairs.into_iter().flat_map(|pair| [pair.question, pair.answer]));
        texts.push("and then".into());
    }
    let parts: Vec<&str> = texts.iter().map(String::as_str).collect();
    assert_eq!(stable_hash(&parts), FINGERPRINT, "if the change is meant, renew the fingerprint");
}
