//! `--dtype`: the element types that a command allows, under the names that the library has for them.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use minigpt_kernels::ElementType;
use minigpt_model::{DType, Gpt};

/// The types that a model can be run in. As f32, what a file has in fewer bits stays so.
pub const TO_RUN: &[ElementType] =
    &[ElementType::F32, ElementType::F16, ElementType::Bf16, ElementType::Q8_0];
/// The types that a model folder can be written in.
pub const TO_IMPORT: &[ElementType] = &[ElementType::F32, ElementType::F16, ElementType::Bf16];
/// The types that some target of an export can have.
pub const TO_EXPORT: &[ElementType] =
    &[ElementType::F32, ElementType::F16, ElementType::Bf16, ElementType::Q8_0, ElementType::Q4K];

/// The types that keys and values can be kept in.
pub const TO_CACHE: &[ElementType] = &[ElementType::F32, ElementType::F16];

/// Reads one of these types.
pub fn among(allowed: &'static [ElementType]) -> impl TypedValueParser<Value = ElementType> {
    let possible = |element_type: &ElementType| match help(*element_type) {
        Some(help) => PossibleValue::new(element_type.name()).help(help),
        None => PossibleValue::new(element_type.name()),
    };
    PossibleValuesParser::new(allowed.iter().map(possible)).try_map(|name| name.parse::<ElementType>())
}

fn help(element_type: ElementType) -> Option<&'static str> {
    match element_type {
        ElementType::F32 => Some("32 bits"),
        ElementType::F16 => Some("16 bits"),
        ElementType::Bf16 => Some("16 bits with the range of 32"),
        ElementType::Q8_0 => Some("8.5 bits: blocks of 32 with a common scale"),
        ElementType::Q4K => Some("4.5 bits: blocks of 256 with scales of their own"),
        _ => None,
    }
}

/// A model whose keys and values are kept in one of [`TO_CACHE`].
pub fn with_cache(gpt: Gpt, cache: ElementType) -> Gpt {
    if cache == ElementType::F16 { gpt.with_cache_dtype(DType::F16) } else { gpt }
}

/// What to quantise a model's matrices to on the way into memory: to run in f32 is to leave them as they are.
pub fn quantized(dtype: ElementType) -> Option<ElementType> {
    (dtype != ElementType::F32).then_some(dtype)
}
