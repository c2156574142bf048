//! `POST /v1/responses`: OpenAI's newer interface, as far as it is about text. Nothing is kept, so a conversation is sent whole each time.

use super::usage::{self, UsageAnswer};
use crate::app::App;
use crate::body::KnownFields;
use crate::events::{self, Early, Events, StreamEvent};
use crate::fields::Route;
use crate::messages::{self, ChatMessage, Content, TalkFields};
use crate::problem::{AccessErrors, BodyErrors, ErrorAnswer, Problem};
use crate::record::Account;
use crate::routes::FinishWord;
use crate::settings::{Asked, Defaults, Own, Wanted};
use crate::texts::{News, Texts};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
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
    let wanted = request.sampling.wanted(&model, Route::Responses)?;
    let most = request.own.max_output_tokens;
    let wanted = Wanted { max_tokens: most.or(wanted.max_tokens), ..wanted };
    let mut settings = wanted.settle(&model, Defaults::chat(&model.format))?;
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
    let constraint = std::mem::take(&mut request.structured).constraint(&model).await.map_err(for_text)?;
    settings.constrain(constraint);
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
    let talk = TalkFields::of(request.own.messages()?).talk(&model, &mut Vec::new());
    let (talk, _) = talk.map_err(for_input)?;
    let prompt = messages::encode(&model, &account, talk).await.map_err(for_input)?;
    let config = settings.config();
    let shape = Shape {
        id: format!("resp_{}", usage::unique()),
        item: format!("msg_{}", usage::unique()),
        common: json!({
            "object": "response", "created_at": usage::now(), "model": model.name, "error": null,
            "instructions": request.own.instructions, "max_output_tokens": most,
            "metadata": request.own.metadata.unwrap_or_default(), "parallel_tool_calls": true,
            "previous_response_id": null, "store": false,
            "temperature": if config.do_sample { config.temperature } else { 0.0 }, "top_p": config.top_p,
            "text": { "format": format.unwrap_or_else(|| json!({ "type": "text" })) }, "tool_choice": "none", "tools": [], "truncation": "disabled",
        }),
    };
    let texts = Texts::start(&model, &account, &settings, vec![prompt], false, false)?;
    if request.sampling.stream.unwrap_or(false) {
        return Ok(events::answer(|events| stream(texts, shape, events)));
    }
    Ok(Json(whole(texts, &shape).await?).into_response())
}

/// What an answer and its events have in common.
struct Shape {
    id: String,
    item: String,
    common: Value,
}

impl Shape {
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
}

fn part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
}

fn status(reason: FinishWord) -> &'static str {
    if reason == FinishWord::Length { "incomplete" } else { "completed" }
}

async fn whole(mut texts: Texts, shape: &Shape) -> Result<Value, Problem> {
    let (mut text, mut reason) = (String::new(), FinishWord::Stop);
    while let Some(News { piece, end, .. }) = texts.next().await? {
        text.push_str(&piece.text);
        reason = end.map_or(reason, |end| end.reason);
    }
    let status = status(reason);
    Ok(shape.answer(status, &[shape.item(Some(&text), status)], Some(&texts.usage)))
}

/// The events of OpenAI's interface, each with its number: the answer, its message, the message's text, what is new, and all of them done.
async fn stream(mut texts: Texts, shape: Shape, events: Events) -> Result<(), Early> {
    let mut number = 0_u64;
    let mut event = |kind: &str, mut fields: Value| {
        fields["type"] = kind.into();
        fields["sequence_number"] = number.into();
        number += 1;
        (kind.to_owned(), fields)
    };
    let place = |mut fields: Value| {
        fields["item_id"] = shape.item.as_str().into();
        fields["output_index"] = 0.into();
        fields["content_index"] = 0.into();
        fields
    };
    let begun = shape.answer("in_progress", &[], None);
    for (kind, fields) in [
        event("response.created", json!({ "response": begun.clone() })),
        event("response.in_progress", json!({ "response": begun })),
        event(
            "response.output_item.added",
            json!({ "output_index": 0, "item": shape.item(None, "in_progress") }),
        ),
        event("response.content_part.added", place(json!({ "part": part("") }))),
    ] {
        events.send_named(&kind, &fields).await?;
    }
    let (mut text, mut reason) = (String::new(), FinishWord::Stop);
    while let Some(News { piece, end, .. }) = texts.next().await? {
        if !piece.text.is_empty() {
            text.push_str(&piece.text);
            let (kind, fields) =
                event("response.output_text.delta", place(json!({ "delta": piece.text, "logprobs": [] })));
            events.send_named(&kind, &fields).await?;
        }
        reason = end.map_or(reason, |end| end.reason);
    }
    let status = status(reason);
    let item = shape.item(Some(&text), status);
    let answer = shape.answer(status, std::slice::from_ref(&item), Some(&texts.usage));
    for (kind, fields) in [
        event("response.output_text.done", place(json!({ "text": text, "logprobs": [] }))),
        event("response.content_part.done", place(json!({ "part": part(&text) }))),
        event("response.output_item.done", json!({ "output_index": 0, "item": item })),
        event(&format!("response.{status}"), json!({ "response": answer })),
    ] {
        events.send_named(&kind, &fields).await?;
    }
    Ok(())
}
