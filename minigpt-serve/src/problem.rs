//! The one shape of an error: `{"error": {"message", "type", "param", "code"}}`, whatever went wrong.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use minigpt_generate::Refused;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::{IntoResponses, ToSchema};

/// An error as a client sees it. Bad input is never a 5xx: clients would try it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The status of the answer.
    pub status: StatusCode,
    /// What is wrong, in words for whoever wrote the request.
    pub message: String,
    /// The field that is wrong.
    pub param: Option<String>,
    /// A word for programs.
    pub code: Option<&'static str>,
    /// In how many seconds another attempt makes sense.
    pub(crate) retry_after: Option<u32>,
}

/// An error in JSON, as OpenAI's clients know it.
#[derive(Serialize, ToSchema)]
pub(crate) struct ErrorAnswer {
    error: ErrorFields,
}

/// What any route behind the key may answer instead, for the description of the interface.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "describes answers, which are made from a Problem")]
pub(crate) enum AccessErrors {
    /// the key is missing or wrong
    #[response(status = 401)]
    Key(ErrorAnswer),
    /// the model is being loaded
    #[response(status = 503)]
    Loading(ErrorAnswer),
}

/// What any route that takes a body and names a model may answer instead.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "describes answers, which are made from a Problem")]
pub(crate) enum BodyErrors {
    /// something in the request is wrong
    #[response(status = 400)]
    Wrong(ErrorAnswer),
    /// there is no such model
    #[response(status = 404)]
    NoModel(ErrorAnswer),
    /// the body is too large
    #[response(status = 413)]
    TooLarge(ErrorAnswer),
    /// the body is not JSON
    #[response(status = 415)]
    NoJson(ErrorAnswer),
}

#[derive(Serialize, ToSchema)]
pub(crate) struct ErrorFields {
    /// What is wrong.
    message: String,
    /// A class of errors, such as `invalid_request_error`.
    r#type: String,
    /// The field that is wrong.
    param: Option<String>,
    /// A word for programs.
    code: Option<String>,
}

impl Problem {
    /// A problem with a status.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), param: None, code: None, retry_after: None }
    }

    /// A request that can't be understood or fulfilled: 400.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// A field that can't have its value: 400.
    pub fn field(param: &str, message: impl Into<String>) -> Self {
        Self { param: Some(param.to_owned()), ..Self::bad(message) }
    }

    /// A prompt that the context can't hold: 400 with both numbers.
    pub(crate) fn too_long(prompt: usize, context: usize) -> Self {
        let message = if prompt == context {
            format!(
                "This model's maximum context length is {context} tokens, and the prompt has as many, which leaves no room for \
                 an answer. Shorten it: nothing is cut silently."
            )
        } else {
            format!(
                "This model's maximum context length is {context} tokens, but the prompt has {prompt}. Shorten it: nothing is cut \
                 silently."
            )
        };
        Self { code: Some("context_length_exceeded"), ..Self::field("prompt", message) }
    }

    /// The server can't now: 503.
    pub(crate) fn unavailable(message: &str) -> Self {
        Self { retry_after: Some(1), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, message) }
    }

    /// The engine of a model has ended: 503, until somebody starts the server again.
    pub(crate) fn engine_failed(model: &str) -> Self {
        Self::unavailable(&format!("the engine of {model} has ended after an internal error"))
            .with_code("engine_failed")
    }

    /// Something broke here: 500.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// The same with a word for programs.
    pub fn with_code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    fn kind(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            429 => "rate_limit_error",
            503 => "unavailable_error",
            400..=499 => "invalid_request_error",
            _ => "server_error",
        }
    }

    /// The JSON of it.
    pub fn json(&self) -> Value {
        json!({ "error": { "message": self.message, "type": self.kind(), "param": self.param, "code": self.code } })
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.json())).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::QueueFull { limit } => Self {
                retry_after: Some(1),
                code: Some("queue_full"),
                ..Self::new(
                    StatusCode::TOO_MANY_REQUESTS,
                    format!("{limit} requests are waiting already; try again later"),
                )
            },
            Refused::TooLong { prompt, context } => Self::too_long(prompt, context),
            Refused::Invalid(error) => error.into(),
            Refused::EngineFailed { .. } => Self::engine_failed("the model"),
            _ => Self::unavailable("the server is being stopped"),
        }
    }
}

impl From<minigpt_generate::Error> for Problem {
    /// What the settings or the prompt say is the client's; what the model computes is not.
    fn from(error: minigpt_generate::Error) -> Self {
        use minigpt_generate::Error;
        match &error {
            Error::Config { field, .. } => {
                let param = match field.as_str() {
                    "max_new_tokens" => "max_tokens",
                    "min_new_tokens" => "min_tokens",
                    "bad_words_ids" => "bad_words",
                    "stop_strings" => "stop",
                    "num_return_sequences" => "n",
                    field => field,
                };
                let message = error.to_string().replacen(field.as_str(), param, 1);
                let message = message.replace("max_new_tokens", "max_tokens");
                Self::field(param, message)
            }
            Error::Prompt { .. } | Error::NoPrompts => Self::field("prompt", error.to_string()),
            Error::NoToken { .. } | Error::Constraint(_) => Self::bad(error.to_string()),
            Error::EngineFailed { .. } => Self::engine_failed("the model"),
            Error::Stopped => Self::unavailable("the server is being stopped"),
            _ => Self::internal(error.to_string()),
        }
    }
}
