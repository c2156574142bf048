//! `POST /v1/chat/completions`: the next turn of a conversation, as OpenAI has it.

use super::completions::FinishWord;
use super::usage::{self, FINGERPRINT, StreamOptions, UsageAnswer, UsageInAnswer};
use crate::app::App;
use crate::body::{KnownFields, parse};
use crate::events::{self, Early, Events, StreamEvent};
use crate::fields::{Fields, Route};
use crate::logprobs::ChatLogprobs;
use crate::messages::{self, TalkFields, ToolUse};
use crate::problem::{AccessErrors, BodyErrors, ErrorAnswer, Problem};
use crate::record::Account;
use crate::served_model::ServedModel;
use crate::settings::{Defaults, Sampling, Wanted};
use crate::structured::Structured;
use crate::texts::{News, Texts};
use crate::writing::Written;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use minigpt_chat::{AnswerPart, ToolCall, ToolParser};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// What was said, and how to answer.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ChatFields {
    /// Answers.
    #[schema(minimum = 1, maximum = 128)]
    n: Option<u64>,
    /// Whether tokens come with their log-probabilities.
    logprobs: Option<bool>,
    /// How many of the likeliest come with each token; needs `logprobs`.
    #[schema(minimum = 0, maximum = 100)]
    top_logprobs: Option<usize>,
    stream_options: Option<StreamOptions>,
}

/// The same with the fields of all routes that write, and those of the conversation.
#[derive(Debug, ToSchema)]
pub(crate) struct ChatRequest {
    #[schema(inline)]
    #[serde(flatten)]
    sampling: Sampling,
    #[schema(inline)]
    #[serde(flatten)]
    structured: Structured,
    #[schema(inline)]
    #[serde(flatten)]
    talk: TalkFields,
    #[schema(inline)]
    #[serde(flatten)]
    own: ChatFields,
}

impl Fields for ChatRequest {
    const ROUTE: Route = Route::Chat;

    fn read(bytes: &[u8]) -> Result<Self, Problem> {
        let (sampling, structured) = (parse(bytes)?, parse(bytes)?);
        Ok(Self { sampling, structured, talk: parse(bytes)?, own: parse(bytes)? })
    }
}

/// Answers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChatAnswer {
    id: String,
    /// `chat.completion`, or `chat.completion.chunk` in an event.
    object: &'static str,
    /// Seconds since 1970.
    created: u64,
    model: String,
    system_fingerprint: &'static str,
    choices: Vec<ChatChoice>,
    /// What it cost; in a stream only if it was asked for: null in all events but the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<UsageAnswer>)]
    usage: UsageInAnswer,
}

/// One answer, or a part of it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChatChoice {
    index: usize,
    /// The whole answer; absent in an event.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<AnswerMessage>,
    /// What is new, in an event.
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<AnswerDelta>,
    logprobs: Option<ChatLogprobs>,
    /// `stop`, `length` or `tool_calls`; null while it goes on.
    finish_reason: Option<FinishWord>,
}

/// A whole answer.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AnswerMessage {
    /// `assistant`.
    role: &'static str,
    /// Null where the answer is nothing but calls.
    content: Option<String>,
    /// Always null: these models refuse nothing.
    refusal: Option<String>,
    /// The tools that it calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<Vec<CallAnswer>>,
}

/// A call of a tool.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CallAnswer {
    /// Which, in an event.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    /// What the message that answers it names as `tool_call_id`.
    id: String,
    /// `function`.
    r#type: &'static str,
    function: CalledFunction,
}

/// A function with what it is given.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CalledFunction {
    name: String,
    /// JSON, as the model wrote it: a client checks it.
    arguments: String,
}

impl CallAnswer {
    fn new(call: ToolCall, index: Option<usize>) -> Self {
        let function = CalledFunction { name: call.name, arguments: call.arguments };
        Self { index, id: usage::name("call"), r#type: "function", function }
    }
}

/// What is new.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct AnswerDelta {
    /// `assistant`, in the first event.
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// Calls, each whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<Vec<CallAnswer>>,
}

impl ChatRequest {
    fn wanted(&mut self, model: &ServedModel) -> Result<Wanted, Problem> {
        let wanted = self.sampling.wanted(model, Route::Chat)?;
        let ChatFields { n, logprobs, top_logprobs, .. } = self.own;
        let logprobs = logprobs.unwrap_or(false);
        if top_logprobs.is_some_and(|top| top > 0) && !logprobs {
            return Err(Problem::field("top_logprobs", "top_logprobs needs logprobs to be true"));
        }
        Ok(Wanted { n, alternatives: logprobs.then(|| top_logprobs.unwrap_or(0)), ..wanted })
    }
}

/// Answer the last turn of a conversation, in the format that the model knows. Also `/chat/completions`.
#[utoipa::path(post, path = "/v1/chat/completions", request_body = ChatRequest, responses(
    (status = 200, description = "the answers; with `stream` as events that have what is new", content(
        (ChatAnswer = "application/json"), (StreamEvent = "text/event-stream"),
    )),
    (status = 429, description = "too many requests are waiting", body = ErrorAnswer),
    BodyErrors,
    AccessErrors,
))]
pub(crate) async fn chat_completions(
    State(app): State<Arc<App>>,
    Extension(account): Extension<Arc<Account>>,
    KnownFields(mut request): KnownFields<ChatRequest>,
) -> Result<Response, Problem> {
    let model = app.model_for(request.sampling.model.as_deref(), &account)?;
    let mut settings = request.wanted(&model)?.settle(&model, Defaults::chat(&model.format))?;
    settings.constrain(std::mem::take(&mut request.structured).constraint(&model).await?);
    let mut ignored = Vec::new();
    let (talk, tools) = request.talk.talk(&model, &mut ignored)?;
    account.note(|record| record.ignored.extend(ignored));
    if let Some(stop) = tools.as_ref().and_then(ToolUse::stop) {
        settings.stop_at(stop);
    }
    let usage = usage::wanted(request.own.stream_options.as_ref(), &account)?;
    let prompt = messages::encode(&model, &account, talk).await?;
    let logprobs = request.own.logprobs.unwrap_or(false);
    let texts = Texts::start(&model, &account, &settings, vec![prompt], false, logprobs)?;
    let shape = Shape { id: usage::name("chatcmpl"), created: usage::now(), model, logprobs, usage, tools };
    if request.sampling.stream.unwrap_or(false) {
        return Ok(events::answer(|events| stream(texts, shape, events)));
    }
    Ok(Json(whole(texts, &shape).await?).into_response())
}

/// What all answers to one request have in common.
struct Shape {
    id: String,
    created: u64,
    model: Arc<ServedModel>,
    logprobs: bool,
    /// Whether a stream tells what it cost.
    usage: bool,
    /// The tools that the model may call.
    tools: Option<ToolUse>,
}

impl Shape {
    fn logprobs(&self, tokens: &[Written]) -> Option<ChatLogprobs> {
        self.logprobs.then(|| ChatLogprobs::new(&self.model, tokens))
    }

    fn answer(&self, object: &'static str, choices: Vec<ChatChoice>, usage: UsageInAnswer) -> ChatAnswer {
        ChatAnswer {
            id: self.id.clone(),
            object,
            created: self.created,
            model: self.model.name.clone(),
            system_fingerprint: FINGERPRINT,
            choices,
            usage,
        }
    }

    /// An event with what is new in one answer.
    fn chunk(
        &self,
        index: usize,
        delta: AnswerDelta,
        tokens: &[Written],
        finish_reason: Option<FinishWord>,
    ) -> ChatAnswer {
        let logprobs = if tokens.is_empty() { None } else { self.logprobs(tokens) };
        let choice = ChatChoice { index, message: None, delta: Some(delta), logprobs, finish_reason };
        self.answer("chat.completion.chunk", vec![choice], self.usage.then_some(None))
    }
}

async fn whole(mut texts: Texts, shape: &Shape) -> Result<ChatAnswer, Problem> {
    let mut answers: Vec<Answer> = (0..texts.len()).map(|_| Answer::new(shape.tools.as_ref())).collect();
    let mut wholes: Vec<Whole> = (0..texts.len()).map(|_| Whole::default()).collect();
    while let Some(News { index, piece, end }) = texts.next().await? {
        let whole = &mut wholes[index];
        whole.tokens.extend(piece.tokens);
        for part in answers[index].take(piece.text, end.is_some()) {
            match part {
                AnswerPart::Text(text) => whole.text.push_str(&text),
                AnswerPart::Call(call) => whole.calls.push(CallAnswer::new(call, None)),
            }
        }
        whole.reason = end.map(|end| answers[index].reason(end.reason));
    }
    let choice = |(index, whole): (usize, Whole)| {
        // An answer that is nothing but calls has no content.
        let silent = whole.text.is_empty() && !whole.calls.is_empty();
        let message = AnswerMessage {
            role: "assistant",
            content: (!silent).then_some(whole.text),
            refusal: None,
            tool_calls: (!whole.calls.is_empty()).then_some(whole.calls),
        };
        let logprobs = shape.logprobs(&whole.tokens);
        ChatChoice { index, message: Some(message), delta: None, logprobs, finish_reason: whole.reason }
    };
    let choices = wholes.into_iter().enumerate().map(choice).collect();
    Ok(shape.answer("chat.completion", choices, Some(Some(texts.usage))))
}

/// A whole answer as it is put together.
#[derive(Default)]
struct Whole {
    text: String,
    calls: Vec<CallAnswer>,
    tokens: Vec<Written>,
    reason: Option<FinishWord>,
}

/// An answer under way: what it says, and what it calls.
pub(super) struct Answer {
    parser: Option<ToolParser>,
    /// The most calls that it may have.
    most: usize,
    /// The calls that it has.
    calls: usize,
}

impl Answer {
    pub fn new(tools: Option<&ToolUse>) -> Self {
        let most = tools.map_or(0, |tools| if tools.parallel { usize::MAX } else { 1 });
        Self { parser: tools.map(ToolUse::parser), most, calls: 0 }
    }

    /// The parts that are clear with the next text.
    pub fn take(&mut self, text: String, ends: bool) -> Vec<AnswerPart> {
        let Some(parser) = &mut self.parser else {
            return if text.is_empty() { Vec::new() } else { vec![AnswerPart::Text(text)] };
        };
        let mut parts = parser.push(&text);
        if ends {
            parts.extend(parser.finish());
        }
        // A call that is one too many is not lost: it is text.
        for part in &mut parts {
            if let AnswerPart::Call(call) = part {
                self.calls += 1;
                if self.calls > self.most {
                    let ToolCall { name, arguments } = call;
                    *part = AnswerPart::Text(format!("{{\"name\": {name:?}, \"arguments\": {arguments}}}"));
                }
            }
        }
        parts
    }

    /// Why it ended, in a word.
    pub fn reason(&self, reason: FinishWord) -> FinishWord {
        if self.calls > 0 && reason == FinishWord::Stop { FinishWord::ToolCalls } else { reason }
    }
}

/// For each answer first its role, then what it says and calls, then why it ends; at last what all of it cost, if that was asked for.
async fn stream(mut texts: Texts, shape: Shape, events: Events) -> Result<(), Early> {
    let mut answers: Vec<Answer> = (0..texts.len()).map(|_| Answer::new(shape.tools.as_ref())).collect();
    // Tokens whose text may become a call wait with it.
    let mut waiting: Vec<Vec<Written>> = vec![Vec::new(); texts.len()];
    let mut calls = vec![0; texts.len()];
    for index in 0..texts.len() {
        let role = AnswerDelta { role: Some("assistant"), content: Some(String::new()), tool_calls: None };
        events.send(&shape.chunk(index, role, &[], None)).await?;
    }
    while let Some(News { index, piece, end }) = texts.next().await? {
        let tokens = &mut waiting[index];
        tokens.extend(piece.tokens);
        let mut parts = answers[index].take(piece.text, end.is_some());
        if parts.is_empty() && !tokens.is_empty() && (shape.tools.is_none() || end.is_some()) {
            parts.push(AnswerPart::Text(String::new()));
        }
        for part in parts {
            let delta = match part {
                AnswerPart::Text(text) => AnswerDelta { content: Some(text), ..AnswerDelta::default() },
                AnswerPart::Call(call) => {
                    let call = CallAnswer::new(call, Some(calls[index]));
                    calls[index] += 1;
                    AnswerDelta { tool_calls: Some(vec![call]), ..AnswerDelta::default() }
                }
            };
            events.send(&shape.chunk(index, delta, &std::mem::take(tokens), None)).await?;
        }
        if let Some(end) = end {
            let reason = answers[index].reason(end.reason);
            events.send(&shape.chunk(index, AnswerDelta::default(), &[], Some(reason))).await?;
        }
    }
    if shape.usage {
        events.send(&shape.answer("chat.completion.chunk", Vec::new(), Some(Some(texts.usage)))).await?;
    }
    Ok(events.done().await?)
}
