//! The tree of a model's tensors: names, shapes and sizes, with a total for each layer.

use crate::language::messages::common as message;
use crate::screen;
use minigpt_charts::{Table, count};
use minigpt_model::Config;
use minigpt_model::parameters::{Count, layer_of, specs};
use serde::Serialize;

/// All tensors of a model.
#[derive(Serialize)]
pub struct TensorTree {
    /// In the order of the forward pass.
    tensors: Vec<TensorEntry>,
    /// The layers that they belong to: `wte`, `h.0`, …
    layers: Vec<LayerTotal>,
    total: u64,
    /// Whether the output head is the token embedding once more.
    tied: bool,
}

#[derive(Serialize)]
struct TensorEntry {
    name: String,
    shape: Vec<usize>,
    count: u64,
}

#[derive(Serialize)]
struct LayerTotal {
    name: String,
    count: u64,
}

impl TensorTree {
    /// The tensors of a valid configuration.
    pub fn of(config: &Config) -> Self {
        let mut layers: Vec<LayerTotal> = Vec::new();
        let mut tensors = Vec::new();
        for spec in specs(config) {
            let (name, count) = (layer_of(&spec.name), spec.count());
            match layers.last_mut().filter(|layer| layer.name == name) {
                Some(layer) => layer.count += count,
                None => layers.push(LayerTotal { name: name.to_owned(), count }),
            }
            tensors.push(TensorEntry { name: spec.name, shape: spec.shape, count });
        }
        Self { tensors, layers, total: Count::of(config).total, tied: config.tie_word_embeddings }
    }

    /// As people read it.
    pub fn draw(&self) -> String {
        let mut table = Table::new(&[2]);
        for layer in &self.layers {
            table.row([&layer.name, "", &count(layer.count)]);
            for tensor in self.tensors.iter().filter(|tensor| layer_of(&tensor.name) == layer.name) {
                let inside = tensor.name.get(layer.name.len() + 1..).unwrap_or_default();
                table.row([&format!("  {inside}"), &format!("{:?}", tensor.shape), &count(tensor.count)]);
            }
        }
        if self.tied {
            table.row(["lm_head", message::SharesWte.text(), ""]);
        }
        table.row([message::All.text(), "", &count(self.total)]);
        table.draw_within(screen::table_columns())
    }
}
