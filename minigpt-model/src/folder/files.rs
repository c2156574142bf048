//! The files that hold a folder's weights: one or several, safetensors or what `torch.save` wrote.

use super::mapped::Mapped;
use super::{io, problem};
use crate::error::Result;
use crate::pickle::{Checkpoint, Stored};
use candle_core::DType;
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// Where weights may be, the best first. An index names the files among which they are shared out.
const NAMES: [&str; 4] = [
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
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

    /// All tensors by the names that the files give them.
    pub fn tensors(&self) -> Result<Vec<(String, Stored<'_>)>> {
        let mut all = Vec::new();
        for (path, file) in &self.files {
            let tensors = match path.extension().is_some_and(|end| end == "safetensors") {
                true => safetensors(file.bytes()),
                false => pickled(file.bytes()),
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

fn safetensors(bytes: &[u8]) -> std::result::Result<Vec<(String, Stored<'_>)>, String> {
    let file = SafeTensors::deserialize(bytes)
        .map_err(|e| format!("not a safetensors file, or a damaged one: {e}"))?;
    let mut tensors = Vec::new();
    for (name, view) in file.iter() {
        let stored = Stored {
            dtype: number_type(view.dtype()),
            shape: view.shape().to_vec(),
            data: Cow::Borrowed(view.data()),
        };
        tensors.push((name.to_owned(), stored));
    }
    Ok(tensors)
}

fn pickled(bytes: &[u8]) -> std::result::Result<Vec<(String, Stored<'_>)>, String> {
    let checkpoint = Checkpoint::open(bytes)?;
    checkpoint.tensors(&checkpoint.root)
}

fn number_type(dtype: Dtype) -> std::result::Result<DType, String> {
    match dtype {
        Dtype::F32 => Ok(DType::F32),
        Dtype::F16 => Ok(DType::F16),
        Dtype::BF16 => Ok(DType::BF16),
        Dtype::F64 => Ok(DType::F64),
        other => Err(format!("{other:?}")),
    }
}
