//! The text format of a model that is fine-tuned: its tokenizer, its chat template, and the tokens that end an answer.

use super::RunError;
use crate::error::Result;
use crate::model_folder::ending_ids;
use crate::run_config::{ExampleStyle, RunConfig};
use minigpt_chat::Format;
use minigpt_data::ExampleFormat;
use minigpt_formats::{ChatTemplate, OnDisk};
use minigpt_tokenizer::Tokenizer;
use std::path::Path;

/// Tokenizer and chat template of a model that is fine-tuned, empty for a new model.
#[derive(Clone, Default)]
pub(crate) struct BaseFormat {
    pub tokenizer: Option<Tokenizer>,
    pub template: Option<ChatTemplate>,
    /// Tokens that end an answer.
    pub ends: Vec<u32>,
}

impl BaseFormat {
    /// Reads them from the files of a model.
    pub fn of(base: Option<&Path>) -> Result<Self> {
        let Some(base) = base else { return Ok(Self::default()) };
        let files = OnDisk::open(base)?;
        let tokenizer = files.own_tokenizer()?.map(Tokenizer::leaving_out);
        let Some(template) = ChatTemplate::of(&files)? else {
            return Ok(Self { tokenizer, template: None, ends: Vec::new() });
        };
        let ends = ending_ids(files.model()?.extra(), Some(&template), tokenizer.as_ref());
        Ok(Self { tokenizer, template: Some(template), ends })
    }

    /// Format of examples for the model. `None` for questions and answers with separators.
    pub(super) fn of_examples(&self, config: &RunConfig) -> Result<Option<ExampleFormat>> {
        let style = config.data.format;
        let (Some(template), Some(tokenizer)) = (&self.template, &self.tokenizer) else {
            return match style {
                Some(ExampleStyle::Own) => Err(RunError::NoTemplate.into()),
                _ => Ok(None),
            };
        };
        if style == Some(ExampleStyle::Questions) {
            return Ok(None);
        }
        let format = Format::of_examples(template, tokenizer, self.ends.clone());
        if format.is_some() && self.ends.is_empty() {
            return Err(RunError::NoEndToken.into());
        }
        Ok(format)
    }
}
