//! What the server is and does, under llama.cpp's names.

use super::llama;
use crate::app::App;
use crate::problem::{AccessErrors, Problem};
use axum::Json;
use axum::extract::State;
use minigpt_chat::Format;
use minigpt_generate::SlotState;
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;
use utoipa::ToSchema;

/// What the first model is, and how it writes where a request says nothing.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Props {
    #[schema(value_type = Object)]
    default_generation_settings: Value,
    /// Texts that are written at once.
    total_slots: usize,
    model_alias: String,
    model_path: String,
    /// Jinja; empty where the model has none.
    chat_template: String,
    /// How it is spoken to, in words.
    chat_format: &'static str,
    bos_token: String,
    eos_token: String,
    #[schema(value_type = Object)]
    modalities: Value,
    build_info: &'static str,
}

/// About the first model.
#[utoipa::path(get, path = "/props", responses(
    (status = 200, description = "what it is", body = Props),
    AccessErrors,
))]
pub(crate) async fn props(State(app): State<Arc<App>>) -> Result<Json<Props>, Problem> {
    let model = app.model(None)?;
    let params = llama::described(llama::default_settings(&model)?.config());
    let template = match &model.format {
        Format::Template(template) => template.source.clone(),
        Format::Qa | Format::Plain => String::new(),
    };
    let token = |id: Option<u32>| id.map(|id| model.token_name(id)).unwrap_or_default();
    Ok(Json(Props {
        default_generation_settings: json!({ "n_ctx": model.context, "params": params }),
        total_slots: model.slots,
        model_alias: model.name.clone(),
        model_path: model.path.display().to_string(),
        chat_template: template,
        chat_format: model.format.describe(),
        bos_token: token(model.first_token()),
        eos_token: token(model.stop_ids.first().copied()),
        modalities: json!({ "vision": false, "audio": false }),
        build_info: super::usage::FINGERPRINT,
    }))
}

/// One of the texts that can be written at once.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Slot {
    id: usize,
    model: String,
    n_ctx: usize,
    /// Whether it belongs to a request.
    is_processing: bool,
    /// `free`, `reading` or `writing`.
    state: &'static str,
    /// The request, by its number in the engine.
    id_task: Option<u64>,
    /// Tokens that it holds.
    n_past: usize,
    /// Tokens of the request's prompt.
    n_prompt_tokens: usize,
    /// Tokens that were written.
    n_decoded: usize,
}

/// What is being written, as of the last step. Answers at once, whatever is computed.
#[utoipa::path(get, path = "/slots", responses(
    (status = 200, description = "all slots of all models", body = Vec<Slot>),
    AccessErrors,
))]
pub(crate) async fn slots(State(app): State<Arc<App>>) -> Result<Json<Vec<Slot>>, Problem> {
    let mut slots = Vec::new();
    for model in app.models()? {
        for (id, slot) in model.engine.status().slots.into_iter().enumerate() {
            slots.push(Slot {
                id,
                model: model.name.clone(),
                n_ctx: model.context,
                is_processing: slot.request.is_some(),
                state: match slot.state {
                    SlotState::Reading => "reading",
                    SlotState::Writing => "writing",
                    _ => "free",
                },
                id_task: slot.request.map(|request| request.0),
                n_past: slot.n_past,
                n_prompt_tokens: slot.prompt_tokens,
                n_decoded: slot.completion_tokens,
            });
        }
    }
    Ok(Json(slots))
}
