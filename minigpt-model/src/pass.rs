//! One forward pass: its positions, cache, dropout and hooks. Layers get them from the pass.

use crate::cache::Cache;
use crate::error::{IdsError, Result};
use crate::hooks::{Hook, Site};
use candle_core::Tensor;
use minigpt_kernels::{self as ops, AttentionMask, Dropout, TokenRun};
use std::cell::RefCell;
use std::sync::Arc;

/// One forward pass over rows of tokens.
///
/// By default ([`Pass::new`]) rows begin at position 0, and each token sees itself and the tokens before it.
/// The `with_…` methods add dropout, a padding mask or a hook.
#[derive(Default)]
pub struct Pass<'a> {
    dropout: Option<DropoutKey>,
    key_padding: Option<&'a Tensor>,
    hook: Option<RefCell<&'a mut dyn Hook>>,
    cached: Option<Cached<'a>>,
}

/// The source of a pass's dropout: whether an element is dropped is a function of the key, the site, its row
/// in the whole batch and its place in the row.
#[derive(Clone)]
struct DropoutKey {
    key: u64,
    /// The number of each row of this pass in the whole batch. Default: 0, 1, 2, …
    rows: Option<Arc<[usize]>>,
}

/// The tokens of a pass that continues rows of a cache. Each token is a batch row of its own, with its own
/// position, so texts of any length share one pass.
struct Cached<'a> {
    cache: RefCell<&'a mut Cache>,
    /// All tokens.
    runs: Vec<TokenRun>,
    /// The tokens whose output is needed. For the others, the last block only stores keys and values.
    selected: Vec<TokenRun>,
    last_layer: usize,
}

/// A residual connection: the sites of its addend and its sum, and the dropout of the addend.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Residual {
    pub addend: Site,
    pub sum: Site,
    pub dropout: f64,
}

impl<'a> Pass<'a> {
    /// A pass without dropout, cache or hooks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds dropout. The same key drops the same elements; training uses a new key for each step.
    pub fn with_dropout(self, key: u64) -> Self {
        Self { dropout: Some(DropoutKey { key, rows: None }), ..self }
    }

    /// Sets the numbers of these rows in the whole batch, for dropout: a row then loses the same elements
    /// however the batch is split.
    pub fn with_rows(self, rows: &[usize]) -> Self {
        let dropout = self.dropout.map(|DropoutKey { key, .. }| DropoutKey { key, rows: Some(rows.into()) });
        Self { dropout, ..self }
    }

    /// Hides padding from attention.
    ///
    /// # Shapes
    /// - `mask`: (B, T), u8; 0 where a token is padding
    pub fn with_key_padding(self, mask: &'a Tensor) -> Self {
        Self { key_padding: Some(mask), ..self }
    }

    /// Adds a hook, which sees the tensors at the sites it wants and may replace them.
    pub fn with_hook(self, hook: &'a mut dyn Hook) -> Self {
        Self { hook: Some(RefCell::new(hook)), ..self }
    }

    /// Continues rows of a cache with runs of tokens. Only the tokens in `selected` continue after the last
    /// block's attention.
    pub(crate) fn with_cache(
        self,
        cache: &'a mut Cache,
        runs: Vec<TokenRun>,
        selected: Vec<TokenRun>,
    ) -> Self {
        let last_layer = cache.layers().saturating_sub(1);
        Self { cached: Some(Cached { cache: RefCell::new(cache), runs, selected, last_layer }), ..self }
    }

    /// Returns an error if the rows are longer than the model's context.
    pub(crate) fn check(&self, (rows, tokens): (usize, usize), block_size: usize) -> Result<()> {
        if tokens > block_size {
            return Err(IdsError::Context { tokens, block_size }.into());
        }
        if let Some(numbers) = self.dropout.as_ref().and_then(|dropout| dropout.rows.as_ref()) {
            assert_eq!(numbers.len(), rows, "one number per row");
        }
        Ok(())
    }

    /// The position of each row's first token.
    pub(crate) fn starts(&self, rows: usize) -> Vec<usize> {
        let positions = |run: &TokenRun| run.start..run.start + run.tokens.len();
        match &self.cached {
            None => vec![0; rows],
            Some(cached) => cached.runs.iter().flat_map(positions).collect(),
        }
    }

    /// The attention mask: each token sees itself and the tokens before it, but no padding.
    pub(crate) fn mask(&self, rows: usize) -> candle_core::Result<AttentionMask> {
        let mask = AttentionMask::causal(&self.starts(rows));
        match self.key_padding {
            None => Ok(mask),
            Some(padding) => {
                let (b, t) = padding.dims2()?;
                mask.and(&padding.reshape((b, 1, 1, t))?)
            }
        }
    }

    /// Attention over the cache, if this pass has one: for all tokens, or in the last layer for the selected
    /// ones.
    ///
    /// # Shapes
    /// - `qkv`: (N, 1, 3·C); output: (tokens, 1, C)
    pub(crate) fn attend(&self, layer: usize, qkv: &Tensor) -> Option<candle_core::Result<Tensor>> {
        let Cached { cache, runs, selected, last_layer } = self.cached.as_ref()?;
        let queries = if layer == *last_layer { selected } else { runs };
        let attend = |qkv: Tensor| cache.borrow_mut().attend(layer, &qkv, runs, queries)?.unsqueeze(1);
        Some(qkv.squeeze(1).and_then(attend))
    }

    /// The tokens that continue after a layer's attention: all of them, or in the last layer of a cached pass
    /// the selected ones.
    ///
    /// # Shapes
    /// - `x`: (N, 1, C); output: (selected, 1, C)
    pub(crate) fn select(&self, layer: usize, x: &Tensor) -> candle_core::Result<Tensor> {
        let cached = self.cached.as_ref();
        let selects = |cached: &&Cached| cached.last_layer == layer && cached.selected != cached.runs;
        let Some(Cached { selected, .. }) = cached.filter(selects) else { return Ok(x.clone()) };
        let rows: Vec<u32> =
            selected.iter().flat_map(|run| run.tokens.clone()).map(|token| token as u32).collect();
        match &rows[..] {
            [row] => x.narrow(0, *row as usize, 1),
            rows => x.index_select(&Tensor::new(rows, x.device())?, 0),
        }
    }

    /// Whether a hook wants the tensor at a site.
    pub(crate) fn wants(&self, site: Site) -> bool {
        self.hook.as_ref().is_some_and(|hook| hook.borrow().wants(site))
    }

    /// Shows the tensor at a site to the hook, and returns it or what the hook replaced it with.
    pub(crate) fn at(&self, site: Site, x: Tensor) -> candle_core::Result<Tensor> {
        if !self.wants(site) {
            return Ok(x);
        }
        let replaced = match &self.hook {
            Some(hook) => hook.borrow_mut().at(site, &x)?,
            None => None,
        };
        match replaced {
            Some(new) if new.shape() != x.shape() => {
                candle_core::bail!("a hook put {:?} in the place of {:?} at {site}", new.shape(), x.shape())
            }
            Some(new) => Ok(new),
            None => Ok(x),
        }
    }

    /// Dropout at a site, if this pass has any.
    pub(crate) fn dropout(&self, site: Site, p: f64) -> Option<Dropout> {
        let DropoutKey { key, rows } = self.dropout.as_ref()?;
        let dropout = Dropout::new(p, ops::place(*key, dropout_site(site)))?;
        Some(match rows {
            Some(rows) => dropout.for_rows(Arc::clone(rows)),
            None => dropout,
        })
    }

    /// Applies this pass's dropout at a site.
    pub(crate) fn dropped(&self, site: Site, p: f64, x: Tensor) -> candle_core::Result<Tensor> {
        match self.dropout(site, p) {
            Some(dropout) => ops::dropout(&x, &dropout),
            None => Ok(x),
        }
    }

    /// `x + dropout(y)`: adds a layer's output to the residual stream.
    ///
    /// # Shapes
    /// - `x`, `y`, output: (B, T, C)
    pub(crate) fn residual(&self, x: &Tensor, y: Tensor, about: Residual) -> candle_core::Result<Tensor> {
        let y = self.at(about.addend, self.dropped(about.addend, about.dropout, y)?)?;
        self.at(about.sum, ops::add(x, &y)?)
    }
}

/// The number of a site in dropout keys. It must never change, or a resumed run would drop other elements.
fn dropout_site(site: Site) -> u64 {
    match site {
        Site::Block(layer, site) => (1 + layer as u64) << 8 | site as u64,
        Site::Embed | Site::LnF | Site::Logits => 0,
    }
}
