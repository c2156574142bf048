//! The two languages, and how people type: not every question comes with its capital letters and its mark.

/// The languages of the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Language {
    English,
    Chinese,
}

impl Language {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::English => "English",
            Self::Chinese => "Chinese",
        }
    }

    /// What the model should say when it is asked for something that the set doesn't have.
    pub(super) fn i_dont_know(self) -> &'static str {
        match self {
            Self::English => "I don't know that yet.",
            Self::Chinese => "这个我还不知道。",
        }
    }
}

/// The question typed in one of several ways; `turn` goes round them, so that a fact asked in several phrasings,
/// and a phrasing used for several facts, is seen in all of them.
pub(super) fn in_turn(question: &str, language: Language, turn: u64) -> String {
    match turn % 5 {
        0 | 2 => question.into(),
        1 | 3 => hurried(question, language),
        _ => relaxed(question, language),
    }
}

/// No mark at the end, and no capital letters in English.
pub(super) fn hurried(question: &str, language: Language) -> String {
    let unmarked = question.trim_end_matches(['?', '.', '!', '？', '。', '！']).trim_end();
    match language {
        Language::English => unmarked.to_lowercase(),
        Language::Chinese => unmarked.into(),
    }
}

/// English without capital letters; Chinese with the half-width mark of an English keyboard.
fn relaxed(question: &str, language: Language) -> String {
    match language {
        Language::English => question.to_lowercase(),
        Language::Chinese => question.replace('？', "?").replace('！', "!"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_turns_show_every_way_of_typing() {
        let typed =
            |question, language| (0..5).map(|turn| in_turn(question, language, turn)).collect::<Vec<_>>();
        let (proper, hurried, relaxed) = ("Where is Peru?", "where is peru", "where is peru?");
        assert_eq!(typed(proper, Language::English), [proper, hurried, proper, hurried, relaxed]);
        let (proper, hurried, relaxed) = ("秘鲁在哪里？", "秘鲁在哪里", "秘鲁在哪里?");
        assert_eq!(typed(proper, Language::Chinese), [proper, hurried, proper, hurried, relaxed]);
    }

    #[test]
    fn a_sum_without_its_question_mark_ends_in_no_space() {
        assert_eq!(hurried("3 + 5 = ?", Language::English), "3 + 5 =");
    }
}
