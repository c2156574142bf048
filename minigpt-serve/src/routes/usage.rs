//! What a request cost, and the names that answers bear.

use crate::fields::{self, MOST_NAMES};
use crate::problem::Problem;
use crate::record::Account;
use minigpt_generate::Usage;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use utoipa::ToSchema;

/// Tokens of a request.
#[derive(Debug, Clone, Copy, Default, Serialize, ToSchema)]
pub(crate) struct UsageAnswer {
    /// Of its prompts; one that several texts go on from counts once.
    pub prompt_tokens: usize,
    /// Of what was written.
    pub completion_tokens: usize,
    /// Both.
    pub total_tokens: usize,
    pub prompt_tokens_details: PromptDetails,
}

/// What a request cost where an answer may be without: absent, null, or told.
pub(crate) type UsageInAnswer = Option<Option<UsageAnswer>>;

/// Whether a stream is to tell what it cost. Options that nobody knows are noted in the account.
///
/// # Errors
/// An option would change the events in a way that is not done here.
pub(crate) fn wanted(options: Option<&StreamOptions>, account: &Account) -> Result<bool, Problem> {
    let Some(options) = options else { return Ok(false) };
    let mut unknown = Vec::new();
    for (name, value) in options.more.iter().filter(|(_, value)| !value.is_null()) {
        match name.as_str() {
            "continuous_usage_stats" if *value != false => {
                let message =
                    "stream_options.continuous_usage_stats is not supported: the last event has the usage";
                return Err(Problem::field("stream_options", message));
            }
            // Events are not padded, with or without it.
            "continuous_usage_stats" | "include_obfuscation" => {}
            name if unknown.len() < MOST_NAMES => {
                unknown.push(format!("stream_options.{}", fields::shown(name)));
            }
            _ => {}
        }
    }
    account.note(|record| record.ignored.extend(unknown));
    Ok(options.include_usage.unwrap_or(false))
}

/// More about the prompts.
#[derive(Debug, Clone, Copy, Default, Serialize, ToSchema)]
pub(crate) struct PromptDetails {
    /// Tokens that had been read before, and were not read again.
    pub cached_tokens: usize,
}

impl UsageAnswer {
    /// Adds the text with this number among those of one prompt.
    pub fn add(&mut self, usage: Usage, number: usize) {
        if number == 0 {
            self.prompt_tokens += usage.prompt_tokens;
            self.prompt_tokens_details.cached_tokens += usage.cached_tokens;
        }
        self.completion_tokens += usage.completion_tokens;
        self.total_tokens = self.prompt_tokens + self.completion_tokens;
    }
}

/// What a stream has beside its text.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct StreamOptions {
    /// Whether the last event before the end says what the request cost.
    pub include_usage: Option<bool>,
    /// Further options: refused if they would change the events, otherwise ignored and named.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    more: Map<String, Value>,
}

/// A name that no other answer of this server has.
pub(crate) fn name(kind: &str) -> String {
    format!("{kind}-{}", unique())
}

/// Digits that no other name of this server has.
pub(crate) fn unique() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{:x}{number:06x}", now())
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

/// What the answers of one version have in common.
pub(crate) const FINGERPRINT: &str = concat!("minigpt-", env!("CARGO_PKG_VERSION"));
