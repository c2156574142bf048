//! `POST /v1/chat/completions`: the next turn of a conversation, as OpenAI has it.

use super::completions::FinishWord;
use super::interface::{Head, Interface, answer};
use super::usage::{self, FINGERPRINT, StreamOptions, UsageAnswer, UsageInAnswer};
use crate::app::App;
use crate::body::{KnownFields, parse};
use crate::events::{StreamEvent, event};
use crate::fields::{Fields, Route};
use crate::logprobs::ChatLogprobs;
use crate::messages::{self, ConversationFields, ToolUse};
use crate::problem::{AccessErrors, BodyErrors, ErrorAnswer, Problem};
use crate::record::Account;
use crate::sampling::{Own, Sampling, settings};
use crate::served_model::ServedModel;
use crate::settings::{Defaults, Wanted};
use crate::structured::Structured;
use crate::texts::{News, Texts, WholeText};
use crate::writing::Written;
use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
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
    conversation: ConversationFields,
    #[schema(inline)]
    #[serde(flatten)]
    own: ChatFields,
}

impl Own for ChatFields {
    const ROUTE: Route = Route::Chat;

    fn defaults(model: &ServedModel) -> Defaults {
        Defaults::chat(&model.format)
    }

    fn add(&self, wanted: Wanted) -> Result<Wanted, Problem> {
        let logprobs = self.logprobs.unwrap_or(false);
        if self.top_logprobs.is_some_and(|top| top > 0) && !logprobs {
            return Err(Problem::field("top_logprobs", "top_logprobs needs logprobs to be true"));
        }
        let alternatives = logprobs.then(|| self.top_logprobs.unwrap_or(0));
        Ok(Wanted { n: self.n, alternatives, ..wanted })
    }
}

impl Fields for ChatRequest {
    const ROUTE: Route = ChatFields::ROUTE;

    fn read(bytes: &[u8]) -> Result<Self, Problem> {
        let (sampling, structured) = (parse(bytes)?, parse(bytes)?);
        Ok(Self { sampling, structured, conversation: parse(bytes)?, own: parse(bytes)? })
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
    let ChatRequest { sampling, structured, own, .. } = &mut request;
    let mut settings = settings(sampling, structured, own, &model).await?;
    let mut ignored = Vec::new();
    let (conversation, tools) = request.conversation.conversation(&model, &mut ignored)?;
    account.note(|record| record.ignored.extend(ignored));
    if let Some(stop) = tools.as_ref().and_then(ToolUse::stop) {
        settings.stop_at(stop);
    }
    let usage = usage::wanted(request.own.stream_options.as_ref(), &account)?;
    let prompt = messages::encode(&model, &account, conversation).await?;
    let logprobs = request.own.logprobs.unwrap_or(false);
    let texts = Texts::start(&model, &account, &settings, vec![prompt], false, logprobs)?;
    let head = Head::new("chatcmpl", model, logprobs, usage);
    let chat = Chat { head, tools, streamed: Vec::new() };
    answer(texts, request.sampling.stream.unwrap_or(false), chat).await
}

/// OpenAI's chat completions.
struct Chat {
    head: Head,
    /// The tools that the model may call.
    tools: Option<ToolUse>,
    /// The answers of a stream.
    streamed: Vec<StreamedAnswer>,
}

/// An answer whose parts are sent as they come.
struct StreamedAnswer {
    reader: AnswerReader,
    /// Tokens whose text may become a call: they wait with it.
    waiting: Vec<Written>,
    /// Calls that were sent.
    calls: usize,
}

impl Chat {
    fn logprobs(&self, tokens: &[Written]) -> Option<ChatLogprobs> {
        self.head.logprobs.then(|| ChatLogprobs::new(&self.head.model, tokens))
    }

    fn answer(&self, object: &'static str, choices: Vec<ChatChoice>, usage: UsageInAnswer) -> ChatAnswer {
        ChatAnswer {
            id: self.head.id.clone(),
            object,
            created: self.head.created,
            model: self.head.model.name.clone(),
            system_fingerprint: FINGERPRINT,
            choices,
            usage,
        }
    }

    fn whole_choice(&self, index: usize, WholeText { piece, end }: WholeText) -> ChatChoice {
        let mut reader = AnswerReader::new(self.tools.as_ref());
        let (mut content, mut calls) = (String::new(), Vec::new());
        for part in reader.take(piece.text, true) {
            match part {
                AnswerPart::Text(text) => content.push_str(&text),
                AnswerPart::Call(call) => calls.push(CallAnswer::new(call, None)),
            }
        }
        // An answer that is nothing but calls has no content.
        let silent = content.is_empty() && !calls.is_empty();
        let message = AnswerMessage {
            role: "assistant",
            content: (!silent).then_some(content),
            refusal: None,
            tool_calls: (!calls.is_empty()).then_some(calls),
        };
        ChatChoice {
            index,
            message: Some(message),
            delta: None,
            logprobs: self.logprobs(&piece.tokens),
            finish_reason: Some(reader.reason(end.reason)),
        }
    }

    /// An event with what is new in one answer.
    fn chunk(
        &self,
        index: usize,
        delta: AnswerDelta,
        tokens: &[Written],
        finish_reason: Option<FinishWord>,
    ) -> Bytes {
        let logprobs = if tokens.is_empty() { None } else { self.logprobs(tokens) };
        let choice = ChatChoice { index, message: None, delta: Some(delta), logprobs, finish_reason };
        event(&self.answer(CHUNK, vec![choice], self.head.usage_in_event()))
    }
}

/// The `object` of an event.
const CHUNK: &str = "chat.completion.chunk";

impl Interface for Chat {
    type Whole = ChatAnswer;

    fn whole(self, texts: Vec<WholeText>, usage: UsageAnswer) -> ChatAnswer {
        let choice = |(index, text)| self.whole_choice(index, text);
        let choices = texts.into_iter().enumerate().map(choice).collect();
        self.answer("chat.completion", choices, Some(Some(usage)))
    }

    /// The role of each answer.
    fn first(&mut self, texts: usize) -> Vec<Bytes> {
        let new = || StreamedAnswer {
            reader: AnswerReader::new(self.tools.as_ref()),
            waiting: Vec::new(),
            calls: 0,
        };
        self.streamed = (0..texts).map(|_| new()).collect();
        let role = || AnswerDelta { role: Some("assistant"), content: Some(String::new()), tool_calls: None };
        (0..texts).map(|index| self.chunk(index, role(), &[], None)).collect()
    }

    /// What the answer says and calls, and at its end why it ended.
    fn next(&mut self, News { index, piece, end }: News) -> Vec<Bytes> {
        let answer = &mut self.streamed[index];
        answer.waiting.extend(piece.tokens);
        let mut parts = answer.reader.take(piece.text, end.is_some());
        if parts.is_empty() && !answer.waiting.is_empty() && (self.tools.is_none() || end.is_some()) {
            parts.push(AnswerPart::Text(String::new()));
        }
        // The first of the parts has the tokens.
        let mut tokens = if parts.is_empty() { Vec::new() } else { std::mem::take(&mut answer.waiting) };
        let delta = |part| match part {
            AnswerPart::Text(text) => AnswerDelta { content: Some(text), ..AnswerDelta::default() },
            AnswerPart::Call(call) => {
                let call = CallAnswer::new(call, Some(answer.calls));
                answer.calls += 1;
                AnswerDelta { tool_calls: Some(vec![call]), ..AnswerDelta::default() }
            }
        };
        let deltas: Vec<AnswerDelta> = parts.into_iter().map(delta).collect();
        let reason = end.map(|end| answer.reader.reason(end.reason));
        let chunk = |delta| self.chunk(index, delta, &std::mem::take(&mut tokens), None);
        let mut chunks: Vec<Bytes> = deltas.into_iter().map(chunk).collect();
        chunks.extend(reason.map(|reason| self.chunk(index, AnswerDelta::default(), &[], Some(reason))));
        chunks
    }

    fn last(&mut self, usage: UsageAnswer) -> Vec<Bytes> {
        self.head.last(usage, |usage| self.answer(CHUNK, Vec::new(), usage))
    }
}

/// Reads what an answer says, and what it calls.
struct AnswerReader {
    parser: Option<ToolParser>,
    /// The most calls that it may have.
    most: usize,
    /// The calls that it has.
    calls: usize,
}

impl AnswerReader {
    fn new(tools: Option<&ToolUse>) -> Self {
        let most = tools.map_or(0, |tools| if tools.parallel { usize::MAX } else { 1 });
        Self { parser: tools.map(ToolUse::parser), most, calls: 0 }
    }

    /// The parts that are clear with the next text.
    fn take(&mut self, text: String, ends: bool) -> Vec<AnswerPart> {
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

    /// Why the answer ended.
    fn reason(&self, reason: FinishWord) -> FinishWord {
        if self.calls > 0 && reason == FinishWord::Stop { FinishWord::ToolCalls } else { reason }
    }
}
