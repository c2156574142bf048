//! Where the blocks of llama.cpp's formats have their integers and scales: each format is read into units of sixteen columns,
//! and a column of a unit can be written back, byte for byte.

use super::block_panels::{Integers, STEPS, SmallIntegers};
use super::micro::scales::{
    ColumnScales, Factor, FactorAndMinimum, Scales, ScalesAndMinsOf16, ScalesOf16, ScalesOf32,
};
use crate::gemm::panel_format::COLUMNS;
use candle_core::quantized::{GgmlType, k_quants as k};
use half::f16;
use std::array::from_fn;

/// The longest block, in groups of [`STEPS`] integers.
const MOST_GROUPS: usize = 8;

/// A format of blocks.
pub trait BlockFormat: Send + Sync + 'static {
    /// The block as candle expands it.
    type Block: GgmlType;
    /// Its integers.
    type Integers: SmallIntegers;
    /// Its scales.
    type Scales: Scales;
    /// Its groups of [`STEPS`] integers: `[Self::Integers; 8]`, or of one.
    type Groups: AsRef<[Self::Integers]> + Copy + Send + Sync + 'static;
    /// How many integers share a scale.
    const SCALED: usize;

    /// The groups of a unit.
    fn groups(group: impl Fn(usize) -> Self::Integers) -> Self::Groups;

    /// Where the low bits and the high bits of a group's integers lie, if it has any.
    fn places(group: usize) -> [BitPlace; 2];

    /// Reads the scales of a block.
    fn scales(block: &[u8]) -> ColumnScales;

    /// Writes the scales of a block that is filled with zeros.
    fn write_scales(scales: &ColumnScales, block: &mut [u8]);
}

/// Where the bits of 32 integers lie in a block.
#[derive(Clone, Copy)]
pub enum BitPlace {
    /// Nowhere: there are none.
    Nowhere,
    /// From bit `shift` on of 32 bytes.
    Bytes { at: usize, shift: usize },
    /// In 16 bytes: those of the first sixteen integers in the low half, those of the others in the high half.
    Halves { at: usize },
    /// One bit each, in 4 bytes.
    Single { at: usize },
    /// All bits of 32 bytes with a sign, kept as what they are above −128.
    Signed { at: usize },
}

/// The lowest `bits` bits.
const fn mask(bits: usize) -> u8 {
    ((1u16 << bits) - 1) as u8
}

/// What stands for itself less 128: the sign's bit, inverted.
const SIGN: u8 = 0x80;

impl BitPlace {
    /// Adds `bits` bits of each integer, from bit `to` on.
    #[inline(always)]
    fn read(self, block: &[u8], bits: usize, to: usize, integers: &mut [u8; STEPS]) {
        let mask = mask(bits);
        let read = |integers: &mut [u8], bytes: &[u8], shift: usize| {
            integers
                .iter_mut()
                .zip(bytes)
                .for_each(|(integer, byte)| *integer |= (byte >> shift & mask) << to);
        };
        match self {
            Self::Nowhere => {}
            Self::Bytes { at, shift } => read(integers, &block[at..at + 32], shift),
            Self::Halves { at } => {
                read(&mut integers[..16], &block[at..at + 16], 0);
                read(&mut integers[16..], &block[at..at + 16], 4);
            }
            Self::Single { at } => {
                for (step, integer) in integers.iter_mut().enumerate() {
                    *integer |= (block[at + step / 8] >> (step % 8) & mask) << to;
                }
            }
            Self::Signed { at } => {
                integers.iter_mut().zip(&block[at..]).for_each(|(integer, byte)| *integer = byte ^ SIGN);
            }
        }
    }

    /// The other way round, into zeros.
    fn write(self, block: &mut [u8], bits: usize, from: usize, integers: &[u8; STEPS]) {
        for (step, integer) in integers.iter().enumerate() {
            let (at, shift) = match self {
                Self::Nowhere => return,
                Self::Signed { at } => {
                    block[at + step] = integer ^ SIGN;
                    continue;
                }
                Self::Bytes { at, shift } => (at + step, shift),
                Self::Halves { at } => (at + step % 16, step / 16 * 4),
                Self::Single { at } => (at + step / 8, step % 8),
            };
            block[at] |= (integer >> from & mask(bits)) << shift;
        }
    }
}

/// The blocks of sixteen columns.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Unit<F: BlockFormat> {
    pub scales: F::Scales,
    pub groups: F::Groups,
}

impl<F: BlockFormat> Unit<F> {
    /// Inner steps of a unit.
    pub const STEPS: usize = F::Block::BLCK_SIZE;

    /// The unit of up to sixteen blocks; the other columns are 0.
    pub fn new(blocks: &[&[u8]]) -> Self {
        let [low, high] = F::Integers::BITS;
        let mut integers = [[[0; STEPS]; COLUMNS]; MOST_GROUPS];
        let mut scales = [ColumnScales::default(); COLUMNS];
        for (column, (block, scales)) in blocks.iter().zip(&mut scales).enumerate() {
            *scales = F::scales(block);
            for (group, integers) in integers[..Self::STEPS / STEPS].iter_mut().enumerate() {
                let [low_bits, high_bits] = F::places(group);
                low_bits.read(block, low, 0, &mut integers[column]);
                high_bits.read(block, high, low, &mut integers[column]);
            }
        }
        let groups = F::groups(|group| F::Integers::new(&integers[group]));
        Self { scales: F::Scales::new(&scales), groups }
    }

    /// The block of one column, as its file has it.
    pub fn write(&self, column: usize, block: &mut [u8]) {
        let [low, high] = F::Integers::BITS;
        block.fill(0);
        F::write_scales(&self.scales.column(column), block);
        for (group, integers) in self.groups.as_ref().iter().enumerate() {
            let integers = integers.column(column);
            let [low_bits, high_bits] = F::places(group);
            low_bits.write(block, low, 0, &integers);
            high_bits.write(block, high, low, &integers);
        }
    }
}

/// The number in f16 at a place.
fn factor(block: &[u8], at: usize) -> f16 {
    f16::from_le_bytes([block[at], block[at + 1]])
}

fn write_factor(block: &mut [u8], at: usize, factor: f16) {
    block[at..at + 2].copy_from_slice(&factor.to_le_bytes());
}

/// A format whose blocks are 32 integers behind one or two factors.
macro_rules! short_blocks {
    ($($name:ident, $block:ty, $factors:literal, $integers:ty, $scales:ty, $low:expr, $high:expr;)*) => {$(
        pub struct $name;

        impl BlockFormat for $name {
            type Block = $block;
            type Integers = $integers;
            type Scales = $scales;
            type Groups = [$integers; 1];
            const SCALED: usize = STEPS;

            fn groups(group: impl Fn(usize) -> $integers) -> Self::Groups {
                from_fn(group)
            }

            #[inline(always)]
            fn places(_group: usize) -> [BitPlace; 2] {
                [$low, $high]
            }

            fn scales(block: &[u8]) -> ColumnScales {
                let second = if $factors == 2 { factor(block, 2) } else { f16::ZERO };
                ColumnScales { factors: [factor(block, 0), second], ..ColumnScales::default() }
            }

            fn write_scales(scales: &ColumnScales, block: &mut [u8]) {
                for i in 0..$factors {
                    write_factor(block, 2 * i, scales.factors[i]);
                }
            }
        }
    )*};
}

short_blocks! {
    Q4_0, k::BlockQ4_0, 1, Integers<4, 0>, Factor<8>, BitPlace::Halves { at: 2 }, BitPlace::Nowhere;
    Q4_1, k::BlockQ4_1, 2, Integers<4, 0>, FactorAndMinimum, BitPlace::Halves { at: 4 }, BitPlace::Nowhere;
    Q5_0, k::BlockQ5_0, 1, Integers<4, 1>, Factor<16>, BitPlace::Halves { at: 6 }, BitPlace::Single { at: 2 };
    Q5_1, k::BlockQ5_1, 2, Integers<4, 1>, FactorAndMinimum, BitPlace::Halves { at: 8 }, BitPlace::Single { at: 4 };
    Q8_0, k::BlockQ8_0, 1, Integers<8, 0>, Factor<128>, BitPlace::Signed { at: 2 }, BitPlace::Nowhere;
}

/// A format whose blocks are 256 integers. The file has its scales where `scales` says, and its integers in 8 groups of 32.
macro_rules! long_blocks {
    ($($name:ident, $block:ty, $scaled:literal, $integers:ty, $scales:ty, $packing:ident { $($field:ident: $at:literal),* },
        |$group:ident| $places:expr;)*) =>
    {$(
        pub struct $name;

        impl BlockFormat for $name {
            type Block = $block;
            type Integers = $integers;
            type Scales = $scales;
            type Groups = [$integers; 8];
            const SCALED: usize = $scaled;

            fn groups(group: impl Fn(usize) -> $integers) -> Self::Groups {
                from_fn(group)
            }

            #[inline(always)]
            fn places($group: usize) -> [BitPlace; 2] {
                $places
            }

            fn scales(block: &[u8]) -> ColumnScales {
                $packing { $($field: $at),* }.read(block)
            }

            fn write_scales(scales: &ColumnScales, block: &mut [u8]) {
                $packing { $($field: $at),* }.write(scales, block);
            }
        }
    )*};
}

long_blocks! {
    Q2K, k::BlockQ2K, 16, Integers<2, 0>, ScalesAndMinsOf16, Nibbles { scales: 0, factors: 80 },
        |group| [BitPlace::Bytes { at: 16 + group / 4 * 32, shift: group % 4 * 2 }, BitPlace::Nowhere];
    Q3K, k::BlockQ3K, 16, Integers<2, 1>, ScalesOf16<4>, SixBitsSigned { scales: 96, factor: 108 },
        |group| [BitPlace::Bytes { at: 32 + group / 4 * 32, shift: group % 4 * 2 }, BitPlace::Bytes { at: 0, shift: group }];
    Q4K, k::BlockQ4K, 32, Integers<4, 0>, ScalesOf32, SixBits { factors: 0, scales: 4 },
        |group| [BitPlace::Bytes { at: 16 + group / 2 * 32, shift: group % 2 * 4 }, BitPlace::Nowhere];
    Q5K, k::BlockQ5K, 32, Integers<4, 1>, ScalesOf32, SixBits { factors: 0, scales: 4 },
        |group| [BitPlace::Bytes { at: 48 + group / 2 * 32, shift: group % 2 * 4 }, BitPlace::Bytes { at: 16, shift: group }];
    Q6K, k::BlockQ6K, 16, Integers<4, 2>, ScalesOf16<32>, Bytes { scales: 192, factor: 208 },
        |group| [
            BitPlace::Bytes { at: group / 4 * 64 + group % 2 * 32, shift: group % 4 / 2 * 4 },
            BitPlace::Bytes { at: 128 + group / 4 * 32, shift: group % 4 * 2 },
        ];
}

/// Sixteen scales of 8 bits, and a factor.
struct Bytes {
    scales: usize,
    factor: usize,
}

impl Bytes {
    fn read(&self, block: &[u8]) -> ColumnScales {
        ColumnScales {
            factors: [factor(block, self.factor), f16::ZERO],
            scales: from_fn(|i| block[self.scales + i] as i8),
            ..ColumnScales::default()
        }
    }

    fn write(&self, scales: &ColumnScales, block: &mut [u8]) {
        write_factor(block, self.factor, scales.factors[0]);
        for (i, scale) in scales.scales.into_iter().enumerate() {
            block[self.scales + i] = scale as u8;
        }
    }
}

/// Sixteen bytes with a scale in the low half and a min in the high one, and their factors.
struct Nibbles {
    scales: usize,
    factors: usize,
}

impl Nibbles {
    fn read(&self, block: &[u8]) -> ColumnScales {
        ColumnScales {
            factors: [factor(block, self.factors), factor(block, self.factors + 2)],
            scales: from_fn(|i| (block[self.scales + i] & 15) as i8),
            mins: from_fn(|i| (block[self.scales + i] >> 4) as i8),
        }
    }

    fn write(&self, scales: &ColumnScales, block: &mut [u8]) {
        write_factor(block, self.factors, scales.factors[0]);
        write_factor(block, self.factors + 2, scales.factors[1]);
        for i in 0..16 {
            block[self.scales + i] = scales.scales[i] as u8 | (scales.mins[i] as u8) << 4;
        }
    }
}

/// Eight scales and eight mins of 6 bits in twelve bytes, behind their factors. The first four scales and mins are the low
/// bits of eight bytes; of the others, the low four bits lie in the last four bytes, and the high two above the first ones.
struct SixBits {
    factors: usize,
    scales: usize,
}

impl SixBits {
    fn read(&self, block: &[u8]) -> ColumnScales {
        let packed = &block[self.scales..][..12];
        let one = |i: usize, which: usize| match i {
            0..4 => packed[i + 4 * which] & 63,
            _ => packed[i + 4] >> (4 * which) & 15 | packed[i - 4 + 4 * which] >> 6 << 4,
        };
        ColumnScales {
            factors: [factor(block, self.factors), factor(block, self.factors + 2)],
            scales: from_fn(|i| one(i / 2, 0) as i8),
            mins: from_fn(|i| one(i / 2, 1) as i8),
        }
    }

    fn write(&self, scales: &ColumnScales, block: &mut [u8]) {
        write_factor(block, self.factors, scales.factors[0]);
        write_factor(block, self.factors + 2, scales.factors[1]);
        let packed = &mut block[self.scales..][..12];
        for (which, all) in [scales.scales, scales.mins].into_iter().enumerate() {
            for i in 0..4 {
                let (first, second) = (all[2 * i] as u8, all[2 * (i + 4)] as u8);
                packed[i + 4 * which] |= first | second >> 4 << 6;
                packed[i + 8] |= (second & 15) << (4 * which);
            }
        }
    }
}

/// Sixteen scales of 6 bits in twelve bytes, as what they are above −32, and a factor. The low four bits lie in the halves of
/// eight bytes, the high two in the quarters of four.
struct SixBitsSigned {
    scales: usize,
    factor: usize,
}

impl SixBitsSigned {
    fn read(&self, block: &[u8]) -> ColumnScales {
        let packed = &block[self.scales..][..12];
        let low = |i: usize| packed[i % 8] >> (i / 8 * 4) & 15;
        let high = |i: usize| packed[8 + i % 4] >> (i / 4 * 2) & 3;
        ColumnScales {
            factors: [factor(block, self.factor), f16::ZERO],
            scales: from_fn(|i| (low(i) | high(i) << 4) as i8 - 32),
            ..ColumnScales::default()
        }
    }

    fn write(&self, scales: &ColumnScales, block: &mut [u8]) {
        write_factor(block, self.factor, scales.factors[0]);
        let packed = &mut block[self.scales..][..12];
        for (i, scale) in scales.scales.into_iter().enumerate() {
            let scale = (scale + 32) as u8;
            packed[i % 8] |= (scale & 15) << (i / 8 * 4);
            packed[8 + i % 4] |= scale >> 4 << (i / 4 * 2);
        }
    }
}
