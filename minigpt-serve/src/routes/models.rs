//! Which models there are.

use crate::app::App;
use crate::problem::{AccessErrors, ErrorAnswer, Problem};
use crate::served_model::ServedModel;
use axum::Json;
use axum::extract::{Path, State};
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// All models.
#[derive(Serialize, ToSchema)]
pub(crate) struct ModelList {
    /// `list`.
    object: &'static str,
    data: Vec<ModelAnswer>,
}

/// A model.
#[derive(Serialize, ToSchema)]
pub(crate) struct ModelAnswer {
    /// What to call it.
    id: String,
    /// `model`.
    object: &'static str,
    /// Since when it is served, in seconds since 1970.
    created: u64,
    /// `minigpt`.
    owned_by: &'static str,
    /// What else it may be called.
    aliases: Vec<String>,
    meta: ModelMeta,
}

/// How large it is.
#[derive(Serialize, ToSchema)]
pub(crate) struct ModelMeta {
    /// Tokens of its vocabulary.
    n_vocab: usize,
    /// Tokens of its context here.
    n_ctx: usize,
    /// Tokens of the context that it was trained with, as far as it is loaded.
    n_ctx_train: usize,
    n_layer: usize,
    n_head: usize,
    n_embd: usize,
    /// Parameters.
    n_params: u64,
    /// Bytes of its weights.
    size: u64,
    /// What its matrices are kept in.
    dtype: String,
    /// How it is spoken to, in words.
    format: &'static str,
    /// How the tokens of a text become one embedding: `mean`.
    pooling: &'static str,
    /// Whether its chat template has tools that it can call.
    tools: bool,
}

impl ModelAnswer {
    fn new(model: &ServedModel) -> Self {
        let config = model.gpt.config();
        Self {
            id: model.name.clone(),
            object: "model",
            created: model.created,
            owned_by: "minigpt",
            aliases: model.aliases.clone(),
            meta: ModelMeta {
                n_vocab: config.vocab_size,
                n_ctx: model.context,
                n_ctx_train: config.block_size,
                n_layer: config.n_layer,
                n_head: config.n_head,
                n_embd: config.n_embd,
                n_params: model.parameters,
                size: model.bytes,
                dtype: model.dtype.clone(),
                format: model.format.describe(),
                pooling: super::embeddings::POOLING,
                tools: model.tool_form.is_some(),
            },
        }
    }
}

/// All models that are served. Also `/models`.
#[utoipa::path(get, path = "/v1/models", responses(
    (status = 200, description = "the models", body = ModelList),
    AccessErrors,
))]
pub(crate) async fn list(State(app): State<Arc<App>>) -> Result<Json<ModelList>, Problem> {
    let data = app.models()?.iter().map(|model| ModelAnswer::new(model)).collect();
    Ok(Json(ModelList { object: "list", data }))
}

/// One of them. Also `/models/{id}`.
#[utoipa::path(get, path = "/v1/models/{id}", params(("id" = String, Path, description = "its name")), responses(
    (status = 200, description = "the model", body = ModelAnswer),
    (status = 400, description = "a name that is no text", body = ErrorAnswer),
    (status = 404, description = "there is none of this name", body = ErrorAnswer),
    AccessErrors,
))]
pub(crate) async fn one(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, axum::extract::rejection::PathRejection>,
) -> Result<Json<ModelAnswer>, Problem> {
    let Path(id) = id.map_err(|error| Problem::field("id", error.to_string()))?;
    Ok(Json(ModelAnswer::new(&*app.model(Some(&id))?)))
}
