//! The same model in another form: with weights that can be trained, quantised, with other dropout, as a list of
//! parameters, or as a view for whoever writes it into a file.

use crate::config::Config;
use crate::error::{ModelConfigError, Result};
use crate::gpt::Gpt;
use crate::parameters::{ParameterRole, Part, Spec, specs};
use crate::weights::{ModelView, Tensors, Weight, Weights};
use candle_core::{DType, Tensor};
use minigpt_kernels::{ElementType, QuantizedProduct};
use minigpt_settings::OutOfRange;
use std::collections::HashMap;

/// A parameter of a model.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// GPT-2's name.
    pub name: String,
    /// What it is for.
    pub role: ParameterRole,
    /// Its values, a variable if the model is trainable.
    pub tensor: Tensor,
    /// Whether a loss may do without it. No parameter of this model is unused; one of somebody else's may be.
    pub unused: bool,
}

/// How a tensor is kept in memory.
#[derive(Debug, Clone, Copy)]
pub struct Stored {
    /// What it belongs to.
    pub part: Part,
    /// Whether activations are multiplied with it.
    pub is_matrix: bool,
    /// How its elements are written.
    pub element_type: ElementType,
    /// The bytes of all of them.
    pub bytes: u64,
}

impl Gpt {
    /// A model from tensors by GPT-2's names, which must be those of `config`.
    pub fn from_tensors(config: Config, tensors: HashMap<String, Weight>) -> Result<Self> {
        Self::from_weights(config, Weights::new(tensors))
    }

    /// The same model with its weights as variables: gradients reach them, and an optimiser can change them.
    pub fn into_trainable(self) -> Result<Self> {
        Self::from_weights(self.config, self.weights.into_variables()?)
    }

    /// The same model with its matrices in fewer bits, to run it.
    pub fn quantized(self, element_type: ElementType) -> Result<Self> {
        let cache_dtype = self.cache_dtype;
        let (config, weights) = self.into_weights();
        let weights = weights.quantized(&specs(&config), element_type)?;
        Self::remade(config, weights, cache_dtype)
    }

    /// The same model with the keys and values of its caches in another type: in f16 they take half the memory, and what is
    /// computed with them is a little less exact.
    pub fn with_cache_dtype(mut self, dtype: DType) -> Self {
        self.cache_dtype = Some(dtype);
        self
    }

    /// A model of such weights whose caches are what those of another were.
    fn remade(config: Config, weights: Weights, cache_dtype: Option<DType>) -> Result<Self> {
        let mut gpt = Self::from_weights(config, weights)?;
        gpt.cache_dtype = cache_dtype;
        Ok(gpt)
    }

    /// The same model with matrices of 2 to 8 bits multiplied in this way; those of a file are at first multiplied exactly.
    pub fn with_quantized_product(self, product: QuantizedProduct) -> Result<Self> {
        let cache_dtype = self.cache_dtype;
        let (config, weights) = self.into_weights();
        let weights = weights.with_quantized_product(product);
        Self::remade(config, weights, cache_dtype)
    }

    /// What it is made of, and nothing else: whoever changes a tensor has the only one.
    fn into_weights(self) -> (Config, Weights) {
        let Self { config, weights, .. } = self.clone();
        drop(self);
        (config, weights)
    }

    /// The same model laid out to be run on a CPU: its matrices as panels, which is what those of a mapped file become after
    /// the first passes.
    pub fn packed(self) -> Result<Self> {
        self.quantized(ElementType::F32)
    }

    /// The same model with the dropout of another configuration: how one trains, not what a model is.
    pub fn with_dropout(self, like: &Config) -> Result<Self> {
        let Config { embd_pdrop, attn_pdrop, resid_pdrop, .. } = *like;
        let config = Config { embd_pdrop, attn_pdrop, resid_pdrop, ..self.config };
        Self::remade(config, self.weights, self.cache_dtype)
    }

    /// The same model with a shorter context: of a table of learned positions only the first rows are kept.
    ///
    /// # Errors
    /// The context is 0, or longer than the model's.
    pub fn cropped(mut self, block_size: usize) -> Result<Self> {
        let most = self.config.block_size;
        if block_size == 0 || block_size > most {
            let allowed = (1..=most as u64).into();
            let error = OutOfRange { key: "block_size", value: block_size.to_string(), allowed };
            return Err(ModelConfigError::from(error).into());
        }
        if let Some(table) = self.weights.plain("wpe.weight")? {
            let table = table.narrow(0, 0, block_size)?.force_contiguous()?;
            self.weights.replace("wpe.weight", Weight::Plain(table));
        }
        let config = Config { block_size, ..self.config };
        Self::remade(config, self.weights, self.cache_dtype)
    }

    /// All parameters that are not quantised, in the order of the forward pass: every one, unless the model came from a
    /// quantised file. Those that are still in their file are copied.
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

    /// How each tensor is kept, in the order of the forward pass.
    pub fn stored(&self) -> Vec<Stored> {
        let stored = |spec: Spec| {
            let element_type = self.weights.weight(&spec.name).ok().flatten()?.element_type();
            let count = spec.count();
            // Blocks fill rows, or the matrix would not be quantised.
            let bytes = element_type.bytes(count as usize).map_or(0, |bytes| bytes as u64);
            Some(Stored { part: spec.part, is_matrix: spec.is_quantizable(), element_type, bytes })
        };
        specs(&self.config).into_iter().filter_map(stored).collect()
    }

    /// The bytes of all its tensors.
    pub fn stored_bytes(&self) -> u64 {
        self.stored().iter().map(|stored| stored.bytes).sum()
    }

    /// The bytes of weights that a step reads: all but those of tables of which only a few rows are looked up.
    pub fn bytes_per_step(&self) -> u64 {
        let looked_up = |part: Part| match part {
            Part::PositionEmbedding => true,
            Part::TokenEmbedding => !self.config.tie_word_embeddings,
            _ => false,
        };
        self.stored().iter().filter(|stored| !looked_up(stored.part)).map(|stored| stored.bytes).sum()
    }

    /// The element types of its matrices, those that take the most bytes first.
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
        // What is quantised already changes its type, too, where that is asked for.
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
            assert!(gpt.clone().cropped(7).unwrap_err().to_string().contains("from 1 to 6"));
            assert!(gpt.cropped(0).is_err());
        }
    }
}
