//! Conversations as OpenAI's clients send them, and what the model is told of them.

use crate::body::aside;
use crate::problem::Problem;
use crate::prompts::check;
use crate::served_model::ServedModel;
use minigpt_data::{Role, Turn};
use serde::Deserialize;
use std::error::Error;
use std::sync::Arc;
use utoipa::ToSchema;

/// One thing said.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ChatMessage {
    /// `system`, `developer`, `user`, `assistant` or `tool`.
    #[schema(example = "user")]
    role: String,
    /// What was said.
    #[schema(example = "Who was the first person on the moon?")]
    content: Option<Content>,
}

/// A text, or the parts of one.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected a string or a list of parts")]
pub(crate) enum Content {
    Text(String),
    Parts(Vec<Part>),
}

/// A part of a text.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct Part {
    /// `text`: these models know nothing else.
    #[schema(example = "text")]
    r#type: Option<String>,
    /// The text.
    text: Option<String>,
}

/// What was said, as the model is told: all of it, or the last turn alone where the model knows single questions.
pub(crate) fn turns(model: &ServedModel, messages: Vec<ChatMessage>) -> Result<Vec<Turn>, Problem> {
    if messages.is_empty() {
        return Err(Problem::field("messages", "there is no message"));
    }
    let mut turns = messages
        .into_iter()
        .enumerate()
        .map(|(i, message)| turn(i, message))
        .collect::<Result<Vec<_>, _>>()?;
    if !model.format.remembers() {
        turns.drain(..turns.len() - 1);
    }
    Ok(turns)
}

fn turn(index: usize, message: ChatMessage) -> Result<Turn, Problem> {
    let role = match message.role.as_str() {
        "system" | "developer" => Role::System,
        // What a tool found is something that the model is told.
        "user" | "tool" | "function" => Role::User,
        "assistant" => Role::Assistant,
        other => {
            let other: String = other.chars().take(40).collect();
            let message =
                format!("the role {other:?} is none of system, developer, user, assistant and tool");
            return Err(Problem::field(&format!("messages[{index}].role"), message));
        }
    };
    let text = match message.content {
        None => String::new(),
        Some(Content::Text(text)) => text,
        Some(Content::Parts(parts)) => {
            let part = |part: Part| match (part.r#type.as_deref(), part.text) {
                (None | Some("text" | "input_text" | "output_text"), Some(text)) => Ok(text),
                (kind, _) => {
                    let kind: String = kind.unwrap_or("nothing").chars().take(40).collect();
                    let message = format!("a part is {kind:?}: these models read text only");
                    Err(Problem::field(&format!("messages[{index}].content"), message))
                }
            };
            parts.into_iter().map(part).collect::<Result<Vec<_>, _>>()?.join("\n")
        }
    };
    Ok(Turn { role, text })
}

/// The ids that make the model answer. Nothing is left out to make them fit.
pub(crate) async fn encode(model: &Arc<ServedModel>, turns: Vec<Turn>) -> Result<Vec<u32>, Problem> {
    let tokenizer = Arc::clone(model.need_tokenizer()?);
    let served = Arc::clone(model);
    let ids = aside(move || served.format.encode(&tokenizer, &turns).map_err(told)).await?;
    let context = |problem: Problem| match problem.param.as_deref() {
        Some("prompt") => Problem { param: Some("messages".to_owned()), ..problem },
        _ => problem,
    };
    check(model, ids).map_err(context)
}

/// The same as text.
pub(crate) async fn render(model: &Arc<ServedModel>, turns: Vec<Turn>) -> Result<String, Problem> {
    let tokenizer = Arc::clone(model.need_tokenizer()?);
    let served = Arc::clone(model);
    aside(move || served.format.render(&tokenizer, &turns).map_err(told)).await
}

/// A template that refuses a conversation says why.
#[expect(clippy::needless_pass_by_value, reason = "it is what map_err gives")]
fn told(error: minigpt_chat::Error) -> Problem {
    let message = match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    };
    Problem::field("messages", message)
}
