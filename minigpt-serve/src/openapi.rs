//! The description of all routes, from the code itself.

use crate::problem::{ErrorAnswer, ErrorFields};
use crate::routes::Described;
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "MiniGPT",
        description = "Models over HTTP: OpenAI's interface, and llama.cpp's.",
        license(name = "MIT OR Apache-2.0")
    ),
    components(schemas(ErrorAnswer, ErrorFields))
)]
struct Document;

/// The whole document.
pub(crate) fn document() -> utoipa::openapi::OpenApi {
    let mut document = Document::openapi();
    document.merge(Described::openapi());
    let key = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    document.components.get_or_insert_default().add_security_scheme("key", key);
    document
}
