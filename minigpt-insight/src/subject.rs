//! The subject of every question: a model, and the names of its tokens. The layers, heads and positions that a question
//! names are checked here.

use crate::error::{Error, InvalidRequest, Result};
use candle_core::{D, DType, Tensor};
use minigpt_model::{BlockSite, Config, Gpt, Hook, NormPosition, Pass, Site};
use serde::Serialize;

/// Decodes ids: one id to the token's name, several to their text. None without a tokenizer.
pub type Words<'a> = &'a dyn Fn(&[u32]) -> Option<String>;

/// The model under inspection, and the names of its tokens.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The model.
    pub gpt: &'a Gpt,
    words: Option<Words<'a>>,
}

/// A token that may come next.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LikelyToken {
    /// Its id.
    pub id: u32,
    /// Its name; none without a tokenizer.
    pub token: Option<String>,
    /// How likely the model finds it.
    pub probability: f64,
}

impl<'a> Subject<'a> {
    /// A model whose tokens have no names.
    pub fn new(gpt: &'a Gpt) -> Self {
        Self { gpt, words: None }
    }

    /// The same model with names for its tokens.
    pub fn with_words(self, words: Words<'a>) -> Self {
        Self { words: Some(words), ..self }
    }

    /// Its configuration.
    pub fn config(&self) -> &'a Config {
        self.gpt.config()
    }

    /// The name of a token.
    pub fn name(&self, id: u32) -> Option<String> {
        self.words.and_then(|words| words(&[id]))
    }

    /// The text of several tokens.
    pub fn text(&self, ids: &[u32]) -> Option<String> {
        self.words.and_then(|words| words(ids))
    }

    /// The likeliest tokens by some logits, likeliest first.
    pub fn likeliest(&self, logits: &[f32], count: usize) -> Vec<LikelyToken> {
        let (most, log_sum) = minigpt_kernels::log_sum_exp(logits);
        let log_sum = f64::from(most) + log_sum;
        let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
        let likelier = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
        if count < ids.len() {
            ids.select_nth_unstable_by(count, likelier);
            ids.truncate(count);
        }
        ids.sort_unstable_by(likelier);
        let probability = |id: u32| (f64::from(logits[id as usize]) - log_sum).exp();
        ids.into_iter()
            .map(|id| LikelyToken { id, token: self.name(id), probability: probability(id) })
            .collect()
    }

    /// Logits of every position of one text, in a pass that a hook looks into.
    ///
    /// # Shapes
    /// - output: (T, V)
    pub fn logits(&self, ids: &[u32], hook: &mut dyn Hook) -> Result<Tensor> {
        let logits = self.gpt.forward(&self.gpt.ids(&[ids])?, &Pass::new().with_hook(hook))?;
        let logits = logits.squeeze(0)?.to_dtype(DType::F32)?;
        finite(&logits)?;
        Ok(logits)
    }

    /// Where the residual stream can be seen as it enters a block; after the last block for `n_layer`.
    pub fn residual_before(&self, layer: usize) -> Site {
        match (layer, self.config().norm_position) {
            (0, _) => Site::Embed,
            (layer, NormPosition::Pre) => Site::Block(layer - 1, BlockSite::ResidPost),
            (layer, NormPosition::Post) => Site::Block(layer - 1, BlockSite::Ln2),
        }
    }

    /// Returns an error if the model has no such layer.
    pub fn check_layer(&self, layer: usize) -> Result<()> {
        match self.config().n_layer {
            count if layer < count => Ok(()),
            count => Err(InvalidRequest::NoLayer { layer, last: count - 1 }.into()),
        }
    }

    /// Returns an error if the layers have no such head.
    pub fn check_head(&self, head: usize) -> Result<()> {
        match self.config().n_head {
            count if head < count => Ok(()),
            count => Err(InvalidRequest::NoHead { head, last: count - 1 }.into()),
        }
    }

    /// Returns an error if the vocabulary has no such token.
    pub fn check_token(&self, id: u32) -> Result<()> {
        match self.config().vocab_size {
            count if (id as usize) < count => Ok(()),
            count => Err(InvalidRequest::NoToken { id, last: count - 1 }.into()),
        }
    }

    /// Returns an error if a text is empty or longer than the model's context.
    pub fn check_text(&self, ids: &[u32]) -> Result<()> {
        let block_size = self.config().block_size;
        match ids.len() {
            0 => Err(InvalidRequest::EmptyText.into()),
            tokens if tokens > block_size => Err(InvalidRequest::TextTooLong { tokens, block_size }.into()),
            _ => ids.iter().try_for_each(|&id| self.check_token(id)),
        }
    }
}

/// Returns an error if a text has no such position.
pub(crate) fn check_position(position: usize, tokens: usize) -> Result<()> {
    if position < tokens {
        Ok(())
    } else {
        Err(InvalidRequest::NoPosition { position, last: tokens - 1 }.into())
    }
}

/// Returns an error unless all logits are finite.
fn finite(logits: &Tensor) -> Result<()> {
    // A sum is finite only if all are; only a broken model pays for the search.
    if logits.sum_all()?.to_scalar::<f32>()?.is_finite() {
        return Ok(());
    }
    match floats(logits)?.into_iter().find(|logit| !logit.is_finite()) {
        Some(logit) => Err(Error::NotFinite(logit)),
        None => Ok(()),
    }
}

/// All elements of a tensor, in order.
pub(crate) fn floats(x: &Tensor) -> Result<Vec<f32>> {
    Ok(x.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?)
}

/// One row of a matrix.
pub(crate) fn row(x: &Tensor, at: usize) -> Result<Vec<f32>> {
    floats(&x.get(at)?)
}

/// The elements of the last position of a text.
pub(crate) fn last_row(x: &Tensor) -> Result<Vec<f32>> {
    row(x, x.dim(D::Minus2)? - 1)
}

/// One row of a table of the model.
pub(crate) fn table_row(subject: &Subject, name: &str, id: u32) -> Result<Vec<f32>> {
    let table = subject.gpt.view().tensors.need(name)?;
    floats(&table.rows(&Tensor::new(&[id], table.device())?)?)
}
