//! What the tensors of both decoders are called, there and here.

use super::architecture::Architecture;

/// What a tensor of the file is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OurTensor {
    /// The tensor of this name.
    Whole(String),
    /// The queries', keys' or values' third of it.
    Third(usize, String),
}

/// Queries, keys and values where they are layers of their own.
const THIRDS: [&str; 3] = ["w_q", "w_k", "w_v"];

/// Their names of what stands outside of the blocks, and ours.
const AROUND_QA: [(&str, &str); 3] = [("wte", "wte"), ("wpe", "wpe"), ("ln_f", "ln_f")];

/// Their names of the layers in a block, and ours.
const BLOCK_QA: [(&str, &str); 6] = [
    ("ln_1", "ln_1"),
    ("attn.qkv_proj", "attn.c_attn"),
    ("attn.out_proj", "attn.c_proj"),
    ("ln_2", "ln_2"),
    ("mlp.c_fc", "mlp.c_fc"),
    ("mlp.c_proj", "mlp.c_proj"),
];

const BLOCK_TEXTBOOK: [(&str, &str); 5] = [
    ("attention.w_o", "attn.c_proj"),
    ("norm1", "ln_1"),
    ("ff.linear1", "mlp.c_fc"),
    ("ff.linear2", "mlp.c_proj"),
    ("norm2", "ln_2"),
];

/// A name without what compiled and parallel models put before it.
pub(super) fn plain_name(name: &str) -> &str {
    let name = name.strip_prefix("_orig_mod.").unwrap_or(name);
    name.strip_prefix("module.").unwrap_or(name)
}

/// Whether it is a mask that a module kept beside its weights.
pub(super) fn is_buffer(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    ["mask", "causal_mask", "attn_mask", "tril", "masked_bias"].contains(&last)
        || name.ends_with(".attn.bias")
}

impl Architecture {
    /// What a tensor of the file is here, if it is known.
    pub(super) fn our_tensor(self, name: &str) -> Option<OurTensor> {
        match self {
            Self::QuestionAnswering => qa(name),
            Self::Textbook => textbook(name),
        }
    }

    /// Their name of one of our tensors.
    pub(super) fn their_name(self, ours: &str) -> String {
        let (layer, end) = ours.rsplit_once('.').unwrap_or((ours, ""));
        let inside = layer.strip_prefix("h.").and_then(|rest| rest.split_once('.'));
        let theirs = |table: &[(&str, &str)], layer: &str| {
            let pair = table.iter().find(|(_, ours)| *ours == layer);
            pair.map_or_else(|| layer.to_owned(), |(theirs, _)| (*theirs).to_owned())
        };
        match (self, inside) {
            (Self::QuestionAnswering, None) if layer == "lm_head" => ours.to_owned(),
            (Self::QuestionAnswering, None) => format!("transformer.{ours}"),
            (Self::QuestionAnswering, Some((n, layer))) => {
                format!("transformer.blocks.{n}.{}.{end}", theirs(&BLOCK_QA, layer))
            }
            (Self::Textbook, None) => match layer {
                "wte" => "embedding.weight".to_owned(),
                "wpe" => "pos_encoding".to_owned(),
                _ => format!("linear.{end}"),
            },
            (Self::Textbook, Some((n, "attn.c_attn"))) => format!("layers.{n}.attention.w_q|w_k|w_v.{end}"),
            (Self::Textbook, Some((n, layer))) => {
                format!("layers.{n}.{}.{end}", theirs(&BLOCK_TEXTBOOK, layer))
            }
        }
    }

    /// Their names of the thirds that a joint projection lacks.
    pub(super) fn missing_parts(self, ours: &str, held: &[bool; 3]) -> Vec<String> {
        let joint = self.their_name(ours);
        let lacking = THIRDS.iter().zip(held).filter(|(_, held)| !**held);
        lacking.map(|(part, _)| joint.replace(&THIRDS.join("|"), part)).collect()
    }
}

fn qa(name: &str) -> Option<OurTensor> {
    let name = name.strip_prefix("transformer.").unwrap_or(name);
    let (layer, end) = name.rsplit_once('.').filter(|(_, end)| ["weight", "bias"].contains(end))?;
    if let Some((n, layer)) = numbered(layer, "blocks.") {
        return Some(OurTensor::Whole(format!("h.{n}.{}.{end}", find(&BLOCK_QA, layer)?)));
    }
    let ours = if layer == "lm_head" { layer } else { find(&AROUND_QA, layer)? };
    Some(OurTensor::Whole(format!("{ours}.{end}")))
}

fn textbook(name: &str) -> Option<OurTensor> {
    match name {
        "embedding.weight" => return Some(OurTensor::Whole("wte.weight".to_owned())),
        "pos_encoding" => return Some(OurTensor::Whole("wpe.weight".to_owned())),
        _ => {}
    }
    let (layer, end) = name.rsplit_once('.').filter(|(_, end)| ["weight", "bias"].contains(end))?;
    if layer == "linear" {
        return Some(OurTensor::Whole(format!("lm_head.{end}")));
    }
    let (n, layer) = numbered(layer, "layers.")?;
    let third =
        layer.strip_prefix("attention.").and_then(|part| THIRDS.iter().position(|&third| third == part));
    match third {
        Some(part) => Some(OurTensor::Third(part, format!("h.{n}.attn.c_attn.{end}"))),
        None => Some(OurTensor::Whole(format!("h.{n}.{}.{end}", find(&BLOCK_TEXTBOOK, layer)?))),
    }
}

/// The number of a block and the layer in it, from `blocks.3.ln_1`.
fn numbered<'a>(layer: &'a str, list: &str) -> Option<(usize, &'a str)> {
    let (n, layer) = layer.strip_prefix(list)?.split_once('.')?;
    let number = n.parse().ok().filter(|number: &usize| number.to_string() == n)?;
    Some((number, layer))
}

fn find(table: &[(&str, &'static str)], theirs: &str) -> Option<&'static str> {
    table.iter().find(|(name, _)| *name == theirs).map(|(_, ours)| *ours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use minigpt_model::Config;
    use minigpt_model::parameters::specs;

    #[test]
    fn every_tensor_of_both_models_has_a_name_that_leads_back_to_it() {
        for (architecture, preset) in
            [(Architecture::QuestionAnswering, "qa"), (Architecture::Textbook, "textbook")]
        {
            for spec in specs(&Config::preset(preset).unwrap()) {
                let theirs = architecture.their_name(&spec.name);
                for (part, third) in THIRDS.iter().enumerate() {
                    let one = theirs.replace("w_q|w_k|w_v", third);
                    let want = if one == theirs {
                        OurTensor::Whole(spec.name.clone())
                    } else {
                        OurTensor::Third(part, spec.name.clone())
                    };
                    assert_eq!(architecture.our_tensor(&one), Some(want), "{one}");
                }
            }
        }
        for name in
            ["", "wte", "transformer.blocks.x.ln_1.weight", "transformer.blocks.01.ln_1.weight", "layers.0.q"]
        {
            assert_eq!(Architecture::QuestionAnswering.our_tensor(name), None, "{name}");
        }
    }
}
