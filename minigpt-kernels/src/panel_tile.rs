//! The micro-kernel of inference: a few rows times a panel, or two panels, with all sums in registers.
//!
//! Each element of the result is one chain of multiply-adds over the inner steps, in their order. That is the whole promise of
//! inference: an element's chain looks neither at the other rows nor at the other columns, so it is the same to the bit
//! whether one row is multiplied or five hundred, on whichever thread, beside whatever neighbours.
#![expect(unsafe_code, reason = "vector instructions")]

use crate::panel_format::{COLUMNS, PanelFormat, PanelLine};
use crate::product::{Output, TILE_ROWS};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Rows as tiles read them: element (i, p) is `at[i * row + p * step]`.
#[derive(Clone, Copy)]
pub struct TileRows {
    pub at: *const f32,
    pub row: usize,
    pub step: usize,
}

// SAFETY: only read, while whoever made it holds the elements.
unsafe impl Send for TileRows {}
// SAFETY: the same.
unsafe impl Sync for TileRows {}

impl TileRows {
    /// From row `i` and step `p` on.
    pub fn part(self, i: usize, p: usize) -> Self {
        Self { at: self.at.wrapping_add(i * self.row + p * self.step), ..self }
    }
}

/// `output = base + rows · panel`, of up to [`TILE_ROWS`] rows and `columns` ≤ 16 columns, by the kernel for AVX2.
///
/// # Safety
/// The CPU has AVX2, FMA and F16C. The rows have as many steps as the panel, and the output and its base room for as many
/// rows and columns.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn tile_avx2<W: PanelFormat>(
    output: Output,
    [rows, columns]: [usize; 2],
    x: TileRows,
    panel: &[W],
) {
    // SAFETY: the caller's.
    unsafe {
        match rows {
            1 => tile::<W, 1, 1>([output], [columns], x, [panel]),
            2 => tile::<W, 2, 1>([output], [columns], x, [panel]),
            3 => tile::<W, 3, 1>([output], [columns], x, [panel]),
            4 => tile::<W, 4, 1>([output], [columns], x, [panel]),
            5 => tile::<W, 5, 1>([output], [columns], x, [panel]),
            _ => tile::<W, 6, 1>([output], [columns], x, [panel]),
        }
    }
}

/// The same with two panels at once, for up to three rows: their sums alone would leave the processor waiting for them.
///
/// # Safety
/// As for [`tile_avx2`], for both.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn two_tiles_avx2<W: PanelFormat>(
    outputs: [Output; 2],
    rows: usize,
    columns: [usize; 2],
    x: TileRows,
    panels: [&[W]; 2],
) {
    // SAFETY: the caller's.
    unsafe {
        match rows {
            1 => tile::<W, 1, 2>(outputs, columns, x, panels),
            2 => tile::<W, 2, 2>(outputs, columns, x, panels),
            _ => tile::<W, 3, 2>(outputs, columns, x, panels),
        }
    }
}

/// R rows times P panels.
///
/// # Safety
/// As for [`tile_avx2`].
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn tile<W: PanelFormat, const R: usize, const P: usize>(
    outputs: [Output; P],
    columns: [usize; P],
    x: TileRows,
    panels: [&[W]; P],
) {
    let mut sums = [[[_mm256_setzero_ps(); 2]; P]; R];
    // SAFETY: the caller's.
    unsafe {
        add_steps::<W, R, P>(&mut sums, x, panels);
        for (p, (output, columns)) in outputs.into_iter().zip(columns).enumerate() {
            for (i, sums) in sums.iter().enumerate() {
                store(output, i, columns, sums[p]);
            }
        }
    }
}

/// `sums += rows · panels`: each sum is continued as the chain that it is.
///
/// # Safety
/// The CPU has AVX2, FMA and F16C; the panels are of one length, and the rows have as many steps.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn add_steps<W: PanelFormat, const R: usize, const P: usize>(
    sums: &mut [[[__m256; 2]; P]; R],
    x: TileRows,
    panels: [&[W]; P],
) {
    debug_assert!(panels.iter().all(|panel| panel.len() == panels[0].len()));
    let units = panels[0].len();
    let mut at = x.at;
    let mut unit = |u: usize| {
        // SAFETY: every panel has this unit, and the rows its steps.
        unsafe {
            let units: [&W; P] = std::array::from_fn(|p| panels[p].get_unchecked(u));
            if W::AHEAD > 0 {
                for unit in units {
                    for line in (0..size_of::<W>()).step_by(64) {
                        let ahead = std::ptr::from_ref(unit).cast::<i8>().wrapping_add(W::AHEAD + line);
                        _mm_prefetch::<_MM_HINT_T0>(ahead);
                    }
                }
            }
            let shared: [W::Shared; P] = std::array::from_fn(|p| units[p].shared());
            for step in 0..W::STEPS {
                let w: [[__m256; 2]; P] = std::array::from_fn(|p| units[p].load(step, shared[p]));
                for (i, sums) in sums.iter_mut().enumerate() {
                    let a = _mm256_broadcast_ss(&*at.add(i * x.row));
                    for (sums, w) in sums.iter_mut().zip(w) {
                        sums[0] = _mm256_fmadd_ps(a, w[0], sums[0]);
                        sums[1] = _mm256_fmadd_ps(a, w[1], sums[1]);
                    }
                }
                at = at.add(x.step);
            }
        }
    };
    const AT_A_TIME: usize = 4;
    let many = units / AT_A_TIME * AT_A_TIME;
    for u in (0..many).step_by(AT_A_TIME) {
        unit(u);
        unit(u + 1);
        unit(u + 2);
        unit(u + 3);
    }
    (many..units).for_each(unit);
}

/// `output = base + sums`, row `i` of it.
///
/// # Safety
/// Row `i` of the output and of its base has `columns` ≤ 16 elements.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn store(output: Output, i: usize, columns: usize, sums: [__m256; 2]) {
    // SAFETY: the caller's; the edge has sixteen elements.
    unsafe {
        let to = output.to.add(i * output.stride);
        let from = output.base.map(|(base, stride)| base.add(i * stride));
        if columns == COLUMNS {
            for (v, sum) in sums.into_iter().enumerate() {
                let y = match from {
                    Some(from) => _mm256_add_ps(sum, _mm256_loadu_ps(from.add(8 * v))),
                    None => sum,
                };
                _mm256_storeu_ps(to.add(8 * v), y);
            }
            return;
        }
        let mut edge = [0f32; COLUMNS];
        _mm256_storeu_ps(edge.as_mut_ptr(), sums[0]);
        _mm256_storeu_ps(edge.as_mut_ptr().add(8), sums[1]);
        for (j, sum) in edge[..columns].iter().enumerate() {
            *to.add(j) = from.map_or(*sum, |from| *sum + *from.add(j));
        }
    }
}

/// Goes on with the chains of one row that a tile has begun: `sums += row · panel`, step by step.
///
/// # Safety
/// The CPU has AVX2, FMA and F16C, and the row has as many steps as the panel.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn extend_avx2(sums: &mut PanelLine, x: TileRows, panel: &[PanelLine]) {
    // SAFETY: the caller's; a line has sixteen elements.
    unsafe {
        let at = sums.as_mut_ptr();
        let mut registers = [[[_mm256_loadu_ps(at), _mm256_loadu_ps(at.add(8))]]];
        add_steps::<PanelLine, 1, 1>(&mut registers, x, [panel]);
        _mm256_storeu_ps(at, registers[0][0][0]);
        _mm256_storeu_ps(at.add(8), registers[0][0][1]);
    }
}

/// [`extend_avx2`] in plain Rust.
///
/// # Safety
/// The row has as many steps as the panel.
pub unsafe fn extend_portable(sums: &mut PanelLine, x: TileRows, panel: &[PanelLine]) {
    for (p, line) in panel.iter().enumerate() {
        // SAFETY: the row has this step.
        let a = unsafe { *x.at.add(p * x.step) };
        for j in 0..COLUMNS {
            sums[j] = multiply_add(a, line[j], sums[j]);
        }
    }
}

/// The weights of a panel in f32.
///
/// # Safety
/// The CPU has AVX2, FMA and F16C.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn expand_avx2<W: PanelFormat>(panel: &[W], lines: &mut [PanelLine]) {
    for (unit, lines) in panel.iter().zip(lines.chunks_exact_mut(W::STEPS)) {
        // SAFETY: the caller's, a unit has these steps, and a line has sixteen elements.
        unsafe {
            let shared = unit.shared();
            for (step, line) in lines.iter_mut().enumerate() {
                let w = unit.load(step, shared);
                _mm256_storeu_ps(line.as_mut_ptr(), w[0]);
                _mm256_storeu_ps(line.as_mut_ptr().add(8), w[1]);
            }
        }
    }
}

/// Where the CPU multiplies and adds in one instruction that every build for it may use, the portable kernel does, too.
#[inline(always)]
fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
    match cfg!(any(target_feature = "fma", target_arch = "aarch64")) {
        true => a.mul_add(b, c),
        false => a * b + c,
    }
}

/// [`tile_avx2`] in plain Rust, with the weights in f32.
///
/// # Safety
/// As for [`tile_avx2`], but for the CPU.
pub unsafe fn tile_portable(output: Output, [rows, columns]: [usize; 2], x: TileRows, panel: &[PanelLine]) {
    /// Rows that share what is read of the panel.
    const TOGETHER: usize = 4;
    let mut i = 0;
    while i < rows.min(TILE_ROWS) {
        // SAFETY: the caller's.
        unsafe {
            if i + TOGETHER <= rows {
                portable_rows::<TOGETHER>(output, i, columns, x, panel);
                i += TOGETHER;
            } else {
                portable_rows::<1>(output, i, columns, x, panel);
                i += 1;
            }
        }
    }
}

/// # Safety
/// As for [`tile_portable`].
#[inline(always)]
unsafe fn portable_rows<const R: usize>(
    output: Output,
    i: usize,
    columns: usize,
    x: TileRows,
    panel: &[PanelLine],
) {
    let mut sums = [[0f32; COLUMNS]; R];
    let x = x.part(i, 0);
    for (p, line) in panel.iter().enumerate() {
        for (r, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the rows have this step.
            let a = unsafe { *x.at.add(r * x.row + p * x.step) };
            for j in 0..COLUMNS {
                sums[j] = multiply_add(a, line[j], sums[j]);
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        for (j, sum) in sums[..columns].iter().enumerate() {
            // SAFETY: the output and its base have this row and column.
            unsafe {
                let base = output.base.map(|(base, stride)| *base.add((i + r) * stride + j));
                *output.to.add((i + r) * output.stride + j) = base.map_or(*sum, |base| *sum + base);
            }
        }
    }
}
