//! The lines of panels of keys and values: sixteen numbers in f32 or f16.

use crate::cpu;
use crate::gemm::formats::{COLUMNS, PanelLine};

use half::f16;

/// A line of a panel, as it is stored.
pub trait CacheLine: Copy + Send + Sync {
    const ZERO: Self;

    fn set(&mut self, at: usize, value: f32);

    /// The first `length` of every `stride` lines in f32, and the stride of the result.
    fn widened<'a>(
        lines: &'a [Self],
        stride: usize,
        length: usize,
        buffer: &'a mut Vec<PanelLine>,
    ) -> (&'a [PanelLine], usize);
}

impl CacheLine for PanelLine {
    const ZERO: Self = [0.0; COLUMNS];

    fn set(&mut self, at: usize, value: f32) {
        self[at] = value;
    }

    fn widened<'a>(
        lines: &'a [Self],
        stride: usize,
        _length: usize,
        _buffer: &'a mut Vec<PanelLine>,
    ) -> (&'a [PanelLine], usize) {
        (lines, stride)
    }
}

impl CacheLine for [f16; COLUMNS] {
    const ZERO: Self = [f16::ZERO; COLUMNS];

    fn set(&mut self, at: usize, value: f32) {
        self[at] = f16::from_f32(value);
    }

    fn widened<'a>(
        lines: &'a [Self],
        stride: usize,
        length: usize,
        buffer: &'a mut Vec<PanelLine>,
    ) -> (&'a [PanelLine], usize) {
        let parts = || lines.chunks(stride.max(1)).map(|part| &part[..length]);
        let count = parts().map(<[_]>::len).sum();
        buffer.resize(buffer.len().max(count), [0.0; COLUMNS]);
        let wide = &mut buffer[..count];
        for (part, wide) in parts().zip(wide.chunks_mut(length.max(1))) {
            (cpu::kernels().attention.widen)(part, wide);
        }
        (wide, length)
    }
}
