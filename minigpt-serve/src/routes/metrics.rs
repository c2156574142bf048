//! Counts for Prometheus, under names of our own and under llama.cpp's.

use crate::app::App;
use crate::problem::{AccessErrors, Problem};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use minigpt_generate::EngineStatus;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What is counted of an engine: names, kind, meaning, and where it is.
type Measured = (&'static [&'static str], &'static str, &'static str, fn(&EngineStatus) -> f64);

fn busy(status: &EngineStatus) -> usize {
    status.slots.iter().filter(|slot| slot.request.is_some()).count()
}

fn rate(count: u64, status: &EngineStatus) -> f64 {
    let seconds = status.counters.busy.as_secs_f64();
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

const MEASURED: [Measured; 16] = [
    (
        &["minigpt_prompt_tokens_total", "llamacpp:prompt_tokens_total"],
        "counter",
        "Tokens of prompts that were read.",
        |s| s.counters.prompt_tokens as f64,
    ),
    (&["minigpt_cached_tokens_total"], "counter", "Tokens of prompts that slots held already.", |s| {
        s.counters.cached_tokens as f64
    }),
    (
        &["minigpt_generated_tokens_total", "llamacpp:tokens_predicted_total"],
        "counter",
        "Tokens that were written.",
        |s| s.counters.generated_tokens as f64,
    ),
    (
        &["minigpt_steps_total", "llamacpp:n_decode_total"],
        "counter",
        "Steps in which something was computed.",
        |s| s.counters.steps as f64,
    ),
    (&["minigpt_busy_seconds_total"], "counter", "How long all steps took.", |s| {
        s.counters.busy.as_secs_f64()
    }),
    (&["minigpt_longest_step_seconds"], "gauge", "The longest step.", |s| {
        s.counters.longest_step.as_secs_f64()
    }),
    (&["minigpt_texts_finished_total"], "counter", "Texts that ended.", |s| s.counters.finished as f64),
    (&["minigpt_texts_failed_total"], "counter", "Texts that failed.", |s| s.counters.failed as f64),
    (&["minigpt_texts_cancelled_total"], "counter", "Texts that were given up.", |s| {
        s.counters.cancelled as f64
    }),
    (&["minigpt_slots"], "gauge", "Texts that can be written at once.", |s| s.slots.len() as f64),
    (
        &["minigpt_slots_busy", "llamacpp:requests_processing"],
        "gauge",
        "Texts that are being written.",
        |s| busy(s) as f64,
    ),
    (&["minigpt_queued"], "gauge", "Texts that wait for a slot.", |s| s.queued as f64),
    (
        &["minigpt_requests_waiting", "llamacpp:requests_deferred"],
        "gauge",
        "Requests that wait for a slot.",
        |s| s.waiting as f64,
    ),
    (&["minigpt_cache_bytes"], "gauge", "The memory of all keys and values.", |s| s.memory_bytes as f64),
    (&["llamacpp:prompt_tokens_seconds"], "gauge", "Tokens of prompts a second of computing.", |s| {
        rate(s.counters.prompt_tokens, s)
    }),
    (&["llamacpp:predicted_tokens_seconds"], "gauge", "Tokens written a second of computing.", |s| {
        rate(s.counters.generated_tokens, s)
    }),
];

/// Counts in Prometheus' text form.
#[utoipa::path(get, path = "/metrics", responses(
    (status = 200, description = "the counts", body = String, content_type = "text/plain"),
    AccessErrors,
))]
pub(crate) async fn metrics(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let models: Vec<(String, EngineStatus)> =
        app.models()?.iter().map(|model| (escaped(&model.name), model.engine.status())).collect();
    let mut text = String::new();
    for (names, kind, help, value) in MEASURED {
        for name in names {
            head(&mut text, name, kind, help);
            for (model, status) in &models {
                let _ = writeln!(text, "{name}{{model=\"{model}\"}} {}", value(status));
            }
        }
    }
    let counters = &app.counters;
    let http = [
        ("minigpt_http_requests_total", "counter", "Requests.", &counters.requests),
        ("minigpt_http_client_errors_total", "counter", "Answers with a 4xx.", &counters.client_errors),
        ("minigpt_http_server_errors_total", "counter", "Answers with a 5xx.", &counters.server_errors),
        ("minigpt_http_left_total", "counter", "Clients that went away before the end.", &counters.left),
        ("minigpt_http_active", "gauge", "Requests that are being answered.", &counters.active),
    ];
    for (name, kind, help, counter) in http {
        head(&mut text, name, kind, help);
        let _ = writeln!(text, "{name} {}", counter.load(Ordering::Relaxed));
    }
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// A label's value.
fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
