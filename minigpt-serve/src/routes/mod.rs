//! The routes, one interface a file.

mod chat;
mod completions;
mod embeddings;
mod health;
mod interface;
mod llama;
mod metrics;
mod models;
mod responses;
mod status;
mod tokens;
mod usage;

#[cfg(test)]
pub(crate) use chat::ChatRequest;
#[cfg(test)]
pub(crate) use completions::CompletionRequest;
pub(crate) use completions::FinishWord;
#[cfg(test)]
pub(crate) use embeddings::EmbeddingRequest;
#[cfg(test)]
pub(crate) use llama::LlamaRequest;
#[cfg(test)]
pub(crate) use responses::ResponseRequest;
#[cfg(test)]
pub(crate) use tokens::{DetokenizeRequest, TemplateRequest, TokenizeRequest};
pub(crate) use usage::UsageAnswer;

use crate::app::App;
use crate::problem::Problem;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use std::sync::Arc;
use utoipa::OpenApi;

/// What all routes say about themselves.
#[derive(OpenApi)]
#[openapi(paths(
    health::health,
    models::list,
    models::one,
    completions::completions,
    chat::chat_completions,
    responses::responses,
    embeddings::embeddings,
    llama::completion,
    tokens::tokenize,
    tokens::detokenize,
    tokens::tokenizer_info,
    tokens::apply_template,
    status::props,
    status::slots,
    metrics::metrics,
))]
pub(crate) struct Described;

/// All routes of this crate.
pub(crate) fn all(api: &utoipa::openapi::OpenApi) -> Router<Arc<App>> {
    let api = serde_json::to_value(api).unwrap_or_default();
    Router::new()
        .route("/health", get(health::health))
        .route("/v1/health", get(health::health))
        .route("/v1/models", get(models::list))
        .route("/models", get(models::list))
        // A name may have slashes.
        .route("/v1/models/{*id}", get(models::one))
        .route("/models/{*id}", get(models::one))
        .route("/v1/completions", post(completions::completions))
        .route("/v1/chat/completions", post(chat::chat_completions))
        .route("/chat/completions", post(chat::chat_completions))
        .route("/v1/responses", post(responses::responses))
        .route("/responses", post(responses::responses))
        .route("/v1/embeddings", post(embeddings::embeddings))
        .route("/embeddings", post(embeddings::embeddings))
        .route("/completion", post(llama::completion))
        .route("/completions", post(llama::completion))
        .route("/tokenize", post(tokens::tokenize))
        .route("/v1/tokenize", post(tokens::tokenize))
        .route("/detokenize", post(tokens::detokenize))
        .route("/v1/detokenize", post(tokens::detokenize))
        .route("/tokenizer_info", get(tokens::tokenizer_info))
        .route("/v1/tokenizer_info", get(tokens::tokenizer_info))
        .route("/apply-template", post(tokens::apply_template))
        .route("/v1/apply-template", post(tokens::apply_template))
        .route("/props", get(status::props))
        .route("/slots", get(status::slots))
        .route("/metrics", get(metrics::metrics))
        .route("/openapi.json", get(move || std::future::ready(Json(api.clone()))))
}

/// What is answered where nothing is.
pub(crate) async fn not_found(request: Request) -> Problem {
    let (method, path) = (request.method(), request.uri().path());
    let path: String = path.chars().take(200).collect();
    Problem::new(
        StatusCode::NOT_FOUND,
        format!("there is no {method} {path} here; /openapi.json lists what there is"),
    )
}

/// What is answered where something is, but not this way.
pub(crate) async fn wrong_method(request: Request) -> Problem {
    let (method, path) = (request.method(), request.uri().path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, format!("{path} does not take {method}"))
}

/// What every answer says: who answers, and that its kind is not to be guessed.
pub(crate) async fn mark(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::SERVER, HeaderValue::from_static(concat!("minigpt/", env!("CARGO_PKG_VERSION"))));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
