//! `POST /v1/chat/completions`: the next turn of a conversation, as OpenAI has it.

use super::completions::FinishWord;
use super::usage::{self, FINGERPRINT, StreamOptions, UsageAnswer};
use crate::app::App;
use crate::body::JsonBody;
use crate::events::{self, Early, Events, StreamEvent};
use crate::logprobs::ChatLogprobs;
use crate::messages::{self, ChatMessage};
use crate::problem::{AccessErrors, BodyErrors, ErrorAnswer, Problem};
use crate::record::Account;
use crate::served_model::ServedModel;
use crate::settings::{Defaults, Strings, Wanted, biases, refuse_penalties};
use crate::texts::{News, Texts};
use crate::writing::{Piece, Written};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::ToSchema;

/// What was said, and how to answer.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ChatRequest {
    /// The model; the first one where none is named.
    model: Option<String>,
    /// What was said so far.
    messages: Vec<ChatMessage>,
    /// Tokens to write at most; as many as the context holds when absent.
    #[schema(minimum = 0)]
    max_completion_tokens: Option<u64>,
    /// The older name of the same.
    #[schema(minimum = 0)]
    max_tokens: Option<u64>,
    /// 0 takes the likeliest token, always. When absent 0 for models that know single questions, 0.8 for others.
    #[schema(minimum = 0.0)]
    temperature: Option<f64>,
    /// Draw from the smallest set of tokens that has this probability.
    #[schema(minimum = 0.0, maximum = 1.0)]
    top_p: Option<f64>,
    /// Draw from the k likeliest tokens; 0 or less draws from all, 40 when absent.
    top_k: Option<i64>,
    /// Draw from tokens with at least this part of the likeliest one's probability.
    #[schema(minimum = 0.0, maximum = 1.0)]
    min_p: Option<f64>,
    /// Above 1: less of what the text has already.
    repetition_penalty: Option<f64>,
    /// Beams of a search for the likeliest answer; goes with n 1 and temperature 0.
    #[schema(minimum = 1)]
    num_beams: Option<u64>,
    /// Answers.
    #[schema(minimum = 1, maximum = 128)]
    n: Option<u64>,
    /// Strings that end an answer and are not part of it.
    stop: Option<Strings>,
    /// The same seed, the same answer.
    seed: Option<i64>,
    /// Whether tokens come with their log-probabilities.
    logprobs: Option<bool>,
    /// How many of the likeliest come with each token; needs `logprobs`.
    #[schema(minimum = 0, maximum = 100)]
    top_logprobs: Option<usize>,
    /// What to add to the logits of tokens, by id.
    logit_bias: Option<BTreeMap<String, f64>>,
    /// Whether tokens come as events, as soon as they are there.
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    /// Go on behind tokens that end an answer.
    ignore_eos: Option<bool>,
    /// Nothing but `{"type": "text"}` is supported.
    #[schema(value_type = Option<Object>)]
    response_format: Option<Value>,
    /// Nothing but `none` and `auto` is supported: these models call no tools.
    #[schema(value_type = Option<String>)]
    tool_choice: Option<Value>,
    /// Not supported: see `repetition_penalty`.
    frequency_penalty: Option<f64>,
    /// Not supported: see `repetition_penalty`.
    presence_penalty: Option<f64>,
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
    /// What it cost; in a stream only if it was asked for, and in the last event alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<UsageAnswer>,
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
    /// `stop` or `length`; null while it goes on.
    finish_reason: Option<FinishWord>,
}

/// A whole answer.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AnswerMessage {
    /// `assistant`.
    role: &'static str,
    content: String,
    /// Always null: these models refuse nothing.
    refusal: Option<String>,
}

/// What is new.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct AnswerDelta {
    /// `assistant`, in the first event.
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
}

impl ChatRequest {
    fn wanted(&mut self, vocab_size: usize) -> Result<Wanted, Problem> {
        refuse_penalties(self.frequency_penalty, self.presence_penalty)?;
        let format =
            self.response_format.as_ref().and_then(|format| format.get("type")).and_then(Value::as_str);
        if format.is_some_and(|format| format != "text") {
            let message = "response_format is not supported: these models write text";
            return Err(Problem::field("response_format", message));
        }
        if self.tool_choice.as_ref().is_some_and(|choice| *choice != "none" && *choice != "auto") {
            let message = "tool_choice demands a call, but these models call no tools";
            return Err(Problem::field("tool_choice", message));
        }
        let logprobs = self.logprobs.unwrap_or(false);
        if self.top_logprobs.is_some_and(|top| top > 0) && !logprobs {
            return Err(Problem::field("top_logprobs", "top_logprobs needs logprobs to be true"));
        }
        Ok(Wanted {
            max_tokens: self.max_completion_tokens.or(self.max_tokens),
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            num_beams: self.num_beams,
            n: self.n,
            stop: self.stop.take(),
            seed: self.seed,
            logit_bias: biases(self.logit_bias.take(), vocab_size)?,
            ignore_eos: self.ignore_eos.unwrap_or(false),
            alternatives: logprobs.then(|| self.top_logprobs.unwrap_or(0)),
            prompt_logprobs: false,
            keep_prefix: true,
        })
    }
}

/// Answer the last turn of a conversation, in the format that the model knows.
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
    JsonBody(mut request): JsonBody<ChatRequest>,
) -> Result<Response, Problem> {
    let model = app.model(request.model.as_deref())?;
    let wanted = request.wanted(model.gpt.config().vocab_size)?;
    let settings = wanted.settle(&model, Defaults::chat(&model.format))?;
    let turns = messages::turns(&model, std::mem::take(&mut request.messages))?;
    let prompt = messages::encode(&model, turns).await?;
    let logprobs = request.logprobs.unwrap_or(false);
    let texts = Texts::start(&model, &account, &settings, vec![prompt], false, logprobs)?;
    let shape = Shape { id: usage::name("chatcmpl"), created: usage::now(), model, logprobs };
    if request.stream.unwrap_or(false) {
        let usage = request.stream_options.and_then(|options| options.include_usage).unwrap_or(false);
        return Ok(events::answer(|events| stream(texts, shape, events, usage)));
    }
    Ok(Json(whole(texts, &shape).await?).into_response())
}

/// What all answers to one request have in common.
struct Shape {
    id: String,
    created: u64,
    model: Arc<ServedModel>,
    logprobs: bool,
}

impl Shape {
    fn logprobs(&self, tokens: &[Written]) -> Option<ChatLogprobs> {
        self.logprobs.then(|| ChatLogprobs::new(&self.model, tokens))
    }

    fn answer(
        &self,
        object: &'static str,
        choices: Vec<ChatChoice>,
        usage: Option<UsageAnswer>,
    ) -> ChatAnswer {
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
        self.answer("chat.completion.chunk", vec![choice], None)
    }
}

async fn whole(mut texts: Texts, shape: &Shape) -> Result<ChatAnswer, Problem> {
    let mut answers: Vec<(Piece, Option<FinishWord>)> =
        (0..texts.len()).map(|_| Default::default()).collect();
    while let Some(News { index, piece, end }) = texts.next().await? {
        let (whole, reason) = &mut answers[index];
        whole.text.push_str(&piece.text);
        whole.tokens.extend(piece.tokens);
        *reason = end.map(|end| end.reason);
    }
    let choice = |(index, (whole, finish_reason)): (usize, (Piece, _))| {
        let message = AnswerMessage { role: "assistant", content: whole.text, refusal: None };
        let logprobs = shape.logprobs(&whole.tokens);
        ChatChoice { index, message: Some(message), delta: None, logprobs, finish_reason }
    };
    let choices = answers.into_iter().enumerate().map(choice).collect();
    Ok(shape.answer("chat.completion", choices, Some(texts.usage)))
}

/// For each answer first its role, then what it says, then why it ends; at last what all of it cost, if that was asked for.
async fn stream(mut texts: Texts, shape: Shape, events: Events, usage: bool) -> Result<(), Early> {
    for index in 0..texts.len() {
        let role = AnswerDelta { role: Some("assistant"), content: Some(String::new()) };
        events.send(&shape.chunk(index, role, &[], None)).await?;
    }
    while let Some(News { index, piece, end }) = texts.next().await? {
        if !piece.text.is_empty() || !piece.tokens.is_empty() {
            let delta = AnswerDelta { role: None, content: Some(piece.text) };
            events.send(&shape.chunk(index, delta, &piece.tokens, None)).await?;
        }
        if let Some(end) = end {
            events.send(&shape.chunk(index, AnswerDelta::default(), &[], Some(end.reason))).await?;
        }
    }
    if usage {
        events.send(&shape.answer("chat.completion.chunk", Vec::new(), Some(texts.usage))).await?;
    }
    Ok(events.done().await?)
}
