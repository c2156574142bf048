//! Fixtures that PyTorch made (`oracle/fixtures.py`), and how closely they must be met.
#![allow(dead_code, reason = "each crate's tests use a part of it")]
#![allow(clippy::allow_attributes, reason = "what is unused differs from crate to crate")]

use candle_core::{DType, Device, Tensor};
use minigpt_kernels::IGNORE;
use minigpt_model::{Config, Gpt, NormPosition, PositionEmbedding};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Where the fixtures are.
pub fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../minigpt-model/tests/fixtures")
}

/// The tensors of one fixture file, by name.
pub struct Fixture(HashMap<String, Tensor>);

impl Fixture {
    pub fn open(path: &str) -> Self {
        Self::open_at(&fixtures().join(path))
    }

    pub fn open_at(path: &Path) -> Self {
        Self(candle_core::safetensors::load(path, &Device::Cpu).unwrap())
    }

    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.0.get(name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// A tensor that every fixture of this kind has.
    pub fn need(&self, name: &str) -> &Tensor {
        self.get(name).unwrap_or_else(|| panic!("the fixture has no {name}"))
    }

    /// A tensor of ids, where −100 stands for a target that does not count.
    pub fn ids(&self, name: &str) -> Tensor {
        let tensor = self.need(name);
        let ids = tensor.flatten_all().unwrap().to_vec1::<i64>().unwrap();
        let ids = ids.into_iter().map(|id| u32::try_from(id).unwrap_or(IGNORE)).collect();
        Tensor::from_vec(ids, tensor.shape(), &Device::Cpu).unwrap()
    }

    pub fn floats(&self, name: &str) -> Vec<f32> {
        floats(self.need(name))
    }
}

pub fn floats(x: &Tensor) -> Vec<f32> {
    x.to_dtype(DType::F32).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

/// Fails unless `got` equals `want` to `tolerance`, relative to the largest magnitude in `want` (but at least `floor`,
/// for gradients that are zero by mathematics and noise by arithmetic).
pub fn assert_close(what: &str, got: &Tensor, want: &Tensor, tolerance: f32, floor: f32) {
    assert_eq!(got.dims(), want.dims(), "the shape of {what}");
    let (got, want) = (floats(got), floats(want));
    let scale = want.iter().fold(floor, |m, x| m.max(x.abs()));
    for (i, (got, want)) in got.iter().zip(&want).enumerate() {
        let difference = (got - want).abs() / scale;
        assert!(difference <= tolerance, "{what}, element {i}: {got} is not {want} (off by {difference})");
    }
}

/// Small models of two layers and 29 tokens that treat positions, norms, biases and the head in every way.
pub fn models(block_size: usize) -> Vec<Gpt> {
    let base = Config {
        vocab_size: 29,
        block_size,
        n_layer: 2,
        n_head: 2,
        n_embd: 12,
        initializer_range: 0.2,
        ..Config::default()
    };
    let variants = [
        base.clone(),
        Config { position_embedding: PositionEmbedding::Rope, ..base.clone() }.with_bias(false),
        Config {
            position_embedding: PositionEmbedding::Sinusoidal,
            norm_position: NormPosition::Post,
            scale_embeddings: true,
            tie_word_embeddings: false,
            ..base.clone()
        },
        Config { position_embedding: PositionEmbedding::None, ..base },
    ];
    variants.into_iter().map(|config| Gpt::new(config, 1, &Device::Cpu).unwrap()).collect()
}
