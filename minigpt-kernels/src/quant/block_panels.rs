//! A quantised weight (out, in) as micro-kernels read it: panels of sixteen rows, whose blocks lie side by side.
//!
//! A product reads a panel from front to back, once for a few rows of activations, and threads share the panels. A *panel block*
//! is the sixteen blocks of the same weights:
//!
//! ```text
//! factors   sixteen f16; in formats with minimums, their sixteen factors as well
//! scales    for each group of 32 weights, either a scale and a minimum per row, or the scales of each sixteen weights;
//!           in the second case all minimums lie behind all scales
//! integers  for each group of 32 weights, the low bits and then the high bits
//! ```
//!
//! The integers of a group are eight words of each row with four integers each, one per byte: what an instruction multiplies
//! with four activations. Words of fewer than 8 bits per integer share their bytes. Blocks can be written back byte for byte.
#![expect(unsafe_code, reason = "memory that is written before it is read, and bytes of aligned memory")]

use super::block_format::{BlockFormat, BlockScales, FORMATS, GROUP, SCALES, Scales, Zero, mask};
use candle_core::quantized::GgmlDType;
use half::f16;
use rayon::prelude::*;
use std::array::from_fn;

/// Rows of a panel: the 32-bit lanes of the widest registers.
pub const ROWS: usize = 16;
/// Words of a group: four weights each.
pub const WORDS: usize = GROUP / 4;
/// Bytes of a word of every row.
const LINE: usize = 4 * ROWS;

/// What memory of panels is aligned to: a register of AVX2.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub struct Chunk([u8; 32]);

impl Chunk {
    const ZERO: Self = Self([0; 32]);

    /// The bytes of consecutive chunks.
    pub fn bytes(chunks: &[Self]) -> &[u8] {
        // SAFETY: a chunk is 32 bytes without gaps.
        unsafe { std::slice::from_raw_parts(chunks.as_ptr().cast(), size_of_val(chunks)) }
    }

    fn bytes_mut(chunks: &mut [Self]) -> &mut [u8] {
        // SAFETY: a chunk is 32 bytes without gaps, and any bytes are a chunk.
        unsafe { std::slice::from_raw_parts_mut(chunks.as_mut_ptr().cast(), size_of_val(chunks)) }
    }
}

/// How the panel blocks of a format are laid out, in bytes.
impl BlockFormat {
    /// Whether scales are stored.
    pub const fn has_scales(&self) -> bool {
        !matches!(self.scales, Scales::None)
    }

    const fn factor_count(&self) -> usize {
        if self.has_minimums() { 2 } else { 1 }
    }

    const fn integers_start(&self) -> usize {
        let scales_per_row = match self.weights_per_scale() {
            _ if !self.has_scales() => 0,
            32 => 2,
            _ => 2 * self.factor_count(),
        };
        self.scales_at(0) + self.groups * scales_per_row * ROWS
    }

    /// Where the scales of a group are: one `u8` per row, or two `i8` per row for the first and the second sixteen weights.
    pub const fn scales_at(&self, group: usize) -> usize {
        (self.factor_count() + group) * 2 * ROWS
    }

    /// Where the minimums of a group are, in the form of the scales.
    pub const fn mins_at(&self, group: usize) -> usize {
        self.scales_at(group) + if self.weights_per_scale() == 32 { ROWS } else { self.groups * 2 * ROWS }
    }

    /// Where one row's scale or minimum of a sixteen is, from where those of its group are.
    const fn scale_at(&self, group_at: usize, row: usize, half: usize) -> usize {
        group_at + if self.weights_per_scale() == 32 { row } else { 2 * row + half }
    }

    /// Where a word of a plane of a group is, and how far its bits are shifted there.
    pub const fn word_at(&self, group: usize, plane: usize, word: usize) -> (usize, usize) {
        let [low, high] = self.bits;
        let (bits, before) = if plane == 0 { (low, 0) } else { (high, low) };
        let line = group * (low + high) + before + word * bits / 8;
        (self.integers_start() + line * LINE, word * bits % 8)
    }

    /// Bytes of a panel block.
    pub const fn panel_block_bytes(&self) -> usize {
        self.integers_start() + self.groups * (self.bits[0] + self.bits[1]) * LINE
    }

    /// Writes one row's block into a panel block whose bytes are 0 there.
    fn pack(&self, block: &[u8], row: usize, panel_block: &mut [u8]) {
        let BlockScales { factors, scales, mins } = self.read_scales(block);
        for (which, factor) in factors.iter().take(self.factor_count()).enumerate() {
            panel_block[2 * (which * ROWS + row)..][..2].copy_from_slice(&factor.to_le_bytes());
        }
        for i in 0..if self.has_scales() { SCALES } else { 0 } {
            let (group, half) = (i / 2, i % 2);
            panel_block[self.scale_at(self.scales_at(group), row, half)] = scales[i] as u8;
            if self.has_minimums() {
                panel_block[self.scale_at(self.mins_at(group), row, half)] = mins[i] as u8;
            }
        }
        for group in 0..self.groups {
            let integers = self.read_group(block, group);
            for (word, integers) in integers.as_chunks::<4>().0.iter().enumerate() {
                let mut integers = u32::from_le_bytes(*integers);
                for (plane, bits) in self.bits.into_iter().enumerate().filter(|(_, bits)| *bits > 0) {
                    let (at, shift) = self.word_at(group, plane, word);
                    let to = &mut panel_block[at + 4 * row..].as_chunks_mut::<4>().0[0];
                    let word = u32::from_le_bytes(*to) | (integers & word_mask(bits)) << shift;
                    *to = word.to_le_bytes();
                    integers >>= bits % 8;
                }
            }
        }
    }

    /// Writes the block of one row, byte for byte what was packed.
    fn unpack(&self, panel_block: &[u8], row: usize, block: &mut [u8]) {
        block.fill(0);
        let scales = BlockScales {
            factors: [0, 1].map(|which| self.factors(panel_block, which)[row]),
            scales: from_fn(|i| self.scales(panel_block, i / 2)[row][i % 2] as i8),
            mins: from_fn(|i| self.mins(panel_block, i / 2)[row][i % 2] as i8),
        };
        self.write_scales(&scales, block);
        for group in 0..self.groups {
            let words: [_; WORDS] = from_fn(|word| self.word(panel_block, group, word)[row].to_le_bytes());
            self.write_group(&from_fn(|i| words[i / 4][i % 4]), block, group);
        }
    }

    /// `factor` (0) or `min_factor` (1) of each row; 0 if the format has no minimums.
    pub fn factors(&self, panel_block: &[u8], which: usize) -> [f16; ROWS] {
        if which >= self.factor_count() {
            return [f16::ZERO; ROWS];
        }
        let factors = panel_block[which * 2 * ROWS..][..2 * ROWS].as_chunks().0;
        from_fn(|row| f16::from_le_bytes(factors[row]))
    }

    /// The scales of the first and the second sixteen weights of a group, of each row.
    #[inline(always)]
    pub fn scales(&self, panel_block: &[u8], group: usize) -> [[i32; 2]; ROWS] {
        if !self.has_scales() {
            return [[1; 2]; ROWS];
        }
        let at = |row, half| self.scale_at(self.scales_at(group), row, half);
        from_fn(|row| [0, 1].map(|half| i32::from(panel_block[at(row, half)] as i8)))
    }

    /// The minimums of a group like [`BlockFormat::scales`]; where the format has an offset, that many scales.
    #[inline(always)]
    pub fn mins(&self, panel_block: &[u8], group: usize) -> [[i32; 2]; ROWS] {
        if let Zero::Offset(offset) = self.zero {
            return self.scales(panel_block, group).map(|both| both.map(|scale| scale * i32::from(offset)));
        }
        if !self.has_scales() {
            return [[-1; 2]; ROWS];
        }
        let at = |row, half| self.scale_at(self.mins_at(group), row, half);
        from_fn(|row| [0, 1].map(|half| i32::from(panel_block[at(row, half)] as i8)))
    }

    /// A word of each row of a group: four integers, one per byte.
    #[inline(always)]
    pub fn word(&self, panel_block: &[u8], group: usize, word: usize) -> [u32; ROWS] {
        let plane = |plane: usize| -> [u32; ROWS] {
            let (at, shift) = self.word_at(group, plane, word);
            let lanes = panel_block[at..at + LINE].as_chunks::<4>().0;
            from_fn(|row| u32::from_le_bytes(lanes[row]) >> shift & word_mask(self.bits[plane]))
        };
        let low = plane(0);
        if self.bits[1] == 0 {
            return low;
        }
        let high = plane(1);
        from_fn(|row| low[row] | high[row] << self.bits[0])
    }
}

/// The lowest `bits` bits of each byte of a word.
pub const fn word_mask(bits: usize) -> u32 {
    0x0101_0101 * mask(bits) as u32
}

/// A weight (out, in) as panels.
pub struct BlockPanels {
    /// The index of its format in [`FORMATS`].
    pub format: usize,
    /// The panel blocks of the first panel, then those of the second, and so on.
    chunks: Vec<Chunk>,
    rows: usize,
    blocks_per_row: usize,
}

impl BlockPanels {
    /// A weight from the bytes of its rows, each of whole blocks; the last panel is filled up with zeros. `None` if the
    /// integers of this type can't be multiplied.
    pub fn new(dtype: GgmlDType, bytes: &[u8], rows: usize) -> Option<Self> {
        let index = FORMATS.iter().position(|format| format.dtype == dtype)?;
        let format = &FORMATS[index];
        let blocks_per_row = bytes.len() / format.bytes / rows;
        let size = format.panel_block_bytes() / size_of::<Chunk>();
        let count = rows.div_ceil(ROWS) * blocks_per_row * size;
        let mut chunks: Vec<Chunk> = Vec::with_capacity(count);
        let room = &mut chunks.spare_capacity_mut()[..count];
        room.par_chunks_mut((blocks_per_row * size).max(1)).enumerate().for_each(|(panel, room)| {
            let mut panel_block = vec![Chunk::ZERO; size];
            for (number, room) in room.chunks_mut(size).enumerate() {
                panel_block.fill(Chunk::ZERO);
                for (lane, row) in (panel * ROWS..rows).take(ROWS).enumerate() {
                    let block = &bytes[(row * blocks_per_row + number) * format.bytes..][..format.bytes];
                    format.pack(block, lane, Chunk::bytes_mut(&mut panel_block));
                }
                room.iter_mut().zip(&panel_block).for_each(|(room, chunk)| {
                    room.write(*chunk);
                });
            }
        });
        // SAFETY: every panel block of every panel has been written.
        unsafe { chunks.set_len(count) };
        Some(Self { format: index, chunks, rows, blocks_per_row })
    }

    /// Its format.
    pub fn format(&self) -> &'static BlockFormat {
        &FORMATS[self.format]
    }

    /// (out, in).
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.blocks_per_row * self.format().weights())
    }

    /// The panel blocks of all panels, one panel behind the other.
    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// Chunks of a panel.
    pub fn panel_length(&self) -> usize {
        self.blocks_per_row * self.format().panel_block_bytes() / size_of::<Chunk>()
    }

    /// The panel blocks of a panel, one behind the other.
    fn panel(&self, panel: usize) -> &[Chunk] {
        let length = self.panel_length();
        &self.chunks[panel * length..][..length]
    }

    /// One row in f32.
    pub fn dequantize_row(&self, row: usize, weights: &mut [f32]) {
        let format = self.format();
        let mut bytes = vec![0; self.blocks_per_row * format.bytes];
        self.write_row(row, &mut bytes);
        let blocks = bytes.chunks(format.bytes).zip(weights.chunks_mut(format.weights()));
        blocks.for_each(|(block, weights)| format.dequantize(block, weights));
    }

    /// The bytes of all rows' blocks.
    pub fn bytes(&self) -> Vec<u8> {
        let length = self.blocks_per_row * self.format().bytes;
        let mut bytes = vec![0; self.rows * length];
        let rows = bytes.par_chunks_mut(length.max(1)).enumerate();
        rows.for_each(|(row, bytes)| self.write_row(row, bytes));
        bytes
    }

    fn write_row(&self, row: usize, bytes: &mut [u8]) {
        let format = self.format();
        let panel_blocks = Chunk::bytes(self.panel(row / ROWS)).chunks(format.panel_block_bytes());
        for (panel_block, block) in panel_blocks.zip(bytes.chunks_mut(format.bytes)) {
            format.unpack(panel_block, row % ROWS, block);
        }
    }
}
