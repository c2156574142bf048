//! `POST /v1/completions`: a text that goes on from a prompt, as OpenAI has it.

use super::interface::{Head, Interface, answer};
use super::usage::{self, FINGERPRINT, StreamOptions, UsageAnswer, UsageInAnswer};
use crate::app::App;
use crate::body::KnownFields;
use crate::events::{StreamEvent, event};
use crate::fields::Route;
use crate::logprobs::LogprobLists;
use crate::problem::{AccessErrors, BodyErrors, ErrorAnswer, Problem};
use crate::prompts::Prompts;
use crate::record::Account;
use crate::sampling::{Asked, Own};
use crate::served_model::ServedModel;
use crate::settings::{Defaults, Wanted};
use crate::texts::{End, News, Texts, WholeText};
use crate::writing::Piece;
use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use minigpt_generate::FinishReason;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// What to write.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct CompletionFields {
    /// What to go on from; without one, from the beginning of a text.
    prompt: Option<Prompts>,
    /// Texts for each prompt.
    #[schema(minimum = 1, maximum = 128)]
    n: Option<u64>,
    /// Nothing but `n` is supported.
    best_of: Option<u64>,
    /// Log-probabilities of the tokens, with so many of the likeliest in the place of each.
    #[schema(minimum = 0, maximum = 100)]
    logprobs: Option<usize>,
    /// Whether the prompt stands before the text.
    echo: Option<bool>,
    stream_options: Option<StreamOptions>,
}

pub(crate) type CompletionRequest = Asked<CompletionFields>;

impl Own for CompletionFields {
    const ROUTE: Route = Route::Completions;

    fn defaults(_: &ServedModel) -> Defaults {
        Defaults::OPENAI
    }

    fn add(&self, wanted: Wanted) -> Result<Wanted, Problem> {
        let Self { n, best_of, logprobs, echo, .. } = *self;
        if best_of.is_some_and(|best_of| best_of != n.unwrap_or(1)) {
            return Err(Problem::field("best_of", "best_of is not supported, unless it is n"));
        }
        let prompt_logprobs = echo.unwrap_or(false) && logprobs.is_some();
        Ok(Wanted { n, alternatives: logprobs, prompt_logprobs, ..wanted })
    }
}

/// Texts, or a part of them in an event.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CompletionAnswer {
    id: String,
    /// `text_completion`.
    object: &'static str,
    /// Seconds since 1970.
    created: u64,
    model: String,
    system_fingerprint: &'static str,
    choices: Vec<CompletionChoice>,
    /// What it cost; in a stream only if it was asked for: null in all events but the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<UsageAnswer>)]
    usage: UsageInAnswer,
}

/// One text, or a part of it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CompletionChoice {
    text: String,
    index: usize,
    logprobs: Option<LogprobLists>,
    /// `stop` or `length`; null while it goes on.
    finish_reason: Option<FinishWord>,
}

/// Why a text ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FinishWord {
    Stop,
    Length,
    /// The answer calls tools.
    #[serde(rename = "tool_calls")]
    ToolCalls,
}

impl From<FinishReason> for FinishWord {
    fn from(reason: FinishReason) -> Self {
        match reason {
            FinishReason::Stop => Self::Stop,
            FinishReason::Length => Self::Length,
        }
    }
}

/// Go on from a prompt, or several.
#[utoipa::path(post, path = "/v1/completions", request_body = Asked<CompletionFields>, responses(
    (status = 200, description = "the texts; with `stream` as events of the same form", content(
        (CompletionAnswer = "application/json"), (StreamEvent = "text/event-stream"),
    )),
    (status = 429, description = "too many requests are waiting", body = ErrorAnswer),
    BodyErrors,
    AccessErrors,
))]
pub(crate) async fn completions(
    State(app): State<Arc<App>>,
    Extension(account): Extension<Arc<Account>>,
    KnownFields(mut request): KnownFields<CompletionRequest>,
) -> Result<Response, Problem> {
    let model = app.model_for(request.sampling.model.as_deref(), &account)?;
    let settings = request.settings(&model).await?;
    let CompletionFields { prompt, echo, logprobs, stream_options, .. } = request.own;
    let usage = usage::wanted(stream_options.as_ref(), &account)?;
    let prompts = prompt.unwrap_or(Prompts::ManyIds(vec![Vec::new()])).encode(&model, &account).await?;
    let echo = echo.unwrap_or(false);
    if echo {
        // Without a tokenizer the prompt can't be said again.
        model.need_tokenizer()?;
    }
    let logprobs = logprobs.is_some();
    let mut texts = Texts::start(&model, &account, &settings, prompts, echo, logprobs)?;
    // Evaluation tools leave out the last token, and count on its being there.
    texts.keeps_end = true;
    let head = Head::new("cmpl", model, logprobs, usage);
    answer(texts, request.sampling.stream.unwrap_or(false), Completions(head)).await
}

/// OpenAI's completions.
struct Completions(Head);

impl Completions {
    fn choice(&self, index: usize, piece: Piece, end: Option<End>) -> CompletionChoice {
        let logprobs = self.0.logprobs.then(|| LogprobLists::new(&self.0.model, &piece.tokens));
        CompletionChoice { text: piece.text, index, logprobs, finish_reason: end.map(|end| end.reason) }
    }

    fn answer(&self, choices: Vec<CompletionChoice>, usage: UsageInAnswer) -> CompletionAnswer {
        CompletionAnswer {
            id: self.0.id.clone(),
            object: "text_completion",
            created: self.0.created,
            model: self.0.model.name.clone(),
            system_fingerprint: FINGERPRINT,
            choices,
            usage,
        }
    }
}

impl Interface for Completions {
    type Whole = CompletionAnswer;

    fn whole(self, texts: Vec<WholeText>, usage: UsageAnswer) -> CompletionAnswer {
        let choice = |(index, text): (usize, WholeText)| self.choice(index, text.piece, Some(text.end));
        self.answer(texts.into_iter().enumerate().map(choice).collect(), Some(Some(usage)))
    }

    fn next(&mut self, News { index, piece, end }: News) -> Vec<Bytes> {
        let choice = self.choice(index, piece, end);
        vec![event(&self.answer(vec![choice], self.0.usage_in_event()))]
    }

    fn last(&mut self, usage: UsageAnswer) -> Vec<Bytes> {
        self.0.last(usage, |usage| self.answer(Vec::new(), usage))
    }
}
