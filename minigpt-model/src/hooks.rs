//! Named sites of the forward pass, at which a hook may see a tensor, or replace it. A pass without hooks computes and
//! costs the same as if there were none.
//!
//! B is the batch, T the tokens of a row, C the width, H the heads, D the width of a head, I the width inside the MLP,
//! V the vocabulary, Tk the keys that can be seen (those of the cache included).

use candle_core::{Result, Tensor};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A place in the forward pass. In text: `embed`, `block.3.attn.q`, `ln_f`, `logits`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Site {
    /// What enters the first block, (B, T, C): token and position, after dropout.
    Embed,
    /// A place inside a block, counted from 0.
    Block(usize, BlockSite),
    /// What the final norm leaves, (B, T, C). Post-norm models have none.
    LnF,
    /// The logits, (B, T, V).
    Logits,
}

/// A place inside a block, in the order of a pre-norm block. The numbers are part of dropout keys: changing one changes training runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockSite {
    /// What the first norm leaves, (B, T, C): before attention in a pre-norm block, after it in a post-norm block.
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
    /// What each head mixed from the values, before the output projection, (B, T, H, D).
    Z = 6,
    /// What attention adds to the residual stream, (B, T, C).
    AttnOut = 7,
    /// The residual stream between attention and MLP, (B, T, C).
    ResidMid = 8,
    /// What the second norm leaves, (B, T, C).
    Ln2 = 9,
    /// Inside the MLP before the activation, (B, T, I).
    MlpPre = 10,
    /// Inside the MLP after the activation, (B, T, I).
    MlpPost = 11,
    /// What the MLP adds to the residual stream, (B, T, C).
    MlpOut = 12,
    /// The residual stream after the MLP, (B, T, C); in a post-norm block the second norm comes behind it.
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

    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(site, _)| *site == self).map_or("", |(_, name)| name)
    }
}

impl Site {
    /// All sites of a model of so many blocks, in the order of a pre-norm pass.
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
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let inside = || {
            let (layer, name) = text.strip_prefix("block.")?.split_once('.')?;
            let (site, _) = BlockSite::NAMES.iter().find(|(_, known)| *known == name)?;
            Some(Self::Block(layer.parse().ok()?, *site))
        };
        match text {
            "embed" => Ok(Self::Embed),
            "ln_f" => Ok(Self::LnF),
            "logits" => Ok(Self::Logits),
            _ => inside().ok_or_else(|| {
                let names: Vec<&str> = BlockSite::NAMES.iter().map(|(_, name)| *name).collect();
                format!(
                    "there is no site {text}; there are embed, ln_f, logits, and in block N block.N. and one of {}",
                    names.join(", ")
                )
            }),
        }
    }
}

/// Whoever looks into a pass, or changes it on the way.
pub trait Hook {
    /// Whether it looks at this site. Scores and patterns are computed as a whole only where somebody does.
    fn wants(&self, site: Site) -> bool;

    /// Sees what stands at a site that it wants; what it returns, of the same shape, takes its place.
    fn at(&mut self, site: Site, x: &Tensor) -> Result<Option<Tensor>>;
}

/// A hook that keeps what stands at some sites, and changes nothing.
#[derive(Debug, Default)]
pub struct Recording {
    wanted: Vec<Site>,
    kept: BTreeMap<Site, Tensor>,
}

impl Recording {
    /// Keeps what stands at these sites.
    pub fn of(sites: impl IntoIterator<Item = Site>) -> Self {
        Self { wanted: sites.into_iter().collect(), kept: BTreeMap::new() }
    }

    /// What stood at a site, if it was wanted and the pass came there.
    pub fn get(&self, site: Site) -> Option<&Tensor> {
        self.kept.get(&site)
    }

    /// All that was kept.
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
            assert!(wrong.parse::<Site>().unwrap_err().contains("attn.pattern"), "{wrong}");
        }
    }
}
