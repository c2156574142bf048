//! What a person should know about the data of a run.

use crate::model_folder::TokenizerMismatch;
use minigpt_data::{Damage, Description, UnknownNote};
use std::fmt;
use std::path::PathBuf;

/// What a person should know about the data of a run.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the texts say what the variants and fields are")]
pub enum RunNote {
    /// What the data was read as.
    ReadAs {
        path: String,
        read_as: Description,
    },
    Damage(Damage),
    UnknownCharacters(UnknownNote),
    /// The vocabulary is that of the data's characters.
    CharacterVocabulary {
        size: usize,
    },
    /// A configured tokenizer is ignored because the data is tokens already.
    TokenizerIgnored {
        name: String,
    },
    TokenizerMismatch(TokenizerMismatch),
    /// Old questions are rehearsed.
    Rehearsal {
        path: String,
    },
    /// Examples are written in the model's chat template.
    OwnTemplate {
        end: String,
    },
    /// The chat template is replaced by questions and separators.
    TemplateReplaced {
        end: String,
    },
    /// A file was in the way of the data.
    KeptAside {
        path: String,
        aside: PathBuf,
    },
}

impl RunNote {
    /// Replaces the temporary path of the data by the one it has now.
    pub(super) fn rename(&mut self, temporary: &str, now: &str) {
        match self {
            Self::ReadAs { path, .. } if path == temporary => now.clone_into(path),
            Self::Damage(damage) if damage.name == temporary.into() => damage.name = now.into(),
            _ => {}
        }
    }
}

impl fmt::Display for RunNote {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::ReadAs { path, read_as } => write!(f, "{path}: {read_as}"),
            Self::Damage(damage) => damage.fmt(f),
            Self::UnknownCharacters(note) => note.fmt(f),
            Self::CharacterVocabulary { size } => write!(
                f,
                "the vocabulary is the {size} characters of the data; other characters in prompts are left out"
            ),
            Self::TokenizerIgnored { name } => write!(
                f,
                "data.tokenizer is {name}, but the data is tokens that were made with the meta.pkl next to them, which is used"
            ),
            Self::TokenizerMismatch(mismatch) => mismatch.fmt(f),
            Self::Rehearsal { path } => write!(
                f,
                "half of each batch is what {path} was trained on, so that the model does not forget it"
            ),
            Self::OwnTemplate { end } => write!(
                f,
                "examples are written in the model's own chat template, in which {end} ends an answer"
            ),
            Self::TemplateReplaced { end } => {
                write!(f, "the model's chat template is replaced: {end} ends each question and answer")
            }
            Self::KeptAside { path, aside } => {
                write!(f, "{path} already existed; the old file is kept as {}", aside.display())
            }
        }
    }
}
