//! State dictionaries of two decoders that people write themselves in PyTorch: the question answering model and the
//! textbook's. `torch.save` wrote only their tensors, so the names and shapes must tell which of the two it is and how large.
//! The rest is assumed, and reported in notes.

mod architecture;
mod names;
mod problem;

use crate::tensor_view::{Elements, TensorView};
use crate::torch::{TorchArchive, TorchProblem, Value};
pub use architecture::Architecture;
use minigpt_model::Config;
use names::{OurTensor, plain_name};
pub use problem::{StateDictNote, StateDictProblem, TensorNames};
use std::collections::BTreeMap;

/// Where programs put a state dictionary in what they save.
const WRAPPERS: [&str; 3] = ["model_state_dict", "state_dict", "model"];

/// A state dictionary, as far as it was understood.
pub(crate) struct StateDict<'a> {
    /// The configuration, as far as the tensors tell; the rest is assumed.
    pub config: Config,
    /// What was assumed, and what was ignored.
    pub notes: Vec<StateDictNote>,
    /// By GPT-2's names, in its layouts.
    pub tensors: Vec<(String, TensorView<'a>)>,
}

impl<'a> StateDict<'a> {
    /// Reads what `torch.save` wrote.
    ///
    /// # Errors
    /// The file is not a known state dictionary, or tensors are missing or not understood; the error lists them all.
    pub fn read(bytes: &'a [u8]) -> Result<Self, StateDictProblem> {
        let archive = TorchArchive::open(bytes)?;
        let tensors = tensors(&archive)?;
        let names: Vec<&str> = tensors.iter().map(|(name, _)| name.as_str()).collect();
        let architecture = Architecture::of(&names).ok_or_else(|| unknown(&tensors))?;
        let mut read = Reading::default();
        for (name, tensor) in tensors {
            read.add(architecture, &name, tensor)?;
        }
        read.finish(architecture, bytes.len() as u64)
    }
}

/// Whose state dictionary a file holds, if it is one.
pub(crate) fn architecture(bytes: &[u8]) -> Option<Architecture> {
    let archive = TorchArchive::open(bytes).ok()?;
    // nanoGPT's checkpoint says all about its model.
    if archive.root.get("model_args").is_some() {
        return None;
    }
    let tensors = tensors(&archive).ok()?;
    Architecture::of(&tensors.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>())
}

/// The tensors of a state dictionary, wrapped or not, without what compiled and parallel models put before their names.
fn tensors<'a>(archive: &TorchArchive<'a>) -> Result<Vec<(String, TensorView<'a>)>, TorchProblem> {
    let wrapped = WRAPPERS.iter().find_map(|name| archive.root.get(name));
    let dictionary = wrapped.filter(|value| matches!(value, Value::Dict(_))).unwrap_or(&archive.root);
    let tensors = archive.tensors(dictionary)?.into_iter();
    Ok(tensors.map(|(name, tensor)| (plain_name(&name).to_owned(), tensor)).collect())
}

fn unknown(tensors: &[(String, TensorView)]) -> StateDictProblem {
    let named = |(name, tensor): &(String, TensorView)| format!("{name} {:?}", tensor.shape);
    StateDictProblem::Unknown { tensors: tensors.iter().map(named).collect() }
}

/// The tensors of a file while they are sorted.
#[derive(Default)]
struct Reading<'a> {
    whole: BTreeMap<String, TensorView<'a>>,
    /// Queries, keys and values that are apart in the file.
    apart: BTreeMap<String, [Option<TensorView<'a>>; 3]>,
    ignored: Vec<String>,
    not_understood: Vec<String>,
}

impl<'a> Reading<'a> {
    fn add(
        &mut self,
        architecture: Architecture,
        name: &str,
        tensor: TensorView<'a>,
    ) -> Result<(), StateDictProblem> {
        let is_number = matches!(tensor.elements, Elements::Weights(_));
        let taken = match architecture.our_tensor(name) {
            _ if names::is_buffer(name) || !is_number => {
                self.ignored.push(name.to_owned());
                return Ok(());
            }
            None => {
                self.not_understood.push(format!("{name} {:?}", tensor.shape));
                return Ok(());
            }
            Some(OurTensor::Whole(ours)) => self.whole.insert(ours, tensor),
            Some(OurTensor::Third(part, ours)) => self.apart.entry(ours).or_default()[part].replace(tensor),
        };
        if taken.is_some() { Err(StateDictProblem::Twice { name: name.to_owned() }) } else { Ok(()) }
    }

    fn finish(mut self, architecture: Architecture, held: u64) -> Result<StateDict<'a>, StateDictProblem> {
        let understood = self.whole.len() + self.apart.values().flatten().flatten().count();
        let parts = self.apart.values().flatten().flatten().map(TensorView::bytes);
        if parts.sum::<u64>() > held {
            return Err(StateDictProblem::TooManyElements);
        }
        let mut missing = Vec::new();
        for (ours, parts) in std::mem::take(&mut self.apart) {
            match parts {
                [Some(q), Some(k), Some(v)] => {
                    let Some(joined) = TensorView::stacked(&[q, k, v]) else {
                        return Err(StateDictProblem::ThirdsDiffer { name: ours });
                    };
                    self.whole.insert(ours, joined);
                }
                parts => missing.extend(architecture.missing_parts(&ours, &parts.map(|part| part.is_some()))),
            }
        }
        let Reading { whole, ignored, not_understood, .. } = self;
        let described = architecture.describe(whole, &mut missing)?;
        if !(missing.is_empty() && not_understood.is_empty()) {
            let [missing, not_understood] = [missing, not_understood].map(TensorNames::from_iter);
            return Err(StateDictProblem::Mismatch { architecture, understood, missing, not_understood });
        }
        let (config, mut notes, tensors) = described;
        if !ignored.is_empty() {
            notes.push(StateDictNote::Ignored(ignored.into_iter().collect()));
        }
        Ok(StateDict { config, notes, tensors })
    }
}
