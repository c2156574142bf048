//! `--dtype`: the element types that a command allows, under the names that the library has for them.

use anyhow::{Context, Result};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use minigpt_formats::gguf::FileType;
use minigpt_kernels::ElementType;
use minigpt_model::{DType, Gpt};

/// The types that a model can be run in.
pub const TO_RUN: &[ElementType] =
    &[ElementType::F32, ElementType::F16, ElementType::Bf16, ElementType::Q8_0];
/// The types that a model folder can be written in.
pub const TO_IMPORT: &[ElementType] = &[ElementType::F32, ElementType::F16, ElementType::Bf16];
/// The types that keys and values can be kept in.
pub const TO_CACHE: &[ElementType] = &[ElementType::F32, ElementType::F16];

/// Reads one of these types, also by PyTorch's name; the argument ignores case.
pub fn among(allowed: &'static [ElementType]) -> impl TypedValueParser<Value = ElementType> {
    let possible = |element_type: &ElementType| {
        let name = element_type.name();
        PossibleValue::new(name).help(help(name)).aliases(torch(*element_type))
    };
    PossibleValuesParser::new(allowed.iter().map(possible)).try_map(move |name| {
        let named = |element_type: &&ElementType| {
            torch(**element_type).is_some_and(|torch| torch.eq_ignore_ascii_case(&name))
        };
        allowed.iter().find(named).map_or_else(|| name.parse::<ElementType>(), |&found| Ok(found))
    })
}

/// What an export can be written in: some for a model folder, some for a GGUF file.
#[derive(Debug, Clone)]
pub struct ExportType(String);

impl ExportType {
    /// As the element type of a model folder's weights.
    pub fn of_folder(&self) -> Result<ElementType> {
        let found = self.0.parse().ok().filter(|found| TO_IMPORT.contains(found));
        found.with_context(|| {
            let known = TO_IMPORT.iter().map(|known| known.name()).collect::<Vec<_>>().join(", ");
            format!("a model folder can't be written in {}; there are {known}", self.0)
        })
    }

    /// As the type of a GGUF file.
    pub fn of_gguf(&self) -> Result<FileType> {
        Ok(self.0.parse()?)
    }
}

/// Reads the type of an export; the argument ignores case.
pub fn to_export() -> impl TypedValueParser<Value = ExportType> {
    let files = FileType::ALL.iter().flat_map(|known| [Some(known.name()), known.alias()]).flatten();
    let names = TO_IMPORT.iter().map(|known| known.name());
    let names = names.chain(files.filter(|name| !TO_IMPORT.iter().any(|known| known.name() == *name)));
    PossibleValuesParser::new(names.map(|name| PossibleValue::new(name).help(help(name))))
        .map(|name| ExportType(name.to_lowercase()))
}

fn torch(element_type: ElementType) -> Option<&'static str> {
    match element_type {
        ElementType::F32 => Some("float32"),
        ElementType::F16 => Some("float16"),
        ElementType::Bf16 => Some("bfloat16"),
        _ => None,
    }
}

fn help(name: &str) -> &'static str {
    match name {
        "f32" => "32 bits",
        "f16" => "16 bits",
        "bf16" => "16 bits with the range of 32",
        "q8_0" => "8.5 bits: blocks of 32 with a shared scale",
        "q6_k" => "GGUF only: 6.6 bits in blocks of 256",
        "q5_k_m" => "GGUF only: 5.5 bits in blocks of 256, and 6.6 for the most sensitive matrices",
        "q5_k_s" => "GGUF only: 5.5 bits in blocks of 256",
        "q4_k_m" => "GGUF only: 4.5 bits in blocks of 256, and 6.6 for the most sensitive matrices",
        "q4_k_s" => "GGUF only: 4.5 bits in blocks of 256, and 5.5 in the first layers",
        "q3_k_m" => "GGUF only: 3.4 bits in blocks of 256, and more for the most sensitive matrices",
        "q5_k" => "same as q5_k_m",
        "q4_k" => "same as q4_k_m",
        "q3_k" => "same as q3_k_m",
        _ => "",
    }
}

/// A model whose keys and values are kept in one of [`TO_CACHE`].
pub fn with_cache(gpt: Gpt, cache: ElementType) -> Gpt {
    if cache == ElementType::F16 { gpt.with_cache_dtype(DType::F16) } else { gpt }
}

/// The types of a model's matrices, as they are shown: `q8_0`, or `q4_k and q6_k`.
pub fn names(gpt: &Gpt) -> String {
    let names: Vec<&str> = gpt.element_types().into_iter().map(ElementType::name).collect();
    names.join(" and ")
}
