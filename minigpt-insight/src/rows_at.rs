//! A hook that keeps what stands at some sites for one position only: a row instead of a text.

use candle_core::{Result, Tensor};
use minigpt_model::{BlockSite, Hook, Site};
use std::collections::BTreeMap;

/// What stood at some sites at one position, all heads side by side where a site has heads.
pub(crate) struct RowsAt {
    position: usize,
    wanted: Vec<Site>,
    kept: BTreeMap<Site, Vec<f32>>,
}

impl RowsAt {
    pub fn new(position: usize, wanted: impl IntoIterator<Item = Site>) -> Self {
        Self { position, wanted: wanted.into_iter().collect(), kept: BTreeMap::new() }
    }

    /// What stood at a site; nothing if the pass did not come there.
    pub fn get(&self, site: Site) -> &[f32] {
        self.kept.get(&site).map_or(&[], Vec::as_slice)
    }
}

impl Hook for RowsAt {
    fn wants(&self, site: Site) -> bool {
        self.wanted.contains(&site)
    }

    fn at(&mut self, site: Site, x: &Tensor) -> Result<Option<Tensor>> {
        use BlockSite::{K, Pattern, Q, Scores, V};
        let x = x.squeeze(0)?;
        let tokens = match site {
            Site::Block(_, Q | K | V | Scores | Pattern) => 1, // (H, T, …)
            _ => 0,                                            // (T, …)
        };
        let row = x.narrow(tokens, self.position, 1)?.to_dtype(candle_core::DType::F32)?;
        self.kept.insert(site, row.flatten_all()?.to_vec1()?);
        Ok(None)
    }
}
