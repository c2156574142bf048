//! Direct logit attribution: which parts of the model wrote a token's logit. The residual stream is the sum of what the
//! embedding, every head and every MLP wrote, and what the final norm and the head make of a sum is, with the norm's
//! deviation held fixed, the sum of what they make of its terms: (c − mean c)/σ · W_U\[t\], with the norm's scale folded in.

use crate::error::{Result, Undefined};
use crate::rows_at::RowsAt;
use crate::subject::{Subject, check_position, floats, row, table_row};
use minigpt_model::{BlockSite, Config, NormPosition, PositionEmbedding, Site};
use serde::Serialize;

/// A token's logit as a sum over the parts of the model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Attribution {
    /// The shares, in the order of the pass; they sum to `total`.
    pub attribution: Vec<LogitShare>,
    /// The sum of all shares.
    pub total: f64,
    /// The terms of the sum.
    pub attribution_of: AttributedToken,
}

/// A token that may come next, and its logit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AttributedToken {
    /// The position behind which it would come.
    pub position: usize,
    /// Its id.
    pub id: u32,
    /// Its name; none without a tokenizer.
    pub token: Option<String>,
    /// The logit as the model computed it: that of the total but for rounding.
    pub logit: f64,
}

/// The contribution of one part of the model to a logit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LogitShare {
    /// `embed`, `pos_embed`, `3.1` (head 1 of layer 3), `attn.3.bias`, `mlp.3`, `ln_f.bias`, `lm_head.bias`.
    pub component: String,
    /// The layer, of a part that is in one.
    pub layer: Option<usize>,
    /// The head, of one.
    pub head: Option<usize>,
    /// The contribution.
    pub logit: f64,
}

/// A direction in the residual stream in which every step adds so much to a token's logit at a position, and what the
/// logit has beside it.
pub(crate) struct LogitDirection {
    /// The unembedding of the token with the norm's scale, centred: `c · direction` equals `(c − mean c) · scaled`.
    direction: Vec<f64>,
    norm_bias: Option<f64>,
    head_bias: Option<f64>,
}

impl LogitDirection {
    pub fn of(subject: &Subject, token: u32) -> Result<Self> {
        let tensors = subject.gpt.view().tensors;
        let unembedding = table_row(subject, head_table(subject.config()), token)?;
        let scale = floats(&tensors.need_plain("ln_f.weight")?)?;
        let bias = |name: &str| tensors.plain(name)?.map(|bias| floats(&bias)).transpose();
        let scaled = unembedding.iter().zip(&scale).map(|(u, g)| f64::from(*u) * f64::from(*g));
        Ok(Self {
            direction: centred(scaled.collect()),
            norm_bias: bias("ln_f.bias")?.map(|bias| dot(&bias, unembedding.iter().map(|&u| f64::from(u)))),
            head_bias: bias("lm_head.bias")?.map(|bias| f64::from(bias[token as usize])),
        })
    }

    /// The mean over all tokens of the vocabulary.
    pub fn average(subject: &Subject) -> Result<Self> {
        let config = subject.config();
        let tensors = subject.gpt.view().tensors;
        let table = tensors.need(head_table(config))?;
        let mut mean = vec![0f64; config.n_embd];
        let ids: Vec<u32> = (0..config.vocab_size as u32).collect();
        for ids in ids.chunks(1024) {
            let rows = floats(&table.rows(&candle_core::Tensor::new(ids, table.device())?)?)?;
            for row in rows.chunks(config.n_embd) {
                mean.iter_mut().zip(row).for_each(|(mean, x)| *mean += f64::from(*x));
            }
        }
        let scale = floats(&tensors.need_plain("ln_f.weight")?)?;
        let scaled = mean.iter().zip(&scale).map(|(u, g)| u / config.vocab_size as f64 * f64::from(*g));
        Ok(Self { direction: centred(scaled.collect()), norm_bias: None, head_bias: None })
    }

    /// The direction in which this logit grows and another does not.
    pub fn minus(&self, other: &Self) -> Vec<f64> {
        self.direction.iter().zip(&other.direction).map(|(a, b)| a - b).collect()
    }

    /// What a term of the residual stream adds, before it is divided by the deviation.
    pub fn along(&self, term: &[f32]) -> f64 {
        dot(term, self.direction.iter().copied())
    }

    /// The same direction seen through a matrix (in, out) that writes into the stream: one number an input.
    pub fn before(&self, matrix: &[f32]) -> Vec<f64> {
        matrix.chunks(self.direction.len()).map(|row| self.along(row)).collect()
    }
}

fn centred(x: Vec<f64>) -> Vec<f64> {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    x.into_iter().map(|x| x - mean).collect()
}

fn dot(a: &[f32], b: impl IntoIterator<Item = f64>) -> f64 {
    a.iter().zip(b).map(|(&a, b)| f64::from(a) * b).sum()
}

/// Returns an error if attribution is not defined for a model.
pub(crate) fn check_defined(config: &Config) -> Result<()> {
    match config.norm_position {
        NormPosition::Pre => Ok(()),
        NormPosition::Post => Err(Undefined::PostNormAttribution.into()),
    }
}

/// The table whose rows make the logits.
fn head_table(config: &Config) -> &'static str {
    if config.tie_word_embeddings { "wte.weight" } else { "lm_head.weight" }
}

/// √(variance + ε) of a row, by which the final norm divides.
pub(crate) fn deviation(x: &[f32], epsilon: f64) -> f64 {
    let n = x.len() as f64;
    let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
    let variance = x.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n;
    (variance + epsilon).sqrt()
}

/// Attributes the logit of a token after a position to the parts of the model. Default: the likeliest token.
pub fn attribution(
    subject: &Subject,
    ids: &[u32],
    position: usize,
    token: Option<u32>,
) -> Result<Attribution> {
    let config = subject.config();
    check_defined(config)?;
    subject.check_text(ids)?;
    check_position(position, ids.len())?;
    token.map_or(Ok(()), |token| subject.check_token(token))?;

    let blocks = (0..config.n_layer)
        .flat_map(|layer| [Site::Block(layer, BlockSite::Z), Site::Block(layer, BlockSite::MlpOut)]);
    let end = subject.residual_before(config.n_layer);
    let mut seen = RowsAt::new(position, blocks.chain([Site::Embed, end]));
    let logits = row(&subject.logits(ids, &mut seen)?, position)?;
    let token = token.unwrap_or_else(|| subject.likeliest(&logits, 1)[0].id);

    let direction = LogitDirection::of(subject, token)?;
    let sigma = deviation(seen.get(end), config.layer_norm_epsilon);
    let mut shares = Shares(Vec::new());
    shares.embedding(subject, ids[position], &direction, seen.get(Site::Embed), sigma)?;
    for layer in 0..config.n_layer {
        let (z, mlp) = (seen.get(Site::Block(layer, BlockSite::Z)), Site::Block(layer, BlockSite::MlpOut));
        shares.heads(subject, layer, &direction, z, sigma)?;
        shares.add(format!("mlp.{layer}"), (Some(layer), None), direction.along(seen.get(mlp)) / sigma);
    }
    for (name, bias) in [("ln_f.bias", direction.norm_bias), ("lm_head.bias", direction.head_bias)] {
        if let Some(bias) = bias {
            shares.add(name.to_owned(), (None, None), bias);
        }
    }
    let (attribution, logit) = (shares.0, f64::from(logits[token as usize]));
    let total = attribution.iter().map(|share| share.logit).sum();
    let attribution_of = AttributedToken { position, id: token, token: subject.name(token), logit };
    Ok(Attribution { attribution, total, attribution_of })
}

struct Shares(Vec<LogitShare>);

impl Shares {
    fn add(&mut self, component: String, (layer, head): (Option<usize>, Option<usize>), logit: f64) {
        self.0.push(LogitShare { component, layer, head, logit });
    }

    /// The token's vector, and what its position adds where positions are added.
    fn embedding(
        &mut self,
        subject: &Subject,
        id: u32,
        direction: &LogitDirection,
        embedded: &[f32],
        sigma: f64,
    ) -> Result<()> {
        use PositionEmbedding::{Learned, None as Nowhere, Rope, Sinusoidal};
        let config = subject.config();
        let scale = if config.scale_embeddings { (config.n_embd as f64).sqrt() } else { 1.0 };
        let all = direction.along(embedded) / sigma;
        let token = scale * direction.along(&table_row(subject, "wte.weight", id)?) / sigma;
        match config.position_embedding {
            Learned | Sinusoidal => {
                self.add("embed".to_owned(), (None, None), token);
                self.add("pos_embed".to_owned(), (None, None), all - token);
            }
            Rope | Nowhere => self.add("embed".to_owned(), (None, None), all),
        }
        Ok(())
    }

    /// Every head of a layer, and the bias that belongs to none of them.
    fn heads(
        &mut self,
        subject: &Subject,
        layer: usize,
        direction: &LogitDirection,
        z: &[f32],
        sigma: f64,
    ) -> Result<()> {
        let tensors = subject.gpt.view().tensors;
        let c_proj = floats(&tensors.need_plain(&format!("h.{layer}.attn.c_proj.weight"))?)?; // (C, C), [in, out]
        let before = direction.before(&c_proj);
        let width = subject.config().head_width();
        for (head, (z, before)) in z.chunks(width).zip(before.chunks(width)).enumerate() {
            let logit = dot(z, before.iter().copied()) / sigma;
            self.add(format!("{layer}.{head}"), (Some(layer), Some(head)), logit);
        }
        if let Some(bias) = tensors.plain(&format!("h.{layer}.attn.c_proj.bias"))? {
            let logit = direction.along(&floats(&bias)?) / sigma;
            self.add(format!("attn.{layer}.bias"), (Some(layer), None), logit);
        }
        Ok(())
    }
}
