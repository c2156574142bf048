//! `POST /completion`: a text that goes on from a prompt, as llama.cpp's server has it.

use super::completions::FinishWord;
use super::interface::{Interface, answer};
use super::usage::UsageAnswer;
use crate::app::App;
use crate::body::KnownFields;
use crate::events::{StreamEvent, event};
use crate::fields::Route;
use crate::logprobs::{TokenEntry, entries};
use crate::problem::{AccessErrors, BodyErrors, ErrorAnswer, Problem};
use crate::prompts::Prompts;
use crate::record::Account;
use crate::sampling::{Asked, Own, either};
use crate::served_model::ServedModel;
use crate::settings::{Defaults, Settings, Wanted};
use crate::texts::{End, News, Texts, WholeText};
use crate::writing::Piece;
use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use minigpt_generate::{GenerationConfig, StoppedBy};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;
use utoipa::ToSchema;

/// What to write, under llama.cpp's names.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct LlamaFields {
    /// What to go on from: a text, or ids.
    prompt: Option<Prompts>,
    /// Texts for each prompt.
    #[schema(minimum = 1, maximum = 128)]
    n: Option<u64>,
    /// The same, as llama.cpp calls it.
    #[schema(minimum = 1, maximum = 128)]
    n_cmpl: Option<u64>,
    /// Log-probabilities, with so many of the likeliest tokens in the place of each.
    #[schema(minimum = 0, maximum = 100)]
    n_probs: Option<usize>,
    /// Whether the ids come with the text.
    return_tokens: Option<bool>,
    /// The fields that the answer is to have, such as `content` or `generation_settings/n_predict`; all if there are none.
    response_fields: Option<Vec<String>>,
}

pub(crate) type LlamaRequest = Asked<LlamaFields>;

impl Own for LlamaFields {
    const ROUTE: Route = Route::Llama;

    fn defaults(_: &ServedModel) -> Defaults {
        Defaults::LLAMA
    }

    fn add(&self, wanted: Wanted) -> Result<Wanted, Problem> {
        let n = either(["n", "n_cmpl"], self.n, self.n_cmpl)?;
        Ok(Wanted { n, alternatives: self.n_probs, ..wanted })
    }
}

/// A text, or a part of it in an event. With `response_fields`, only those fields are there.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LlamaAnswer {
    #[schema(required = false)]
    index: usize,
    #[schema(required = false)]
    content: String,
    /// Its ids, if they were asked for.
    #[schema(required = false)]
    tokens: Vec<u32>,
    /// Whether it has ended.
    #[schema(required = false)]
    stop: bool,
    /// Tokens of the prompt.
    #[schema(required = false)]
    tokens_evaluated: usize,
    /// Tokens that were written.
    #[schema(required = false)]
    tokens_predicted: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_probabilities: Option<Vec<TokenEntry>>,
    #[serde(flatten)]
    #[schema(inline)]
    end: Option<LlamaEnd>,
}

/// One text, or a list for several prompts or texts.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes the answer in the OpenAPI document")]
pub(crate) enum LlamaAnswers {
    One(Box<LlamaAnswer>),
    Several(Vec<LlamaAnswer>),
}

/// What is known at the end.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LlamaEnd {
    #[schema(required = false)]
    model: String,
    /// The prompt as text.
    #[schema(required = false)]
    prompt: String,
    /// How it was written.
    #[schema(value_type = Object, required = false)]
    generation_settings: Value,
    /// `eos`, `word` or `limit`.
    #[schema(required = false)]
    stop_type: &'static str,
    /// The string that ended it.
    #[schema(required = false)]
    stopping_word: String,
    /// Tokens of the prompt that had been read before.
    #[schema(required = false)]
    tokens_cached: usize,
    /// Whether it ended because the context was full; the prompt is never cut.
    #[schema(required = false)]
    truncated: bool,
    #[schema(required = false)]
    has_new_line: bool,
    #[schema(required = false)]
    timings: Timings,
}

/// How long it took. Reading is from the request to the first token, with the time in the queue; rates of writing are those
/// of the tokens behind the first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Timings {
    cache_n: usize,
    prompt_n: usize,
    prompt_ms: f64,
    prompt_per_token_ms: f64,
    prompt_per_second: f64,
    predicted_n: usize,
    predicted_ms: f64,
    predicted_per_token_ms: f64,
    predicted_per_second: f64,
}

/// Go on from a prompt. Also `/completions`. Several prompts give a list of answers.
#[utoipa::path(post, path = "/completion", request_body = Asked<LlamaFields>, responses(
    (status = 200, description = "the text; with `stream` as events", content(
        (LlamaAnswers = "application/json"), (StreamEvent = "text/event-stream"),
    )),
    (status = 429, description = "too many requests are waiting", body = ErrorAnswer),
    BodyErrors,
    AccessErrors,
))]
pub(crate) async fn completion(
    State(app): State<Arc<App>>,
    Extension(account): Extension<Arc<Account>>,
    KnownFields(mut request): KnownFields<LlamaRequest>,
) -> Result<Response, Problem> {
    let model = app.model_for(request.sampling.model.as_deref(), &account)?;
    let settings = request.settings(&model).await?;
    let LlamaFields { prompt, n_probs, return_tokens, response_fields, .. } = request.own;
    let prompts = prompt.unwrap_or(Prompts::ManyIds(vec![Vec::new()]));
    let several = prompts.are_several() || settings.n > 1;
    let prompts = prompts.encode(&model, &account).await?;
    let streams = request.sampling.stream.unwrap_or(false);
    if several && streams {
        return Err(Problem::field("stream", "several texts can't be streamed here: ask for one at a time"));
    }
    let tokenizer = model.tokenizer.clone();
    let said = |prompt: &Vec<u32>| tokenizer.as_ref().and_then(|tokenizer| tokenizer.decode(prompt).ok());
    let llama = Llama {
        prompts: prompts.iter().map(|prompt| (said(prompt).unwrap_or_default(), prompt.len())).collect(),
        several,
        n: settings.n,
        probabilities: n_probs.is_some_and(|n| n > 0),
        // A stream has them always, as llama.cpp's.
        tokens: return_tokens.unwrap_or(streams),
        settings: described(settings.config()),
        fields: response_fields.unwrap_or_default(),
        most: settings.config().max_new_tokens,
        begun: account.begun(),
        model: Arc::clone(&model),
        written: 0,
        has_new_line: false,
    };
    let texts = Texts::start(&model, &account, &settings, prompts, false, true)?;
    answer(texts, streams, llama).await
}

/// The answer with the fields that were asked for, each under its whole name.
fn chosen(answer: &impl Serialize, fields: &[String]) -> Value {
    let whole = serde_json::to_value(answer).unwrap_or_default();
    if fields.is_empty() {
        return whole;
    }
    let found = |name: &String| {
        let value = name.split('/').try_fold(&whole, |value, part| value.get(part))?;
        Some((name.clone(), value.clone()))
    };
    Value::Object(fields.iter().filter_map(found).collect())
}

/// The settings under llama.cpp's names.
pub(super) fn described(config: &GenerationConfig) -> Value {
    let temperature = if config.do_sample { config.temperature } else { 0.0 };
    json!({
        "n_predict": config.max_new_tokens,
        "temperature": temperature,
        "top_k": config.top_k,
        "top_p": config.top_p,
        "min_p": config.min_p,
        "repeat_penalty": config.repetition_penalty,
        "repeat_last_n": config.repeat_last_n,
        "frequency_penalty": config.frequency_penalty,
        "presence_penalty": config.presence_penalty,
        "seed": config.seed,
        "stop": config.stop_strings,
    })
}

/// The settings of a request that says nothing.
pub(super) fn default_settings(model: &ServedModel) -> Result<Settings, Problem> {
    Wanted { seed: Some(0), ..Wanted::default() }.settle(model, Defaults::LLAMA)
}

/// llama.cpp's completions.
struct Llama {
    model: Arc<ServedModel>,
    /// Text and length of each prompt.
    prompts: Vec<(String, usize)>,
    /// Whether the answer is a list.
    several: bool,
    /// Texts of each prompt.
    n: usize,
    /// The fields that were asked for; all if there are none.
    fields: Vec<String>,
    probabilities: bool,
    tokens: bool,
    settings: Value,
    /// Tokens that were asked for.
    most: usize,
    begun: Instant,
    /// Tokens of the one text of a stream so far.
    written: usize,
    /// Whether that text has a new line so far.
    has_new_line: bool,
}

impl Llama {
    fn part(&self, index: usize, piece: &Piece, written: usize) -> LlamaAnswer {
        let ids = piece.tokens.iter().map(|token| token.id);
        LlamaAnswer {
            index,
            content: piece.text.clone(),
            tokens: if self.tokens { ids.collect() } else { Vec::new() },
            stop: false,
            tokens_evaluated: self.prompts[index / self.n].1,
            tokens_predicted: written,
            completion_probabilities: self.probabilities.then(|| entries(&self.model, &piece.tokens)),
            end: None,
        }
    }

    /// The last part: `whole` is all of the text where it is one answer, its last piece otherwise.
    fn last_part(&self, index: usize, whole: &Piece, end: &End, has_new_line: bool) -> LlamaAnswer {
        let (stop_type, stopping_word) = match (&end.stop, end.reason) {
            (Some(StoppedBy::Text(word)), _) => ("word", word.clone()),
            (Some(StoppedBy::Token(_)), _) | (None, FinishWord::Stop | FinishWord::ToolCalls) => {
                ("eos", String::new())
            }
            (None, FinishWord::Length) => ("limit", String::new()),
        };
        let last = LlamaEnd {
            model: self.model.name.clone(),
            prompt: self.prompts[index / self.n].0.clone(),
            generation_settings: self.settings.clone(),
            stop_type,
            stopping_word,
            tokens_cached: end.usage.cached_tokens,
            truncated: end.reason == FinishWord::Length && end.usage.completion_tokens < self.most,
            has_new_line,
            timings: Timings::new(end, self.begun),
        };
        let part = self.part(index, whole, end.usage.completion_tokens);
        LlamaAnswer { stop: true, end: Some(last), ..part }
    }
}

impl Timings {
    fn new(end: &End, begun: Instant) -> Self {
        let read = end.read.unwrap_or(begun);
        let ms = |from: Instant, to: Instant| to.saturating_duration_since(from).as_secs_f64() * 1e3;
        let (prompt_ms, predicted_ms) = (ms(begun, read), ms(read, end.ended));
        let cache_n = end.usage.cached_tokens;
        let (prompt_n, predicted_n) = (end.usage.prompt_tokens - cache_n, end.usage.completion_tokens);
        let each = |ms: f64, n: usize| if n > 0 { ms / n as f64 } else { 0.0 };
        let rate = |ms: f64, n: usize| if ms > 0.0 { n as f64 * 1e3 / ms } else { 0.0 };
        Self {
            cache_n,
            prompt_n,
            prompt_ms,
            prompt_per_token_ms: each(prompt_ms, prompt_n),
            prompt_per_second: rate(prompt_ms, prompt_n),
            predicted_n,
            predicted_ms,
            predicted_per_token_ms: each(predicted_ms, predicted_n.saturating_sub(1)),
            predicted_per_second: rate(predicted_ms, predicted_n.saturating_sub(1)),
        }
    }
}

impl Interface for Llama {
    type Whole = Value;

    fn whole(self, texts: Vec<WholeText>, _: UsageAnswer) -> Value {
        let answer = |(index, WholeText { piece, end }): (usize, WholeText)| {
            let has_new_line = piece.text.contains('\n');
            chosen(&self.last_part(index, &piece, &end, has_new_line), &self.fields)
        };
        let mut answers: Vec<Value> = texts.into_iter().enumerate().map(answer).collect();
        if self.several { answers.into() } else { answers.pop().unwrap_or_default() }
    }

    fn next(&mut self, News { index, piece, end }: News) -> Vec<Bytes> {
        self.has_new_line |= piece.text.contains('\n');
        self.written += piece.tokens.len();
        let answer = match end {
            Some(end) => chosen(&self.last_part(index, &piece, &end, self.has_new_line), &self.fields),
            None => chosen(&self.part(index, &piece, self.written), &[]),
        };
        vec![event(&answer)]
    }

    fn last(&mut self, _: UsageAnswer) -> Vec<Bytes> {
        Vec::new()
    }
}
