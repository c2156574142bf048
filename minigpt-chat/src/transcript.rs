//! A conversation with everything that a chat template may look at.

use crate::format::role_name;
use minigpt_data::{Role, Turn};
use serde_json::{Map, Value as Json};

/// A conversation with a model, and how its prompt ends.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    /// The messages so far.
    pub messages: Vec<Message>,
    /// The functions that the model may call, each as OpenAI describes it. Only chat templates know them.
    pub tools: Vec<Json>,
    /// Further values for a chat template, by name.
    pub values: Map<String, Json>,
    /// How the prompt ends.
    pub end: TranscriptEnd,
}

/// One message.
#[derive(Debug, Clone, Default)]
pub struct Message {
    /// `system`, `user`, `assistant`, or what else a template knows.
    pub role: String,
    /// The text of the message.
    pub text: String,
    /// Further fields for a chat template, such as `tool_calls` and `name`.
    pub more: Map<String, Json>,
}

/// How a prompt ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TranscriptEnd {
    /// Where the model's next message begins.
    #[default]
    Answer,
    /// Behind the last message.
    Nothing,
    /// Inside the model's next message, which begins with this text.
    Within(String),
}

impl Message {
    /// Whether the model said it.
    pub fn is_models(&self) -> bool {
        self.role == role_name(Role::Assistant)
    }
}

impl From<&Turn> for Message {
    fn from(turn: &Turn) -> Self {
        Self { role: role_name(turn.role).to_owned(), text: turn.text.clone(), more: Map::new() }
    }
}

impl From<&[Turn]> for Transcript {
    fn from(turns: &[Turn]) -> Self {
        Self { messages: turns.iter().map(Message::from).collect(), ..Self::default() }
    }
}

impl Transcript {
    /// The text with which the model's next message begins, if the prompt ends inside that message.
    pub fn answer_prefix(&self) -> Option<&str> {
        match &self.end {
            TranscriptEnd::Within(text) => Some(text),
            TranscriptEnd::Answer | TranscriptEnd::Nothing => None,
        }
    }

    /// The messages as turns, for models without a template. What is neither the system's nor the model's is the user's.
    pub(crate) fn turns(&self) -> Vec<Turn> {
        let role = |message: &Message| match message.role.as_str() {
            "system" => Role::System,
            "assistant" => Role::Assistant,
            _ => Role::User,
        };
        self.messages.iter().map(|message| Turn { role: role(message), text: message.text.clone() }).collect()
    }

    /// The conversation with every text changed; the first argument of `change` says whether the model wrote it. Roles stay.
    pub(crate) fn map(&self, change: &dyn Fn(bool, &str) -> String) -> Self {
        let message = |message: &Message| {
            let by_model = message.is_models();
            Message {
                role: message.role.clone(),
                text: change(by_model, &message.text),
                more: map_object(&message.more, &|text| change(by_model, text)),
            }
        };
        let others = |text: &str| change(false, text);
        Self {
            messages: self.messages.iter().map(message).collect(),
            tools: self.tools.iter().map(|tool| map_json(tool, &others)).collect(),
            values: map_object(&self.values, &others),
            end: self.end.clone(),
        }
    }

    /// Whether `is` holds for any of its texts.
    pub(crate) fn any(&self, is: &dyn Fn(&str) -> bool) -> bool {
        let message = |message: &Message| is(&message.text) || any_of(&message.more, is);
        self.answer_prefix().is_some_and(is)
            || self.messages.iter().any(message)
            || self.tools.iter().any(|tool| any_json(tool, is))
            || any_of(&self.values, is)
    }
}

fn map_json(json: &Json, change: &dyn Fn(&str) -> String) -> Json {
    match json {
        Json::String(text) => Json::String(change(text)),
        Json::Array(items) => items.iter().map(|item| map_json(item, change)).collect(),
        Json::Object(object) => Json::Object(map_object(object, change)),
        Json::Null | Json::Bool(_) | Json::Number(_) => json.clone(),
    }
}

fn map_object(object: &Map<String, Json>, change: &dyn Fn(&str) -> String) -> Map<String, Json> {
    object.iter().map(|(name, value)| (change(name), map_json(value, change))).collect()
}

fn any_json(json: &Json, is: &dyn Fn(&str) -> bool) -> bool {
    match json {
        Json::String(text) => is(text),
        Json::Array(items) => items.iter().any(|item| any_json(item, is)),
        Json::Object(object) => any_of(object, is),
        Json::Null | Json::Bool(_) | Json::Number(_) => false,
    }
}

fn any_of(object: &Map<String, Json>, is: &dyn Fn(&str) -> bool) -> bool {
    object.iter().any(|(name, value)| is(name) || any_json(value, is))
}
