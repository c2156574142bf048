//! The table of element types: how the numbers of a tensor are stored in memory or in a file, plain ones and llama.cpp's
//! quantised blocks.

use candle_core::DType;
use candle_core::quantized::GgmlDType;
use std::fmt;
use std::str::FromStr;

/// How the elements of a tensor are stored. Quantised elements come in blocks with common scales, which lie along rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say what they are")]
pub enum ElementType {
    F64,
    F32,
    F16,
    Bf16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q8_1,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
    Q8K,
}

impl ElementType {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::F64,
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q8_1,
        Self::Q2K,
        Self::Q3K,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
        Self::Q8K,
    ];

    /// The table: its name, candle's type of plain elements, and candle's type of a quantised matrix.
    const fn row(self) -> (&'static str, Option<DType>, Option<GgmlDType>) {
        match self {
            Self::F64 => ("f64", Some(DType::F64), None),
            Self::F32 => ("f32", Some(DType::F32), Some(GgmlDType::F32)),
            Self::F16 => ("f16", Some(DType::F16), Some(GgmlDType::F16)),
            Self::Bf16 => ("bf16", Some(DType::BF16), Some(GgmlDType::BF16)),
            Self::Q4_0 => ("q4_0", None, Some(GgmlDType::Q4_0)),
            Self::Q4_1 => ("q4_1", None, Some(GgmlDType::Q4_1)),
            Self::Q5_0 => ("q5_0", None, Some(GgmlDType::Q5_0)),
            Self::Q5_1 => ("q5_1", None, Some(GgmlDType::Q5_1)),
            Self::Q8_0 => ("q8_0", None, Some(GgmlDType::Q8_0)),
            Self::Q8_1 => ("q8_1", None, Some(GgmlDType::Q8_1)),
            Self::Q2K => ("q2_k", None, Some(GgmlDType::Q2K)),
            Self::Q3K => ("q3_k", None, Some(GgmlDType::Q3K)),
            Self::Q4K => ("q4_k", None, Some(GgmlDType::Q4K)),
            Self::Q5K => ("q5_k", None, Some(GgmlDType::Q5K)),
            Self::Q6K => ("q6_k", None, Some(GgmlDType::Q6K)),
            Self::Q8K => ("q8_k", None, Some(GgmlDType::Q8K)),
        }
    }

    /// Its usual name: `f16`, `q4_k`.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// candle's type of plain elements; `None` if they are quantised.
    pub const fn plain(self) -> Option<DType> {
        self.row().1
    }

    /// candle's type of a quantised matrix, which may also hold plain elements of up to 32 bits.
    pub const fn ggml(self) -> Option<GgmlDType> {
        self.row().2
    }

    /// Whether elements share scales.
    pub const fn is_quantized(self) -> bool {
        self.plain().is_none()
    }

    /// Elements of a block; 1 if they are plain.
    pub fn block_size(self) -> usize {
        self.ggml().map_or(1, |ggml| ggml.block_size())
    }

    /// Bytes of a block.
    pub fn block_bytes(self) -> usize {
        self.ggml().map_or(8, |ggml| ggml.type_size())
    }

    /// Bytes of `count` elements; `None` if these do not fill whole blocks, or overflow.
    pub fn bytes(self, count: usize) -> Option<usize> {
        let blocks = count.is_multiple_of(self.block_size()).then_some(count / self.block_size())?;
        blocks.checked_mul(self.block_bytes())
    }

    /// Average bytes per element.
    pub fn bytes_an_element(self) -> f64 {
        self.block_bytes() as f64 / self.block_size() as f64
    }

    /// This type, or the next larger one whose blocks fill a row of `columns` elements, as llama.cpp chooses it: blocks never
    /// span two rows.
    pub fn for_rows_of(self, columns: usize) -> Self {
        match self {
            _ if columns.is_multiple_of(self.block_size()) => self,
            Self::Q2K | Self::Q3K => Self::Q4_0.for_rows_of(columns),
            Self::Q4K => Self::Q5_0.for_rows_of(columns),
            Self::Q5K => Self::Q5_1.for_rows_of(columns),
            Self::Q6K | Self::Q8K => Self::Q8_0.for_rows_of(columns),
            _ => Self::F16,
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is not the name of an element type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownElementType(pub String);

impl fmt::Display for UnknownElementType {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let known = ElementType::ALL.map(ElementType::name).join(", ");
        write!(f, "unknown element type {:?}; element types are {known}", self.0)
    }
}

impl std::error::Error for UnknownElementType {}

impl FromStr for ElementType {
    type Err = UnknownElementType;

    fn from_str(name: &str) -> Result<Self, UnknownElementType> {
        let found = Self::ALL.into_iter().find(|element_type| element_type.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| UnknownElementType(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_found_by_its_name_and_no_two_share_one() {
        for element_type in ElementType::ALL {
            assert_eq!(element_type.to_string().parse(), Ok(element_type));
        }
        assert!("q3".parse::<ElementType>().unwrap_err().to_string().contains("q3_k"));
    }

    #[test]
    fn sizes_are_those_of_whole_blocks() {
        assert_eq!(ElementType::F64.bytes(3), Some(24));
        assert_eq!(ElementType::Bf16.bytes(3), Some(6));
        assert_eq!((ElementType::Q8_0.bytes(64), ElementType::Q8_0.bytes(63)), (Some(68), None));
        assert_eq!(ElementType::Q4K.bytes(256), Some(144));
        assert_eq!(ElementType::F32.bytes(usize::MAX / 2), None);
        assert!(ElementType::Q8_0.is_quantized() && !ElementType::F16.is_quantized());
    }

    #[test]
    fn a_row_that_blocks_do_not_fill_has_more_bits() {
        let fitting = |element_type: ElementType| [256, 64, 24].map(|row| element_type.for_rows_of(row));
        assert_eq!(fitting(ElementType::Q4K), [ElementType::Q4K, ElementType::Q5_0, ElementType::F16]);
        assert_eq!(fitting(ElementType::Q5K), [ElementType::Q5K, ElementType::Q5_1, ElementType::F16]);
        assert_eq!(fitting(ElementType::Q6K), [ElementType::Q6K, ElementType::Q8_0, ElementType::F16]);
        assert_eq!(fitting(ElementType::Q3K), [ElementType::Q3K, ElementType::Q4_0, ElementType::F16]);
        assert_eq!(fitting(ElementType::Q8_0), [ElementType::Q8_0, ElementType::Q8_0, ElementType::F16]);
        assert_eq!(fitting(ElementType::Bf16), [ElementType::Bf16; 3]);
    }
}
