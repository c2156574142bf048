//! Whether the server can answer.

use crate::app::App;
use crate::problem::{ErrorAnswer, Problem};
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// It can.
#[derive(Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`.
    status: &'static str,
}

/// Whether the server can answer. Needs no key.
#[utoipa::path(get, path = "/health", responses(
    (status = 200, description = "it can", body = Health),
    (status = 503, description = "the model is being loaded, or the server is being stopped", body = ErrorAnswer),
))]
pub(crate) async fn health(State(app): State<Arc<App>>) -> Result<Json<Health>, Problem> {
    app.models()?;
    Ok(Json(Health { status: "ok" }))
}
