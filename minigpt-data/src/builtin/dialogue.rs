//! Something to talk about that fits no table: each dialogue has phrasings of its own.
//!
//! They are written as text, one dialogue after a blank line: questions between bars (on as many lines as they
//! need), `=` and the answer; first in English, then in Chinese.

use super::group::{Group, Kind, Question};
use super::typing::{self, Language};

pub(super) struct Dialogue {
    en: Talk,
    zh: Talk,
    kind: Kind,
}

struct Talk {
    questions: Vec<&'static str>,
    answer: &'static str,
}

impl Dialogue {
    /// Reads dialogues with their answers.
    pub(super) fn parse(text: &'static str) -> Vec<Self> {
        let read = |block: &'static str| {
            let mut talks = Vec::new();
            let mut questions = Vec::new();
            for line in block.lines() {
                match line.strip_prefix("= ") {
                    Some(answer) => talks.push(Talk { questions: std::mem::take(&mut questions), answer }),
                    None => questions.extend(line.split('|').map(str::trim)),
                }
            }
            let [en, zh] = <[Talk; 2]>::try_from(talks)
                .unwrap_or_else(|_| panic!("a dialogue is in English, then in Chinese: {block}"));
            assert!(questions.is_empty(), "a dialogue ends with an answer: {block}");
            Self { en, zh, kind: Kind::Known }
        };
        text.trim().split("\n\n").map(read).collect()
    }

    /// Reads questions that have no answer: a line in English, a line in Chinese.
    pub(super) fn parse_unanswerable(text: &'static str) -> Vec<Self> {
        let read = |block: &'static str| {
            let (en, zh) = block.split_once('\n').expect("a line in English, a line in Chinese");
            let talk = |line: &'static str, language: Language| Talk {
                questions: line.split('|').map(str::trim).collect(),
                answer: language.i_dont_know(),
            };
            Self { en: talk(en, Language::English), zh: talk(zh, Language::Chinese), kind: Kind::Unknown }
        };
        text.trim().split("\n\n").map(read).collect()
    }

    /// Both languages. What has an answer is asked as it is written and as people type it in a hurry, the rest once.
    pub(super) fn groups(&self) -> Vec<Group> {
        let fact = format!("dialogue: {} | {}", self.en.questions.join(" "), self.zh.questions.join(" "));
        let group = |language, talk: &Talk| Group {
            fact: fact.clone(),
            language,
            questions: match self.kind {
                Kind::Known => talk.typed_both_ways(language),
                Kind::Unknown | Kind::Unseen => talk.typed_in_turn(language),
            },
            answer: talk.answer.into(),
            kind: self.kind,
        };
        vec![group(Language::English, &self.en), group(Language::Chinese, &self.zh)]
    }
}

impl Talk {
    /// Each question has a twin that differs in typing alone; either may be held out, as at most one of a group is.
    fn typed_both_ways(&self, language: Language) -> Vec<Question> {
        let mut questions = Vec::new();
        for written in &self.questions {
            let hurried = typing::hurried(written, language);
            let has_twin = !hurried.is_empty() && !self.questions.contains(&hurried.as_str());
            questions.push(Question {
                text: (*written).into(),
                phrasing: "as written".into(),
                may_be_held_out: has_twin,
            });
            if has_twin {
                questions.push(Question { text: hurried, phrasing: "hurried".into(), may_be_held_out: true });
            }
        }
        questions
    }

    fn typed_in_turn(&self, language: Language) -> Vec<Question> {
        let typed = |(written, turn): (&&str, u64)| Question {
            text: typing::in_turn(written, language, turn),
            phrasing: "unanswerable".into(),
            may_be_held_out: false,
        };
        self.questions.iter().zip(0..).map(typed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dialogue_is_asked_as_written_and_in_a_hurry() {
        let dialogues = Dialogue::parse("Hi! | Hello\n= Hello!\n你好！\n= 你好！");
        let [english, chinese] = <[Group; 2]>::try_from(dialogues[0].groups()).ok().expect("two languages");
        let texts =
            |group: &Group| group.questions.iter().map(|asked| asked.text.clone()).collect::<Vec<_>>();
        assert_eq!(texts(&english), ["Hi!", "hi", "Hello", "hello"]);
        assert_eq!(texts(&chinese), ["你好！", "你好"]);
        assert_eq!((english.answer.as_str(), chinese.answer.as_str()), ("Hello!", "你好！"));
    }

    #[test]
    #[should_panic(expected = "in English, then in Chinese")]
    fn a_dialogue_in_one_language_is_refused() {
        Dialogue::parse("Hi!\n= Hello!");
    }
}
