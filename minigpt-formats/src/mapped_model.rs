//! A model as its files describe it: its tensors are found and checked, but not yet in memory.

use crate::error::{Error, Result};
use crate::hugging_face::config_json;
use crate::tensor_view::{Elements, TensorView};
use candle_core::Device;
use minigpt_files::Mapped;
use minigpt_kernels::{ElementType, MappedMatrix, SharedBytes};
use minigpt_model::Gpt;
use minigpt_model::config::Config;
use minigpt_model::parameters::{Spec, specs, specs_with_absent};
use minigpt_model::{ModelView, Tensors, Weight};
use rayon::prelude::*;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// How many tensors of one kind an error lists.
const LISTED: usize = 1000;

/// Why some tensors do not make a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what the variants and fields are")]
pub enum TensorsProblem {
    #[error("has {name} twice")]
    Twice { name: String },
    #[error("the tensors claim more elements than the file has")]
    TooManyElements,
    #[error("the weights do not fit config.json{}", lines(.0))]
    Mismatches(Vec<TensorMismatch>),
}

/// A tensor that is not as the configuration asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the texts below say what the variants and fields are")]
pub enum TensorMismatch {
    Missing {
        name: String,
        shape: Vec<usize>,
    },
    MoreMissing(usize),
    Unexpected {
        name: String,
        shape: Vec<usize>,
    },
    /// A bias that the configuration switches off.
    SwitchedOff {
        name: String,
        switch: &'static str,
    },
    MoreUnexpected(usize),
    Shape {
        name: String,
        shape: Vec<usize>,
        expected: Vec<usize>,
    },
    ElementType {
        name: String,
        element_type: String,
    },
    MoreWrong(usize),
}

impl fmt::Display for TensorMismatch {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Missing { name, shape } => write!(f, "missing: {name} {shape:?}"),
            Self::MoreMissing(count) => write!(f, "missing: {count} more"),
            Self::Unexpected { name, shape } => write!(f, "unexpected: {name} {shape:?}"),
            Self::SwitchedOff { name, switch } => write!(f, "unexpected: {name} ({switch} is off)"),
            Self::MoreUnexpected(count) => write!(f, "unexpected: {count} more"),
            Self::Shape { name, shape, expected } => {
                write!(f, "wrong: {name} is {shape:?}, not {expected:?}")
            }
            Self::ElementType { name, element_type } => {
                write!(f, "wrong: {name} is of type {element_type}, not f32, f16 or bf16")
            }
            Self::MoreWrong(count) => write!(f, "wrong: {count} more"),
        }
    }
}

/// Each item on a line of its own.
fn lines(mismatches: &[TensorMismatch]) -> String {
    mismatches.iter().map(|mismatch| format!("\n  {mismatch}")).collect()
}

/// The keys of a `config.json` that this decoder does not use. They are written back, so that nothing is lost.
pub type ExtraKeys = Map<String, Value>;

/// A model in memory, and the further keys of its files.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The model.
    pub gpt: Gpt,
    /// The further keys of its `config.json`.
    pub extra: ExtraKeys,
}

/// The tensors of a model that have one element type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TypeCount {
    /// The element type's name.
    pub dtype: String,
    /// The number of tensors.
    pub tensors: usize,
    /// The bytes of their elements.
    pub bytes: u64,
}

/// A mapped file whose bytes matrices share.
struct MappedFile(Mapped);

impl SharedBytes for MappedFile {
    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    fn release(&self, range: Range<usize>) {
        self.0.release(range);
    }
}

/// A model in files.
pub struct MappedModel<'a> {
    config: Config,
    extra: ExtraKeys,
    /// Those that the configuration asks for, by GPT-2's names and in its layouts.
    tensors: BTreeMap<String, TensorView<'a>>,
    files: Vec<&'a Mapped>,
}

impl<'a> MappedModel<'a> {
    /// A model from the tensors of these files; `path` is for messages.
    ///
    /// # Errors
    /// The tensors do not fit the configuration; the error lists all mismatches.
    pub(crate) fn new(
        path: &Path,
        config: Config,
        extra: ExtraKeys,
        tensors: Vec<(String, TensorView<'a>)>,
        files: Vec<&'a Mapped>,
    ) -> Result<Self> {
        let mut tensors = by_our_names(path, tensors)?;
        let config = config_json::with_biases_in_use(config, &extra, &tensors);
        let specs = check(path, &config, &tensors)?;
        let wanted: BTreeMap<String, TensorView> =
            specs.into_iter().filter_map(|spec| tensors.remove_entry(&spec.name)).collect();
        // Tensors that share bytes could claim any amount of memory.
        let held: u64 = files.iter().map(|file| file.bytes().len() as u64).sum();
        if wanted.values().map(TensorView::bytes).sum::<u64>() > held {
            return Err(Error::bad(path, TensorsProblem::TooManyElements));
        }
        Ok(Self { config, extra, tensors: wanted, files })
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The further keys of its `config.json`.
    pub fn extra(&self) -> &ExtraKeys {
        &self.extra
    }

    /// The names of its element types, the one that takes the most bytes first.
    pub fn element_types(&self) -> Vec<String> {
        self.type_counts().into_iter().map(|count| count.dtype).collect()
    }

    /// How many tensors have which element type, the one that takes the most bytes first.
    pub fn type_counts(&self) -> Vec<TypeCount> {
        let mut counts: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
        for tensor in self.tensors.values() {
            let (tensors, bytes) = counts.entry(tensor.elements.name()).or_default();
            *tensors += 1;
            *bytes += tensor.bytes();
        }
        let count = |(dtype, (tensors, bytes)): (&str, (usize, u64))| TypeCount {
            dtype: dtype.to_owned(),
            tensors,
            bytes,
        };
        let mut counts: Vec<_> = counts.into_iter().map(count).collect();
        counts.sort_by_key(|count| std::cmp::Reverse(count.bytes));
        counts
    }

    /// Whether some tensors are quantized.
    pub fn is_quantized(&self) -> bool {
        self.tensors.values().any(|tensor| tensor.elements.is_quantized())
    }

    /// A view of the model for writers.
    pub fn view(&self) -> ModelView<'_> {
        ModelView { config: &self.config, tensors: self }
    }

    /// Loads the model into memory.
    pub fn load(self, device: &Device) -> Result<Loaded> {
        self.load_as(device, None)
    }

    /// Loads the model to run it. On the CPU, f32 matrices in GPT-2's layout are at first read where they are mapped; if an
    /// element type is given, all matrices are converted to it.
    pub fn load_as(self, device: &Device, element_type: Option<ElementType>) -> Result<Loaded> {
        let element_type = element_type.filter(|_| device.is_cpu());
        let specs = specs(&self.config);
        let weight = |spec: &Spec| {
            let Some(tensor) = self.tensors.get(&spec.name) else { return Ok(None) };
            // A table is quantized where it lies, piece by piece; the weight of a linear layer is copied, because it is transposed.
            let as_it_is = element_type.is_none_or(|element_type| element_type == ElementType::F32);
            let in_pieces = spec.is_quantizable() && !spec.is_linear_weight();
            let stays = device.is_cpu() && (as_it_is || in_pieces);
            let weight = match stays.then(|| self.mapped(tensor, as_it_is)).flatten() {
                Some(matrix) => Weight::Mapped(matrix),
                None => self.copied(tensor, device)?,
            };
            let weight = match (weight, element_type) {
                (weight @ Weight::Mapped(_), _) if as_it_is => weight,
                (weight, None) => weight,
                (weight, Some(element_type)) => weight.quantized(spec, element_type)?,
            };
            Ok(Some((spec.name.clone(), weight)))
        };
        // Several at once: what takes time is the system, which finds memory for them.
        let weights = specs.par_iter().filter_map(|spec| weight(spec).transpose());
        let weights = weights.collect::<Result<HashMap<_, _>>>()?;
        Ok(Loaded { gpt: Gpt::from_tensors(self.config, weights)?, extra: self.extra })
    }

    /// A matrix that can stay in its file; `whole` says that all of it is soon needed.
    fn mapped(&self, tensor: &TensorView, whole: bool) -> Option<MappedMatrix> {
        let (bytes, shape) = (tensor.floats_in_rows()?, (tensor.shape[0], tensor.shape[1]));
        let (file, range) = self.files.iter().find_map(|file| Some((file, file.range_of(bytes)?)))?;
        if whole {
            file.prepare(range.clone());
        }
        MappedMatrix::new(Arc::new(MappedFile((*file).clone())), range, shape)
    }

    /// A tensor in memory; that of the file is let go.
    fn copied(&self, tensor: &TensorView, device: &Device) -> candle_core::Result<Weight> {
        let weight = tensor.weight(device)?;
        for file in &self.files {
            file.range_of(tensor.data()).inspect(|range| file.release(range.clone()));
        }
        Ok(weight)
    }
}

impl Tensors for MappedModel<'_> {
    fn weight(&self, name: &str) -> candle_core::Result<Option<Weight>> {
        self.tensors.get(name).map(|tensor| self.copied(tensor, &Device::Cpu)).transpose()
    }
}

/// GPT-2's name of a tensor, without what transformers puts before it.
pub(crate) fn our_name(name: &str) -> &str {
    name.strip_prefix("transformer.").unwrap_or(name)
}

/// The file's tensors under our names: without `transformer.`, and without the buffers that old files carry.
fn by_our_names<'a>(
    path: &Path,
    named: Vec<(String, TensorView<'a>)>,
) -> Result<BTreeMap<String, TensorView<'a>>> {
    let mut tensors = BTreeMap::new();
    for (name, tensor) in named {
        let ours = our_name(&name);
        if ours.ends_with(".attn.bias") || ours.ends_with(".attn.masked_bias") {
            continue;
        }
        if tensors.insert(ours.to_owned(), tensor).is_some() {
            return Err(Error::bad(path, TensorsProblem::Twice { name: ours.to_owned() }));
        }
    }
    Ok(tensors)
}

/// Checks names, shapes and types of all tensors against the configuration, and reports everything at once.
fn check(path: &Path, config: &Config, tensors: &BTreeMap<String, TensorView>) -> Result<Vec<Spec>> {
    let specs = specs_with_absent(config);
    let mut known: HashMap<&str, &Spec> = specs.iter().map(|spec| (spec.name.as_str(), spec)).collect();
    let (mut missing, mut unexpected, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
    for spec in specs.iter().filter(|spec| spec.absent.is_none()) {
        if !tensors.contains_key(&spec.name) {
            missing.push(TensorMismatch::Missing { name: spec.name.clone(), shape: spec.shape.clone() });
        }
    }
    for (name, tensor) in tensors {
        let (name, shape) = (name.clone(), tensor.shape.clone());
        match known.remove(name.as_str()) {
            Some(spec) if spec.shape != shape => {
                wrong.push(TensorMismatch::Shape { name, shape, expected: spec.shape.clone() });
            }
            Some(Spec { absent: Some(switch), .. }) if !config_json::is_gpt2(config) => {
                unexpected.push(TensorMismatch::SwitchedOff { name, switch });
            }
            Some(_) => {
                if let Elements::Other { name: element_type, .. } = &tensor.elements {
                    wrong.push(TensorMismatch::ElementType { name, element_type: element_type.clone() });
                }
            }
            // A tied head is the token embedding; files that carry it twice are common.
            None if name == "lm_head.weight" => {}
            None => unexpected.push(TensorMismatch::Unexpected { name, shape }),
        }
    }
    let mut mismatches = listed(missing, TensorMismatch::MoreMissing);
    mismatches.extend(listed(unexpected, TensorMismatch::MoreUnexpected));
    mismatches.extend(listed(wrong, TensorMismatch::MoreWrong));
    if mismatches.is_empty() {
        Ok(specs.into_iter().filter(|spec| spec.absent.is_none()).collect())
    } else {
        Err(Error::bad(path, TensorsProblem::Mismatches(mismatches)))
    }
}

/// The first items, and how many more there are.
fn listed(mut items: Vec<TensorMismatch>, more: fn(usize) -> TensorMismatch) -> Vec<TensorMismatch> {
    let count = items.len().saturating_sub(LISTED);
    items.truncate(LISTED);
    items.extend((count > 0).then(|| more(count)));
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_that_share_bytes_can_not_claim_more_than_there_is() {
        let config =
            Config { n_layer: 40, n_head: 1, n_embd: 8, vocab_size: 9, block_size: 4, ..Config::default() };
        let numbers = vec![0; 4 * 8 * 8 * 4];
        let share = |spec: Spec| {
            let bytes = &numbers[..4 * spec.count() as usize];
            (spec.name, TensorView::new(ElementType::F32, spec.shape, bytes).unwrap())
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let error = |bytes: usize| {
            std::fs::write(&path, vec![0; bytes]).unwrap();
            let (tensors, file) =
                (specs(&config).into_iter().map(share).collect(), Mapped::open(&path).unwrap());
            let model =
                MappedModel::new(Path::new("x"), config.clone(), ExtraKeys::new(), tensors, vec![&file]);
            model.err().map(|e| e.to_string())
        };
        assert!(error(numbers.len()).unwrap().contains("more elements than the file has"));
        assert_eq!(error(1 << 20), None);
    }
}
