//! Element formats of a packed weight: f32, f16, bf16 and Q8_0 blocks. A panel holds sixteen columns of a weight (in, out), side by
//! side for each inner step, so that a product reads it once from front to back.
//!
//! Multiplying one row with one panel is a chain of multiply-adds, which is slower than memory: two panels must be in flight to
//! keep up. Two panels in different places are more than the processor's prefetcher follows where elements are narrower than
//! f32, so there a unit holds two of them side by side and one row reads one stream.
//!
//! Every format expands to f32 without rounding. So a product that expands a panel first, because many rows share it, has the
//! same bits as one that converts while it multiplies.

use crate::gemm::micro::{Kernels, PanelKernels};
use half::{bf16, f16};

/// A Q8_0 block: a scale in f16, then 32 integers of 8 bits.
pub type Q8Block = [u8; 34];
/// Columns of a panel.
pub const COLUMNS: usize = 16;

/// The weights of one inner step in f32.
pub type PanelLine = [f32; COLUMNS];

/// A format of weights. `Self` is a unit: [`PanelFormat::SIDES`] panels of sixteen columns for [`PanelFormat::STEPS`] inner steps.
pub trait PanelFormat: Copy + Send + Sync + 'static {
    /// Panels of a unit: 1 or 2.
    const SIDES: usize;
    /// Inner steps of a unit; 32 is a multiple of it.
    const STEPS: usize;
    /// One column for the steps of a unit, as a weight (out, in) stores it.
    type Source: Copy + Send + Sync + 'static;

    /// The unit of up to [`PanelFormat::SIDES`] · 16 columns; the others are 0.
    fn pack(columns: &[Self::Source]) -> Self;

    /// The weights of one panel as f32, step by step.
    fn expand(&self, side: usize, lines: &mut [PanelLine]);

    /// The weights of one column as f32.
    fn column(&self, column: usize, steps: &mut [f32]);

    /// The micro-kernels that multiply this format.
    fn kernels(kernels: &Kernels) -> &PanelKernels<Self>;

    /// The block of one column, where a unit is made of blocks that can be multiplied in another way.
    fn block(&self, _column: usize) -> Option<Q8Block> {
        None
    }
}

impl PanelFormat for PanelLine {
    const SIDES: usize = 1;
    const STEPS: usize = 1;
    type Source = f32;

    fn pack(columns: &[f32]) -> Self {
        let mut line = [0.0; COLUMNS];
        line[..columns.len()].copy_from_slice(columns);
        line
    }

    fn expand(&self, _side: usize, lines: &mut [PanelLine]) {
        lines[0] = *self;
    }

    fn column(&self, column: usize, steps: &mut [f32]) {
        steps[0] = self[column];
    }

    fn kernels(kernels: &Kernels) -> &PanelKernels<Self> {
        &kernels.f32
    }
}

impl PanelFormat for [[f16; COLUMNS]; 2] {
    const SIDES: usize = 2;
    const STEPS: usize = 1;
    type Source = f16;

    fn pack(columns: &[f16]) -> Self {
        let mut unit = [[f16::ZERO; COLUMNS]; 2];
        unit.as_flattened_mut()[..columns.len()].copy_from_slice(columns);
        unit
    }

    fn expand(&self, side: usize, lines: &mut [PanelLine]) {
        lines[0] = self[side].map(f16::to_f32);
    }

    fn column(&self, column: usize, steps: &mut [f32]) {
        steps[0] = self.as_flattened()[column].to_f32();
    }

    fn kernels(kernels: &Kernels) -> &PanelKernels<Self> {
        &kernels.f16
    }
}

impl PanelFormat for [[bf16; COLUMNS]; 2] {
    const SIDES: usize = 2;
    const STEPS: usize = 1;
    type Source = bf16;

    fn pack(columns: &[bf16]) -> Self {
        let mut unit = [[bf16::ZERO; COLUMNS]; 2];
        unit.as_flattened_mut()[..columns.len()].copy_from_slice(columns);
        unit
    }

    fn expand(&self, side: usize, lines: &mut [PanelLine]) {
        lines[0] = self[side].map(bf16::to_f32);
    }

    fn column(&self, column: usize, steps: &mut [f32]) {
        steps[0] = self.as_flattened()[column].to_f32();
    }

    fn kernels(kernels: &Kernels) -> &PanelKernels<Self> {
        &kernels.bf16
    }
}

/// The Q8_0 blocks of 32 columns: their scales, then their integers step by step. The same number of bytes as the blocks.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub struct Q8Unit {
    pub scales: [[f16; COLUMNS]; 2],
    pub integers: [[[i8; COLUMNS]; 2]; 32],
}

impl PanelFormat for Q8Unit {
    const SIDES: usize = 2;
    const STEPS: usize = 32;
    type Source = Q8Block;

    fn pack(columns: &[Q8Block]) -> Self {
        let mut unit = Self { scales: [[f16::ZERO; COLUMNS]; 2], integers: [[[0; COLUMNS]; 2]; 32] };
        for (column, block) in columns.iter().enumerate() {
            unit.scales.as_flattened_mut()[column] = f16::from_le_bytes([block[0], block[1]]);
            for (integers, &byte) in unit.integers.iter_mut().zip(&block[2..]) {
                integers.as_flattened_mut()[column] = byte as i8;
            }
        }
        unit
    }

    #[inline(always)]
    fn expand(&self, side: usize, lines: &mut [PanelLine]) {
        // A scale of 11 bits times an integer of 8 is exact.
        let scales = self.scales[side].map(f16::to_f32);
        for (line, integers) in lines.iter_mut().zip(&self.integers) {
            for i in 0..COLUMNS {
                line[i] = scales[i] * f32::from(integers[side][i]);
            }
        }
    }

    fn column(&self, column: usize, steps: &mut [f32]) {
        let scale = self.scales.as_flattened()[column].to_f32();
        for (out, integers) in steps.iter_mut().zip(&self.integers) {
            *out = scale * f32::from(integers.as_flattened()[column]);
        }
    }

    fn kernels(kernels: &Kernels) -> &PanelKernels<Self> {
        &kernels.q8_0
    }

    fn block(&self, column: usize) -> Option<Q8Block> {
        let mut block = [0; size_of::<Q8Block>()];
        block[..2].copy_from_slice(&self.scales.as_flattened()[column].to_le_bytes());
        for (byte, integers) in block[2..].iter_mut().zip(&self.integers) {
            *byte = integers.as_flattened()[column] as u8;
        }
        Some(block)
    }
}
