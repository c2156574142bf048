//! A model as its files describe it: every tensor found, named and measured, none of them in memory.

use super::{config_json, problem};
use crate::error::Result;
use crate::tensor_view::{ElementType, TensorView};
use candle_core::Device;
use minigpt_files::Mapped;
use minigpt_kernels::{MappedMatrix, SharedBytes};
use minigpt_model::Gpt;
use minigpt_model::config::Config;
use minigpt_model::parameters::{Spec, specs_with_absent};
use minigpt_model::{Packing, Source, Tensors, Weight};
use rayon::prelude::*;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// How many tensors of one kind an error lists.
const LISTED: usize = 1000;

/// A mapped file, as a matrix sees it that is read there.
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
pub struct StoredModel<'a> {
    config: Config,
    extra: Map<String, Value>,
    /// Those that the configuration asks for, by GPT-2's names and in its layouts.
    tensors: BTreeMap<String, TensorView<'a>>,
    files: Vec<&'a Mapped>,
}

impl<'a> StoredModel<'a> {
    /// A model from the tensors of these files; `path` is for messages.
    ///
    /// # Errors
    /// The tensors are not those of the configuration: all that is wrong is listed.
    pub(super) fn new(
        path: &Path,
        config: Config,
        extra: Map<String, Value>,
        tensors: Vec<(String, TensorView<'a>)>,
        files: Vec<&'a Mapped>,
    ) -> Result<Self> {
        let mut tensors = by_our_names(path, tensors)?;
        let config = config_json::with_biases_in_use(config, &extra, &tensors);
        let specs = check(path, &config, &tensors)?;
        let wanted: BTreeMap<String, TensorView> =
            specs.into_iter().filter_map(|spec| tensors.remove_entry(&spec.name)).collect();
        // Tensors that share numbers could claim any amount of memory.
        let held: u64 = files.iter().map(|file| file.bytes().len() as u64).sum();
        if wanted.values().map(TensorView::bytes).sum::<u64>() > held {
            return Err(problem(path, "the tensors claim more numbers than the file has"));
        }
        Ok(Self { config, extra, tensors: wanted, files })
    }

    /// What the model is.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// How the numbers are written, the way that most bytes are written first.
    pub fn numbers(&self) -> Vec<String> {
        let mut bytes: BTreeMap<String, u64> = BTreeMap::new();
        for stored in self.tensors.values() {
            *bytes.entry(stored.numbers.name()).or_default() += stored.bytes();
        }
        let mut names: Vec<_> = bytes.into_iter().collect();
        names.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
        names.into_iter().map(|(name, _)| name).collect()
    }

    /// Whether some tensors are blocks of fewer bits.
    pub fn is_packed(&self) -> bool {
        self.tensors.values().any(|stored| matches!(stored.numbers, ElementType::Blocks(_)))
    }

    /// The model as those see it who write it into another file.
    pub fn source(&self) -> Source<'_> {
        Source { config: &self.config, extra: &self.extra, tensors: self }
    }

    /// The model in memory.
    pub fn load(self, device: &Device) -> Result<Gpt> {
        self.load_as(device, None)
    }

    /// The model, ready to run. On the CPU, matrices that a file has just as they are used are read there at first; if so
    /// asked, all are packed into fewer bits instead.
    pub fn load_as(self, device: &Device, packing: Option<Packing>) -> Result<Gpt> {
        let packing = packing.filter(|_| device.is_cpu());
        let weight = |(name, stored): (&String, &TensorView)| {
            let weight = match packing {
                Some(packing) => self.copied(stored, device)?.packed_as(name, packing)?,
                None => match self.lent(stored).filter(|_| device.is_cpu()) {
                    Some(lent) => Weight::Mapped(lent),
                    None => self.copied(stored, device)?,
                },
            };
            Ok((name.clone(), weight))
        };
        // Several at once: what takes time is the system, which finds memory for them.
        let weights = self.tensors.par_iter().map(weight).collect::<Result<HashMap<_, _>>>()?;
        Ok(Gpt::from_tensors(self.config, weights)?.with_extra(self.extra))
    }

    /// A matrix that can stay where it is.
    fn lent(&self, stored: &TensorView) -> Option<MappedMatrix> {
        let (bytes, shape) = (stored.floats_in_rows()?, (stored.shape[0], stored.shape[1]));
        let (file, range) = self.files.iter().find_map(|file| Some((file, file.range_of(bytes)?)))?;
        MappedMatrix::new(Arc::new(MappedFile((*file).clone())), range, shape)
    }

    /// A tensor in memory; that of the file is let go.
    fn copied(&self, stored: &TensorView, device: &Device) -> candle_core::Result<Weight> {
        let weight = stored.weight(device)?;
        for file in &self.files {
            file.range_of(stored.data()).inspect(|range| file.release(range.clone()));
        }
        Ok(weight)
    }
}

impl Tensors for StoredModel<'_> {
    fn weight(&self, name: &str) -> candle_core::Result<Option<Weight>> {
        self.tensors.get(name).map(|stored| self.copied(stored, &Device::Cpu)).transpose()
    }
}

/// The file's tensors under our names: without `transformer.`, and without the buffers that old files carry.
fn by_our_names<'a>(
    path: &Path,
    stored: Vec<(String, TensorView<'a>)>,
) -> Result<BTreeMap<String, TensorView<'a>>> {
    let mut tensors = BTreeMap::new();
    for (name, stored) in stored {
        let ours = name.strip_prefix("transformer.").unwrap_or(&name);
        if ours.ends_with(".attn.bias") || ours.ends_with(".attn.masked_bias") {
            continue;
        }
        if tensors.insert(ours.to_owned(), stored).is_some() {
            return Err(problem(path, format!("holds {ours} twice")));
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
            missing.push(format!("{} {:?}", spec.name, spec.shape));
        }
    }
    for (name, stored) in tensors {
        match known.remove(name.as_str()) {
            Some(spec) if spec.shape != stored.shape => {
                wrong.push(format!("{name} is {:?}, not {:?}", stored.shape, spec.shape));
            }
            Some(spec) if spec.absent.is_some() && !config_json::is_gpt2(config) => {
                unexpected.push(format!("{name} ({} is off)", spec.absent.unwrap_or_default()));
            }
            Some(_) => {
                if let ElementType::Other(other, _) = &stored.numbers {
                    wrong.push(format!("{name} is of type {other}, not f32, f16 or bf16"));
                }
            }
            // A tied head is the token embedding; files that carry it twice are common.
            None if name == "lm_head.weight" => {}
            None => unexpected.push(format!("{name} {:?}", stored.shape)),
        }
    }
    let mut message = String::new();
    for (kind, names) in [("missing", missing), ("unexpected", unexpected), ("wrong", wrong)] {
        list(&mut message, kind, &names);
    }
    if message.is_empty() {
        Ok(specs.into_iter().filter(|spec| spec.absent.is_none()).collect())
    } else {
        Err(problem(path, format!("the weights do not fit config.json{message}")))
    }
}

fn list(message: &mut String, kind: &str, names: &[String]) {
    for name in names.iter().take(LISTED) {
        let _ = write!(message, "\n  {kind}: {name}");
    }
    if names.len() > LISTED {
        let _ = write!(message, "\n  {kind}: {} more", names.len() - LISTED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::DType;
    use minigpt_model::parameters::specs;

    #[test]
    fn tensors_that_share_numbers_can_not_claim_more_than_there_is() {
        let config =
            Config { n_layer: 40, n_head: 1, n_embd: 8, vocab_size: 9, block_size: 4, ..Config::default() };
        let numbers = vec![0; 4 * 8 * 8 * 4];
        let share = |spec: Spec| {
            let bytes = &numbers[..4 * spec.count() as usize];
            (spec.name, TensorView::new(ElementType::Plain(DType::F32), spec.shape, bytes).unwrap())
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let error = |bytes: usize| {
            std::fs::write(&path, vec![0; bytes]).unwrap();
            let (tensors, file) =
                (specs(&config).into_iter().map(share).collect(), Mapped::open(&path).unwrap());
            let model = StoredModel::new(Path::new("x"), config.clone(), Map::new(), tensors, vec![&file]);
            model.err().map(|e| e.to_string())
        };
        assert!(error(numbers.len()).unwrap().contains("more numbers than the file has"));
        assert_eq!(error(1 << 20), None);
    }
}
