//! Conversations as OpenAI's clients send them, and what the model is told of them.

use crate::body::aside;
use crate::fields;
use crate::problem::Problem;
use crate::prompts::check;
use crate::record::Account;
use crate::served_model::ServedModel;
use minigpt_chat::{Format, Message, ToolForm, ToolParser, Transcript, TranscriptEnd, today};
use minigpt_tokenizer::Tokenizer;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Arc;
use utoipa::ToSchema;

/// A conversation, and how the model is told it.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct ConversationFields {
    /// What was said so far.
    messages: Vec<ChatMessage>,
    /// Functions that the model may call, if its chat template has tools.
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Value>,
    /// `auto`, or `none` for an answer without calls.
    #[schema(value_type = Option<String>)]
    tool_choice: Option<Value>,
    /// Whether an answer may have several calls. Default: true.
    parallel_tool_calls: Option<bool>,
    /// Whether the model has the next turn. Default: true, unless the last message is the model's own, which is then continued.
    add_generation_prompt: Option<bool>,
    /// Whether the last message, the model's own, is continued instead of answered.
    continue_final_message: Option<bool>,
    /// Values for the model's chat template, by name.
    #[schema(value_type = Option<Object>)]
    chat_template_kwargs: Option<Map<String, Value>>,
    /// Handed to the model's chat template, if that knows it.
    reasoning_effort: Option<String>,
}

/// One thing said.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ChatMessage {
    /// `system`, `developer`, `user`, `assistant` or `tool`.
    #[schema(example = "user")]
    pub role: String,
    /// What was said.
    #[schema(example = "Who was the first person on the moon?")]
    pub content: Option<Content>,
    /// Further fields, such as `tool_calls`, `tool_call_id` and `name`: the model's chat template sees those that it knows.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub more: Map<String, Value>,
}

/// A text, or the parts of one.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected a string or a list of parts")]
pub(crate) enum Content {
    Text(String),
    Parts(Vec<Part>),
}

/// A part of a text.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct Part {
    /// `text`: these models know nothing else.
    #[schema(example = "text")]
    r#type: Option<String>,
    /// The text.
    text: Option<String>,
    /// Further fields, such as `image_url`: refused if they hold what these models can't read, otherwise ignored.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    more: Map<String, Value>,
}

/// Fields of a part that hold no text.
const NOT_TEXT: [&str; 10] = [
    "image",
    "image_url",
    "input_image",
    "audio",
    "audio_url",
    "input_audio",
    "video",
    "video_url",
    "file",
    "file_id",
];

/// How the answer of a model that may call tools is read.
#[derive(Debug, Clone)]
pub(crate) struct ToolUse {
    form: ToolForm,
    names: Vec<String>,
    /// Whether there may be several calls.
    pub parallel: bool,
}

impl ToolUse {
    /// The text behind which an answer ends that may have one call only.
    pub fn stop(&self) -> Option<&'static str> {
        if self.parallel { None } else { self.form.close() }
    }

    pub fn parser(&self) -> ToolParser {
        ToolParser::new(self.form, self.names.clone())
    }
}

/// The most tools of a request, and the most values for a template.
const MOST_TOOLS: usize = 256;
/// Dates that llama.cpp's server gives to templates, with their formats. Without them some templates name a day long ago.
const DATES: [(&str, &str); 2] = [("date_string", "%d %b %Y"), ("datetime", "%b %d %Y")];
/// Names that a chat template has from us.
const OUR_NAMES: [&str; 5] =
    ["messages", "tools", "documents", "add_generation_prompt", "continue_final_message"];

impl ConversationFields {
    /// A conversation and nothing else.
    pub fn of(messages: Vec<ChatMessage>) -> Self {
        Self { messages, ..Self::default() }
    }

    /// What the model is told, and how its answer is read if it may call tools. A model of single questions is told the last turn
    /// alone. Fields that its template does not know are added to `ignored`.
    pub fn conversation(
        self,
        model: &ServedModel,
        ignored: &mut Vec<String>,
    ) -> Result<(Transcript, Option<ToolUse>), Problem> {
        let format = &model.format;
        let tools = self.tools(model)?;
        let end = self.end(format)?;
        let mut values = self.chat_template_kwargs.unwrap_or_default();
        if let Some(name) = OUR_NAMES.iter().find(|name| values.contains_key(**name)) {
            let message = format!("chat_template_kwargs can't have {name}: it is a field of its own");
            return Err(Problem::field("chat_template_kwargs", message));
        }
        values.retain(|name, _| {
            let known = model.mentions(name);
            if !known {
                ignored.push(format!("chat_template_kwargs.{}", fields::shown(name)));
            }
            known
        });
        for (name, format) in DATES {
            if model.mentions(name) {
                values.entry(name).or_insert_with(|| today(format).into());
            }
        }
        if let Some(effort) = self.reasoning_effort {
            if !model.mentions("reasoning_effort") {
                let message =
                    "reasoning_effort is not supported: this model's chat template does not know it";
                return Err(Problem::field("reasoning_effort", message));
            }
            values.insert("reasoning_effort".to_owned(), effort.into());
        }
        if self.messages.is_empty() {
            return Err(Problem::field("messages", "there is no message"));
        }
        let messages = self.messages.into_iter().enumerate();
        let mut messages =
            messages.map(|(i, given)| message(model, i, given, ignored)).collect::<Result<Vec<_>, _>>()?;
        let end = match end {
            End::Continue => TranscriptEnd::Within(messages.pop().map(|last| last.text).unwrap_or_default()),
            End::Answer => TranscriptEnd::Answer,
            End::Nothing => TranscriptEnd::Nothing,
        };
        if !format.remembers() {
            messages.drain(..messages.len().saturating_sub(1));
        }
        if messages.is_empty() && *format != Format::Plain {
            return Err(Problem::field("messages", "there is no message before the one to be continued"));
        }
        let (tools, tool_use) = tools.unzip();
        Ok((Transcript { messages, tools: tools.unwrap_or_default(), values, end }, tool_use))
    }

    /// The tools that the model is told of.
    fn tools(&self, model: &ServedModel) -> Result<Option<(Vec<Value>, ToolUse)>, Problem> {
        let wrong = |what: &str| Problem::field("tools", format!("tools: {what}"));
        let tools = match &self.tools {
            None => &[][..],
            Some(Value::Array(tools)) => tools,
            Some(_) => {
                return Err(wrong(
                    "expected a list of {\"type\": \"function\", \"function\": {\"name\": …}}",
                ));
            }
        };
        if tools.len() > MOST_TOOLS {
            return Err(wrong(&format!("{} are too many; {MOST_TOOLS} is the most", tools.len())));
        }
        let mut names = Vec::new();
        for (i, tool) in tools.iter().enumerate() {
            let name = tool.pointer("/function/name").and_then(Value::as_str).filter(|name| !name.is_empty());
            match (tool.get("type").and_then(Value::as_str), name) {
                (Some("function"), Some(name)) => names.push(name.to_owned()),
                (Some("function"), None) => {
                    return Err(wrong(&format!("number {i} has no function with a name")));
                }
                _ => {
                    return Err(wrong(&format!("number {i} is not of type \"function\", the only one here")));
                }
            }
        }
        let demands =
            "tool_choice can only be \"auto\" or \"none\": a model can't be made to call a tool here";
        match &self.tool_choice {
            None => {}
            Some(choice) if choice == "auto" => {}
            Some(choice) if choice == "none" => return Ok(None),
            Some(_) => return Err(Problem::field("tool_choice", demands)),
        }
        if tools.is_empty() {
            return Ok(None);
        }
        let Some(form) = model.tool_form else {
            let why = if model.mentions("tools") {
                "the calls of this model's chat template have a form that is not known here"
            } else {
                "this model's chat template has no tools"
            };
            return Err(Problem::field("tools", format!("tools is not supported: {why}")));
        };
        let parallel = self.parallel_tool_calls.unwrap_or(true);
        Ok(Some((tools.to_vec(), ToolUse { form, names, parallel })))
    }

    /// How the prompt ends. The model's own last message is continued, as llama.cpp's server does it, unless the request says
    /// that the model has the next turn.
    fn end(&self, format: &Format) -> Result<End, Problem> {
        let refuse = |message: &str| Err(Problem::field("continue_final_message", message));
        let of_model =
            |message: Option<&ChatMessage>| message.is_some_and(|message| message.role == "assistant");
        let last = self.messages.len().checked_sub(1);
        let is_models = of_model(last.map(|last| &self.messages[last]));
        match (self.continue_final_message, self.add_generation_prompt) {
            (Some(true), Some(true)) => {
                refuse("continue_final_message and add_generation_prompt exclude each other")
            }
            (Some(true), _) if !is_models => refuse("the message to be continued is not the assistant's"),
            (Some(true), _) => Ok(End::Continue),
            (None, None) if is_models => {
                if of_model(last.and_then(|last| last.checked_sub(1)).map(|before| &self.messages[before])) {
                    return Err(Problem::field(
                        "messages",
                        "the last two messages are the assistant's: which one is to be continued?",
                    ));
                }
                Ok(End::Continue)
            }
            (_, Some(false)) if matches!(format, Format::Template(_)) => Ok(End::Nothing),
            (_, Some(false)) => Err(Problem::field(
                "add_generation_prompt",
                "add_generation_prompt is always true for a model without a chat template",
            )),
            _ => Ok(End::Answer),
        }
    }
}

enum End {
    Answer,
    Continue,
    Nothing,
}

fn message(
    model: &ServedModel,
    index: usize,
    given: ChatMessage,
    ignored: &mut Vec<String>,
) -> Result<Message, Problem> {
    let wrong =
        |field: &str, message: String| Err(Problem::field(&format!("messages[{index}].{field}"), message));
    let has = |role: &'static str, instead: &'static str| if model.mentions(role) { role } else { instead };
    let role = match given.role.as_str() {
        "system" => "system",
        "developer" => has("developer", "system"),
        "user" => "user",
        // What a tool found is something that the model is told.
        "tool" | "function" => has("tool", "user"),
        "assistant" => "assistant",
        other => {
            let other: String = other.chars().take(40).collect();
            return wrong(
                "role",
                format!("the role {other:?} is none of system, developer, user, assistant and tool"),
            );
        }
    };
    let text = match given.content {
        None => String::new(),
        Some(Content::Text(text)) => text,
        Some(Content::Parts(parts)) => {
            let mut texts = Vec::new();
            for (at, Part { r#type, text, more }) in parts.into_iter().enumerate() {
                for (name, _) in more.iter().filter(|(_, value)| !value.is_null()) {
                    match name.as_str() {
                        name if NOT_TEXT.contains(&name) => {
                            return wrong(
                                "content",
                                format!("a part has {name}: these models read text only"),
                            );
                        }
                        // What answers of this interface have and clients send back.
                        "annotations" | "logprobs" => {}
                        name => {
                            ignored.push(format!("messages[{index}].content[{at}].{}", fields::shown(name)));
                        }
                    }
                }
                match (r#type.as_deref(), text) {
                    (None | Some("text" | "input_text" | "output_text"), Some(text)) => texts.push(text),
                    (kind, _) => {
                        let kind: String = kind.unwrap_or("nothing").chars().take(40).collect();
                        return wrong("content", format!("a part is {kind:?}: these models read text only"));
                    }
                }
            }
            texts.join("\n")
        }
    };
    let mut more = Map::new();
    for (name, value) in given.more {
        match name.as_str() {
            _ if value.is_null() => {}
            "tool_calls" if value.as_array().is_some_and(Vec::is_empty) => {}
            "tool_calls" if !model.mentions("tool_calls") => {
                return wrong("tool_calls", "this model's chat template has no calls of tools".to_owned());
            }
            "tool_calls" => drop(more.insert(name, calls(value))),
            "function_call" => return wrong("function_call", "use tool_calls, which replaced it".to_owned()),
            "audio" => return wrong("audio", "these models read text only".to_owned()),
            // What answers of this interface have and clients send back.
            "refusal" | "annotations" | "id" | "type" | "status" => {}
            _ if model.mentions(&name) => drop(more.insert(name, value)),
            // They say who speaks and what is answered, which only some templates tell the model.
            "name" | "tool_call_id" => {}
            _ => ignored.push(format!("messages[{index}].{}", fields::shown(&name))),
        }
    }
    Ok(Message { role: role.to_owned(), text, more })
}

/// Calls as templates expect them: with arguments that are an object, not JSON in a string.
fn calls(mut calls: Value) -> Value {
    for call in calls.as_array_mut().into_iter().flatten() {
        if let Some(arguments) = call.pointer_mut("/function/arguments")
            && let Some(Ok(object @ Value::Object(_))) = arguments.as_str().map(serde_json::from_str)
        {
            *arguments = object;
        }
    }
    calls
}

/// The ids that make the model answer. Nothing is left out to make them fit; characters that the vocabulary lacks are noted in the
/// account.
pub(crate) async fn encode(
    model: &Arc<ServedModel>,
    account: &Account,
    conversation: Transcript,
) -> Result<Vec<u32>, Problem> {
    let tokenizer = Arc::clone(model.need_tokenizer()?);
    let served = Arc::clone(model);
    let encode = move || {
        let ids = served.format.encode_conversation(&tokenizer, &conversation).map_err(told)?;
        Ok((ids, unknown(&tokenizer, &conversation)))
    };
    let (ids, unknown) = aside(encode).await?;
    account.note_unknown(unknown);
    let context = |problem: Problem| match problem.param.as_deref() {
        Some("prompt") => Problem { param: Some("messages".to_owned()), ..problem },
        _ => problem,
    };
    check(model, ids).map_err(context)
}

/// The characters of what was said that the vocabulary lacks.
fn unknown(tokenizer: &Tokenizer, conversation: &Transcript) -> BTreeSet<char> {
    let messages = conversation.messages.iter().map(|message| message.text.as_str());
    messages.chain(conversation.answer_prefix()).flat_map(|text| tokenizer.unknown(text)).collect()
}

/// The same as text.
pub(crate) async fn render(model: &Arc<ServedModel>, conversation: Transcript) -> Result<String, Problem> {
    let tokenizer = Arc::clone(model.need_tokenizer()?);
    let served = Arc::clone(model);
    aside(move || served.format.render_conversation(&tokenizer, &conversation).map_err(told)).await
}

/// A template that refuses a conversation says why.
#[expect(clippy::needless_pass_by_value, reason = "it is what map_err gives")]
fn told(error: minigpt_chat::Error) -> Problem {
    let message = match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    };
    Problem::field("messages", message)
}
