//! Named sites of the forward pass, where a hook can see a tensor or replace it. Without a hook, sites cost
//! nothing.
//!
//! In shapes, B is the batch size, T the tokens per row, C the width, H the heads, D the width of a head, I
//! the width inside the MLP, V the vocabulary size and Tk the keys, including cached ones.

use candle_core::{Result, Tensor};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A site of the forward pass. As text: `embed`, `block.3.attn.q`, `ln_f`, `logits`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Site {
    /// The input of the first block, (B, T, C): token plus position, after dropout.
    Embed,
    /// A site inside a block; blocks are counted from 0.
    Block(usize, BlockSite),
    /// The output of the final norm, (B, T, C). Post-norm models have no final norm.
    LnF,
    /// The logits, (B, T, V).
    Logits,
}

/// A site inside a block, in the order of a pre-norm block. The numbers are part of dropout keys: changing
/// one changes training runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockSite {
    /// The output of the first norm, (B, T, C): before attention in a pre-norm block, after it in a post-norm
    /// block.
    Ln1 = 0,
    /// Queries, (B, H, T, D), after rotation where positions are rotary.
    Q = 1,
    /// Keys of the tokens of this pass, (B, H, T, D), after rotation where positions are rotary.
    K = 2,
    /// Values of the tokens of this pass, (B, H, T, D).
    V = 3,
    /// Scores, scaled by 1/√D and masked with −∞, (B, H, T, Tk).
    Scores = 4,
    /// The softmax of the scores, (B, H, T, Tk), before dropout.
    Pattern = 5,
    /// The output of each head before the output projection, (B, T, H, D).
    Z = 6,
    /// The output of attention, (B, T, C), which is added to the residual stream.
    AttnOut = 7,
    /// The residual stream between attention and MLP, (B, T, C).
    ResidMid = 8,
    /// The output of the second norm, (B, T, C).
    Ln2 = 9,
    /// Inside the MLP before the activation, (B, T, I).
    MlpPre = 10,
    /// Inside the MLP after the activation, (B, T, I).
    MlpPost = 11,
    /// The output of the MLP, (B, T, C), which is added to the residual stream.
    MlpOut = 12,
    /// The residual stream after the MLP, (B, T, C); before the second norm in a post-norm block.
    ResidPost = 13,
}

impl BlockSite {
    /// All of them with their names.
    const NAMES: [(Self, &'static str); 14] = [
        (Self::Ln1, "ln_1"),
        (Self::Q, "attn.q"),
        (Self::K, "attn.k"),
        (Self::V, "attn.v"),
        (Self::Scores, "attn.scores"),
        (Self::Pattern, "attn.pattern"),
        (Self::Z, "attn.z"),
        (Self::AttnOut, "attn_out"),
        (Self::ResidMid, "resid_mid"),
        (Self::Ln2, "ln_2"),
        (Self::MlpPre, "mlp.pre"),
        (Self::MlpPost, "mlp.post"),
        (Self::MlpOut, "mlp_out"),
        (Self::ResidPost, "resid_post"),
    ];

    /// The names of all sites inside a block.
    pub fn names() -> String {
        Self::NAMES.map(|(_, name)| name).join(", ")
    }

    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(site, _)| *site == self).map_or("", |(_, name)| name)
    }
}

impl Site {
    /// All sites of a model with `n_layer` blocks, in the order of a pre-norm pass.
    pub fn all(n_layer: usize) -> impl Iterator<Item = Self> {
        let blocks = (0..n_layer)
            .flat_map(|layer| BlockSite::NAMES.iter().map(move |(site, _)| Self::Block(layer, *site)));
        [Self::Embed].into_iter().chain(blocks).chain([Self::LnF, Self::Logits])
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Embed => f.write_str("embed"),
            Self::Block(layer, site) => write!(f, "block.{layer}.{}", site.name()),
            Self::LnF => f.write_str("ln_f"),
            Self::Logits => f.write_str("logits"),
        }
    }
}

impl FromStr for Site {
    type Err = UnknownSite;

    fn from_str(text: &str) -> std::result::Result<Self, UnknownSite> {
        let inside = || {
            let (layer, name) = text.strip_prefix("block.")?.split_once('.')?;
            let (site, _) = BlockSite::NAMES.iter().find(|(_, known)| *known == name)?;
            Some(Self::Block(layer.parse().ok()?, *site))
        };
        match text {
            "embed" => Ok(Self::Embed),
            "ln_f" => Ok(Self::LnF),
            "logits" => Ok(Self::Logits),
            _ => inside().ok_or_else(|| UnknownSite(text.to_owned())),
        }
    }
}

/// A name that is not the name of a site.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown site {:?}; sites are embed, ln_f, logits and block.N.SITE, where SITE is {}", .0, BlockSite::names())]
pub struct UnknownSite(pub String);

/// Observes a pass, or changes it.
pub trait Hook {
    /// Whether the hook wants the tensor at this site. Scores and patterns are only computed if a hook wants
    /// them.
    fn wants(&self, site: Site) -> bool;

    /// Called with the tensor at a site that the hook wants. A returned tensor of the same shape replaces it.
    fn at(&mut self, site: Site, x: &Tensor) -> Result<Option<Tensor>>;
}

/// A hook that records the tensors at some sites and changes nothing.
#[derive(Debug, Default)]
pub struct Recording {
    wanted: Vec<Site>,
    kept: BTreeMap<Site, Tensor>,
}

impl Recording {
    /// Creates a hook that records these sites.
    pub fn of(sites: impl IntoIterator<Item = Site>) -> Self {
        Self { wanted: sites.into_iter().collect(), kept: BTreeMap::new() }
    }

    /// The tensor at a site, if it was recorded.
    pub fn get(&self, site: Site) -> Option<&Tensor> {
        self.kept.get(&site)
    }

    /// All recorded tensors.
    pub fn into_kept(self) -> BTreeMap<Site, Tensor> {
        self.kept
    }
}

impl Hook for Recording {
    fn wants(&self, site: Site) -> bool {
        self.wanted.contains(&site)
    }

    fn at(&mut self, site: Site, x: &Tensor) -> Result<Option<Tensor>> {
        self.kept.insert(site, x.detach());
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_site_has_a_name_that_leads_back_to_it() {
        let sites: Vec<Site> = Site::all(12).collect();
        assert_eq!(sites.len(), 3 + 12 * 14);
        for site in sites {
            assert_eq!(site.to_string().parse(), Ok(site));
        }
        assert_eq!(Site::Block(3, BlockSite::Q).to_string(), "block.3.attn.q");
        for wrong in ["", "block", "block.x.ln_1", "block.3.attn", "block.3", "ln_1"] {
            assert!(wrong.parse::<Site>().unwrap_err().to_string().contains("attn.pattern"), "{wrong}");
        }
    }
}
