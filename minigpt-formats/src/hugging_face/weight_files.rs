//! The files that hold a folder's weights: one or several, safetensors or what `torch.save` wrote.

use crate::error::{Error, Result};
use crate::gguf;
use crate::tensor_view::{Elements, TensorView};
use crate::torch::TorchArchive;
use minigpt_files::{Mapped, is_there};
use minigpt_kernels::ElementType;
use minigpt_model::Config;
use safetensors::tensor::TensorView as Entry;
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// Where weights may be, the best first. An index names the files over which they are split.
const NAMES: [&str; 5] = [
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "model.gguf",
];
/// No index is larger than this.
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
            return Err(Error::bad(folder, format!("holds no weights: none of {}", NAMES.join(", "))));
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
            let tensors = match path.extension().and_then(|end| end.to_str()) {
                Some("safetensors") => safetensors(file.bytes()),
                Some("gguf") => gguf::Contents::read(file.bytes()).map(|contents| contents.tensors(config)),
                _ => torch(file.bytes()),
            };
            all.extend(tensors.map_err(|message| Error::bad(path, message))?);
        }
        Ok(all)
    }
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// The files that an index names, which must lie beside it.
fn shards(folder: &Path, index: &Path) -> Result<Vec<PathBuf>> {
    let text = minigpt_files::read_text(index, LARGEST_INDEX)?;
    let Index { weight_map } = serde_json::from_str(&text)
        .map_err(|e| Error::bad(index, format!("not an index of weights: {e}")))?;
    let names: BTreeSet<&String> = weight_map.values().collect();
    let mut paths = Vec::new();
    for name in names {
        let mut parts = Path::new(name).components();
        let (Some(Component::Normal(_)), None) = (parts.next(), parts.next()) else {
            return Err(Error::bad(index, format!("names the file {name:?}, which is not beside it")));
        };
        paths.push(folder.join(name));
    }
    Ok(paths)
}

fn safetensors<'a>(bytes: &'a [u8]) -> std::result::Result<Vec<(String, TensorView<'a>)>, String> {
    let file = SafeTensors::deserialize(bytes)
        .map_err(|e| format!("not a safetensors file, or a malformed one: {e}"))?;
    if let Some(name) = name_given_twice(bytes) {
        return Err(format!("its header has {name} twice"));
    }
    let tensor = |(name, view): (&str, Entry<'a>)| {
        let tensor = TensorView::new(elements(view.dtype()), view.shape().to_vec(), view.data());
        tensor.map(|tensor| (name.to_owned(), tensor)).ok_or_else(|| format!("{name} is malformed"))
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

fn torch(bytes: &[u8]) -> std::result::Result<Vec<(String, TensorView<'_>)>, String> {
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
