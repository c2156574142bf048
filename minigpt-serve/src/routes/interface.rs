//! How every request that generates text is answered, whatever its interface: in one piece, or in events while the engine generates.
//! An interface is the form of the answers: OpenAI's completions, chats and responses, or llama.cpp's completions.

use super::usage::{self, UsageAnswer, UsageInAnswer};
use crate::events;
use crate::problem::Problem;
use crate::served_model::ServedModel;
use crate::texts::{News, Texts, WholeText};
use axum::Json;
use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::sync::Arc;

/// The form of the answers of one interface, for one request.
pub(super) trait Interface: Send + 'static {
    /// The answer in one piece.
    type Whole: Serialize;

    /// The answer in one piece.
    fn whole(self, texts: Vec<WholeText>, usage: UsageAnswer) -> Self::Whole;

    /// The events before any text, given the number of texts.
    fn first(&mut self, _texts: usize) -> Vec<Bytes> {
        Vec::new()
    }

    /// The events for what is new in one text.
    fn next(&mut self, news: News) -> Vec<Bytes>;

    /// The events after all texts have ended.
    fn last(&mut self, usage: UsageAnswer) -> Vec<Bytes>;
}

/// Answers a request with its texts.
pub(super) async fn answer<I: Interface>(
    mut texts: Texts,
    stream: bool,
    mut interface: I,
) -> Result<Response, Problem> {
    if !stream {
        let whole = texts.whole().await?;
        return Ok(Json(interface.whole(whole, texts.usage)).into_response());
    }
    Ok(events::answer(|events| async move {
        for event in interface.first(texts.len()) {
            events.raw(event).await?;
        }
        while let Some(news) = texts.next().await? {
            for event in interface.next(news) {
                events.raw(event).await?;
            }
        }
        for event in interface.last(texts.usage) {
            events.raw(event).await?;
        }
        Ok(())
    }))
}

/// What the answer to a request of OpenAI's first two interfaces has in common with all of its events.
pub(super) struct Head {
    pub id: String,
    pub created: u64,
    pub model: Arc<ServedModel>,
    /// Whether tokens come with their log-probabilities.
    pub logprobs: bool,
    /// Whether the last event of a stream has the usage.
    pub usage: bool,
}

impl Head {
    /// A head whose id begins with `kind`.
    pub fn new(kind: &str, model: Arc<ServedModel>, logprobs: bool, usage: bool) -> Self {
        Self { id: usage::name(kind), created: usage::now(), model, logprobs, usage }
    }

    /// The usage in an event before the last: null if the last has it, otherwise left out.
    pub fn usage_in_event(&self) -> UsageInAnswer {
        self.usage.then_some(None)
    }

    /// The last events: one with the usage if the request asks for it, written by `answer`, and the end of the stream.
    pub fn last<A: Serialize>(
        &self,
        usage: UsageAnswer,
        answer: impl FnOnce(UsageInAnswer) -> A,
    ) -> Vec<Bytes> {
        let usage = self.usage.then(|| events::event(&answer(Some(Some(usage)))));
        usage.into_iter().chain([events::DONE]).collect()
    }
}
