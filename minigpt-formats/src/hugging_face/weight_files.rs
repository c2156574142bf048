//! The files that hold a folder's weights: one or several, safetensors or what `torch.save` wrote.

use super::{io, problem};
use crate::error::Result;
use crate::gguf;
use crate::pickle::Checkpoint;
use crate::tensor_view::{ElementType, TensorView};
use candle_core::DType;
use minigpt_files::Mapped;
use safetensors::tensor::TensorView as Entry;
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// Where weights may be, the best first. An index names the files among which they are shared out.
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
        let found = NAMES.iter().map(|name| folder.join(name)).find(|path| path.exists());
        let Some(path) = found else {
            return Err(problem(folder, format!("holds no weights: none of {}", NAMES.join(", "))));
        };
        let paths = match path.extension().is_some_and(|end| end == "json") {
            true => shards(folder, &path)?,
            false => vec![path.clone()],
        };
        let open = |path: PathBuf| Ok((path.clone(), Mapped::open(&path)?));
        Ok(Self { path, files: paths.into_iter().map(open).collect::<Result<_>>()? })
    }

    /// The files as memory.
    pub fn maps(&self) -> Vec<&Mapped> {
        self.files.iter().map(|(_, file)| file).collect()
    }

    /// All tensors by the names that the files give them.
    pub fn tensors(&self) -> Result<Vec<(String, TensorView<'_>)>> {
        let mut all = Vec::new();
        for (path, file) in &self.files {
            let tensors = match path.extension().and_then(|end| end.to_str()) {
                Some("safetensors") => safetensors(file.bytes()),
                Some("gguf") => gguf::Contents::read(file.bytes()).map(|contents| contents.stored()),
                _ => pickled(file.bytes()),
            };
            all.extend(tensors.map_err(|message| problem(path, message))?);
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
    let size = std::fs::metadata(index).map_err(|e| io(index, e))?.len();
    if size > LARGEST_INDEX {
        return Err(problem(index, format!("{size} bytes are too many for an index")));
    }
    let text = std::fs::read_to_string(index).map_err(|e| io(index, e))?;
    let Index { weight_map } =
        serde_json::from_str(&text).map_err(|e| problem(index, format!("not an index of weights: {e}")))?;
    let names: BTreeSet<&String> = weight_map.values().collect();
    let mut paths = Vec::new();
    for name in names {
        let mut parts = Path::new(name).components();
        let (Some(Component::Normal(_)), None) = (parts.next(), parts.next()) else {
            return Err(problem(index, format!("names the file {name:?}, which is not beside it")));
        };
        paths.push(folder.join(name));
    }
    Ok(paths)
}

fn safetensors<'a>(bytes: &'a [u8]) -> std::result::Result<Vec<(String, TensorView<'a>)>, String> {
    let file = SafeTensors::deserialize(bytes)
        .map_err(|e| format!("not a safetensors file, or a damaged one: {e}"))?;
    let stored = |(name, view): (&str, Entry<'a>)| {
        let stored = TensorView::new(numbers(view.dtype()), view.shape().to_vec(), view.data());
        stored.map(|stored| (name.to_owned(), stored)).ok_or_else(|| format!("{name} is damaged"))
    };
    file.iter().map(stored).collect()
}

fn pickled(bytes: &[u8]) -> std::result::Result<Vec<(String, TensorView<'_>)>, String> {
    let checkpoint = Checkpoint::open(bytes)?;
    checkpoint.tensors(&checkpoint.root)
}

fn numbers(dtype: Dtype) -> ElementType {
    match dtype {
        Dtype::F32 => ElementType::Plain(DType::F32),
        Dtype::F16 => ElementType::Plain(DType::F16),
        Dtype::BF16 => ElementType::Plain(DType::BF16),
        Dtype::F64 => ElementType::Plain(DType::F64),
        other => ElementType::Other(format!("{other:?}"), other.bitsize() / 8),
    }
}
