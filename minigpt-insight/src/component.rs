//! The parts of a model that write into its residual stream, and their short names: `3.1` is head 1 of layer 3, `mlp.4`
//! an MLP, `attn.2` all heads of a layer together, `layer.2` everything that a layer adds.

use crate::error::{Error, InvalidRequest, Result};
use crate::subject::Subject;
use minigpt_model::{BlockSite, Site};
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A part of a model that can be switched off. Layers and heads count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// One head: its mix of values before the output projection.
    Head {
        /// The layer.
        layer: usize,
        /// The head.
        head: usize,
    },
    /// The output of a layer's attention, including its bias.
    AttentionOf(usize),
    /// The output of a layer's MLP, including its bias.
    MlpOf(usize),
    /// Both: the residual stream passes the layer as if it were not there.
    Layer(usize),
}

impl Component {
    /// Where it can be replaced.
    pub fn sites(self) -> Vec<Site> {
        let block = |layer, site| Site::Block(layer, site);
        match self {
            Self::Head { layer, .. } => vec![block(layer, BlockSite::Z)],
            Self::AttentionOf(layer) => vec![block(layer, BlockSite::AttnOut)],
            Self::MlpOf(layer) => vec![block(layer, BlockSite::MlpOut)],
            Self::Layer(layer) => vec![block(layer, BlockSite::AttnOut), block(layer, BlockSite::MlpOut)],
        }
    }

    /// Returns an error if the model has no such part.
    pub fn check(self, subject: &Subject) -> Result<()> {
        let (layer, head) = match self {
            Self::Head { layer, head } => (layer, head),
            Self::AttentionOf(layer) | Self::MlpOf(layer) | Self::Layer(layer) => (layer, 0),
        };
        subject.check_layer(layer)?;
        subject.check_head(head)
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Head { layer, head } => write!(f, "{layer}.{head}"),
            Self::AttentionOf(layer) => write!(f, "attn.{layer}"),
            Self::MlpOf(layer) => write!(f, "mlp.{layer}"),
            Self::Layer(layer) => write!(f, "layer.{layer}"),
        }
    }
}

impl Serialize for Component {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Component {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = || {
            let (kind, number) = text.trim().split_once('.')?;
            let number = number.parse().ok()?;
            Some(match kind {
                "attn" => Self::AttentionOf(number),
                "mlp" => Self::MlpOf(number),
                "layer" => Self::Layer(number),
                layer => Self::Head { layer: layer.parse().ok()?, head: number },
            })
        };
        parts().ok_or_else(|| InvalidRequest::NoPart { name: text.to_owned() }.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_back_to_its_part() {
        for name in ["3.1", "attn.0", "mlp.4", "layer.11"] {
            assert_eq!(name.parse::<Component>().unwrap().to_string(), name);
        }
        for wrong in ["", "3", "mlp", "mlp.x", "3.1.2", "-1.0", "head.2"] {
            assert!(wrong.parse::<Component>().unwrap_err().to_string().contains("mlp.3"), "{wrong}");
        }
    }
}
