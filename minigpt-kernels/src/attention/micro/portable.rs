//! In plain Rust: `for each line, for each element: wide = f32(line)`.

use super::Kernels;
use crate::gemm::formats::{COLUMNS, PanelLine};
use half::f16;

/// The portable micro-kernels.
pub const KERNELS: Kernels = Kernels { widen };

fn widen(lines: &[[f16; COLUMNS]], wide: &mut [PanelLine]) {
    lines.iter().zip(wide).for_each(|(line, wide)| *wide = line.map(f16::to_f32));
}
