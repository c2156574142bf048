//! `POST /v1/responses`: OpenAI's newer interface, as far as it is about text. Nothing is kept, so a conversation is sent whole each time.

use super::interface::{Interface, answer};
use super::usage::{self, UsageAnswer};
use crate::app::App;
use crate::body::KnownFields;
use crate::events::{StreamEvent, named_event};
use crate::fields::Route;
use crate::messages::{self, ChatMessage, Content, ConversationFields};
use crate::problem::{AccessErrors, BodyErrors, ErrorAnswer, Problem};
use crate::record::Account;
use crate::routes::FinishWord;
use crate::sampling::{Asked, Own};
use crate::served_model::ServedModel;
use crate::settings::{Defaults, Wanted};
use crate::texts::{News, Texts, WholeText};
use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use utoipa::ToSchema;

/// What was said, and how to answer.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ResponseFields {
    /// A text, or a list of messages.
    input: Input,
    /// What the model is told before the conversation.
    instructions: Option<String>,
    /// Tokens to write at most. Default: as many as the context holds.
    #[schema(minimum = 0)]
    max_output_tokens: Option<u64>,
    /// What the text looks like: `{"format": {"type": "json_schema", "name": …, "schema": …}}`, `json_object` or `text`.
    #[schema(value_type = Option<Object>)]
    text: Option<Value>,
    /// Nothing but `disabled` is supported: no prompt is cut.
    truncation: Option<String>,
    /// Comes back with the answer.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
}

/// What was said.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected a string or a list of messages")]
pub(crate) enum Input {
    Text(String),
    Items(Vec<InputItem>),
}

/// A message, as a client or an earlier answer has it.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct InputItem {
    /// `message`, the only kind here.
    r#type: Option<String>,
    /// `system`, `developer`, `user` or `assistant`.
    role: Option<String>,
    content: Option<Content>,
}

pub(crate) type ResponseRequest = Asked<ResponseFields>;

impl Own for ResponseFields {
    const ROUTE: Route = Route::Responses;

    fn defaults(model: &ServedModel) -> Defaults {
        Defaults::chat(&model.format)
    }

    fn add(&self, wanted: Wanted) -> Result<Wanted, Problem> {
        Ok(Wanted { max_tokens: self.max_output_tokens.or(wanted.max_tokens), ..wanted })
    }
}

impl ResponseFields {
    fn messages(&mut self) -> Result<Vec<ChatMessage>, Problem> {
        let of = |role: &str, content| ChatMessage {
            role: role.to_owned(),
            content: Some(content),
            more: Map::new(),
        };
        let mut all: Vec<ChatMessage> =
            self.instructions.iter().map(|text| of("system", Content::Text(text.clone()))).collect();
        match std::mem::replace(&mut self.input, Input::Items(Vec::new())) {
            Input::Text(text) => all.push(of("user", Content::Text(text))),
            Input::Items(items) => {
                for (i, item) in items.into_iter().enumerate() {
                    let wrong = |message: String| Problem::field(&format!("input[{i}]"), message);
                    match (item.r#type.as_deref(), item.role, item.content) {
                        (None | Some("message"), Some(role), Some(content)) => all.push(of(&role, content)),
                        (None | Some("message"), ..) => {
                            return Err(wrong("a message has a role and a content".to_owned()));
                        }
                        (Some(kind), ..) => {
                            let kind: String = kind.chars().take(40).collect();
                            return Err(wrong(format!("an item is {kind:?}: only messages are read here")));
                        }
                    }
                }
            }
        }
        Ok(all)
    }

    fn check(&self) -> Result<(), Problem> {
        let wrong = |message: &str| Err(Problem::field("text", message));
        if let Some(text) = &self.text {
            let is_object = |value: &Value| value.is_object() || value.is_null();
            if !text.is_object() || !text.get("format").is_none_or(is_object) {
                return wrong("text must be {\"format\": {\"type\": …}}");
            }
            if text.get("verbosity").is_some_and(|verbosity| !verbosity.is_null() && *verbosity != "medium") {
                return wrong(
                    "text.verbosity can only be \"medium\": models served here have no such setting",
                );
            }
        }
        match self.truncation.as_deref() {
            None | Some("disabled") => Ok(()),
            Some(_) => {
                Err(Problem::field("truncation", "truncation can only be \"disabled\": no prompt is cut"))
            }
        }
    }
}

/// Answer a conversation, as OpenAI's `responses` have it. Also `/responses`. Answers are not kept: `store` means nothing, and
/// `previous_response_id` is refused.
#[utoipa::path(post, path = "/v1/responses", request_body = Asked<ResponseFields>, responses(
    (status = 200, description = "the answer; with `stream` as OpenAI's named events", content(
        (Value = "application/json"), (StreamEvent = "text/event-stream"),
    )),
    (status = 429, description = "too many requests are waiting", body = ErrorAnswer),
    BodyErrors,
    AccessErrors,
))]
pub(crate) async fn responses(
    State(app): State<Arc<App>>,
    Extension(account): Extension<Arc<Account>>,
    KnownFields(mut request): KnownFields<ResponseRequest>,
) -> Result<Response, Problem> {
    let model = app.model_for(request.sampling.model.as_deref(), &account)?;
    request.own.check()?;
    let format =
        request.own.text.as_ref().and_then(|text| text.get("format")).filter(|format| !format.is_null());
    let format = format.cloned();
    if let Some(format) = &format {
        request.structured.set_text_format(format)?;
    }
    let for_text = |problem: Problem| match problem.param.as_deref() {
        Some("response_format") if format.is_some() => {
            let message = problem.message.replace("response_format.json_schema", "text.format");
            Problem {
                param: Some("text".to_owned()),
                message: message.replace("response_format", "text.format"),
                ..problem
            }
        }
        _ => problem,
    };
    let settings = request.settings(&model).await.map_err(for_text)?;
    let instructed = request.own.instructions.is_some();
    let for_input = |problem: Problem| match &problem.param {
        // The instructions are a message too, so numbers would be those of other items.
        Some(param) if param.starts_with("messages") && instructed => {
            Problem { param: Some("input".to_owned()), ..problem }
        }
        Some(param) if param.starts_with("messages") => {
            Problem { param: Some(param.replacen("messages", "input", 1)), ..problem }
        }
        _ => problem,
    };
    let conversation = ConversationFields::of(request.own.messages()?).conversation(&model, &mut Vec::new());
    let (conversation, _) = conversation.map_err(for_input)?;
    let prompt = messages::encode(&model, &account, conversation).await.map_err(for_input)?;
    let config = settings.config();
    let responses = Responses {
        id: format!("resp_{}", usage::unique()),
        item: format!("msg_{}", usage::unique()),
        common: json!({
            "object": "response", "created_at": usage::now(), "model": model.name, "error": null,
            "instructions": request.own.instructions, "max_output_tokens": request.own.max_output_tokens,
            "metadata": request.own.metadata.unwrap_or_default(), "parallel_tool_calls": true,
            "previous_response_id": null, "store": false,
            "temperature": if config.do_sample { config.temperature } else { 0.0 }, "top_p": config.top_p,
            "text": { "format": format.unwrap_or_else(|| json!({ "type": "text" })) }, "tool_choice": "none", "tools": [], "truncation": "disabled",
        }),
        text: String::new(),
        reason: FinishWord::Stop,
        events: 0,
    };
    let texts = Texts::start(&model, &account, &settings, vec![prompt], false, false)?;
    answer(texts, request.sampling.stream.unwrap_or(false), responses).await
}

/// OpenAI's responses.
struct Responses {
    id: String,
    item: String,
    /// What an answer and its events have in common.
    common: Value,
    /// The text of a stream so far.
    text: String,
    /// Why that text ended.
    reason: FinishWord,
    /// Events that were sent.
    events: u64,
}

impl Responses {
    /// The message, once it has a text.
    fn item(&self, text: Option<&str>, status: &str) -> Value {
        let content: Vec<Value> = text.into_iter().map(part).collect();
        json!({ "id": self.item, "type": "message", "status": status, "role": "assistant", "content": content })
    }

    fn answer(&self, status: &str, output: &[Value], usage: Option<&UsageAnswer>) -> Value {
        let mut answer = json!({ "id": self.id, "status": status, "output": output });
        let cut = (status == "incomplete").then(|| json!({ "reason": "max_output_tokens" }));
        let usage = usage.map(|usage| {
            json!({
                "input_tokens": usage.prompt_tokens,
                "input_tokens_details": { "cached_tokens": usage.prompt_tokens_details.cached_tokens },
                "output_tokens": usage.completion_tokens,
                "output_tokens_details": { "reasoning_tokens": 0 },
                "total_tokens": usage.total_tokens,
            })
        });
        if let (Some(answer), Some(common)) = (answer.as_object_mut(), self.common.as_object()) {
            answer.extend(common.clone());
            answer.insert("incomplete_details".to_owned(), cut.into());
            answer.insert("usage".to_owned(), usage.into());
        }
        answer
    }

    /// An event with its number.
    fn event(&mut self, kind: &str, mut fields: Value) -> Bytes {
        fields["type"] = kind.into();
        fields["sequence_number"] = self.events.into();
        self.events += 1;
        named_event(kind, &fields)
    }

    /// An event about the message's text.
    fn text_event(&mut self, kind: &str, mut fields: Value) -> Bytes {
        fields["item_id"] = self.item.as_str().into();
        fields["output_index"] = 0.into();
        fields["content_index"] = 0.into();
        self.event(kind, fields)
    }
}

fn part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
}

fn status(reason: FinishWord) -> &'static str {
    if reason == FinishWord::Length { "incomplete" } else { "completed" }
}

impl Interface for Responses {
    type Whole = Value;

    fn whole(self, texts: Vec<WholeText>, usage: UsageAnswer) -> Value {
        let text: String = texts.iter().map(|text| text.piece.text.as_str()).collect();
        let status = status(texts.last().map_or(FinishWord::Stop, |text| text.end.reason));
        self.answer(status, &[self.item(Some(&text), status)], Some(&usage))
    }

    /// The answer, its message, and the message's text, all empty.
    fn first(&mut self, _: usize) -> Vec<Bytes> {
        let answer = self.answer("in_progress", &[], None);
        let item = self.item(None, "in_progress");
        vec![
            self.event("response.created", json!({ "response": &answer })),
            self.event("response.in_progress", json!({ "response": answer })),
            self.event("response.output_item.added", json!({ "output_index": 0, "item": item })),
            self.text_event("response.content_part.added", json!({ "part": part("") })),
        ]
    }

    fn next(&mut self, News { piece, end, .. }: News) -> Vec<Bytes> {
        self.reason = end.map_or(self.reason, |end| end.reason);
        if piece.text.is_empty() {
            return Vec::new();
        }
        self.text.push_str(&piece.text);
        let fields = json!({ "delta": piece.text, "logprobs": [] });
        vec![self.text_event("response.output_text.delta", fields)]
    }

    /// The text, its message and the answer, all done.
    fn last(&mut self, usage: UsageAnswer) -> Vec<Bytes> {
        let text = std::mem::take(&mut self.text);
        let status = status(self.reason);
        let item = self.item(Some(&text), status);
        let answer = self.answer(status, std::slice::from_ref(&item), Some(&usage));
        vec![
            self.text_event("response.output_text.done", json!({ "text": text, "logprobs": [] })),
            self.text_event("response.content_part.done", json!({ "part": part(&text) })),
            self.event("response.output_item.done", json!({ "output_index": 0, "item": item })),
            self.event(&format!("response.{status}"), json!({ "response": answer })),
        ]
    }
}
