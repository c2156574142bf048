//! What PyTorch saves: a pickle that names tensors, and beside it the elements of each.

use super::archive::Archive;
use super::pickle_reader::{Value, read};
use super::{TorchProblem, TorchTensorProblem};
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
    pub fn open(bytes: &'a [u8]) -> Result<Self, TorchProblem> {
        let archive = Archive::open(bytes)?;
        if archive.file("byteorder").is_some_and(|order| order != b"little") {
            return Err(TorchProblem::BigEndian);
        }
        let pickle = archive.file("data.pkl").ok_or(TorchProblem::NoPickle)?;
        let root = read(pickle)?;
        Ok(Self { archive, root })
    }

    /// All tensors of a dictionary, by their names; other values are ignored.
    pub fn tensors(&self, dictionary: &Value) -> Result<Vec<(String, TensorView<'a>)>, TorchProblem> {
        let Value::Dict(items) = dictionary else { return Err(TorchProblem::NoDictionary) };
        let mut tensors = Vec::new();
        for (name, value) in items.iter() {
            let Some(name) = name.as_str() else { return Err(TorchProblem::NameNotText) };
            let tensor = self.tensor(value);
            let tensor = tensor.map_err(|problem| TorchProblem::Tensor { name: name.to_owned(), problem })?;
            tensors.extend(tensor.map(|tensor| (name.to_owned(), tensor)));
        }
        Ok(tensors)
    }

    /// The tensor that a value stands for, if it does.
    ///
    /// # Errors
    /// The value is another call, which would have run somebody's program; the error names it.
    pub fn tensor(&self, value: &Value) -> Result<Option<TensorView<'a>>, TorchTensorProblem> {
        let Value::Call(call) = value else { return Ok(None) };
        let (Value::Name(name), Some(arguments)) = (&call.0, call.1.as_list()) else {
            return Err(TorchTensorProblem::NamelessCall);
        };
        match (&**name, arguments) {
            ("torch._utils._rebuild_tensor_v2", [storage, offset, shape, strides, ..]) => {
                self.rebuild(storage, offset, shape, strides).map(Some)
            }
            ("torch._utils._rebuild_parameter", [tensor, ..]) => self.tensor(tensor),
            (other, _) => Err(TorchTensorProblem::Call(other.to_owned())),
        }
    }

    fn rebuild(
        &self,
        storage: &Value,
        offset: &Value,
        shape: &Value,
        strides: &Value,
    ) -> Result<TensorView<'a>, TorchTensorProblem> {
        let malformed = || TorchTensorProblem::Malformed;
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
        let data = self.archive.file(&format!("data/{key}"));
        let data = data.ok_or_else(|| TorchTensorProblem::MissingData { key: (**key).to_owned() })?;
        let tensor = TensorView::strided(elements(class)?, shape, strides, offset, data);
        tensor.ok_or(TorchTensorProblem::BeyondStorage)
    }
}

/// The elements of a storage class.
fn elements(class: &str) -> Result<Elements, TorchTensorProblem> {
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
        name => return Err(TorchTensorProblem::ElementType(name.to_owned())),
    })
}
