//! The types of GGUF files: how many bits each tensor gets in a file of that name.
//!
//! llama.cpp's mixtures spend more bits where rounding costs most: on the table of tokens that is also the output head, on
//! the joint attention weights, and on the way down out of the MLP, in the first and last eighth of the layers and in every
//! third one between.

use minigpt_kernels::ElementType;
use std::fmt;
use std::str::FromStr;

/// How the matrices of a GGUF file are written. Norms, biases and positions are f32 in all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are llama.cpp's")]
pub enum FileType {
    F32,
    F16,
    Q8_0,
    Q6K,
    Q5KM,
    Q5KS,
    Q4KM,
    Q4KS,
    Q3KM,
}

impl FileType {
    /// All of them, the largest first.
    pub const ALL: [Self; 9] = [
        Self::F32,
        Self::F16,
        Self::Q8_0,
        Self::Q6K,
        Self::Q5KM,
        Self::Q5KS,
        Self::Q4KM,
        Self::Q4KS,
        Self::Q3KM,
    ];

    /// The name that people write: `f16`, `q4_k_m`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Q8_0 => "q8_0",
            Self::Q6K => "q6_k",
            Self::Q5KM => "q5_k_m",
            Self::Q5KS => "q5_k_s",
            Self::Q4KM => "q4_k_m",
            Self::Q4KS => "q4_k_s",
            Self::Q3KM => "q3_k_m",
        }
    }

    /// A shorter name, which llama.cpp's own tool takes too.
    pub const fn alias(self) -> Option<&'static str> {
        match self {
            Self::Q5KM => Some("q5_k"),
            Self::Q4KM => Some("q4_k"),
            Self::Q3KM => Some("q3_k"),
            _ => None,
        }
    }

    /// llama.cpp's number for such files (`general.file_type`).
    pub const fn number(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q8_0 => 7,
            Self::Q3KM => 12,
            Self::Q4KS => 14,
            Self::Q4KM => 15,
            Self::Q5KS => 16,
            Self::Q5KM => 17,
            Self::Q6K => 18,
        }
    }

    /// The element type that gave the file type its name.
    pub const fn element_type(self) -> ElementType {
        match self {
            Self::F32 => ElementType::F32,
            Self::F16 => ElementType::F16,
            Self::Q8_0 => ElementType::Q8_0,
            Self::Q6K => ElementType::Q6K,
            Self::Q5KM | Self::Q5KS => ElementType::Q5K,
            Self::Q4KM | Self::Q4KS => ElementType::Q4K,
            Self::Q3KM => ElementType::Q3K,
        }
    }

    /// The element type for the matrix of this name, whose rows may be too short for it. `tied` says that the output head is
    /// the table of tokens.
    pub(super) fn of_matrix(self, name: &str, layers: usize, tied: bool) -> ElementType {
        use ElementType::{Q4K, Q5K, Q6K, Q8_0};
        let usual = self.element_type();
        if !usual.is_quantized() {
            return usual;
        }
        let (layer, part) = match name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) {
            Some((layer, part)) => (layer.parse().unwrap_or(0), part),
            None => (0, name),
        };
        let more = more_bits(layer, layers);
        match (part, self) {
            ("output.weight", _) => {
                if usual == Q8_0 {
                    Q8_0
                } else {
                    Q6K
                }
            }
            ("token_embd.weight", _) if tied && usual != Q8_0 => Q6K,
            ("attn_qkv.weight" | "ffn_down.weight", Self::Q4KM | Self::Q5KM) if more => Q6K,
            ("attn_qkv.weight", Self::Q4KS) if layer < 4 => Q5K,
            ("attn_qkv.weight", Self::Q3KM) => {
                if layer < 2 {
                    Q5K
                } else {
                    Q4K
                }
            }
            ("ffn_down.weight", Self::Q4KS) if layer < layers / 8 => Q5K,
            ("ffn_down.weight", Self::Q3KM) => {
                if layer < layers / 16 {
                    Q5K
                } else {
                    Q4K
                }
            }
            ("attn_output.weight", Self::Q3KM) => Q4K,
            _ => usual,
        }
    }
}

/// The layers that a mixture spends more bits on.
fn more_bits(layer: usize, layers: usize) -> bool {
    layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2
}

impl fmt::Display for FileType {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for FileType {
    type Err = UnknownFileType;

    /// Reads a name in letters of either case.
    fn from_str(name: &str) -> Result<Self, UnknownFileType> {
        let is = |known: &str| known.eq_ignore_ascii_case(name);
        let found = Self::ALL.into_iter().find(|known| is(known.name()) || known.alias().is_some_and(is));
        found.ok_or_else(|| UnknownFileType(name.to_owned()))
    }
}

/// A name that is not the name of a file type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} is not available for GGUF; use one of {}", .0, FileType::ALL.map(FileType::name).join(", "))]
pub struct UnknownFileType(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_aliases_are_read_in_either_case() {
        for file_type in FileType::ALL {
            assert_eq!(file_type.name().parse(), Ok(file_type));
            assert_eq!(file_type.name().to_uppercase().parse(), Ok(file_type));
        }
        assert_eq!("Q4_K".parse(), Ok(FileType::Q4KM));
        assert!("bf16".parse::<FileType>().unwrap_err().to_string().contains("f16"));
    }

    #[test]
    fn a_mixture_spends_its_bits_where_llama_cpp_does() {
        use ElementType::{Q3K, Q4K, Q5K, Q6K, Q8_0};
        let of = |file_type: FileType, part: &str| -> Vec<ElementType> {
            (0..12)
                .map(|layer| file_type.of_matrix(&format!("blk.{layer}.{part}.weight"), 12, true))
                .collect()
        };
        // The first eighth of twelve layers is one, the last two; of those between, every third.
        let more = [Q6K, Q4K, Q4K, Q6K, Q4K, Q4K, Q6K, Q4K, Q4K, Q6K, Q6K, Q6K];
        assert_eq!(of(FileType::Q4KM, "ffn_down"), more);
        assert_eq!(of(FileType::Q4KM, "attn_qkv"), more);
        assert_eq!(of(FileType::Q4KM, "ffn_up"), [Q4K; 12]);
        assert_eq!(of(FileType::Q5KM, "attn_qkv")[..2], [Q6K, Q5K]);
        assert_eq!(of(FileType::Q4KS, "attn_qkv")[3..5], [Q5K, Q4K]);
        assert_eq!(of(FileType::Q4KS, "ffn_down")[..2], [Q5K, Q4K]);
        assert_eq!(of(FileType::Q3KM, "attn_qkv")[1..3], [Q5K, Q4K]);
        assert_eq!(of(FileType::Q3KM, "attn_output"), [Q4K; 12]);
        assert_eq!(of(FileType::Q3KM, "ffn_up"), [Q3K; 12]);
        assert_eq!(of(FileType::Q6K, "ffn_down"), [Q6K; 12]);
        let table = |file_type: FileType, tied| file_type.of_matrix("token_embd.weight", 12, tied);
        assert_eq!([true, false].map(|tied| table(FileType::Q4KM, tied)), [Q6K, Q4K]);
        assert_eq!(table(FileType::Q8_0, true), Q8_0);
        assert_eq!(FileType::Q5KS.of_matrix("output.weight", 12, false), Q6K);
    }
}
