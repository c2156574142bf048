//! Talking with a model in the format that it knows: questions and separators, a chat template, or plain text.

use crate::error::{Error, Result};
use crate::{ModelFolder, guarded, template};
use minigpt_data::{QaEncoder, Role, Turn};
use minigpt_formats::{ChatTemplate, OnDisk};
use minigpt_tokenizer::SEP;
use minijinja::context;
use serde_json::json;
use std::collections::BTreeMap;

/// How a model expects to be spoken to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// `question <sep> answer <sep>`, as question/answer data is trained.
    Qa,
    /// The chat template that came with the model.
    Template(ChatTemplate),
    /// The text so far, and nothing else: the model goes on with it.
    Plain,
}

impl Format {
    /// The format of a model: its chat template if it has one, questions if it knows `<sep>`, otherwise plain.
    pub fn of(model: &ModelFolder) -> Result<Self> {
        if minigpt_files::is_there(&model.path)?
            && let Some(template) = ChatTemplate::of(&OnDisk::open(&model.path)?)?
        {
            // What this program trains on single questions needs no template to be spoken to.
            let encoder = model.tokenizer.as_ref().and_then(|tokenizer| QaEncoder::new(tokenizer).ok());
            let single = encoder.is_some_and(|encoder| template.source == encoder.template(false));
            return Ok(if single { Self::Qa } else { Self::Template(template) });
        }
        let separator = model.need_tokenizer()?.special_id(SEP);
        Ok(if separator.is_some() { Self::Qa } else { Self::Plain })
    }

    /// In words.
    pub fn describe(&self) -> &'static str {
        match self {
            Self::Qa => "question <sep> answer <sep>, as the model was trained",
            Self::Template(_) => "the model's own chat template",
            Self::Plain => "plain: the model goes on with your text",
        }
    }
}

/// What was said so far, and how the model is to be told.
#[derive(Debug, Clone)]
pub struct Conversation {
    format: Format,
    turns: Vec<Turn>,
    /// Whether the model is told what was said before the last question.
    pub remembers: bool,
}

impl Conversation {
    /// A conversation that has not begun. A question/answer model has learnt from single questions, so it is told
    /// nothing of those before.
    pub fn new(format: Format) -> Self {
        let remembers = format != Format::Qa;
        Self { format, turns: Vec::new(), remembers }
    }

    /// Its format.
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// What was said.
    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// Adds what somebody said.
    pub fn say(&mut self, role: Role, text: &str) {
        self.turns.push(Turn { role, text: text.to_owned() });
    }

    /// Takes back what was said last.
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
            return Err(Error::Conversation("nothing was said yet".to_owned()));
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
        let tokenizer = model.need_tokenizer()?;
        match &self.format {
            Format::Qa => Ok(QaEncoder::new(tokenizer)?.prompt(turns)?),
            Format::Template(template) => guarded::encode(tokenizer, template, turns),
            Format::Plain => {
                let text: Vec<&str> = turns.iter().map(|turn| turn.text.as_str()).collect();
                Ok(tokenizer.encode(&text.join("\n"))?)
            }
        }
    }

    /// The conversation as one line of a question/answer file.
    pub fn to_json(&self) -> String {
        let message = |turn: &Turn| json!({ "role": role(turn.role), "content": turn.text });
        json!({ "messages": self.turns.iter().map(message).collect::<Vec<_>>() }).to_string()
    }

    /// Takes the turns of a line that [`Self::to_json`] made.
    pub fn load_json(&mut self, text: &str) -> Result<()> {
        match minigpt_data::Record::parse(text.trim().as_bytes()) {
            Ok(record) => self.turns = record.turns,
            Err(error) => return Err(Error::Conversation(format!("not a conversation: {error}"))),
        }
        Ok(())
    }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}

/// Turns as a chat template writes them, up to where the model is to speak.
pub(crate) fn render(template: &ChatTemplate, turns: &[Turn]) -> Result<String> {
    let message = |turn: &Turn| context! { role => role(turn.role), content => turn.text.clone() };
    let messages: Vec<_> = turns.iter().map(message).collect();
    let tokens = minijinja::Value::from(template.tokens.iter().cloned().collect::<BTreeMap<_, _>>());
    let values = context! { messages, add_generation_prompt => true, ..tokens };
    template::render(&template.source, &values)
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
        ModelFolder { path: "nowhere".into(), gpt, extra: ExtraKeys::new(), tokenizer: Some(tokenizer) }
    }

    fn qa_tokenizer() -> Tokenizer {
        let record = minigpt_data::Record::pair("abcd", "efgh");
        minigpt_data::TokenizerChoice::Char.for_records([&record]).unwrap()
    }

    #[test]
    fn a_question_answer_model_is_asked_one_question_at_a_time_unless_told_otherwise() {
        let model = model(qa_tokenizer(), 16);
        let mut talk = Conversation::new(Format::of(&model).unwrap());
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

    #[test]
    fn templates_are_hugging_faces() {
        // What ChatML looks like in most models of the hub.
        let source = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] \
                      + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' \
                      }}{% endif %}{{ eos_token.strip() }}";
        let turns = [Turn { role: Role::User, text: "Hi".into() }];
        let tokens = [("eos_token".to_owned(), "!".to_owned())];
        let want = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n!";
        let render = |source: &str, tokens: &[(String, String)]| {
            render(&ChatTemplate { source: source.to_owned(), tokens: tokens.to_vec() }, &turns)
        };
        assert_eq!(render(source, &tokens).unwrap(), want);
        assert!(render("{% for %}", &[]).is_err());
        assert!(render("{{ raise_exception('no system turn') }}", &[]).is_err());
    }
}
