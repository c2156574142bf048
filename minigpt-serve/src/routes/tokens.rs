//! Text to tokens and back, and conversations as the model is told them.

use crate::app::App;
use crate::body::{KnownFields, parse};
use crate::fields::{Fields, Route};
use crate::large_answer;
use crate::messages::{self, ConversationFields};
use crate::problem::{AccessErrors, BodyErrors, ErrorAnswer, Problem};
use crate::record::Account;
use crate::sampling::either;
use crate::served_model::ServedModel;
use axum::extract::State;
use axum::response::Response;
use axum::{Extension, Json};
use minigpt_chat::Format;
use minigpt_tokenizer::{END_OF_TEXT, Tokenizer};
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeSet;
use std::sync::Arc;
use utoipa::ToSchema;

/// A text.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct TokenizeRequest {
    /// The model; the first one where none is named.
    model: Option<String>,
    /// The text, as llama.cpp calls it.
    content: Option<String>,
    /// The text, as vLLM calls it.
    prompt: Option<String>,
    /// Whether the names of special tokens mean those tokens; true when absent.
    parse_special: Option<bool>,
    /// Whether the ids begin with what the tokenizer puts before every text, such as `<s>`. Default: false for `content`, as
    /// llama.cpp has it; true for `prompt`, as vLLM has it.
    add_special: Option<bool>,
    /// The same, as vLLM calls it.
    add_special_tokens: Option<bool>,
    /// Whether each token comes with its text.
    with_pieces: Option<bool>,
}

impl Fields for TokenizeRequest {
    const ROUTE: Route = Route::Tokenize;

    fn read(bytes: &[u8]) -> Result<Self, Problem> {
        parse(bytes)
    }
}

/// Its tokens.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokenizeAnswer {
    #[schema(value_type = Vec<TokenOrPiece>)]
    tokens: Tokens,
    /// How many.
    count: usize,
    /// How many a text may have with its prompt.
    max_model_len: usize,
}

/// Ids that are written one by one: a list of them with their texts may be much larger than the text was.
#[derive(Debug)]
struct Tokens {
    ids: Vec<u32>,
    /// The model that knows their texts, if these are wanted.
    pieces: Option<Arc<ServedModel>>,
}

impl Serialize for Tokens {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.ids.iter().map(|&id| match &self.pieces {
            Some(model) => piece(model, id),
            None => TokenOrPiece::Id(id),
        }))
    }
}

/// An id, or an id with its text.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum TokenOrPiece {
    Id(u32),
    Piece { id: u32, piece: PieceText },
}

/// The text of a token, or its bytes where these are no text.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum PieceText {
    Text(String),
    Bytes(Vec<u8>),
}

/// The ids of a text.
#[utoipa::path(post, path = "/tokenize", request_body = TokenizeRequest, responses(
    (status = 200, description = "its tokens", body = TokenizeAnswer),
    BodyErrors,
    AccessErrors,
))]
pub(crate) async fn tokenize(
    State(app): State<Arc<App>>,
    Extension(account): Extension<Arc<Account>>,
    KnownFields(request): KnownFields<TokenizeRequest>,
) -> Result<Response, Problem> {
    let model = app.model_for(request.model.as_deref(), &account)?;
    let none = || Problem::field("content", "there is no text: give it as content or as prompt");
    let add = either(["add_special", "add_special_tokens"], request.add_special, request.add_special_tokens)?;
    let add = add.unwrap_or(request.content.is_none());
    let text = request.content.or(request.prompt).ok_or_else(none)?;
    let tokenizer = Arc::clone(model.need_tokenizer()?);
    let special = request.parse_special.unwrap_or(true);
    let pieces = request.with_pieces.unwrap_or(false).then(|| Arc::clone(&model));
    let (size, max_model_len) = (text.len(), model.context);
    large_answer::answer(&app, size, move || {
        let unknown =
            if special { tokenizer.unknown_beside_special(&text) } else { tokenizer.unknown(&text) };
        account.note_unknown(unknown.into_iter().collect::<BTreeSet<char>>());
        let ids = encode(&tokenizer, &text, special, add);
        let ids = ids.map_err(|error| Problem::field("content", error.to_string()))?;
        Ok(TokenizeAnswer { count: ids.len(), tokens: Tokens { ids, pieces }, max_model_len })
    })
    .await
}

/// The ids of a text: whether names of special tokens mean those tokens, and whether what the tokenizer puts before every text
/// comes first.
fn encode(
    tokenizer: &Tokenizer,
    text: &str,
    special: bool,
    add: bool,
) -> minigpt_tokenizer::Result<Vec<u32>> {
    match (special, add) {
        (true, true) => tokenizer.encode_with_special(text),
        (false, true) => Ok([tokenizer.encode_with_special("")?, tokenizer.encode(text)?].concat()),
        // A guard that the text does not have changes nothing, and nothing comes first.
        (true, false) => match ('\u{E000}'..='\u{F8FF}').find(|&guard| !text.contains(guard)) {
            Some(guard) => tokenizer.encode_with_guard(text, guard),
            None => tokenizer.encode_with_special(text),
        },
        (false, false) => tokenizer.encode(text),
    }
}

fn piece(model: &ServedModel, id: u32) -> TokenOrPiece {
    let bytes = model.token_bytes(id).unwrap_or_default();
    let piece = match std::str::from_utf8(bytes) {
        Ok(text) => PieceText::Text(text.to_owned()),
        Err(_) => PieceText::Bytes(bytes.to_vec()),
    };
    TokenOrPiece::Piece { id, piece }
}

/// Ids.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct DetokenizeRequest {
    /// The model; the first one where none is named.
    model: Option<String>,
    tokens: Vec<u32>,
}

impl Fields for DetokenizeRequest {
    const ROUTE: Route = Route::Detokenize;

    fn read(bytes: &[u8]) -> Result<Self, Problem> {
        parse(bytes)
    }
}

/// Their text, under both names.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DetokenizeAnswer {
    /// As llama.cpp calls it.
    content: String,
    /// As vLLM calls it.
    prompt: String,
}

/// The text of ids.
#[utoipa::path(post, path = "/detokenize", request_body = DetokenizeRequest, responses(
    (status = 200, description = "their text", body = DetokenizeAnswer),
    BodyErrors,
    AccessErrors,
))]
pub(crate) async fn detokenize(
    State(app): State<Arc<App>>,
    Extension(account): Extension<Arc<Account>>,
    KnownFields(request): KnownFields<DetokenizeRequest>,
) -> Result<Response, Problem> {
    let model = app.model_for(request.model.as_deref(), &account)?;
    let tokenizer = Arc::clone(model.need_tokenizer()?);
    large_answer::answer(&app, request.tokens.len() * size_of::<u32>(), move || {
        let bytes = |&id: &u32| model.token_bytes(id).map_or(0, <[u8]>::len);
        if request.tokens.iter().map(bytes).sum::<usize>() > large_answer::LARGEST {
            return Err(large_answer::too_large());
        }
        let text = tokenizer.decode(&request.tokens);
        let text = text.map_err(|error| Problem::field("tokens", error.to_string()))?;
        Ok(DetokenizeAnswer { content: text.clone(), prompt: text })
    })
    .await
}

/// What evaluation tools ask about a tokenizer.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokenizerInfo {
    tokenizer_class: &'static str,
    vocab_size: usize,
    model_max_length: usize,
    bos_token: Option<String>,
    eos_token: Option<String>,
    pad_token: Option<String>,
    chat_template: Option<String>,
}

/// About the tokenizer of the first model.
#[utoipa::path(get, path = "/tokenizer_info", responses(
    (status = 200, description = "what it is", body = TokenizerInfo),
    (status = 400, description = "the model has none", body = ErrorAnswer),
    AccessErrors,
))]
pub(crate) async fn tokenizer_info(State(app): State<Arc<App>>) -> Result<Json<TokenizerInfo>, Problem> {
    let model = app.model(None)?;
    let tokenizer = model.need_tokenizer()?;
    let known = |name: &str| tokenizer.special_id(name).map(|_| name.to_owned());
    let template = match &model.format {
        Format::Template(template) => Some(template),
        Format::Qa | Format::Plain => None,
    };
    let role = |role: &str| template.and_then(|template| template.token(role)).map(str::to_owned);
    let end = model.stop_ids.first().map(|&id| model.token_name(id));
    Ok(Json(TokenizerInfo {
        tokenizer_class: "minigpt",
        vocab_size: tokenizer.vocab_size(),
        model_max_length: model.context,
        bos_token: role("bos_token").or_else(|| known(END_OF_TEXT)),
        eos_token: role("eos_token").or(end).or_else(|| known(END_OF_TEXT)),
        pad_token: role("pad_token").or_else(|| known(minigpt_tokenizer::PAD)),
        chat_template: template.map(|template| template.source.clone()),
    }))
}

/// A conversation.
#[derive(Debug, ToSchema)]
pub(crate) struct TemplateRequest {
    #[schema(inline)]
    #[serde(flatten)]
    named: NamedModel,
    #[schema(inline)]
    #[serde(flatten)]
    conversation: ConversationFields,
}

/// Which model.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct NamedModel {
    /// The model; the first one where none is named.
    model: Option<String>,
}

impl Fields for TemplateRequest {
    const ROUTE: Route = Route::Template;

    fn read(bytes: &[u8]) -> Result<Self, Problem> {
        Ok(Self { named: parse(bytes)?, conversation: parse(bytes)? })
    }
}

/// What the model is told.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TemplateAnswer {
    /// To look at: in it, names of special tokens that somebody typed look like those tokens.
    prompt: String,
}

/// A conversation as the model is told it, up to where the model is to speak.
#[utoipa::path(post, path = "/apply-template", request_body = TemplateRequest, responses(
    (status = 200, description = "the text", body = TemplateAnswer),
    BodyErrors,
    AccessErrors,
))]
pub(crate) async fn apply_template(
    State(app): State<Arc<App>>,
    Extension(account): Extension<Arc<Account>>,
    KnownFields(request): KnownFields<TemplateRequest>,
) -> Result<Json<TemplateAnswer>, Problem> {
    let model = app.model_for(request.named.model.as_deref(), &account)?;
    let mut ignored = Vec::new();
    let (conversation, _) = request.conversation.conversation(&model, &mut ignored)?;
    account.note(|record| record.ignored.extend(ignored));
    Ok(Json(TemplateAnswer { prompt: messages::render(&model, conversation).await? }))
}
