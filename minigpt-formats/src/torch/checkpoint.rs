//! What PyTorch saves: a pickle that names tensors, and beside it the elements of each.

use super::Result;
use super::archive::Archive;
use super::pickle_reader::{Value, read};
use crate::tensor_view::{Elements, TensorView};
use minigpt_kernels::ElementType;

/// A checkpoint that `torch.save` wrote.
pub struct TorchArchive<'a> {
    archive: Archive<'a>,
    /// What was saved. Tensors in it are calls; see [`TorchArchive::tensor`].
    pub root: Value,
}

impl<'a> TorchArchive<'a> {
    /// Reads the structure of a checkpoint, and none of its tensors.
    pub fn open(bytes: &'a [u8]) -> Result<Self> {
        let archive = Archive::open(bytes)?;
        if archive.file("byteorder").is_some_and(|order| order != b"little") {
            return Err("the elements are in big-endian order".into());
        }
        let pickle = archive.file("data.pkl").ok_or("holds no data.pkl: not made by torch.save")?;
        let root = read(pickle)?;
        Ok(Self { archive, root })
    }

    /// All tensors of a dictionary, by their names; what is none is passed over.
    pub fn tensors(&self, dictionary: &Value) -> Result<Vec<(String, TensorView<'a>)>> {
        let Value::Dict(items) = dictionary else { return Err("holds no dictionary of tensors".into()) };
        let mut tensors = Vec::new();
        for (name, value) in items.iter() {
            let Some(name) = name.as_str() else {
                return Err("holds a tensor whose name is not text".into());
            };
            let tensor = self.tensor(value).map_err(|e| format!("{name}: {e}"))?;
            tensors.extend(tensor.map(|tensor| (name.to_owned(), tensor)));
        }
        Ok(tensors)
    }

    /// The tensor that a value stands for, if it does. Any other call is refused by name: it would have run somebody's
    /// program.
    pub fn tensor(&self, value: &Value) -> Result<Option<TensorView<'a>>> {
        let Value::Call(call) = value else { return Ok(None) };
        let (Value::Name(name), Some(arguments)) = (&call.0, call.1.as_list()) else {
            return Err("calls what has no name".into());
        };
        match (&**name, arguments) {
            ("torch._utils._rebuild_tensor_v2", [storage, offset, shape, strides, ..]) => {
                self.rebuild(storage, offset, shape, strides).map(Some)
            }
            ("torch._utils._rebuild_parameter", [tensor, ..]) => self.tensor(tensor),
            (other, _) => Err(format!("calls {other}, which data has no need of; it was not run")),
        }
    }

    fn rebuild(
        &self,
        storage: &Value,
        offset: &Value,
        shape: &Value,
        strides: &Value,
    ) -> Result<TensorView<'a>> {
        let malformed = || "a tensor's description is malformed".to_owned();
        let sizes =
            |value: &Value| -> Option<Vec<usize>> { value.as_list()?.iter().map(Value::as_size).collect() };
        let Value::Outside(storage) = storage else { return Err(malformed()) };
        let Some([Value::Str(kind), Value::Name(class), Value::Str(key), ..]) = storage.as_list() else {
            return Err(malformed());
        };
        if &**kind != "storage" {
            return Err(malformed());
        }
        let (shape, strides) = sizes(shape).zip(sizes(strides)).ok_or_else(malformed)?;
        let offset = offset.as_size().ok_or_else(malformed)?;
        let data =
            self.archive.file(&format!("data/{key}")).ok_or_else(|| format!("data/{key} is missing"))?;
        let tensor = TensorView::strided(elements(class)?, shape, strides, offset, data);
        tensor.ok_or_else(|| "a tensor reaches beyond its storage".to_owned())
    }
}

/// The elements of a storage class.
fn elements(class: &str) -> Result<Elements> {
    let name = class.strip_prefix("torch.").unwrap_or(class);
    let other = |bytes| Elements::Other { name: name.to_owned(), bytes };
    Ok(match name {
        "FloatStorage" => ElementType::F32.into(),
        "HalfStorage" => ElementType::F16.into(),
        "BFloat16Storage" => ElementType::Bf16.into(),
        "DoubleStorage" => ElementType::F64.into(),
        "LongStorage" => other(8),
        "IntStorage" => other(4),
        "ShortStorage" => other(2),
        "ByteStorage" | "CharStorage" | "BoolStorage" => other(1),
        name => return Err(format!("elements of the type {name} are not known")),
    })
}
