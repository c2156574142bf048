//! Questions about the inside of a model, over HTTP: what `minigpt-insight` answers, as JSON, or as bytes where there are many
//! numbers. Layers, heads and positions count from 0. A model is named as everywhere, or `run:NAME/STEP` for a snapshot.

mod attention;
mod encode;
mod origin;
mod question;
mod state;
mod tokens;

pub(crate) use state::PageState;
pub use state::{OpenSnapshot, OpenedModel};

use crate::app::App;
use crate::body::{JsonBody, aside};
use crate::problem::{AccessErrors, BodyErrors, Problem};
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
pub(crate) use encode::base64;
use minigpt_insight as insight;
use minigpt_insight::{AblationOptions, Component, LensOptions, Subject, WalkFocus};
use minigpt_tokenizer::{END_OF_TEXT, SEP};
use question::{InspectQuestion, of_a_text};
use serde_json::{Value, json};
use state::InspectedModel;
use std::sync::Arc;
use tokens::{names, read_tokens};
use utoipa::OpenApi;

/// The work of patching, in multiply-adds, beyond which it would take too long for an answer.
const MOST_WORK: f64 = 4e12;
/// Candidates that are named with the logits.
const NAMED: usize = 64;

/// What these routes say about themselves.
#[derive(OpenApi)]
#[openapi(paths(
    models,
    read,
    next,
    token_names,
    attention_of,
    head,
    heads,
    lens_of,
    attribution_of,
    ablate,
    patch,
    walk_of,
    continuation
))]
struct Described;

pub(crate) fn described() -> utoipa::openapi::OpenApi {
    Described::openapi()
}

pub(crate) fn routes(state: &Arc<PageState>) -> Router<Arc<App>> {
    Router::new()
        .route("/v1/inspect/models", get(models).post(one_model))
        .route("/v1/inspect/read", post(read))
        .route("/v1/inspect/next", post(next))
        .route("/v1/inspect/names", post(token_names))
        .route("/v1/inspect/attention", post(attention_of))
        .route("/v1/inspect/head", post(head))
        .route("/v1/inspect/heads", post(heads))
        .route("/v1/inspect/lens", post(lens_of))
        .route("/v1/inspect/attribution", post(attribution_of))
        .route("/v1/inspect/ablate", post(ablate))
        .route("/v1/inspect/patch", post(patch))
        .route("/v1/inspect/walk", post(walk_of))
        .route("/v1/inspect/continue", post(continuation))
        .layer(Extension(Arc::clone(state)))
}

type Asked = (State<Arc<App>>, Extension<Arc<PageState>>, JsonBody<InspectQuestion>);

/// Answers a question about a model on a thread of its own, when it is its turn.
async fn answer<T: Send + 'static>(
    (State(app), Extension(state), JsonBody(question)): Asked,
    used: &[&str],
    work: impl FnOnce(&InspectedModel, &Subject, &InspectQuestion) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    question.check(used)?;
    state.compute(app, question, work).await
}

/// Answers a question in JSON. If it gave a text, `unknown` lists the characters that the vocabulary lacks: they are not among
/// the tokens that the answer is about.
async fn answer_json(
    asked: Asked,
    used: &[&str],
    work: impl FnOnce(&InspectedModel, &Subject, &InspectQuestion) -> Result<Value, Problem> + Send + 'static,
) -> Result<Json<Value>, Problem> {
    answer(asked, used, |model, subject, question| {
        let mut value = work(model, subject, question)?;
        if let Some((unknown, object)) = question.unknown(model).zip(value.as_object_mut()) {
            object.insert("unknown".to_owned(), json!(unknown));
        }
        Ok(Json(value))
    })
    .await
}

/// All models, and what the page can show of each.
#[utoipa::path(get, path = "/v1/inspect/models", responses((status = 200, description = "the models", body = Value), AccessErrors))]
async fn models(
    State(app): State<Arc<App>>,
    Extension(state): Extension<Arc<PageState>>,
) -> Result<Json<Value>, Problem> {
    // The first time, files are read.
    aside(move || {
        let models: Vec<Value> = app.models()?.iter().map(|model| state.served(model).about()).collect();
        Ok(Json(
            json!({ "models": models, "runs": state.runs.as_ref().map(|runs| runs.display().to_string()) }),
        ))
    })
    .await
}

async fn one_model(
    asked: State<Arc<App>>,
    state: Extension<Arc<PageState>>,
    body: JsonBody<InspectQuestion>,
) -> Result<Json<Value>, Problem> {
    answer_json((asked, state, body), &[], |model, _, _| Ok(json!({ "model": model.about() }))).await
}

/// Handlers of questions that are answered in JSON: the route, the fields that the question may have, what the answer holds, and how it is
/// found.
macro_rules! json_questions {
    ($($(#[doc = $doc:literal])* $name:ident => $path:literal, uses $used:expr, answers $holds:literal, $work:expr;)*) => {$(
        $(#[doc = $doc])*
        #[utoipa::path(post, path = $path, request_body = InspectQuestion, responses((status = 200, description = $holds, body = Value), BodyErrors, AccessErrors))]
        async fn $name(
            app: State<Arc<App>>,
            state: Extension<Arc<PageState>>,
            body: JsonBody<InspectQuestion>,
        ) -> Result<Json<Value>, Problem> {
            answer_json((app, state, body), $used, $work).await
        }
    )*};
}

/// Attention of a layer. With `head`: f16, little-endian, (T, T). Otherwise all heads as bytes, 255·√weight, (H, S, S) with
/// S = min(T, `size`), the greatest weight of those that a cell stands for.
#[utoipa::path(post, path = "/v1/inspect/attention", request_body = InspectQuestion, responses((status = 200, description = "the weights", content_type = "application/octet-stream"), BodyErrors, AccessErrors))]
async fn attention_of(
    app: State<Arc<App>>,
    state: Extension<Arc<PageState>>,
    body: JsonBody<InspectQuestion>,
) -> Result<Response, Problem> {
    let bytes =
        answer((app, state, body), of_a_text!("layer", "head", "size"), |model, subject, question| {
            let ids = question.ids(model)?;
            let layer = question.layer.ok_or_else(|| Problem::field("layer", "say which layer"))?;
            let attention = insight::layer_attention(subject, &ids, layer)?;
            match question.head {
                Some(head) => {
                    subject.check_head(head)?;
                    Ok(attention::halves(&attention.weights[head]))
                }
                None => Ok(attention::small(&attention.weights, question.size.unwrap_or(64).clamp(1, 256))),
            }
        })
        .await?;
    let mut response = bytes.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    Ok(response)
}

json_questions! {
    /// The tokens of a text, how much each surprised, and what may come next.
    read => "/v1/inspect/read", uses of_a_text!("top"), answers "`ids`, `tokens[]`, `loss`, `top[]`",
    |model, subject, question| {
        let ids = question.ids(model)?;
        let reading = insight::reading(subject, &ids, question.top(10))?;
        read_tokens(model, &ids, &reading)
    };

    /// All logits behind a position (`logits`: f32, little-endian, base64), with the names of the likeliest.
    next => "/v1/inspect/next", uses of_a_text!("at"), answers "`logits`, `top[]`",
    |model, subject, question| {
        let ids = question.ids(model)?;
        let at = question.position(ids.len())?;
        let logits = insight::next_logits(subject, &ids[..=at])?;
        let top: Vec<u32> = subject.likeliest(&logits, NAMED).iter().map(|token| token.id).collect();
        Ok(json!({ "position": at, "logits": base64::floats(&logits), "top": names(model, &top) }))
    };

    /// What some tokens are called.
    token_names => "/v1/inspect/names", uses &["ids"], answers "`tokens[] {id, token, bytes}`",
    |model, _, question| {
        let ids = question.ids.as_deref().unwrap_or_default();
        Ok(json!({ "tokens": names(model, ids) }))
    };

    /// Queries, keys, values and mixes of one head at all positions (f32, little-endian, base64, (T, `width`)).
    head => "/v1/inspect/head", uses of_a_text!("layer", "head"), answers "`q`, `k`, `v`, `z`, `width`",
    |model, subject, question| {
        let ids = question.ids(model)?;
        attention::one_head(subject, &ids, question.layer.unwrap_or(0), question.head.unwrap_or(0))
    };

    /// What every head does on repeated random tokens, beside a model with fresh weights. Measured once for each model.
    heads => "/v1/inspect/heads", uses &[], answers "`heads[]`, `margin`, `copying`",
    |model, subject, _| model.roles(subject);

    /// What every layer would say: at every position, or `at` one.
    lens_of => "/v1/inspect/lens", uses of_a_text!("top", "at"), answers "`lens[layer][position][] {id, token, probability}`",
    |model, subject, question| {
        let mut ids = question.ids(model)?;
        let at = question.at.map(|_| question.position(ids.len())).transpose()?;
        // What comes behind a position does not change what is said there.
        ids.truncate(at.map_or(ids.len(), |at| at + 1));
        let mut found =
            insight::lens(subject, &ids, LensOptions { top: question.top(1).min(20), logits: false })?;
        if at.is_some() {
            found.lens.iter_mut().for_each(|layer| drop(layer.drain(..layer.len() - 1)));
        }
        to_json(&found)
    };

    /// Who wrote the logit of a token behind a position; of the likeliest if none is named.
    attribution_of => "/v1/inspect/attribution", uses of_a_text!("at", "token"), answers "`attribution[] {component, layer, head, logit}`, `total`, `logit`",
    |model, subject, question| {
        let ids = question.ids(model)?;
        let at = question.position(ids.len())?;
        to_json(&insight::attribution(subject, &ids, at, question.token)?)
    };

    /// How the model reads a text without some of its parts (`off`), replaced by zero or, with `mean`, by their mean over the text.
    ablate => "/v1/inspect/ablate", uses of_a_text!("off", "mean", "top", "continuation"), answers "`before`, `after`",
    |model, subject, question| {
        let ids = question.ids(model)?;
        let off = question.off.as_deref().unwrap_or_default();
        let off =
            off.iter().map(|part| part.parse()).collect::<Result<Vec<Component>, insight::Error>>()?;
        let reference = question.mean.unwrap_or(false).then_some(ids.as_slice());
        let options = AblationOptions {
            top: question.top(10),
            continuation: question.continuation.unwrap_or(0).min(64),
        };
        to_json(&insight::ablate(subject, &ids, &off, reference, options)?)
    };

    /// How much of the answer of a `clean` text comes back when a place of its pass is put into that of a `corrupt` one.
    patch => "/v1/inspect/patch", uses &["clean", "corrupt"], answers "`layers_positions`, `layers_heads`",
    |model, subject, question| {
        let (clean, corrupt) =
            (question.clean.as_deref().unwrap_or_default(), question.corrupt.as_deref().unwrap_or_default());
        let config = subject.config();
        let passes = config.n_layer as f64 * (clean.len() + config.n_head) as f64;
        if passes * clean.len() as f64 * model.parameters as f64 > MOST_WORK {
            let message = format!(
                "patching {} tokens would take {passes} passes through this model: take a shorter text",
                clean.len()
            );
            return Err(Problem::field("clean", message));
        }
        to_json(&insight::patch(subject, clean, corrupt, None, None)?)
    };

    /// Every number of the pass of one position, with one layer opened and one head followed.
    walk_of => "/v1/inspect/walk", uses of_a_text!("at", "layer", "head"), answers "`walk[] {site, shape, values, text, text_zh, …}`",
    |model, subject, question| {
        let ids = question.ids(model)?;
        let focus = WalkFocus {
            layer: question.layer.unwrap_or(0),
            head: question.head.unwrap_or(0),
            position: question.position(ids.len())?,
        };
        to_json(&insight::walk(subject, &ids, focus)?)
    };

    /// The likeliest tokens that follow a text, one after the other (`tokens` of them, to the end of the answer at most).
    continuation => "/v1/inspect/continue", uses of_a_text!("tokens"), answers "`ids`, `text`",
    |model, subject, question| {
        let mut ids = question.ids(model)?;
        let given = ids.len();
        let end = |name: &str| model.tokenizer.as_ref().and_then(|tokenizer| tokenizer.special_id(name));
        let ends = [end(SEP), end(END_OF_TEXT)];
        while ids.len() < given + question.tokens.unwrap_or(16).min(64)
            && ids.len() < subject.config().block_size
        {
            let next = subject.likeliest(&insight::next_logits(subject, &ids)?, 1)[0].id;
            if ends.contains(&Some(next)) {
                break;
            }
            ids.push(next);
        }
        let new = ids.split_off(given);
        Ok(json!({ "text": subject.text(&new), "ids": new }))
    };
}

fn to_json(answer: &impl serde::Serialize) -> Result<Value, Problem> {
    serde_json::to_value(answer)
        .map_err(|error| Problem::internal(format!("an answer could not be written: {error}")))
}

impl From<insight::Error> for Problem {
    /// What was asked is the client's; what the model computes is not.
    fn from(error: insight::Error) -> Self {
        match &error {
            insight::Error::Undefined(_) => {
                Self::bad(error.to_string()).with_code("undefined_for_this_model")
            }
            insight::Error::Request(_) => Self::bad(error.to_string()),
            _ => Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }
}
