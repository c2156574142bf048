//! Attention as JSON, a layer at a time: that of a long text is larger than the memory that should go into looking at it.

use super::answer::Answer;
use minigpt::ModelFolder;
use minigpt_insight::{Subject, each_layer};
use minigpt_model::Tensor;
use serde::ser::{Error as _, SerializeSeq};
use serde::{Serialize, Serializer};

/// An answer, and behind it the attention weights if they are wanted, which are computed as they are written.
pub struct WithAttention<'a> {
    pub answer: &'a Answer,
    pub model: &'a ModelFolder,
    pub wanted: bool,
}

/// `attention[layer][head][query][key]`.
struct Attention<'a>(&'a ModelFolder, &'a [u32]);

impl Serialize for WithAttention<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Both<'a> {
            #[serde(flatten)]
            answer: &'a Answer,
            attention: Attention<'a>,
        }
        match (&self.answer.text, self.wanted) {
            (Some(text), true) => Both { answer: self.answer, attention: Attention(self.model, &text.ids) }
                .serialize(serializer),
            _ => self.answer.serialize(serializer),
        }
    }
}

impl Serialize for Attention<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(model, ids) = self;
        let mut layers = serializer.serialize_seq(Some(model.gpt.config().n_layer))?;
        let mut failed = None;
        let written = each_layer(&Subject::new(&model.gpt), ids, |_, pattern: &Tensor| {
            if failed.is_none() {
                failed = layers.serialize_element(&pattern.to_vec3::<f32>()?).err();
            }
            Ok(())
        });
        match (failed, written) {
            (Some(error), _) => Err(error),
            (None, Err(error)) => Err(S::Error::custom(error)),
            (None, Ok(_)) => layers.end(),
        }
    }
}
