//! `POST /v1/completions`: a text that goes on from a prompt, as OpenAI has it.

use super::usage::{self, FINGERPRINT, StreamOptions, UsageAnswer};
use crate::app::App;
use crate::body::JsonBody;
use crate::events::{self, Early, Events, StreamEvent};
use crate::logprobs::LogprobLists;
use crate::problem::{AccessErrors, BodyErrors, ErrorAnswer, Problem};
use crate::prompts::Prompts;
use crate::record::Account;
use crate::served_model::ServedModel;
use crate::settings::{Defaults, Strings, Wanted, biases, refuse_penalties};
use crate::texts::{News, Texts};
use crate::writing::Piece;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use minigpt_generate::FinishReason;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::ToSchema;

/// What to write.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct CompletionRequest {
    /// The model; the first one where none is named.
    model: Option<String>,
    /// What to go on from; without one, from the beginning of a text.
    prompt: Option<Prompts>,
    /// Tokens to write at most; 16 when absent. 0 only reads the prompt.
    #[schema(minimum = 0, example = 16)]
    max_tokens: Option<u64>,
    /// 0 takes the likeliest token, always; 1 when absent.
    #[schema(minimum = 0.0)]
    temperature: Option<f64>,
    /// Draw from the smallest set of tokens that has this probability.
    #[schema(minimum = 0.0, maximum = 1.0)]
    top_p: Option<f64>,
    /// Draw from the k likeliest tokens; 0 or less draws from all.
    top_k: Option<i64>,
    /// Draw from tokens with at least this part of the likeliest one's probability.
    #[schema(minimum = 0.0, maximum = 1.0)]
    min_p: Option<f64>,
    /// Above 1: less of what the text has already.
    repetition_penalty: Option<f64>,
    /// Beams of a search for the likeliest text; goes with n 1 and temperature 0.
    #[schema(minimum = 1)]
    num_beams: Option<u64>,
    /// Texts for each prompt.
    #[schema(minimum = 1, maximum = 128)]
    n: Option<u64>,
    /// Strings that end a text and are not part of it.
    stop: Option<Strings>,
    /// The same seed, the same text.
    seed: Option<i64>,
    /// Log-probabilities of the tokens, with so many of the likeliest in the place of each.
    #[schema(minimum = 0, maximum = 100)]
    logprobs: Option<usize>,
    /// Whether the prompt stands before the text.
    echo: Option<bool>,
    /// What to add to the logits of tokens, by id.
    logit_bias: Option<BTreeMap<String, f64>>,
    /// Whether tokens come as events, as soon as they are there.
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    /// Go on behind tokens that end a text.
    ignore_eos: Option<bool>,
    /// Not supported: these models write from left to right.
    suffix: Option<String>,
    /// Not supported, unless it is `n`.
    best_of: Option<u64>,
    /// Not supported: see `repetition_penalty`.
    frequency_penalty: Option<f64>,
    /// Not supported: see `repetition_penalty`.
    presence_penalty: Option<f64>,
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
    /// What it cost; in a stream only if it was asked for, and in the last event alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<UsageAnswer>,
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
    fn wanted(&mut self, vocab_size: usize) -> Result<Wanted, Problem> {
        if self.suffix.as_ref().is_some_and(|suffix| !suffix.is_empty()) {
            let message = "suffix is not supported: these models write from left to right";
            return Err(Problem::field("suffix", message));
        }
        if self.best_of.is_some_and(|best_of| best_of != self.n.unwrap_or(1)) {
            return Err(Problem::field("best_of", "best_of is not supported, unless it is n"));
        }
        refuse_penalties(self.frequency_penalty, self.presence_penalty)?;
        let echo = self.echo.unwrap_or(false);
        Ok(Wanted {
            max_tokens: self.max_tokens,
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
            alternatives: self.logprobs,
            prompt_logprobs: echo && self.logprobs.is_some(),
            keep_prefix: true,
        })
    }
}

/// Go on from a prompt, or several.
#[utoipa::path(post, path = "/v1/completions", request_body = CompletionRequest, responses(
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
    JsonBody(mut request): JsonBody<CompletionRequest>,
) -> Result<Response, Problem> {
    let model = app.model(request.model.as_deref())?;
    let wanted = request.wanted(model.gpt.config().vocab_size)?;
    let settings = wanted.settle(&model, Defaults::OPENAI)?;
    let prompts = request.prompt.take().unwrap_or(Prompts::ManyIds(vec![Vec::new()])).encode(&model).await?;
    let echo = request.echo.unwrap_or(false);
    if echo {
        // Without a tokenizer the prompt can't be said again.
        model.need_tokenizer()?;
    }
    let logprobs = request.logprobs.is_some();
    let mut texts = Texts::start(&model, &account, &settings, prompts, echo, logprobs)?;
    // Evaluation tools leave out the last token, and count on its being there.
    texts.keeps_end = true;
    let shape = Shape { id: usage::name("cmpl"), created: usage::now(), model, logprobs };
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
    fn choice(&self, index: usize, piece: Piece, finish_reason: Option<FinishWord>) -> CompletionChoice {
        let logprobs = self.logprobs.then(|| {
            let mut lists = LogprobLists::default();
            lists.extend(&self.model, &piece.tokens);
            lists
        });
        CompletionChoice { text: piece.text, index, logprobs, finish_reason }
    }

    fn answer(&self, choices: Vec<CompletionChoice>, usage: Option<UsageAnswer>) -> CompletionAnswer {
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
    Ok(shape.answer(choices, Some(texts.usage)))
}

async fn stream(mut texts: Texts, shape: Shape, events: Events, usage: bool) -> Result<(), Early> {
    while let Some(News { index, piece, end }) = texts.next().await? {
        let choice = shape.choice(index, piece, end.map(|end| end.reason));
        events.send(&shape.answer(vec![choice], None)).await?;
    }
    if usage {
        events.send(&shape.answer(Vec::new(), Some(texts.usage))).await?;
    }
    Ok(events.done().await?)
}
