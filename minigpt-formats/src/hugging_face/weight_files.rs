//! The files with a folder's weights: one or several, written as safetensors, by `torch.save` or as GGUF.

use super::HuggingFaceProblem;
use crate::error::{Error, ModelFileProblem, Result};
use crate::gguf;
use crate::tensor_view::{Elements, TensorView};
use crate::torch::{TorchArchive, TorchProblem};
use minigpt_files::{Mapped, is_there};
use minigpt_kernels::ElementType;
use minigpt_model::Config;
use safetensors::tensor::TensorView as Entry;
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// The files that may have the weights, the preferred one first. An index lists several files.
const NAMES: [&str; 5] = [
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "model.gguf",
];
/// The most bytes that are read of an index.
const LARGEST_INDEX: u64 = 64 << 20;

/// A folder's weights as files, mapped and not yet read.
pub struct WeightFiles {
    /// The file or the index that was found.
    pub path: PathBuf,
    files: Vec<(PathBuf, Mapped)>,
}

impl WeightFiles {
    /// Finds and maps the files.
    pub fn open(folder: &Path) -> Result<Self> {
        let mut found = None;
        for path in NAMES.iter().map(|name| folder.join(name)) {
            if found.is_none() && is_there(&path)? {
                found = Some(path);
            }
        }
        let Some(path) = found else {
            return Err(Error::bad(folder, HuggingFaceProblem::NoWeights { names: &NAMES }));
        };
        let paths = if path.extension().is_some_and(|end| end == "json") {
            shards(folder, &path)?
        } else {
            vec![path.clone()]
        };
        let open = |path: PathBuf| Ok((path.clone(), Mapped::open(&path)?));
        Ok(Self { path, files: paths.into_iter().map(open).collect::<Result<_>>()? })
    }

    /// The files as memory.
    pub fn maps(&self) -> Vec<&Mapped> {
        self.files.iter().map(|(_, file)| file).collect()
    }

    /// All tensors of a model by the names that the files give them, in GPT-2's layout.
    pub fn tensors(&self, config: &Config) -> Result<Vec<(String, TensorView<'_>)>> {
        let mut all = Vec::new();
        for (path, file) in &self.files {
            all.extend(tensors(path, file.bytes(), config).map_err(|problem| Error::bad(path, problem))?);
        }
        Ok(all)
    }
}

/// The tensors of a file, whose extension says what it is.
fn tensors<'a>(
    path: &Path,
    bytes: &'a [u8],
    config: &Config,
) -> Result<Vec<(String, TensorView<'a>)>, ModelFileProblem> {
    Ok(match path.extension().and_then(|end| end.to_str()) {
        Some("safetensors") => safetensors(bytes)?,
        Some("gguf") => gguf::Contents::read(bytes)?.tensors(config),
        _ => torch(bytes)?,
    })
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// The files that an index names, which must lie beside it.
fn shards(folder: &Path, index: &Path) -> Result<Vec<PathBuf>> {
    let text = minigpt_files::read_text(index, LARGEST_INDEX)?;
    let Index { weight_map } = serde_json::from_str(&text)
        .map_err(|e| Error::bad(index, HuggingFaceProblem::NotAnIndex(e.to_string())))?;
    let names: BTreeSet<&String> = weight_map.values().collect();
    let mut paths = Vec::new();
    for name in names {
        let mut parts = Path::new(name).components();
        let (Some(Component::Normal(_)), None) = (parts.next(), parts.next()) else {
            return Err(Error::bad(index, HuggingFaceProblem::NotBeside { file: name.clone() }));
        };
        paths.push(folder.join(name));
    }
    Ok(paths)
}

fn safetensors<'a>(bytes: &'a [u8]) -> Result<Vec<(String, TensorView<'a>)>, HuggingFaceProblem> {
    let file =
        SafeTensors::deserialize(bytes).map_err(|e| HuggingFaceProblem::NotSafetensors(e.to_string()))?;
    if let Some(name) = name_given_twice(bytes) {
        return Err(HuggingFaceProblem::Twice { name });
    }
    let tensor = |(name, view): (&str, Entry<'a>)| {
        let tensor = TensorView::new(elements(view.dtype()), view.shape().to_vec(), view.data());
        let name = name.to_owned();
        match tensor {
            Some(tensor) => Ok((name, tensor)),
            None => Err(HuggingFaceProblem::Malformed { name }),
        }
    };
    file.iter().map(tensor).collect()
}

/// A name that a safetensors header has more than once: readers disagree which of the tensors counts.
fn name_given_twice(bytes: &[u8]) -> Option<String> {
    /// The keys of a JSON object in their order, each as often as it stands there.
    struct Keys(Vec<String>);

    impl<'de> Deserialize<'de> for Keys {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
            struct KeysVisitor;

            impl<'de> serde::de::Visitor<'de> for KeysVisitor {
                type Value = Keys;

                fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                    f.write_str("an object")
                }

                fn visit_map<A: serde::de::MapAccess<'de>>(
                    self,
                    mut map: A,
                ) -> std::result::Result<Keys, A::Error> {
                    let mut keys = Vec::new();
                    while let Some((key, _)) = map.next_entry::<String, serde::de::IgnoredAny>()? {
                        keys.push(key);
                    }
                    Ok(Keys(keys))
                }
            }

            deserializer.deserialize_map(KeysVisitor)
        }
    }

    let length = usize::try_from(u64::from_le_bytes(*bytes.first_chunk()?)).ok()?;
    let Keys(mut keys) = serde_json::from_slice(bytes.get(8..)?.get(..length)?).ok()?;
    keys.sort();
    keys.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone())
}

fn torch(bytes: &[u8]) -> Result<Vec<(String, TensorView<'_>)>, TorchProblem> {
    let checkpoint = TorchArchive::open(bytes)?;
    checkpoint.tensors(&checkpoint.root)
}

/// The elements of a safetensors type. Its names are ours in capitals.
fn elements(dtype: Dtype) -> Elements {
    let name = format!("{dtype:?}");
    match name.to_lowercase().parse::<ElementType>() {
        Ok(element_type) => element_type.into(),
        Err(_) => Elements::Other { name, bytes: dtype.bitsize() / 8 },
    }
}
