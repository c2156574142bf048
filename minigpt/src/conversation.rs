//! Talking with a model in the format that it knows: questions and separators, a chat template, or plain text.

use crate::ModelFolder;
use crate::error::Result;
use minigpt_chat::{Format, role_name};
use minigpt_data::{BadRow, Role, Turn};
use serde_json::json;

/// The messages so far, and the format in which the model reads them.
#[derive(Debug, Clone)]
pub struct Conversation {
    format: Format,
    turns: Vec<Turn>,
    /// Whether the prompt includes the messages before the last question.
    pub remembers: bool,
}

/// Why a conversation cannot go on.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what the variants are")]
pub enum ConversationError {
    #[error("the conversation has no message yet")]
    Empty,
    #[error("not a conversation: {0}")]
    Malformed(BadRow),
}

impl Conversation {
    /// A conversation that has not begun. A question/answer model has learnt from single questions, so it is told
    /// nothing of those before.
    pub fn new(format: Format) -> Self {
        let remembers = format.remembers();
        Self { format, turns: Vec::new(), remembers }
    }

    /// Its format.
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// The messages.
    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// Adds a message.
    pub fn say(&mut self, role: Role, text: &str) {
        self.turns.push(Turn { role, text: text.to_owned() });
    }

    /// Removes the last message.
    pub fn take_back(&mut self) {
        self.turns.pop();
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        self.turns.clear();
    }

    /// The ids that make the model answer the last turn: as many of the turns before as leave `room` in its context.
    pub fn prompt(&self, model: &ModelFolder, room: usize) -> Result<Vec<u32>> {
        let Some(last) = self.turns.len().checked_sub(1) else {
            return Err(ConversationError::Empty.into());
        };
        let first = if self.remembers { 0 } else { last };
        let space = model.gpt.config().block_size.saturating_sub(room);
        for start in first..last {
            let ids = self.encode(model, &self.turns[start..])?;
            if ids.len() <= space {
                return Ok(ids);
            }
        }
        self.encode(model, &self.turns[last..])
    }

    fn encode(&self, model: &ModelFolder, turns: &[Turn]) -> Result<Vec<u32>> {
        Ok(self.format.encode(model.need_tokenizer()?, turns)?)
    }

    /// The conversation as one line of a question/answer file.
    pub fn to_json(&self) -> String {
        let message = |turn: &Turn| json!({ "role": role_name(turn.role), "content": turn.text });
        json!({ "messages": self.turns.iter().map(message).collect::<Vec<_>>() }).to_string()
    }

    /// Takes the turns of a line that [`Self::to_json`] made.
    pub fn load_json(&mut self, text: &str) -> Result<()> {
        match minigpt_data::Record::parse(text.trim().as_bytes()) {
            Ok(record) => self.turns = record.turns,
            Err(error) => return Err(ConversationError::Malformed(error).into()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use minigpt_formats::ExtraKeys;
    use minigpt_model::{Config, Device, Gpt};
    use minigpt_tokenizer::Tokenizer;

    fn model(tokenizer: Tokenizer, block_size: usize) -> ModelFolder {
        let vocab_size = tokenizer.vocab_size();
        let shape = Config { n_layer: 1, n_head: 1, n_embd: 8, block_size, vocab_size, ..Config::default() };
        let gpt = Gpt::new(shape, 1, &Device::Cpu).unwrap();
        ModelFolder::new("nowhere", gpt, ExtraKeys::new(), Some(tokenizer))
    }

    fn qa_tokenizer() -> Tokenizer {
        let record = minigpt_data::Record::pair("abcd", "efgh");
        minigpt_data::TokenizerChoice::Char.for_records([&record]).unwrap()
    }

    #[test]
    fn a_question_answer_model_is_asked_one_question_at_a_time_unless_told_otherwise() {
        let model = model(qa_tokenizer(), 16);
        let mut talk = Conversation::new(model.format().unwrap().clone());
        assert_eq!(talk.format(), &Format::Qa);
        assert!(talk.prompt(&model, 4).is_err());
        talk.say(Role::User, "ab");
        talk.say(Role::Assistant, "ef");
        talk.say(Role::User, "cd");
        let alone = talk.prompt(&model, 4).unwrap();
        assert_eq!(alone.len(), 3);
        talk.remembers = true;
        assert_eq!(talk.prompt(&model, 4).unwrap().len(), 9);
        // When the context leaves no room for all of it, the oldest turns go first.
        assert_eq!(talk.prompt(&model, 8).unwrap().len(), 6);
        assert_eq!(talk.prompt(&model, 99).unwrap(), alone);
    }

    #[test]
    fn a_bare_text_is_wrapped_and_one_that_names_special_tokens_is_not() {
        let model = model(qa_tokenizer(), 16);
        let wrap = |text: &str| model.format().unwrap().wrap(model.need_tokenizer().unwrap(), text).unwrap();
        assert_eq!(wrap("ab").unwrap(), model.encode("ab<sep>").unwrap());
        assert_eq!((wrap("ab<sep>"), wrap("<unk>"), wrap("")), (None, None, None));
        assert_eq!(Format::Plain.wrap(model.need_tokenizer().unwrap(), "ab").unwrap(), None);
        assert_eq!(model.prompt("ab").unwrap(), model.prompt("ab<sep>").unwrap());
    }

    #[test]
    fn a_conversation_can_be_saved_and_loaded() {
        let mut talk = Conversation::new(Format::Plain);
        talk.say(Role::User, "你好\n\"you\"");
        talk.say(Role::Assistant, "hello");
        let mut loaded = Conversation::new(Format::Plain);
        loaded.load_json(&talk.to_json()).unwrap();
        assert_eq!(loaded.turns(), talk.turns());
        assert!(loaded.load_json("{").unwrap_err().to_string().starts_with("not a conversation"));
        assert_eq!(loaded.turns().len(), 2, "a file that can't be read changes nothing");
    }
}
