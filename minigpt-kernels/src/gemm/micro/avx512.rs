//! Micro-kernels for AVX-512 F: twice as many registers, each twice as wide.
//!
//! A tile is the loop at the top of `avx2`, with the same bits:
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

use super::avx2::{self, load};
use super::{CHAINS, Kernels, PanelKernels, Tile, by_rows};
use crate::gemm::formats::{COLUMNS, PanelLine, Q8Unit};
use half::{bf16, f16};
use std::arch::x86_64::*;
use std::array::from_fn;
use std::hint::black_box;

/// Rows of a tile: 12 × 32 sums take 24 of 32 registers.
const ROWS: usize = 12;

/// The micro-kernels. Only [`Kernels::of`](crate::cpu::Kernels::of) hands them out, after it has asked the CPU, so each of these
/// closures may rely on AVX-512 F.
pub const KERNELS: Kernels = Kernels {
    rows: ROWS,
    panels: 2,
    f32: PanelKernels { tile: tile_of(), ..avx2::KERNELS.f32 },
    f16: PanelKernels { tile: tile_of(), ..avx2::KERNELS.f16 },
    bf16: PanelKernels { tile: tile_of(), ..avx2::KERNELS.bf16 },
    q8_0: PanelKernels { tile: tile_of(), ..avx2::KERNELS.q8_0 },
    // SAFETY: the CPU has AVX-512.
    multiply_adds: |rounds| unsafe { multiply_adds(rounds) },
    ..avx2::KERNELS
};

const fn tile_of<W: Load>() -> unsafe fn(Tile<W>) {
    // SAFETY: the CPU has AVX-512; the rest is the caller's.
    |tile| unsafe { self::tile(tile) }
}

/// A format that AVX-512 converts to f32.
trait Load: load::Load {
    /// The weights of a step.
    ///
    /// # Safety
    /// The CPU has AVX-512, and the unit has this side and step.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c,avx512f")]
    unsafe fn load_512(&self, side: usize, step: usize, shared: Self::Shared) -> __m512 {
        // SAFETY: the caller's.
        unsafe { joined(self.load(side, step, shared)) }
    }
}

impl Load for PanelLine {
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c,avx512f")]
    unsafe fn load_512(&self, _side: usize, _step: usize, (): ()) -> __m512 {
        // SAFETY: a line has sixteen elements.
        unsafe { _mm512_loadu_ps(self.as_ptr()) }
    }
}

impl Load for [[f16; COLUMNS]; 2] {}

impl Load for [[bf16; COLUMNS]; 2] {}

impl Load for Q8Unit {
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c,avx512f")]
    unsafe fn load_512(&self, side: usize, step: usize, scales: [__m256; 2]) -> __m512 {
        debug_assert!(step < 32);
        // SAFETY: the caller's, and a step of a side has sixteen integers.
        let integers = unsafe { self.integers.get_unchecked(step).get_unchecked(side).as_ptr() };
        // SAFETY: the same.
        let integers = _mm512_cvtepi8_epi32(unsafe { _mm_loadu_si128(integers.cast()) });
        _mm512_mul_ps(_mm512_cvtepi32_ps(integers), joined(scales))
    }
}

/// Sixteen lanes of two registers.
#[inline]
#[target_feature(enable = "avx512f")]
fn joined([low, high]: [__m256; 2]) -> __m512 {
    let low = _mm512_castps_pd(_mm512_castps256_ps512(low));
    _mm512_castpd_ps(_mm512_insertf64x4::<1>(low, _mm256_castps_pd(high)))
}

/// # Safety
/// See [`Tile`]; the CPU has AVX-512.
#[target_feature(enable = "avx2,fma,f16c,avx512f")]
unsafe fn tile<W: Load>(tile: Tile<W>) {
    // SAFETY: the caller's.
    unsafe {
        // One chain per panel would leave the processor waiting; AVX2 has two.
        if tile.rows * W::SIDES <= 2 && W::STEPS == 1 {
            avx2::tile(tile);
        } else if tile.columns > COLUMNS {
            by_rows!(tile.rows, R in [1 2 3 4 5 6 7 8 9 10 11 12] => rows::<W, R, 2>(&tile));
        } else {
            by_rows!(tile.rows, R in [1 2 3 4 5 6 7 8 9 10 11 12] => rows::<W, R, 1>(&tile));
        }
    }
}

/// R rows times P panels.
///
/// # Safety
/// As for [`tile`].
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f")]
unsafe fn rows<W: Load, const R: usize, const P: usize>(tile: &Tile<W>) {
    /// Bytes from the weight that is used to the one that is prefetched: several rows take so long with a line that too few
    /// loads are in flight by themselves.
    const AHEAD: usize = 1024;
    let Tile { output, columns, a, panels, .. } = *tile;
    let units = panels[0].units.len();
    debug_assert!(panels[..P].iter().all(|panel| panel.units.len() == units));
    let at = |i: usize, p: usize| output.to.wrapping_add(i * output.stride + p * COLUMNS);
    let mut sums = [[_mm512_setzero_ps(); P]; R];
    // SAFETY: the panels have all units, the rows their steps, and the output and its base these rows and columns.
    unsafe {
        for (i, sums) in sums.iter_mut().enumerate() {
            for (p, sum) in sums.iter_mut().enumerate() {
                if tile.continues {
                    *sum = _mm512_loadu_ps(at(i, p));
                } else {
                    _mm_prefetch::<_MM_HINT_T0>(at(i, p).cast());
                }
            }
        }
        let (mut from, streams) = (a.at, tile.streams);
        for u in 0..units {
            let units: [&W; P] = from_fn(|p| panels[p].units.get_unchecked(u));
            let shared: [W::Shared; P] = from_fn(|p| units[p].shared(panels[p].side));
            for step in 0..W::STEPS {
                if streams {
                    let ahead = AHEAD + step * size_of::<W>() / W::STEPS;
                    for unit in units.iter().step_by(W::SIDES) {
                        _mm_prefetch::<_MM_HINT_T0>(
                            std::ptr::from_ref(*unit).cast::<i8>().wrapping_add(ahead),
                        );
                    }
                }
                let w: [__m512; P] = from_fn(|p| units[p].load_512(panels[p].side, step, shared[p]));
                for (i, sums) in sums.iter_mut().enumerate() {
                    let x = _mm512_set1_ps(*from.add(i * a.row));
                    for (sum, w) in sums.iter_mut().zip(w) {
                        *sum = _mm512_fmadd_ps(x, w, *sum);
                    }
                }
                from = from.wrapping_add(a.step);
            }
        }
        let scale = _mm512_set1_ps(tile.scale);
        for (i, sums) in sums.into_iter().enumerate() {
            for (p, sum) in sums.into_iter().enumerate() {
                // The lanes of this register that are columns of the output.
                let lanes = (columns - p * COLUMNS).min(COLUMNS);
                let mask = ((1u32 << lanes) - 1) as __mmask16;
                let y = match output.base {
                    _ if tile.continues => sum,
                    Some((base, stride)) => {
                        let base = base.wrapping_add(i * stride + p * COLUMNS);
                        _mm512_fmadd_ps(sum, scale, _mm512_maskz_loadu_ps(mask, base))
                    }
                    None => _mm512_mul_ps(sum, scale),
                };
                _mm512_mask_storeu_ps(at(i, p), mask, y);
            }
        }
    }
}

#[target_feature(enable = "avx512f")]
fn multiply_adds(rounds: usize) -> usize {
    let (a, b) = (_mm512_set1_ps(black_box(0.999)), _mm512_set1_ps(black_box(0.001)));
    let mut chains = [_mm512_set1_ps(black_box(0.5)); CHAINS];
    for _ in 0..rounds {
        for chain in &mut chains {
            *chain = _mm512_fmadd_ps(*chain, a, b);
        }
    }
    black_box(chains);
    2 * rounds * CHAINS * 16
}
