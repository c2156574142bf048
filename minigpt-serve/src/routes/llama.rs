//! `POST /completion`: a text that goes on from a prompt, as llama.cpp's server has it.

use super::completions::FinishWord;
use crate::app::App;
use crate::body::JsonBody;
use crate::events::{self, Early, Events, StreamEvent};
use crate::logprobs::{TokenEntry, entries};
use crate::problem::{AccessErrors, BodyErrors, ErrorAnswer, Problem};
use crate::prompts::{Prompts, encode};
use crate::record::Account;
use crate::served_model::ServedModel;
use crate::settings::{Defaults, Settings, Strings, Wanted, bias_of};
use crate::texts::{End, News, Texts};
use crate::writing::Piece;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use minigpt_generate::{GenerationConfig, StoppedBy};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;
use utoipa::ToSchema;

/// What to write, under llama.cpp's names. Those that are not here are ignored.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct LlamaRequest {
    /// The model; the first one where none is named.
    model: Option<String>,
    /// What to go on from: a text, or ids.
    prompt: Option<Prompts>,
    /// Tokens to write at most; -1 for as many as the context holds.
    n_predict: Option<i64>,
    /// 0 takes the likeliest token, always; 0.8 when absent.
    #[schema(minimum = 0.0)]
    temperature: Option<f64>,
    /// 40 when absent; 0 or less draws from all tokens.
    top_k: Option<i64>,
    /// 0.95 when absent.
    #[schema(minimum = 0.0, maximum = 1.0)]
    top_p: Option<f64>,
    /// 0.05 when absent.
    #[schema(minimum = 0.0, maximum = 1.0)]
    min_p: Option<f64>,
    /// Above 1: less of what the text has already.
    repeat_penalty: Option<f64>,
    /// -1 for a seed that nobody chose.
    seed: Option<i64>,
    /// Strings that end a text and are not part of it.
    stop: Option<Strings>,
    /// `[[id or text, bias or false], …]` or `{"id": bias}`.
    #[schema(value_type = Option<Object>)]
    logit_bias: Option<Value>,
    /// Log-probabilities, with so many of the likeliest tokens in the place of each.
    #[schema(minimum = 0, maximum = 100)]
    n_probs: Option<usize>,
    /// Whether what was read before may be used where the prompt begins with it; true when absent.
    cache_prompt: Option<bool>,
    /// Whether tokens come as events, as soon as they are there.
    stream: Option<bool>,
    /// Go on behind tokens that end a text.
    ignore_eos: Option<bool>,
    /// Whether the ids come with the text.
    return_tokens: Option<bool>,
}

/// A text, or a part of it in an event.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LlamaAnswer {
    index: usize,
    content: String,
    /// Its ids, if they were asked for.
    tokens: Vec<u32>,
    /// Whether it has ended.
    stop: bool,
    /// Tokens of the prompt.
    tokens_evaluated: usize,
    /// Tokens that were written.
    tokens_predicted: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_probabilities: Option<Vec<TokenEntry>>,
    #[serde(flatten)]
    #[schema(inline)]
    end: Option<LlamaEnd>,
}

/// What is known at the end.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LlamaEnd {
    model: String,
    /// The prompt as text.
    prompt: String,
    /// How it was written.
    #[schema(value_type = Object)]
    generation_settings: Value,
    /// `eos`, `word` or `limit`.
    stop_type: &'static str,
    /// The string that ended it.
    stopping_word: String,
    /// Tokens of the prompt that had been read before.
    tokens_cached: usize,
    /// Always false: nothing is cut.
    truncated: bool,
    has_new_line: bool,
    timings: Timings,
}

/// How long it took. Reading is from the request to the end of its prompt, with the time in the queue.
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
#[utoipa::path(post, path = "/completion", request_body = LlamaRequest, responses(
    (status = 200, description = "the text; with `stream` as events", content(
        (LlamaAnswer = "application/json"), (StreamEvent = "text/event-stream"),
    )),
    (status = 429, description = "too many requests are waiting", body = ErrorAnswer),
    BodyErrors,
    AccessErrors,
))]
pub(crate) async fn completion(
    State(app): State<Arc<App>>,
    Extension(account): Extension<Arc<Account>>,
    JsonBody(mut request): JsonBody<LlamaRequest>,
) -> Result<Response, Problem> {
    let model = app.model(request.model.as_deref())?;
    let settings = request.wanted(&model)?.settle(&model, Defaults::LLAMA)?;
    let prompts = request.prompt.take().unwrap_or(Prompts::ManyIds(vec![Vec::new()]));
    let several = prompts.are_several();
    let prompts = prompts.encode(&model).await?;
    if several && request.stream == Some(true) {
        return Err(Problem::field(
            "stream",
            "several prompts can't be streamed here: ask for one at a time",
        ));
    }
    let tokenizer = model.tokenizer.clone();
    let said = |prompt: &Vec<u32>| tokenizer.as_ref().and_then(|tokenizer| tokenizer.decode(prompt).ok());
    let shape = Shape {
        prompts: prompts.iter().map(|prompt| (said(prompt).unwrap_or_default(), prompt.len())).collect(),
        probabilities: request.n_probs.is_some_and(|n| n > 0),
        tokens: request.return_tokens.unwrap_or(false),
        settings: described(settings.config()),
        begun: account.begun(),
        model: Arc::clone(&model),
    };
    let texts = Texts::start(&model, &account, &settings, prompts, false, true)?;
    if request.stream.unwrap_or(false) {
        return Ok(events::answer(|events| stream(texts, shape, events)));
    }
    let mut answers = whole(texts, &shape).await?;
    Ok(match (several, answers.pop()) {
        (false, Some(answer)) => Json(answer).into_response(),
        (_, last) => Json(answers.into_iter().chain(last).collect::<Vec<_>>()).into_response(),
    })
}

impl LlamaRequest {
    fn wanted(&mut self, model: &ServedModel) -> Result<Wanted, Problem> {
        let most = match self.n_predict {
            None | Some(-1) => None,
            Some(n) => {
                let wrong =
                    |_| Problem::field("n_predict", format!("n_predict must be -1 or more, but is {n}"));
                Some(u64::try_from(n).map_err(wrong)?)
            }
        };
        Ok(Wanted {
            max_tokens: most,
            temperature: self.temperature.map(|temperature| temperature.max(0.0)),
            top_p: self.top_p,
            top_k: self.top_k,
            min_p: self.min_p,
            repetition_penalty: self.repeat_penalty,
            stop: self.stop.take(),
            seed: self.seed.filter(|&seed| seed != -1),
            logit_bias: match self.logit_bias.take() {
                Some(given) => biases(model, &given)?,
                None => Vec::new(),
            },
            ignore_eos: self.ignore_eos.unwrap_or(false),
            alternatives: self.n_probs,
            keep_prefix: self.cache_prompt.unwrap_or(true),
            ..Wanted::default()
        })
    }
}

/// Biases in either of llama.cpp's forms; a text means each of its tokens, and false that a token may never come.
fn biases(model: &ServedModel, given: &Value) -> Result<Vec<(u32, f32)>, Problem> {
    let wrong = || {
        let message = "logit_bias must be [[id or text, number or false], …] or an object of numbers by id";
        Problem::field("logit_bias", message)
    };
    let vocab_size = model.gpt.config().vocab_size;
    let mut biases = Vec::new();
    let mut add = |token: &Value, bias: &Value| {
        let bias = if *bias == false { -100.0 } else { bias.as_f64().ok_or_else(wrong)? };
        let ids = match token {
            Value::String(text) => encode(model.need_tokenizer()?, text)?,
            token => vec![token.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(wrong)?],
        };
        for id in ids {
            if id as usize >= vocab_size {
                return Err(Problem::field(
                    "logit_bias",
                    format!("logit_bias: {id} is no id below {vocab_size}"),
                ));
            }
            biases.push(bias_of(id, bias)?);
        }
        Ok(())
    };
    match given {
        Value::Array(pairs) => {
            for pair in pairs {
                match pair.as_array().map(Vec::as_slice) {
                    Some([token, bias]) => add(token, bias)?,
                    _ => return Err(wrong()),
                }
            }
        }
        Value::Object(map) => {
            for (id, bias) in map {
                let token = id.parse::<u32>().map_or(Value::from(id.as_str()), Value::from);
                add(&token, bias)?;
            }
        }
        _ => return Err(wrong()),
    }
    Ok(biases)
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
        "seed": config.seed,
        "stop": config.stop_strings,
    })
}

/// The settings of a request that says nothing.
pub(super) fn default_settings(model: &ServedModel) -> Result<Settings, Problem> {
    Wanted { seed: Some(0), ..Wanted::default() }.settle(model, Defaults::LLAMA)
}

/// What all answers to one request have in common.
struct Shape {
    model: Arc<ServedModel>,
    /// Text and length of each prompt.
    prompts: Vec<(String, usize)>,
    probabilities: bool,
    tokens: bool,
    settings: Value,
    begun: Instant,
}

impl Shape {
    fn part(&self, index: usize, piece: &Piece, written: usize) -> LlamaAnswer {
        let ids = piece.tokens.iter().map(|token| token.id);
        LlamaAnswer {
            index,
            content: piece.text.clone(),
            tokens: if self.tokens { ids.collect() } else { Vec::new() },
            stop: false,
            tokens_evaluated: self.prompts[index].1,
            tokens_predicted: written,
            completion_probabilities: self.probabilities.then(|| entries(&self.model, &piece.tokens)),
            end: None,
        }
    }

    /// The last part: `whole` is all of the text where it is one answer, its last piece otherwise.
    fn last(
        &self,
        index: usize,
        whole: &Piece,
        end: &End,
        read: Option<Instant>,
        has_new_line: bool,
    ) -> LlamaAnswer {
        let (stop_type, stopping_word) = match (&end.stop, end.reason) {
            (Some(StoppedBy::Text(word)), _) => ("word", word.clone()),
            (Some(StoppedBy::Token(_)), _) | (None, FinishWord::Stop) => ("eos", String::new()),
            (None, FinishWord::Length) => ("limit", String::new()),
        };
        let last = LlamaEnd {
            model: self.model.name.clone(),
            prompt: self.prompts[index].0.clone(),
            generation_settings: self.settings.clone(),
            stop_type,
            stopping_word,
            tokens_cached: end.usage.cached_tokens,
            truncated: false,
            has_new_line,
            timings: Timings::new(end, self.begun, read),
        };
        let part = self.part(index, whole, end.usage.completion_tokens);
        LlamaAnswer { stop: true, end: Some(last), ..part }
    }
}

impl Timings {
    fn new(end: &End, begun: Instant, read: Option<Instant>) -> Self {
        let read = read.unwrap_or(begun);
        let (prompt_ms, predicted_ms) =
            ((read - begun).as_secs_f64() * 1e3, read.elapsed().as_secs_f64() * 1e3);
        let cache_n = end.usage.cached_tokens;
        let (prompt_n, predicted_n) = (end.usage.prompt_tokens - cache_n, end.usage.completion_tokens);
        let each = |ms: f64, n: usize| ms / n.max(1) as f64;
        let rate = |ms: f64, n: usize| if ms > 0.0 { n as f64 * 1e3 / ms } else { 0.0 };
        Self {
            cache_n,
            prompt_n,
            prompt_ms,
            prompt_per_token_ms: each(prompt_ms, prompt_n),
            prompt_per_second: rate(prompt_ms, prompt_n),
            predicted_n,
            predicted_ms,
            predicted_per_token_ms: each(predicted_ms, predicted_n),
            predicted_per_second: rate(predicted_ms, predicted_n),
        }
    }
}

async fn whole(mut texts: Texts, shape: &Shape) -> Result<Vec<LlamaAnswer>, Problem> {
    let mut wholes: Vec<Piece> = (0..texts.len()).map(|_| Piece::default()).collect();
    let mut answers: Vec<Option<LlamaAnswer>> = (0..texts.len()).map(|_| None).collect();
    while let Some(News { index, piece, end }) = texts.next().await? {
        let whole = &mut wholes[index];
        whole.text.push_str(&piece.text);
        whole.tokens.extend(piece.tokens);
        if let Some(end) = end {
            let new_line = whole.text.contains('\n');
            answers[index] = Some(shape.last(index, whole, &end, texts.read, new_line));
        }
    }
    Ok(answers.into_iter().flatten().collect())
}

async fn stream(mut texts: Texts, shape: Shape, events: Events) -> Result<(), Early> {
    let (mut new_line, mut written) = (false, 0);
    while let Some(News { index, piece, end }) = texts.next().await? {
        new_line |= piece.text.contains('\n');
        written += piece.tokens.len();
        let answer = match end {
            Some(end) => shape.last(index, &piece, &end, texts.read, new_line),
            None => shape.part(index, &piece, written),
        };
        events.send(&answer).await?;
    }
    Ok(())
}
