//! A model in another form: trainable, quantized, with other dropout or a shorter context, as a list of
//! parameters, or as a view for writers.

use crate::config::Config;
use crate::error::{ModelConfigError, Result};
use crate::gpt::Gpt;
use crate::parameters::{ParameterRole, Part, Spec, specs};
use crate::weights::{ModelView, Tensors, Weight, Weights};
use candle_core::{DType, Tensor};
use minigpt_kernels::{ElementType, QuantizedProduct};
use minigpt_settings::{Allowed, check};
use std::collections::HashMap;

/// A parameter of a model.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// GPT-2's name.
    pub name: String,
    /// Its role.
    pub role: ParameterRole,
    /// Its values: a variable if the model is trainable.
    pub tensor: Tensor,
    /// Whether the loss may be independent of it. `false` for all parameters of a [`Gpt`].
    pub unused: bool,
}

/// How a tensor is stored in memory.
#[derive(Debug, Clone, Copy)]
pub struct Stored {
    /// The part of the model it belongs to.
    pub part: Part,
    /// Whether activations are multiplied with it.
    pub is_matrix: bool,
    /// The element type.
    pub element_type: ElementType,
    /// The size in bytes.
    pub bytes: u64,
}

impl Gpt {
    /// Creates a model from tensors by GPT-2's names. Their names and shapes must be those of `config`
    /// ([`specs`](crate::parameters::specs)).
    pub fn from_tensors(config: Config, tensors: HashMap<String, Weight>) -> Result<Self> {
        Self::from_weights(config, Weights::new(tensors))
    }

    /// Turns the weights into variables, so that they get gradients and an optimizer can change them.
    pub fn into_trainable(self) -> Result<Self> {
        Self::from_weights(self.config, self.weights.into_variables()?)
    }

    /// Quantizes the matrices, for inference.
    pub fn quantized(self, element_type: ElementType) -> Result<Self> {
        let cache_dtype = self.cache_dtype;
        let (config, weights) = self.into_weights();
        let weights = weights.quantized(&specs(&config), element_type)?;
        Self::remade(config, weights, cache_dtype)
    }

    /// Sets the element type of keys and values in caches: f16 takes half the memory of f32 and is slightly
    /// less exact.
    pub fn with_cache_dtype(mut self, dtype: DType) -> Self {
        self.cache_dtype = Some(dtype);
        self
    }

    /// Builds the layers again, with the same type of cache.
    fn remade(config: Config, weights: Weights, cache_dtype: Option<DType>) -> Result<Self> {
        let mut gpt = Self::from_weights(config, weights)?;
        gpt.cache_dtype = cache_dtype;
        Ok(gpt)
    }

    /// Sets how matrices of 2 to 8 bits are multiplied. Default: exactly.
    pub fn with_quantized_product(self, product: QuantizedProduct) -> Result<Self> {
        let cache_dtype = self.cache_dtype;
        let (config, weights) = self.into_weights();
        let weights = weights.with_quantized_product(product);
        Self::remade(config, weights, cache_dtype)
    }

    /// The configuration and the weights, without the layers that share them: a changed tensor is then not
    /// kept twice.
    fn into_weights(self) -> (Config, Weights) {
        let Self { config, weights, .. } = self.clone();
        drop(self);
        (config, weights)
    }

    /// Packs the matrices into panels for the CPU's kernels, as happens to mapped matrices after the first
    /// passes.
    pub fn packed(self) -> Result<Self> {
        self.quantized(ElementType::F32)
    }

    /// Takes over the dropout of another configuration.
    pub fn with_dropout(self, like: &Config) -> Result<Self> {
        let Config { embd_pdrop, attn_pdrop, resid_pdrop, .. } = *like;
        let config = Config { embd_pdrop, attn_pdrop, resid_pdrop, ..self.config };
        Self::remade(config, self.weights, self.cache_dtype)
    }

    /// Shortens the context. Of a table of learned positions, only the first rows are kept.
    ///
    /// # Errors
    /// The context is 0, or longer than the model's.
    pub fn cropped(mut self, block_size: usize) -> Result<Self> {
        let allowed = Allowed::from(1..=self.config.block_size as u64);
        check("block_size", &block_size, allowed).map_err(ModelConfigError::from)?;
        if let Some(table) = self.weights.plain("wpe.weight")? {
            let table = table.narrow(0, 0, block_size)?.force_contiguous()?;
            self.weights.replace("wpe.weight", Weight::Plain(table));
        }
        let config = Config { block_size, ..self.config };
        Self::remade(config, self.weights, self.cache_dtype)
    }

    /// The parameters in the order of the forward pass, without quantized ones. Mapped parameters are copied.
    pub fn parameters(&self) -> Vec<Parameter> {
        let weight = |name: &str| match self.weights.weight(name) {
            Ok(Some(Weight::Quantized(_)) | None) | Err(_) => None,
            Ok(Some(weight)) => weight.plain().ok(),
        };
        let specs = specs(&self.config).into_iter();
        let parameter = specs.filter_map(|spec| {
            let tensor = weight(&spec.name)?;
            Some(Parameter { name: spec.name, role: spec.role, tensor, unused: false })
        });
        parameter.collect()
    }

    /// How each tensor is stored, in the order of the forward pass.
    pub fn stored(&self) -> Vec<Stored> {
        let stored = |spec: Spec| {
            let element_type = self.weights.weight(&spec.name).ok().flatten()?.element_type();
            let count = spec.count();
            // A matrix is only quantized if blocks fill its rows.
            let bytes = element_type.bytes(count as usize).map_or(0, |bytes| bytes as u64);
            Some(Stored { part: spec.part, is_matrix: spec.is_quantizable(), element_type, bytes })
        };
        specs(&self.config).into_iter().filter_map(stored).collect()
    }

    /// The size of all tensors in bytes.
    pub fn stored_bytes(&self) -> u64 {
        self.stored().iter().map(|stored| stored.bytes).sum()
    }

    /// The bytes of weights that a step reads: all but those of tables in which only a few rows are looked
    /// up.
    pub fn bytes_per_step(&self) -> u64 {
        let looked_up = |part: Part| match part {
            Part::PositionEmbedding => true,
            Part::TokenEmbedding => !self.config.tie_word_embeddings,
            _ => false,
        };
        self.stored().iter().filter(|stored| !looked_up(stored.part)).map(|stored| stored.bytes).sum()
    }

    /// The element types of the matrices, the one with the most bytes first.
    pub fn element_types(&self) -> Vec<ElementType> {
        let mut types: Vec<(u64, ElementType)> = Vec::new();
        for Stored { element_type, bytes, .. } in self.stored().into_iter().filter(|stored| stored.is_matrix)
        {
            match types.iter_mut().find(|(_, known)| *known == element_type) {
                Some((all, _)) => *all += bytes,
                None => types.push((bytes, element_type)),
            }
        }
        types.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        types.into_iter().map(|(_, element_type)| element_type).collect()
    }

    /// A view of the model for writers.
    pub fn view(&self) -> ModelView<'_> {
        ModelView { config: &self.config, tensors: &self.weights }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PositionEmbedding;
    use candle_core::Device;

    #[test]
    fn a_model_says_how_its_tensors_are_kept() {
        let shape =
            Config { n_layer: 1, n_head: 1, n_embd: 32, block_size: 4, vocab_size: 9, ..Config::default() };
        let gpt = Gpt::new(shape, 1, &Device::Cpu).unwrap();
        let elements: u64 = specs(gpt.config()).iter().map(Spec::count).sum();
        assert_eq!((gpt.element_types(), gpt.stored_bytes()), (vec![ElementType::F32], 4 * elements));
        assert_eq!(gpt.bytes_per_step(), 4 * (elements - 4 * 32), "positions are looked up");
        let matrices: u64 =
            specs(gpt.config()).iter().filter(|spec| spec.is_quantizable()).map(Spec::count).sum();
        let eight = gpt.quantized(ElementType::Q8_0).unwrap();
        let bytes = 4 * (elements - matrices) + matrices / 32 * 34;
        assert_eq!((eight.element_types(), eight.stored_bytes()), (vec![ElementType::Q8_0], bytes));
        // What is quantized already changes its type, too, where that is asked for.
        let sixteen = eight.clone().quantized(ElementType::F16).unwrap();
        assert_eq!(sixteen.element_types(), [ElementType::F16]);
        let plain =
            |gpt: &Gpt| gpt.view().tensors.need_plain("wte.weight").unwrap().to_vec2::<f32>().unwrap();
        let full = eight.clone().quantized(ElementType::F32).unwrap();
        assert_eq!((full.element_types(), plain(&full)), (vec![ElementType::F32], plain(&eight)));
    }

    #[test]
    fn a_shorter_context_computes_the_same_as_far_as_it_reaches() {
        for position_embedding in
            [PositionEmbedding::Learned, PositionEmbedding::Rope, PositionEmbedding::None]
        {
            let shape = Config {
                n_layer: 1,
                n_head: 2,
                n_embd: 8,
                block_size: 6,
                vocab_size: 9,
                ..Config::default()
            };
            let gpt = Gpt::new(Config { position_embedding, ..shape }, 1, &Device::Cpu).unwrap();
            let short = gpt.clone().cropped(4).unwrap();
            assert_eq!(short.config().block_size, 4);
            let ids = gpt.ids(&[[1, 2, 3, 4]]).unwrap();
            let logits =
                |gpt: &Gpt| gpt.logits(&ids).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
            assert_eq!(logits(&gpt), logits(&short));
            let longer = gpt.ids(&[[1, 2, 3, 4, 5]]).unwrap();
            assert!(short.logits(&longer).unwrap_err().to_string().contains("context of 4"));
            assert!(gpt.clone().cropped(7).unwrap_err().to_string().contains("1 to 6"));
            assert!(gpt.cropped(0).is_err());
        }
    }
}
