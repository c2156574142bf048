//! Micro-kernels for AVX2, FMA and F16C.
//!
//! A tile is this loop, for one panel or two:
//! ```text
//! for i in 0..rows {
//!     for j in 0..columns {
//!         let mut sum = 0;
//!         for p in 0..steps {
//!             sum = fma(a[i][p], panel[p][j], sum);
//!         }
//!         output[i][j] = fma(sum, scale, base[i][j]);
//!     }
//! }
//! ```
#![expect(unsafe_code, reason = "vector instructions")]

pub mod interleave;
pub mod load;

use super::{CHAINS, Kernels, Panel, PanelKernels, Tile, TileRows, by_rows};
use crate::gemm::formats::{COLUMNS, PanelFormat, PanelLine};
use crate::gemm::matrix::Matrix;
use interleave::interleave;
use load::Load;
use std::arch::x86_64::*;
use std::array::from_fn;
use std::hint::black_box;

/// Rows of a tile: 6 × 16 sums take 12 of 16 registers, which leaves room for two of a panel and one of `a`.
const ROWS: usize = 6;

/// Rows up to which converting elements again for each tile is faster than expanding a panel first.
const DIRECT: usize = 2 * ROWS;

/// Chains of one row with one panel.
type Sums = [__m256; 2];

/// The micro-kernels. Only [`Kernels::of`](crate::cpu::Kernels::of) hands them out, after it has asked the CPU, so each of these
/// closures may rely on AVX2, FMA and F16C.
pub const KERNELS: Kernels = Kernels {
    rows: ROWS,
    panels: 1,
    // SAFETY: the CPU has AVX2; the rest is the caller's.
    interleave: |panel, rows| unsafe { interleave(panel, rows) },
    // SAFETY: the CPU has AVX2 and FMA.
    add_rows: |y, a, rows| unsafe { add_rows(y, a, rows) },
    f32: panel_kernels(usize::MAX),
    f16: panel_kernels(DIRECT),
    bf16: panel_kernels(DIRECT),
    q8_0: panel_kernels(DIRECT),
    // SAFETY: the CPU has AVX2 and FMA.
    multiply_adds: |rounds| unsafe { multiply_adds(rounds) },
};

const fn panel_kernels<W: Load>(direct: usize) -> PanelKernels<W> {
    PanelKernels {
        direct,
        // SAFETY: the CPU has AVX2, FMA and F16C; the rest is the caller's.
        tile: |tile| unsafe { self::tile(tile) },
        // SAFETY: the CPU has AVX2 and F16C.
        expand: |panel, lines, ahead| unsafe { expand(panel, lines, ahead) },
    }
}

/// # Safety
/// See [`Tile`]; the CPU has AVX2, FMA and F16C.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn tile<W: Load>(tile: Tile<W>) {
    // SAFETY: the caller's.
    unsafe {
        if tile.columns <= COLUMNS {
            return by_rows!(tile.rows, R in [1 2 3 4 5 6] => rows::<W, R, 1>(&tile, 0));
        }
        match tile.rows {
            // Sums of one or two rows with one panel would leave the processor waiting for them.
            1 => rows::<W, 1, 2>(&tile, 0),
            2 => rows::<W, 2, 2>(&tile, 0),
            3 if W::SIDES == 1 => rows::<W, 3, 2>(&tile, 0),
            _ if W::SIDES == 1 => by_rows!(tile.rows, R in [4 5 6] => {
                rows::<W, R, 1>(&tile, 0);
                rows::<W, R, 1>(&tile, 1);
            }),
            _ => by_rows!(tile.rows, R in [3 4 5 6] => rows_by_turns::<W, R>(&tile)),
        }
    }
}

/// R rows times P of the tile's panels, from `first` on.
///
/// # Safety
/// As for [`tile`].
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn rows<W: Load, const R: usize, const P: usize>(tile: &Tile<W>, first: usize) {
    // SAFETY: the caller's.
    unsafe {
        let mut sums = [[[_mm256_setzero_ps(); 2]; P]; R];
        for (i, sums) in sums.iter_mut().enumerate() {
            for (p, sums) in sums.iter_mut().enumerate() {
                begin(tile, i, first + p, sums);
            }
        }
        add_steps::<W, R, P, false>(&mut sums, tile.a, from_fn(|p| tile.panels[first + p]));
        for (i, sums) in sums.iter().enumerate() {
            for (p, sums) in sums.iter().enumerate() {
                store(tile, i, first + p, *sums);
            }
        }
    }
}

/// R rows times two panels whose sums do not fit into the registers: a few steps of one panel, then the same of the other, so
/// that two sides of the same units are still read as one stream.
///
/// # Safety
/// As for [`tile`].
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn rows_by_turns<W: Load, const R: usize>(tile: &Tile<W>) {
    /// Bytes of a turn at most: with the next one and the rows they stay in the L1 cache.
    const TURN: usize = 4352;
    let units = tile.panels[0].units.len();
    // Turns of one size, so that each prefetches all of the next.
    let turns = size_of_val(tile.panels[0].units).div_ceil(TURN).max(1);
    let length = units.div_ceil(turns).max(1);
    // A black box, or the compiler would try to keep the sums of both panels in registers, and fail in the innermost loop.
    let mut sums = [[[[_mm256_setzero_ps(); 2]; 1]; R]; 2];
    let sums = black_box(&mut sums);
    // SAFETY: the caller's.
    unsafe {
        for (p, sums) in sums.iter_mut().enumerate() {
            sums.iter_mut().enumerate().for_each(|(i, sums)| begin(tile, i, p, &mut sums[0]));
        }
        for first in (0..units).step_by(length) {
            let turn = first..(first + length).min(units);
            let a = tile.a.part(0, first * W::STEPS);
            for (sums, panel) in sums.iter_mut().zip(tile.panels) {
                let panel = Panel { units: &panel.units[turn.clone()], ..panel };
                add_steps::<W, R, 1, true>(sums, a, [panel]);
            }
        }
        for (p, sums) in sums.iter().enumerate() {
            sums.iter().enumerate().for_each(|(i, sums)| store(tile, i, p, sums[0]));
        }
    }
}

/// `sums += rows · panels`: each sum is continued as the chain that it is. With AHEAD, which is for one panel, also prefetches
/// the same part of the units that follow.
///
/// # Safety
/// The CPU has AVX2, FMA and F16C; the panels have the same number of units, and the rows all of their steps.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn add_steps<W: Load, const R: usize, const P: usize, const AHEAD: bool>(
    sums: &mut [[Sums; P]; R],
    a: TileRows,
    panels: [Panel<W>; P],
) {
    let units = panels[0].units.len();
    debug_assert!(panels.iter().all(|panel| panel.units.len() == units));
    let mut at = a.at;
    // Variables of this function: a sum that stays in memory makes all others wait.
    let mut chains = *sums;
    let mut unit = |u: usize| {
        if AHEAD {
            panels[0].prefetch::<_MM_HINT_T0>(u);
        }
        // SAFETY: every panel has this unit, and the rows its steps.
        unsafe {
            let units: [&W; P] = from_fn(|p| panels[p].units.get_unchecked(u));
            let shared: [W::Shared; P] = from_fn(|p| units[p].shared(panels[p].side));
            for step in 0..W::STEPS {
                let x: [__m256; R] = from_fn(|i| _mm256_broadcast_ss(&*at.add(i * a.row)));
                for p in 0..P {
                    let w = units[p].load(panels[p].side, step, shared[p]);
                    for i in 0..R {
                        let chain = &mut chains[i][p];
                        *chain =
                            [_mm256_fmadd_ps(x[i], w[0], chain[0]), _mm256_fmadd_ps(x[i], w[1], chain[1])];
                    }
                }
                at = at.wrapping_add(a.step);
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

/// Loads the chains of row `i` with a panel if the tile continues them; otherwise prefetches where they will be stored.
///
/// # Safety
/// As for [`tile`].
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn begin<W>(tile: &Tile<W>, i: usize, panel: usize, sums: &mut Sums) {
    let at = tile.output.to.wrapping_add(i * tile.output.stride + panel * COLUMNS);
    if tile.continues {
        // SAFETY: a tile that continues has sixteen columns for each of its panels.
        *sums = unsafe { [_mm256_loadu_ps(at), _mm256_loadu_ps(at.add(8))] };
    } else {
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
}

/// Stores row `i` of one of the tile's panels.
///
/// # Safety
/// As for [`tile`].
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn store<W>(tile: &Tile<W>, i: usize, panel: usize, sums: Sums) {
    let columns = (tile.columns - panel * COLUMNS).min(COLUMNS);
    let scale = _mm256_set1_ps(tile.scale);
    // SAFETY: the row has these columns in the output and its base, and an edge has sixteen.
    unsafe {
        let to = tile.output.to.add(i * tile.output.stride + panel * COLUMNS);
        let base = tile.output.base.filter(|_| !tile.continues);
        let base = base.map(|(base, stride)| base.add(i * stride + panel * COLUMNS));
        let finished = |base: Option<*const f32>| -> Sums {
            from_fn(|v| match base {
                _ if tile.continues => sums[v],
                Some(base) => _mm256_fmadd_ps(sums[v], scale, _mm256_loadu_ps(base.add(8 * v))),
                None => _mm256_mul_ps(sums[v], scale),
            })
        };
        if columns == COLUMNS {
            let y = finished(base);
            _mm256_storeu_ps(to, y[0]);
            _mm256_storeu_ps(to.add(8), y[1]);
            return;
        }
        let mut edge = [0f32; COLUMNS];
        let base = base.map(|base| {
            base.copy_to_nonoverlapping(edge.as_mut_ptr(), columns);
            edge.as_ptr()
        });
        let y = finished(base);
        _mm256_storeu_ps(edge.as_mut_ptr(), y[0]);
        _mm256_storeu_ps(edge.as_mut_ptr().add(8), y[1]);
        edge.as_ptr().copy_to_nonoverlapping(to, columns);
    }
}

impl<W: PanelFormat> Panel<'_, W> {
    /// Prefetches, when unit `u` is used, the same part of what follows these units: using all units of both sides prefetches as
    /// many units.
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

/// # Safety
/// The CPU has AVX2 and F16C.
#[target_feature(enable = "avx2,f16c")]
unsafe fn expand<W: Load>(panel: Panel<W>, lines: &mut [PanelLine], ahead: bool) {
    for (u, (unit, lines)) in panel.units.iter().zip(lines.chunks_exact_mut(W::STEPS)).enumerate() {
        if ahead {
            // Only to the L2 cache: all rows will be multiplied before the units are needed.
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

/// `y[j] = fma(a[i], rows[i][j], y[j])` for each i in turn.
#[target_feature(enable = "avx2,fma")]
fn add_rows(y: &mut [f32], a: &[f32], rows: Matrix) {
    assert!(rows.rows == a.len() && rows.columns == y.len(), "rows of the size of the sums");
    let (fours, rest) = a.as_chunks::<4>();
    for (group, a) in fours.iter().enumerate() {
        let rows: [&[f32]; 4] = from_fn(|i| &rows.row(4 * group + i)[..y.len()]);
        for (j, y) in y.iter_mut().enumerate() {
            let mut sum = *y;
            for i in 0..4 {
                sum = a[i].mul_add(rows[i][j], sum);
            }
            *y = sum;
        }
    }
    for (i, a) in rest.iter().enumerate() {
        let row = rows.row(4 * fours.len() + i);
        y.iter_mut().zip(row).for_each(|(y, w)| *y = a.mul_add(*w, *y));
    }
}

#[target_feature(enable = "avx2,fma")]
fn multiply_adds(rounds: usize) -> usize {
    let (a, b) = (_mm256_set1_ps(black_box(0.999)), _mm256_set1_ps(black_box(0.001)));
    let mut chains = [_mm256_set1_ps(black_box(0.5)); CHAINS];
    for _ in 0..rounds {
        for chain in &mut chains {
            *chain = _mm256_fmadd_ps(*chain, a, b);
        }
    }
    black_box(chains);
    2 * rounds * CHAINS * 8
}
