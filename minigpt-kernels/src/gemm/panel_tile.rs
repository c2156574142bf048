//! The micro-kernel of inference: a few rows times a panel, or two panels, with all sums in registers.
//!
//! Each element of the result is one chain of multiply-adds over the inner steps, in their order. That is the whole promise of
//! inference: an element's chain looks neither at the other rows nor at the other columns, so it is the same to the bit
//! whether one row is multiplied or five hundred, on whichever thread, beside whatever neighbours.
#![expect(unsafe_code, reason = "vector instructions")]

use crate::gemm::panel_format::{COLUMNS, PanelFormat, PanelLine};
use crate::gemm::product::{Output, TILE_ROWS};
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

/// A panel, or a block of its inner steps: one side of some units.
pub struct Panel<'a, W> {
    pub units: &'a [W],
    pub side: usize,
}

impl<W> Clone for Panel<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W> Copy for Panel<'_, W> {}

#[cfg(target_arch = "x86_64")]
impl<W: PanelFormat> Panel<'_, W> {
    /// Asks, when unit `u` is used, for as much of the units behind these: whoever uses all units of both sides has asked for as
    /// many that follow.
    #[inline(always)]
    fn prefetch<const HINT: i32>(&self, u: usize) {
        let size = size_of::<W>() / W::SIDES;
        let end = self.units.as_ptr_range().end.cast::<i8>();
        let ahead = end.wrapping_add((self.side * self.units.len() + u) * size);
        for line in (0..size).step_by(64) {
            // SAFETY: a prefetch may name any address.
            unsafe { _mm_prefetch::<HINT>(ahead.wrapping_add(line)) };
        }
    }
}

impl<'a> From<&'a [PanelLine]> for Panel<'a, PanelLine> {
    fn from(units: &'a [PanelLine]) -> Self {
        Self { units, side: 0 }
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
    panel: Panel<W>,
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

/// The same with two panels: the sums of one row or two times one panel would leave the processor waiting for them.
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
    panels: [Panel<W>; 2],
) {
    // SAFETY: the caller's.
    unsafe {
        match rows {
            1 => tile::<W, 1, 2>(outputs, columns, x, panels),
            2 => tile::<W, 2, 2>(outputs, columns, x, panels),
            3 if W::SIDES == 1 => tile::<W, 3, 2>(outputs, columns, x, panels),
            3 => tile_by_turns::<W, 3>(outputs, columns, x, panels),
            4 => tile_by_turns::<W, 4>(outputs, columns, x, panels),
            5 => tile_by_turns::<W, 5>(outputs, columns, x, panels),
            _ => tile_by_turns::<W, 6>(outputs, columns, x, panels),
        }
    }
}

/// Rows of a tile where registers are twice as many and twice as wide.
#[cfg(target_arch = "x86_64")]
pub const AVX512_ROWS: usize = 12;

/// `outputs = bases + rows · panels`, of up to [`AVX512_ROWS`] rows that lie as they are, by the kernel for AVX-512: a panel is
/// read once for all of them.
///
/// # Safety
/// As for [`tile_avx2`], for all panels; the CPU has AVX-512, and the steps of `x` are contiguous.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avx512f")]
pub unsafe fn tile_avx512<W: PanelFormat, const P: usize>(
    outputs: [Output; P],
    rows: usize,
    columns: [usize; P],
    x: TileRows,
    panels: [Panel<W>; P],
) {
    // SAFETY: the caller's.
    unsafe {
        match rows {
            1 => rows_avx512::<W, 1, P>(outputs, columns, x, panels),
            2 => rows_avx512::<W, 2, P>(outputs, columns, x, panels),
            3 => rows_avx512::<W, 3, P>(outputs, columns, x, panels),
            4 => rows_avx512::<W, 4, P>(outputs, columns, x, panels),
            5 => rows_avx512::<W, 5, P>(outputs, columns, x, panels),
            6 => rows_avx512::<W, 6, P>(outputs, columns, x, panels),
            7 => rows_avx512::<W, 7, P>(outputs, columns, x, panels),
            8 => rows_avx512::<W, 8, P>(outputs, columns, x, panels),
            9 => rows_avx512::<W, 9, P>(outputs, columns, x, panels),
            10 => rows_avx512::<W, 10, P>(outputs, columns, x, panels),
            11 => rows_avx512::<W, 11, P>(outputs, columns, x, panels),
            _ => rows_avx512::<W, AVX512_ROWS, P>(outputs, columns, x, panels),
        }
    }
}

/// R rows times P panels.
///
/// # Safety
/// As for [`tile_avx512`].
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f")]
unsafe fn rows_avx512<W: PanelFormat, const R: usize, const P: usize>(
    outputs: [Output; P],
    columns: [usize; P],
    x: TileRows,
    panels: [Panel<W>; P],
) {
    /// Bytes from what is used to what is asked for: several rows take so long with a line that too few loads are under way
    /// by themselves.
    const AHEAD: usize = 1024;
    debug_assert_eq!(x.step, 1, "contiguous steps");
    let units = panels[0].units.len();
    debug_assert!(panels.iter().all(|panel| panel.units.len() == units));
    let mut sums = [[_mm512_setzero_ps(); P]; R];
    let mut at = x.at;
    // SAFETY: every panel has all units, the rows have their steps, and the output has room for what is stored.
    unsafe {
        for u in 0..units {
            let units: [&W; P] = std::array::from_fn(|p| panels[p].units.get_unchecked(u));
            let shared: [W::Shared; P] = std::array::from_fn(|p| units[p].shared(panels[p].side));
            for step in 0..W::STEPS {
                let ahead = AHEAD + step * size_of::<W>() / W::STEPS;
                for unit in units.iter().step_by(W::SIDES) {
                    _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(*unit).cast::<i8>().wrapping_add(ahead));
                }
                let w: [__m512; P] =
                    std::array::from_fn(|p| units[p].load_512(panels[p].side, step, shared[p]));
                for (i, sums) in sums.iter_mut().enumerate() {
                    let a = _mm512_set1_ps(*at.add(i * x.row + step));
                    for (sum, w) in sums.iter_mut().zip(w) {
                        *sum = _mm512_fmadd_ps(a, w, *sum);
                    }
                }
            }
            at = at.add(W::STEPS);
        }
        for (i, sums) in sums.into_iter().enumerate() {
            store_avx512(outputs, i, columns, sums);
        }
    }
}

/// `outputs = bases + sums`, row `i` of them.
///
/// # Safety
/// The CPU has AVX-512, and row `i` of each output and of its base has `columns` ≤ 16 elements.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store_avx512<const P: usize>(
    outputs: [Output; P],
    i: usize,
    columns: [usize; P],
    sums: [__m512; P],
) {
    for ((output, columns), sum) in outputs.into_iter().zip(columns).zip(sums) {
        let mask = (1u32 << columns).wrapping_sub(1) as __mmask16;
        // SAFETY: the caller's; others are not touched.
        unsafe {
            let sum = match output.base {
                Some((base, stride)) => _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, base.add(i * stride))),
                None => sum,
            };
            _mm512_mask_storeu_ps(output.to.add(i * output.stride), mask, sum);
        }
    }
}

/// `outputs = bases + rows · panels`, of up to [`AVX512_ROWS`] rows that are packed in a whole tile, and two panels of up to
/// sixteen columns.
///
/// # Safety
/// The CPU has AVX-512. The tile has as many steps as both panels, and the outputs and their bases have room for as many rows
/// and columns.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
pub unsafe fn packed_tile_avx512(
    outputs: [Output; 2],
    [rows, left, right]: [usize; 3],
    x: *const f32,
    panels: [&[PanelLine]; 2],
) {
    debug_assert_eq!(panels[0].len(), panels[1].len());
    let mut sums = [[_mm512_setzero_ps(); 2]; AVX512_ROWS];
    for (p, (left, right)) in panels[0].iter().zip(panels[1]).enumerate() {
        // SAFETY: the tile has this step, and a line has sixteen elements.
        unsafe {
            let w = [_mm512_loadu_ps(left.as_ptr()), _mm512_loadu_ps(right.as_ptr())];
            for (i, sums) in sums.iter_mut().enumerate() {
                let a = _mm512_set1_ps(*x.add(p * AVX512_ROWS + i));
                *sums = [_mm512_fmadd_ps(a, w[0], sums[0]), _mm512_fmadd_ps(a, w[1], sums[1])];
            }
        }
    }
    for (i, sums) in sums.into_iter().enumerate().take(rows) {
        // SAFETY: the caller's.
        unsafe { store_avx512(outputs, i, [left, right], sums) };
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
    panels: [Panel<W>; P],
) {
    let mut sums = [[[_mm256_setzero_ps(); 2]; P]; R];
    // SAFETY: the caller's.
    unsafe {
        add_steps::<W, R, P, false>(&mut sums, x, panels);
        for (p, (output, columns)) in outputs.into_iter().zip(columns).enumerate() {
            for (i, sums) in sums.iter().enumerate() {
                store(output, i, columns, sums[p]);
            }
        }
    }
}

/// R rows times two panels whose sums do not fit into the registers: a few steps of one panel, then the same of the other, so
/// that two sides of the same units are still read as one stream.
///
/// # Safety
/// As for [`tile_avx2`].
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn tile_by_turns<W: PanelFormat, const R: usize>(
    outputs: [Output; 2],
    columns: [usize; 2],
    x: TileRows,
    panels: [Panel<W>; 2],
) {
    /// Bytes of a turn at most: with the next one and the rows they stay in the L1 cache.
    const TURN: usize = 4352;
    let units = panels[0].units.len();
    // Of one size, so that each asks for all of the next.
    let turns = size_of_val(panels[0].units).div_ceil(TURN).max(1);
    let length = units.div_ceil(turns).max(1);
    // A black box, or the compiler would try to keep the sums of both panels in registers, and fail in the innermost loop.
    let mut sums = [[[[_mm256_setzero_ps(); 2]; 1]; R]; 2];
    let sums = std::hint::black_box(&mut sums);
    // SAFETY: the caller's.
    unsafe {
        for first in (0..units).step_by(length) {
            let turn = first..(first + length).min(units);
            let x = x.part(0, first * W::STEPS);
            for (sums, panel) in sums.iter_mut().zip(panels) {
                let panel = Panel { units: &panel.units[turn.clone()], ..panel };
                add_steps::<W, R, 1, true>(sums, x, [panel]);
            }
        }
        for (p, sums) in sums.iter().enumerate() {
            for (i, sums) in sums.iter().enumerate() {
                store(outputs[p], i, columns[p], sums[0]);
            }
        }
    }
}

/// `sums += rows · panels`: each sum is continued as the chain that it is. With AHEAD, which is for one panel, the same part of the
/// units that follow is asked for.
///
/// # Safety
/// The CPU has AVX2, FMA and F16C; the panels are of one length, and the rows have as many steps.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn add_steps<W: PanelFormat, const R: usize, const P: usize, const AHEAD: bool>(
    sums: &mut [[[__m256; 2]; P]; R],
    x: TileRows,
    panels: [Panel<W>; P],
) {
    let units = panels[0].units.len();
    debug_assert!(panels.iter().all(|panel| panel.units.len() == units));
    let mut at = x.at;
    // Variables of this function: a sum that stays in memory makes all others wait.
    let mut chains = *sums;
    let mut unit = |u: usize| {
        if AHEAD {
            panels[0].prefetch::<_MM_HINT_T0>(u);
        }
        // SAFETY: every panel has this unit, and the rows its steps.
        unsafe {
            let units: [&W; P] = std::array::from_fn(|p| panels[p].units.get_unchecked(u));
            let shared: [W::Shared; P] = std::array::from_fn(|p| units[p].shared(panels[p].side));
            for step in 0..W::STEPS {
                let a: [__m256; R] = std::array::from_fn(|i| _mm256_broadcast_ss(&*at.add(i * x.row)));
                for p in 0..P {
                    let w = units[p].load(panels[p].side, step, shared[p]);
                    for i in 0..R {
                        let chain = &mut chains[i][p];
                        *chain =
                            [_mm256_fmadd_ps(a[i], w[0], chain[0]), _mm256_fmadd_ps(a[i], w[1], chain[1])];
                    }
                }
                at = at.add(x.step);
            }
        }
    };
    if W::STEPS == 1 {
        const AT_A_TIME: usize = 4;
        let many = units / AT_A_TIME * AT_A_TIME;
        for u in (0..many).step_by(AT_A_TIME) {
            (u..u + AT_A_TIME).for_each(&mut unit);
        }
        (many..units).for_each(unit);
    } else {
        (0..units).for_each(unit);
    }
    *sums = chains;
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
        add_steps::<_, 1, 1, false>(&mut registers, x, [Panel::from(panel)]);
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

/// The weights of a panel in f32. With `ahead`, the same part of the units that follow is asked for.
///
/// # Safety
/// The CPU has AVX2, FMA and F16C.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn expand_avx2<W: PanelFormat>(panel: Panel<W>, lines: &mut [PanelLine], ahead: bool) {
    for (u, (unit, lines)) in panel.units.iter().zip(lines.chunks_exact_mut(W::STEPS)).enumerate() {
        if ahead {
            // Only to the L2 cache: all rows will be multiplied before they are needed.
            panel.prefetch::<_MM_HINT_T1>(u);
        }
        // SAFETY: the caller's, a unit has these steps, and a line has sixteen elements.
        unsafe {
            let shared = unit.shared(panel.side);
            for (step, line) in lines.iter_mut().enumerate() {
                let w = unit.load(panel.side, step, shared);
                _mm256_storeu_ps(line.as_mut_ptr(), w[0]);
                _mm256_storeu_ps(line.as_mut_ptr().add(8), w[1]);
            }
        }
    }
}

/// Where the CPU multiplies and adds in one instruction that every build for it may use, the portable kernel does, too.
#[inline(always)]
fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
    if cfg!(any(target_feature = "fma", target_arch = "aarch64")) { a.mul_add(b, c) } else { a * b + c }
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
