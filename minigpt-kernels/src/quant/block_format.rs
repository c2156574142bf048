//! llama.cpp's block formats as data: where a block has its scales and the bits of its integers.
//!
//! A block is 32 or 256 consecutive weights of a row. Weight `i` of a block stands for
//!
//! ```text
//! factor · scale[i / 16] · (integer[i] − offset) − min_factor · min[i / 16]
//! ```
//!
//! Both factors are f16, the rest are small integers. A format has either minimums or an offset. Blocks of 32 have no scales
//! and minimums of their own: there `scale` is 1, and `min` is −1 if there is a `min_factor`.

use candle_core::quantized::GgmlDType;
use half::f16;
use std::array::from_fn;

/// Weights whose bits lie together in a block.
pub const GROUP: usize = 32;
/// Scales (and minimums) of a block of 256, one for every 16 weights. Where a format has one for every 32, it appears twice.
pub const SCALES: usize = 16;

/// A format of blocks.
pub struct BlockFormat {
    /// candle's name of the format.
    pub dtype: GgmlDType,
    /// Bytes of a block.
    pub bytes: usize,
    /// Groups of a block: 1 or 8.
    pub groups: usize,
    /// How many bits of an integer lie in its low plane, and in its high plane.
    pub bits: [usize; 2],
    /// Where both planes of a group lie.
    planes: fn(group: usize) -> [Bits; 2],
    /// Where the factors lie, one behind the other.
    factors: usize,
    /// How the scales and minimums are packed, and where.
    pub scales: Scales,
    /// What turns an unsigned integer into a signed weight.
    pub zero: Zero,
}

/// How a format represents negative weights.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Zero {
    /// The integer that stands for 0.
    Offset(i16),
    /// A minimum per scale, with a factor of its own.
    Minimum,
}

/// Where a block has the same bits of the 32 integers of a group.
#[derive(Clone, Copy)]
enum Bits {
    /// Nowhere: the plane is empty.
    None,
    /// From bit `shift` on in 32 bytes from `at` on.
    Bytes { at: usize, shift: usize },
    /// In 16 bytes: those of the first sixteen integers in the low nibbles, the others in the high nibbles.
    Nibbles { at: usize },
    /// One bit each, in 4 bytes.
    Mask { at: usize },
    /// Whole bytes with a sign; the integers are larger by 128.
    Signed { at: usize },
}

/// How a block packs its scales.
#[derive(Clone, Copy)]
pub enum Scales {
    /// It has none.
    None,
    /// Sixteen signed bytes.
    Bytes { at: usize },
    /// Sixteen bytes, each with a scale in the low nibble and a minimum in the high one.
    Nibbles { at: usize },
    /// Eight scales and eight minimums of 6 bits in twelve bytes: the first four scales, then the first four minimums in the
    /// low bits of eight bytes. Of the others, the low four bits lie in the nibbles of the last four bytes, the high two bits
    /// above the first ones.
    SixBits { at: usize },
    /// Sixteen scales of 6 bits, larger by 32, in twelve bytes: the low four bits in the nibbles of eight bytes, the high two
    /// bits in the quarters of four.
    SignedSixBits { at: usize },
}

/// The formats whose integers can be multiplied. Micro-kernels know a format by its index here.
pub static FORMATS: [BlockFormat; 10] = [
    format_32(GgmlDType::Q4_0, 18, [4, 0], Zero::Offset(8), |_| [Bits::Nibbles { at: 2 }, Bits::None]),
    format_32(GgmlDType::Q4_1, 20, [4, 0], Zero::Minimum, |_| [Bits::Nibbles { at: 4 }, Bits::None]),
    format_32(GgmlDType::Q5_0, 22, [4, 1], Zero::Offset(16), |_| {
        [Bits::Nibbles { at: 6 }, Bits::Mask { at: 2 }]
    }),
    format_32(GgmlDType::Q5_1, 24, [4, 1], Zero::Minimum, |_| {
        [Bits::Nibbles { at: 8 }, Bits::Mask { at: 4 }]
    }),
    format_32(GgmlDType::Q8_0, 34, [8, 0], Zero::Offset(128), |_| [Bits::Signed { at: 2 }, Bits::None]),
    format_256(GgmlDType::Q2K, 84, [2, 0], Zero::Minimum, 80, Scales::Nibbles { at: 0 }, |group| {
        [Bits::Bytes { at: 16 + group / 4 * 32, shift: group % 4 * 2 }, Bits::None]
    }),
    format_256(
        GgmlDType::Q3K,
        110,
        [2, 1],
        Zero::Offset(4),
        108,
        Scales::SignedSixBits { at: 96 },
        |group| {
            let low = Bits::Bytes { at: 32 + group / 4 * 32, shift: group % 4 * 2 };
            [low, Bits::Bytes { at: 0, shift: group }]
        },
    ),
    format_256(GgmlDType::Q4K, 144, [4, 0], Zero::Minimum, 0, Scales::SixBits { at: 4 }, |group| {
        [Bits::Bytes { at: 16 + group / 2 * 32, shift: group % 2 * 4 }, Bits::None]
    }),
    format_256(GgmlDType::Q5K, 176, [4, 1], Zero::Minimum, 0, Scales::SixBits { at: 4 }, |group| {
        let low = Bits::Bytes { at: 48 + group / 2 * 32, shift: group % 2 * 4 };
        [low, Bits::Bytes { at: 16, shift: group }]
    }),
    format_256(GgmlDType::Q6K, 210, [4, 2], Zero::Offset(32), 208, Scales::Bytes { at: 192 }, |group| {
        let low = Bits::Bytes { at: group / 4 * 64 + group % 2 * 32, shift: group % 4 / 2 * 4 };
        [low, Bits::Bytes { at: 128 + group / 4 * 32, shift: group % 4 * 2 }]
    }),
];

/// A format whose block is one group behind its factors.
const fn format_32(
    dtype: GgmlDType,
    bytes: usize,
    bits: [usize; 2],
    zero: Zero,
    planes: fn(usize) -> [Bits; 2],
) -> BlockFormat {
    BlockFormat { dtype, bytes, groups: 1, bits, planes, factors: 0, scales: Scales::None, zero }
}

/// A format whose block is eight groups.
const fn format_256(
    dtype: GgmlDType,
    bytes: usize,
    bits: [usize; 2],
    zero: Zero,
    factors: usize,
    scales: Scales,
    planes: fn(usize) -> [Bits; 2],
) -> BlockFormat {
    BlockFormat { dtype, bytes, groups: 8, bits, planes, factors, scales, zero }
}

/// The scales of a block, whatever its format.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockScales {
    /// `factor` and `min_factor`.
    pub factors: [f16; 2],
    /// The scale of every 16 weights.
    pub scales: [i8; SCALES],
    /// The minimum of every 16 weights.
    pub mins: [i8; SCALES],
}

impl BlockFormat {
    /// Weights of a block.
    pub const fn weights(&self) -> usize {
        self.groups * GROUP
    }

    /// Whether blocks have minimums, rather than an offset.
    pub const fn has_minimums(&self) -> bool {
        matches!(self.zero, Zero::Minimum)
    }

    /// How many weights share a scale: 16 or 32.
    pub const fn weights_per_scale(&self) -> usize {
        if matches!(self.scales, Scales::None | Scales::SixBits { .. }) { 32 } else { 16 }
    }

    /// The weights of a block in f32, by the formula at the top of this file.
    pub fn dequantize(&self, block: &[u8], weights: &mut [f32]) {
        let BlockScales { factors, scales, mins } = self.read_scales(block);
        let [factor, min_factor] = factors.map(f16::to_f32);
        let offset = if let Zero::Offset(offset) = self.zero { offset } else { 0 };
        for (group, weights) in weights.chunks_mut(GROUP).enumerate() {
            let integers = self.read_group(block, group);
            for (i, (weight, integer)) in weights.iter_mut().zip(integers).enumerate() {
                let (scale, min) = (scales[2 * group + i / 16], mins[2 * group + i / 16]);
                let signed = f32::from(i16::from(integer) - offset);
                *weight = factor * f32::from(scale) * signed - min_factor * f32::from(min);
            }
        }
    }

    /// Reads the scales of a block.
    pub fn read_scales(&self, block: &[u8]) -> BlockScales {
        let factor = |at: usize| f16::from_le_bytes([block[at], block[at + 1]]);
        let min_factor = if self.has_minimums() { factor(self.factors + 2) } else { f16::ZERO };
        let (scales, mins) = match self.scales {
            Scales::None => ([1; SCALES], [if self.has_minimums() { -1 } else { 0 }; SCALES]),
            Scales::Bytes { at } => (from_fn(|i| block[at + i] as i8), [0; SCALES]),
            Scales::Nibbles { at } => {
                (from_fn(|i| (block[at + i] & 15) as i8), from_fn(|i| (block[at + i] >> 4) as i8))
            }
            Scales::SixBits { at } => {
                let packed = &block[at..at + 12];
                let six = |i: usize, which: usize| match i {
                    0..4 => packed[i + 4 * which] & 63,
                    _ => packed[i + 4] >> (4 * which) & 15 | packed[i - 4 + 4 * which] >> 6 << 4,
                };
                (from_fn(|i| six(i / 2, 0) as i8), from_fn(|i| six(i / 2, 1) as i8))
            }
            Scales::SignedSixBits { at } => {
                let packed = &block[at..at + 12];
                let low = |i: usize| packed[i % 8] >> (i / 8 * 4) & 15;
                let high = |i: usize| packed[8 + i % 4] >> (i / 4 * 2) & 3;
                (from_fn(|i| (low(i) | high(i) << 4) as i8 - 32), [0; SCALES])
            }
        };
        BlockScales { factors: [factor(self.factors), min_factor], scales, mins }
    }

    /// Writes the scales of a block that is filled with zeros.
    pub fn write_scales(&self, from: &BlockScales, block: &mut [u8]) {
        for (i, factor) in from.factors.iter().take(1 + usize::from(self.has_minimums())).enumerate() {
            block[self.factors + 2 * i..][..2].copy_from_slice(&factor.to_le_bytes());
        }
        match self.scales {
            Scales::None => (),
            Scales::Bytes { at } => (0..SCALES).for_each(|i| block[at + i] = from.scales[i] as u8),
            Scales::Nibbles { at } => {
                (0..SCALES).for_each(|i| block[at + i] = from.scales[i] as u8 | (from.mins[i] as u8) << 4);
            }
            Scales::SixBits { at } => {
                let packed = &mut block[at..at + 12];
                for (which, six) in [from.scales, from.mins].into_iter().enumerate() {
                    for i in 0..4 {
                        let (first, second) = (six[2 * i] as u8, six[2 * (i + 4)] as u8);
                        packed[i + 4 * which] |= first | second >> 4 << 6;
                        packed[i + 8] |= (second & 15) << (4 * which);
                    }
                }
            }
            Scales::SignedSixBits { at } => {
                let packed = &mut block[at..at + 12];
                for (i, scale) in from.scales.into_iter().enumerate() {
                    let scale = (scale + 32) as u8;
                    packed[i % 8] |= (scale & 15) << (i / 8 * 4);
                    packed[8 + i % 4] |= scale >> 4 << (i / 4 * 2);
                }
            }
        }
    }

    /// Reads the integers of a group.
    pub fn read_group(&self, block: &[u8], group: usize) -> [u8; GROUP] {
        let mut integers = [0; GROUP];
        let ([low, high], [low_bits, high_bits]) = ((self.planes)(group), self.bits);
        low.read(block, low_bits, 0, &mut integers);
        high.read(block, high_bits, low_bits, &mut integers);
        integers
    }

    /// Writes the integers of a group into a block whose bits are 0 there.
    pub fn write_group(&self, integers: &[u8; GROUP], block: &mut [u8], group: usize) {
        let ([low, high], [low_bits, high_bits]) = ((self.planes)(group), self.bits);
        low.write(block, low_bits, 0, integers);
        high.write(block, high_bits, low_bits, integers);
    }
}

/// The lowest `bits` bits.
pub const fn mask(bits: usize) -> u8 {
    ((1u16 << bits) - 1) as u8
}

impl Bits {
    /// Adds `bits` bits to each integer, from bit `to` on.
    fn read(self, block: &[u8], bits: usize, to: usize, integers: &mut [u8; GROUP]) {
        let read = |integers: &mut [u8], bytes: &[u8], shift: usize| {
            for (integer, byte) in integers.iter_mut().zip(bytes) {
                *integer |= (byte >> shift & mask(bits)) << to;
            }
        };
        match self {
            Self::None => {}
            Self::Bytes { at, shift } => read(integers, &block[at..at + GROUP], shift),
            Self::Nibbles { at } => {
                read(&mut integers[..16], &block[at..at + 16], 0);
                read(&mut integers[16..], &block[at..at + 16], 4);
            }
            Self::Mask { at } => {
                for (i, integer) in integers.iter_mut().enumerate() {
                    *integer |= (block[at + i / 8] >> (i % 8) & 1) << to;
                }
            }
            Self::Signed { at } => *integers = from_fn(|i| block[at + i] ^ 0x80),
        }
    }

    /// Writes the bits from bit `from` on of each integer.
    fn write(self, block: &mut [u8], bits: usize, from: usize, integers: &[u8; GROUP]) {
        for (i, integer) in integers.iter().enumerate() {
            let (at, shift) = match self {
                Self::None => return,
                Self::Bytes { at, shift } => (at + i, shift),
                Self::Nibbles { at } => (at + i % 16, i / 16 * 4),
                Self::Mask { at } => (at + i / 8, i % 8),
                Self::Signed { at } => {
                    block[at + i] = integer ^ 0x80;
                    continue;
                }
            };
            block[at] |= (integer >> from & mask(bits)) << shift;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::random;
    use candle_core::quantized::QTensor;

    #[test]
    fn blocks_are_dequantised_as_by_candle() {
        for format in &FORMATS {
            assert_eq!(
                (format.bytes, format.weights()),
                (format.dtype.type_size(), format.dtype.block_size())
            );
            let quantized = QTensor::quantize(&random(&[4, 256], 1), format.dtype).unwrap();
            let want = quantized.dequantize(&candle_core::Device::Cpu).unwrap();
            let want = want.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            let bytes = quantized.data().unwrap();
            let mut got = vec![0f32; want.len()];
            for (block, got) in bytes.chunks(format.bytes).zip(got.chunks_mut(format.weights())) {
                format.dequantize(block, got);
            }
            let wrong = got.iter().zip(&want).position(|(got, want)| got.to_bits() != want.to_bits());
            assert_eq!(wrong, None, "{:?}", format.dtype);
        }
    }
}
