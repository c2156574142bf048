//! `POST /v1/completions`: a text that goes on from a prompt, as OpenAI has it.

use super::usage::{self, FINGERPRINT, StreamOptions, UsageAnswer, UsageInAnswer};
use crate::app::App;
use crate::body::KnownFields;
use crate::events::{self, Early, Events, StreamEvent};
use crate::fields::Route;
use crate::logprobs::LogprobLists;
use crate::problem::{AccessErrors, BodyErrors, ErrorAnswer, Problem};
use crate::prompts::Prompts;
use crate::record::Account;
use crate::served_model::ServedModel;
use crate::settings::{Asked, Defaults, Own, Wanted};
use crate::texts::{News, Texts};
use crate::writing::Piece;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
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

impl CompletionRequest {
    fn wanted(&mut self, model: &ServedModel) -> Result<Wanted, Problem> {
        let CompletionFields { n, best_of, logprobs, echo, .. } = self.own;
        if best_of.is_some_and(|best_of| best_of != n.unwrap_or(1)) {
            return Err(Problem::field("best_of", "best_of is not supported, unless it is n"));
        }
        Ok(Wanted {
            n,
            alternatives: logprobs,
            prompt_logprobs: echo.unwrap_or(false) && logprobs.is_some(),
            ..self.sampling.wanted(model, Route::Completions)?
        })
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
    let mut settings = request.wanted(&model)?.settle(&model, Defaults::OPENAI)?;
    settings.constrain(std::mem::take(&mut request.structured).constraint(&model).await?);
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
    let shape = Shape { id: usage::name("cmpl"), created: usage::now(), model, logprobs, usage };
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
}

impl Shape {
    fn choice(&self, index: usize, piece: Piece, finish_reason: Option<FinishWord>) -> CompletionChoice {
        let logprobs = self.logprobs.then(|| {
            let mut lists = LogprobLists::default();
            lists.extend(&self.model, &piece.tokens);
            lists
        });
        CompletionChoice { text: piece.text, index, logprobs, finish_reason }
    }

    fn answer(&self, choices: Vec<CompletionChoice>, usage: UsageInAnswer) -> CompletionAnswer {
        CompletionAnswer {
            id: self.id.clone(),
            object: "text_completion",
            created: self.created,
            model: self.model.name.clone(),
            system_fingerprint: FINGERPRINT,
            choices,
            usage,
        }
    }
}

async fn whole(mut texts: Texts, shape: &Shape) -> Result<CompletionAnswer, Problem> {
    let mut choices: Vec<CompletionChoice> =
        (0..texts.len()).map(|index| shape.choice(index, Piece::default(), None)).collect();
    while let Some(News { index, piece, end }) = texts.next().await? {
        let choice = &mut choices[index];
        choice.text.push_str(&piece.text);
        choice.finish_reason = end.map(|end| end.reason);
        if let Some(logprobs) = &mut choice.logprobs {
            logprobs.extend(&shape.model, &piece.tokens);
        }
    }
    Ok(shape.answer(choices, Some(Some(texts.usage))))
}

async fn stream(mut texts: Texts, shape: Shape, events: Events) -> Result<(), Early> {
    while let Some(News { index, piece, end }) = texts.next().await? {
        let choice = shape.choice(index, piece, end.map(|end| end.reason));
        events.send(&shape.answer(vec![choice], shape.usage.then_some(None))).await?;
    }
    if shape.usage {
        events.send(&shape.answer(Vec::new(), Some(Some(texts.usage)))).await?;
    }
    Ok(events.done().await?)
}
