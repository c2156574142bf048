//! `POST /v1/embeddings`: texts as vectors. An embedding is the mean, over the tokens of a text, of what the last block and the final norm
//! leave of them (what the head would turn into logits), scaled to a length of 1.

use crate::app::App;
use crate::body::{KnownFields, aside, parse};
use crate::fields::{Fields, Route};
use crate::inspect::base64;
use crate::problem::{AccessErrors, BodyErrors, Problem};
use crate::prompts::Prompts;
use crate::record::Account;
use crate::served_model::ServedModel;
use axum::extract::State;
use axum::{Extension, Json};
use candle_core::DType;
use minigpt_model::{Cache, TokenChunk};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::sync::Semaphore;
use utoipa::ToSchema;

/// How tokens become one vector, to be told.
pub(super) const POOLING: &str = "mean";
/// Tokens of all texts of a request, as OpenAI has it.
const MOST_TOKENS: usize = 300_000;
/// Tokens that go through the model at once: their hidden states are in memory together.
const CHUNK: usize = 256;

/// What to embed.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct EmbeddingRequest {
    /// The model; the first one where none is named.
    model: Option<String>,
    /// A text, ids, or a list of either.
    input: Prompts,
    /// `float`, or `base64` for little-endian f32.
    encoding_format: Option<EncodingFormat>,
    /// Nothing but the width of the model is supported.
    dimensions: Option<usize>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EncodingFormat {
    #[default]
    Float,
    Base64,
}

impl Fields for EmbeddingRequest {
    const ROUTE: Route = Route::Embeddings;

    fn read(bytes: &[u8]) -> Result<Self, Problem> {
        parse(bytes)
    }
}

/// Vectors.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EmbeddingAnswer {
    /// `list`.
    object: &'static str,
    data: Vec<Embedding>,
    model: String,
    /// How the tokens of a text become one vector: `mean`.
    pooling: &'static str,
    usage: EmbeddingUsage,
}

/// A text as a vector of length 1.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Embedding {
    /// `embedding`.
    object: &'static str,
    index: usize,
    embedding: Vector,
}

/// Numbers, or their bytes in base64.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum Vector {
    Numbers(Vec<f32>),
    Base64(String),
}

/// Tokens of a request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EmbeddingUsage {
    prompt_tokens: usize,
    total_tokens: usize,
}

/// Texts as vectors. Also `/embeddings`.
#[utoipa::path(post, path = "/v1/embeddings", request_body = EmbeddingRequest, responses(
    (status = 200, description = "a vector for each text", body = EmbeddingAnswer),
    BodyErrors,
    AccessErrors,
))]
pub(crate) async fn embeddings(
    State(app): State<Arc<App>>,
    Extension(account): Extension<Arc<Account>>,
    KnownFields(request): KnownFields<EmbeddingRequest>,
) -> Result<Json<EmbeddingAnswer>, Problem> {
    /// One text at a time, so that embeddings never keep the machine from writing for long.
    static TURN: Semaphore = Semaphore::const_new(1);
    let model = app.model_for(request.model.as_deref(), &account)?;
    account.note(|record| record.model = Some(model.name.clone()));
    let width = model.gpt.config().n_embd;
    if request.dimensions.is_some_and(|dimensions| dimensions != width) {
        let message = format!("dimensions can only be {width}, the width of this model");
        return Err(Problem::field("dimensions", message));
    }
    let for_input = |problem: Problem| match problem.param.as_deref() {
        Some("prompt") => Problem { param: Some("input".to_owned()), ..problem },
        _ => problem,
    };
    let texts = request.input.encode(&model, &account).await.map_err(for_input)?;
    let prompt_tokens = texts.iter().map(Vec::len).sum();
    if prompt_tokens > MOST_TOKENS {
        let message = format!("input has {prompt_tokens} tokens; {MOST_TOKENS} is the most of a request");
        return Err(Problem::field("input", message));
    }
    let base64 = request.encoding_format == Some(EncodingFormat::Base64);
    let mut data = Vec::with_capacity(texts.len());
    for (index, ids) in texts.into_iter().enumerate() {
        let model = Arc::clone(&model);
        let _turn = TURN.acquire().await;
        let numbers = aside(move || embed(&model, &ids)).await?;
        let embedding =
            if base64 { Vector::Base64(base64::floats(&numbers)) } else { Vector::Numbers(numbers) };
        data.push(Embedding { object: "embedding", index, embedding });
    }
    account.note(|record| record.prompt_tokens += prompt_tokens);
    let usage = EmbeddingUsage { prompt_tokens, total_tokens: prompt_tokens };
    Ok(Json(EmbeddingAnswer { object: "list", data, model: model.name.clone(), pooling: POOLING, usage }))
}

/// The vector of a text that has at least one token.
fn embed(model: &ServedModel, ids: &[u32]) -> Result<Vec<f32>, Problem> {
    let gpt = &model.gpt;
    let width = gpt.config().n_embd;
    let broken = |error: &dyn std::fmt::Display| Problem::internal(error.to_string());
    let mut cache =
        Cache::new(gpt.config(), 1, ids.len(), gpt.cache_dtype(), gpt.device()).map_err(|e| broken(&e))?;
    let mut sum = vec![0.0_f64; width];
    for chunk in ids.chunks(CHUNK) {
        let tokens = TokenChunk { row: 0, ids: chunk, logits: chunk.len() };
        let hidden = gpt.hidden_step(&[tokens], &mut cache).map_err(|e| broken(&e))?; // (T, C)
        let rows = hidden.to_dtype(DType::F32).and_then(|x| x.to_vec2::<f32>()).map_err(|e| broken(&e))?;
        for row in rows {
            sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(x));
        }
    }
    let length = sum.iter().map(|x| x * x).sum::<f64>().sqrt();
    if !length.is_finite() {
        return Err(Problem::internal("the model gives numbers that are not finite"));
    }
    // The mean, but for a factor that the length takes away.
    Ok(sum.iter().map(|x| if length > 0.0 { (x / length) as f32 } else { 0.0 }).collect())
}
