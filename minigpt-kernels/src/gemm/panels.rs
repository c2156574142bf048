//! A weight laid out for inference: panels of sixteen columns, each with all of its inner steps one behind the other.
//!
//! One row, eight rows and five hundred read the same panels from front to back, each once for as many rows as possible, and
//! threads share the columns. An element of the result is summed in blocks of inner steps that depend on the weight alone:
//! one chain of multiply-adds a block, and the blocks one after the other onto the bias. So a row's result is the same to
//! the bit whichever rows are beside it; `tiles` and `small_batch`, which read a weight as it is stored, sum in the same order.
#![expect(unsafe_code, reason = "threads write disjoint columns of one buffer through pointers")]

use crate::gemm::matrix::Matrix;
use crate::gemm::panel_format::{COLUMNS, PanelFormat, PanelLine, Q8Block};
use crate::gemm::panel_tile::{Panel, TileRows, extend_portable, tile_portable};
use crate::gemm::product::{Output, TILE_ROWS, inner_steps};
use crate::simd;
use rayon::prelude::*;
use std::cell::RefCell;
use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use crate::gemm::panel_tile::{
    AVX512_ROWS, expand_avx2, extend_avx2, packed_tile_avx512, tile_avx2, tile_avx512, two_tiles_avx2,
};

/// Multiply-adds that are worth a task of their own, where the threads are awake.
const TASK: usize = 1 << 15;
/// A product of fewer multiply-adds than so many takes less time alone than waking another thread does.
const ALONE: usize = 1 << 16;
/// Up to so many rows are read where they lie; of more, a block is packed first, as tiles read it.
pub const FEW_ROWS: usize = 4 * TILE_ROWS;
/// Rows of a block: with their inner steps they stay in the L2 cache.
const BLOCK_ROWS: usize = 84 * TILE_ROWS;
/// From so many rows on, a panel that is not f32 is expanded before it is multiplied.
const EXPANDED: usize = 2 * TILE_ROWS + 1;

/// A weight (in, out) as panels.
pub struct Panels<W> {
    /// The units of the first [`PanelFormat::SIDES`] panels, then those of the next, and so on.
    units: Vec<W>,
    k: usize,
    n: usize,
}

thread_local! {
    /// Packed rows, and two expanded panels.
    static SCRATCH: RefCell<(Vec<f32>, [Vec<PanelLine>; 2])> = RefCell::default();
}

impl<W: PanelFormat> Panels<W> {
    /// A weight with `k` inner steps and `n` columns, of which `source(column, unit)` gives the elements.
    pub fn new(k: usize, n: usize, source: impl Fn(usize, usize) -> W::Source + Sync) -> Self {
        assert!(k.is_multiple_of(W::STEPS), "whole units");
        let (width, length) = (W::SIDES * COLUMNS, k / W::STEPS);
        let mut units: Vec<W> = Vec::with_capacity(n.div_ceil(width) * length);
        let room = &mut units.spare_capacity_mut()[..n.div_ceil(width) * length];
        room.par_chunks_mut(length.max(1)).enumerate().for_each(|(group, room)| {
            let columns = group * width..((group + 1) * width).min(n);
            let mut sources = Vec::with_capacity(width);
            for (unit, room) in room.iter_mut().enumerate() {
                sources.clear();
                sources.extend(columns.clone().map(|column| source(column, unit)));
                room.write(W::pack(&sources));
            }
        });
        // SAFETY: every unit of every panel has been written.
        unsafe { units.set_len(n.div_ceil(width) * length) };
        Self { units, k, n }
    }

    /// One column in f32.
    pub fn column(&self, column: usize, out: &mut [f32]) {
        assert!(column < self.n && out.len() == self.k, "a column of this weight");
        let (units, width) = (self.panel(column / COLUMNS).units, W::SIDES * COLUMNS);
        for (unit, out) in units.iter().zip(out.chunks_exact_mut(W::STEPS)) {
            unit.column(column % width, out);
        }
    }

    /// The blocks that it was made of, column by column, where [`PanelFormat::block`] has them.
    pub fn blocks(&self) -> Option<Vec<Q8Block>> {
        let width = W::SIDES * COLUMNS;
        let column = |column: usize| {
            let units = self.panel(column / COLUMNS).units.iter();
            units.map(|unit| unit.block(column % width)).collect::<Option<Vec<_>>>()
        };
        let columns = (0..self.n).into_par_iter().map(column).collect::<Option<Vec<_>>>()?;
        Some(columns.concat())
    }

    fn panel(&self, panel: usize) -> Panel<'_, W> {
        let length = self.k / W::STEPS;
        Panel { units: &self.units[panel / W::SIDES * length..][..length], side: panel % W::SIDES }
    }

    /// `x · W + b` in a new buffer, on the threads of the current pool. `x` has contiguous rows.
    pub fn product(&self, x: Matrix, bias: Option<&[f32]>) -> Vec<f32> {
        x.check();
        assert!(x.columns == self.k && (x.column_stride == 1 || x.columns <= 1), "rows of this weight");
        assert!(bias.is_none_or(|bias| bias.len() == self.n), "the size of a bias");
        let (m, n) = (x.rows, self.n);
        let mut y: Vec<f32> = Vec::with_capacity(m * n);
        let base = bias.map(|bias| (bias.as_ptr(), 0));
        let product = Product { weight: self, x, y: Output { to: y.as_mut_ptr(), stride: n, base } };
        let parts = parts(m * n * self.k, ALONE, TASK);
        if m > 0 {
            // Threads are given whole units.
            split(0..n.div_ceil(W::SIDES * COLUMNS), parts, &|groups| {
                let panels = groups.start * W::SIDES..(groups.end * W::SIDES).min(n.div_ceil(COLUMNS));
                // SAFETY: `x` lies inside its buffer, as just checked, and `y` has room for m·n elements.
                unsafe { product.part(panels) }
            });
        }
        // SAFETY: each panel has written its columns of every row.
        unsafe { y.set_len(m * n) };
        y
    }
}

/// Into how many parts a product of so many multiply-adds is split: one if there are fewer than `alone`, otherwise two a
/// thread, but none of fewer than `task`.
pub fn parts(work: usize, alone: usize, task: usize) -> usize {
    if work < alone { 1 } else { (2 * rayon::current_num_threads()).min(work / task).max(1) }
}

/// Halves the panels until there are enough parts, which the threads of the current pool share.
pub fn split(panels: Range<usize>, parts: usize, part: &(impl Fn(Range<usize>) + Sync)) {
    if parts <= 1 || panels.len() <= 1 {
        return part(panels);
    }
    let middle = panels.start + panels.len() / 2;
    let (left, right) = (panels.start..middle, middle..panels.end);
    rayon::join(|| split(left, parts.div_ceil(2), part), || split(right, parts.div_ceil(2), part));
}

/// A product that threads share.
struct Product<'a, W> {
    weight: &'a Panels<W>,
    x: Matrix<'a>,
    y: Output,
}

// SAFETY: threads are given panels that don't overlap, and write their columns only.
unsafe impl<W: Sync> Sync for Product<'_, W> {}

impl<W: PanelFormat> Product<'_, W> {
    /// The columns of some panels.
    ///
    /// # Safety
    /// `x` lies inside its buffer, and the output has room for all rows and columns.
    unsafe fn part(&self, panels: Range<usize>) {
        SCRATCH.with_borrow_mut(|(packed, lines)| {
            for lines in lines.iter_mut() {
                lines.resize(lines.len().max(inner_steps(self.weight.k)), [0.0; COLUMNS]);
            }
            // SAFETY: the caller's.
            unsafe {
                if self.x.rows <= FEW_ROWS {
                    self.few_rows(panels, &mut lines[0]);
                } else {
                    self.many_rows(panels, packed, lines);
                }
            }
        });
    }

    /// Panel after panel, all rows with each block of its inner steps.
    ///
    /// # Safety
    /// As for [`Product::part`].
    unsafe fn few_rows(&self, panels: Range<usize>, lines: &mut [PanelLine]) {
        let m = self.x.rows;
        let x = TileRows { at: self.x.data.as_ptr(), row: self.x.row_stride, step: 1 };
        let mut panel = panels.start;
        while panel < panels.end {
            let two = panel + 1 < panels.end && takes_two_panels::<W>(m);
            for steps in self.blocks() {
                let x = x.part(0, steps.start);
                // SAFETY: the caller's.
                unsafe {
                    if two {
                        self.two_panels(panel, steps, x);
                    } else {
                        self.rows(panel, 0..m, steps, x, lines, tile_rows(m));
                    }
                }
            }
            panel += 1 + usize::from(two);
        }
    }

    /// Block after block of rows and inner steps, which stays in the caches while all panels go by.
    ///
    /// # Safety
    /// As for [`Product::part`].
    unsafe fn many_rows(&self, panels: Range<usize>, packed: &mut Vec<f32>, lines: &mut [Vec<PanelLine>; 2]) {
        let (m, tile) = (self.x.rows, most_tile_rows());
        let height = m.div_ceil(m.div_ceil(BLOCK_ROWS)).next_multiple_of(tile);
        for steps in self.blocks() {
            for top in (0..m).step_by(height) {
                let rows = top..(top + height).min(m);
                let x = pack_rows(packed, self.x.part(rows.clone(), steps.clone()));
                #[cfg(target_arch = "x86_64")]
                if simd::has_avx512() {
                    for panel in panels.clone().step_by(2) {
                        // An odd one is multiplied twice, and stored once.
                        let both = [panel, (panel + 1).min(panels.end - 1)];
                        // SAFETY: the caller's, and just asked; the packed rows are those of the block.
                        unsafe { self.packed_rows(both, rows.clone(), steps.clone(), x, lines) };
                    }
                    continue;
                }
                for panel in panels.clone() {
                    // SAFETY: the caller's; the packed rows are those of the block.
                    unsafe { self.rows(panel, rows.clone(), steps.clone(), x, &mut lines[0], tile) };
                }
            }
        }
    }

    /// Packed rows times blocks of two panels, which may be the same one.
    ///
    /// # Safety
    /// As for [`Product::part`]; the CPU has AVX-512, and the rows are packed in whole tiles.
    #[cfg(target_arch = "x86_64")]
    unsafe fn packed_rows(
        &self,
        panels: [usize; 2],
        rows: Range<usize>,
        steps: Range<usize>,
        x: TileRows,
        [first, second]: &mut [Vec<PanelLine>; 2],
    ) {
        let lines = |panel: usize, buffer| {
            let weight = self.panel(panel, &steps);
            W::lines(weight.units).unwrap_or_else(|| expand(weight, buffer, false))
        };
        let second = lines(panels[1], &mut second[..steps.len()]);
        let lines = [lines(panels[0], &mut first[..steps.len()]), second];
        let right = if panels[0] == panels[1] { 0 } else { self.columns(panels[1]) };
        for i in (0..rows.len()).step_by(AVX512_ROWS) {
            let size = [AVX512_ROWS.min(rows.len() - i), self.columns(panels[0]), right];
            // SAFETY: the caller's.
            unsafe {
                let outputs = panels.map(|panel| self.output(rows.start + i, panel, steps.start));
                packed_tile_avx512(outputs, size, x.at.wrapping_add(i * steps.len()), lines);
            }
        }
    }

    /// The blocks of inner steps that are summed by themselves.
    fn blocks(&self) -> impl Iterator<Item = Range<usize>> {
        let (k, size) = (self.weight.k, inner_steps(self.weight.k));
        // Without any inner step there is still one block: it copies the bias.
        (0..k.max(1)).step_by(size).map(move |first| first..(first + size).min(k))
    }

    /// Where the result of some rows with a panel goes. What it is added to is the bias at first, then what is there.
    ///
    /// # Safety
    /// The row and the panel are of this product.
    unsafe fn output(&self, row: usize, panel: usize, first: usize) -> Output {
        // SAFETY: the caller's.
        let output = unsafe { self.y.part(row, panel * COLUMNS) };
        if first > 0 { output.added() } else { output }
    }

    fn columns(&self, panel: usize) -> usize {
        COLUMNS.min(self.weight.n - panel * COLUMNS)
    }

    fn panel(&self, panel: usize, steps: &Range<usize>) -> Panel<'_, W> {
        let panel = self.weight.panel(panel);
        Panel { units: &panel.units[steps.start / W::STEPS..steps.end / W::STEPS], ..panel }
    }

    /// Rows times a block of a panel. `x` begins with the first of them and the first of the inner steps.
    ///
    /// # Safety
    /// As for [`Product::part`]; of packed rows, whole tiles of them are read.
    unsafe fn rows(
        &self,
        panel: usize,
        rows: Range<usize>,
        steps: Range<usize>,
        x: TileRows,
        lines: &mut [PanelLine],
        tile: usize,
    ) {
        let (weight, columns) = (self.panel(panel, &steps), self.columns(panel));
        let lines = match W::lines(weight.units) {
            Some(lines) => Some(lines),
            None if rows.len() >= EXPANDED || !is_avx2() => {
                // Of a few rows, the block that follows is the next.
                Some(expand(weight, &mut lines[..steps.len()], x.step == 1))
            }
            None => None,
        };
        for i in (0..rows.len()).step_by(tile) {
            let size = [tile.min(rows.len() - i), columns];
            // SAFETY: the caller's.
            unsafe {
                let output = self.output(rows.start + i, panel, steps.start);
                let x = if x.step == 1 {
                    x.part(i, 0)
                } else {
                    TileRows { at: x.at.wrapping_add(i * steps.len()), ..x }
                };
                match lines {
                    #[cfg(target_arch = "x86_64")]
                    Some(lines) if x.step == 1 && simd::has_avx512() => {
                        tile_avx512([output], size[0], [columns], x, [Panel::from(lines)]);
                    }
                    #[cfg(target_arch = "x86_64")]
                    None if x.step == 1 && simd::has_avx512() => {
                        tile_avx512([output], size[0], [columns], x, [weight]);
                    }
                    Some(lines) => self::tile(output, size, x, lines),
                    #[cfg(target_arch = "x86_64")]
                    None => tile_avx2(output, size, x, weight),
                    #[cfg(not(target_arch = "x86_64"))]
                    None => unreachable!("the portable kernel multiplies lines"),
                }
            }
        }
    }

    /// All rows, a few, times a block of two panels. `x` begins with the first of the inner steps.
    ///
    /// # Safety
    /// As for [`Product::part`]; the CPU has AVX2.
    #[cfg(target_arch = "x86_64")]
    unsafe fn two_panels(&self, panel: usize, steps: Range<usize>, x: TileRows) {
        let (m, panels) = (self.x.rows, [panel, panel + 1]);
        let columns = panels.map(|panel| self.columns(panel));
        let weights = panels.map(|panel| self.panel(panel, &steps));
        let tile = tile_rows(m);
        for i in (0..m).step_by(tile) {
            let (rows, x) = (tile.min(m - i), x.part(i, 0));
            // SAFETY: the caller's.
            unsafe {
                let outputs = panels.map(|panel| self.output(i, panel, steps.start));
                if rows > 2 && simd::has_avx512() {
                    tile_avx512(outputs, rows, columns, x, weights);
                } else {
                    two_tiles_avx2(outputs, rows, columns, x, weights);
                }
            }
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    unsafe fn two_panels(&self, _panel: usize, _steps: Range<usize>, _x: TileRows) {
        unreachable!("only AVX2 takes two panels at once")
    }
}

/// Rows of a tile at most.
fn most_tile_rows() -> usize {
    #[cfg(target_arch = "x86_64")]
    if simd::has_avx512() {
        return AVX512_ROWS;
    }
    TILE_ROWS
}

/// Rows of a tile when so many, which are read where they lie, are split evenly.
fn tile_rows(m: usize) -> usize {
    m.div_ceil(m.div_ceil(most_tile_rows()).max(1)).max(1)
}

/// Whether so many rows are multiplied with two panels at once: as long as the sums fit into the registers, or the panels share
/// their units.
fn takes_two_panels<W: PanelFormat>(m: usize) -> bool {
    match W::SIDES {
        1 => is_avx2() && m <= 3 || most_tile_rows() > TILE_ROWS,
        _ => is_avx2() && m < EXPANDED,
    }
}

/// Rows as tiles read them: step by step, the elements of a tile's rows side by side. The last tile is filled up with zeros.
fn pack_rows(packed: &mut Vec<f32>, block: Matrix) -> TileRows {
    let tile = most_tile_rows();
    let size = block.rows.next_multiple_of(tile) * block.columns;
    packed.resize(packed.len().max(size), 0.0);
    let rows = TileRows { at: packed.as_ptr(), row: 1, step: tile };
    #[cfg(target_arch = "x86_64")]
    if is_avx2() {
        // SAFETY: just asked; the block lies inside its buffer, and there is room for all of it.
        unsafe {
            match tile {
                AVX512_ROWS => crate::gemm::packing::pack::<AVX512_ROWS>(packed, block),
                _ => crate::gemm::packing::pack::<TILE_ROWS>(packed, block),
            }
        }
        return rows;
    }
    let tiles = packed[..size].chunks_exact_mut((tile * block.columns).max(1));
    for (number, packed) in tiles.enumerate() {
        for (at, to) in packed.iter_mut().enumerate() {
            let (i, p) = (number * tile + at % tile, at / tile);
            *to = if i < block.rows { block.data[i * block.row_stride + p] } else { 0.0 };
        }
    }
    rows
}

fn expand<'a, W: PanelFormat>(panel: Panel<W>, lines: &'a mut [PanelLine], ahead: bool) -> &'a [PanelLine] {
    #[cfg(target_arch = "x86_64")]
    if is_avx2() {
        // SAFETY: just asked.
        unsafe { expand_avx2(panel, lines, ahead) };
        return lines;
    }
    let _ = ahead;
    for (unit, lines) in panel.units.iter().zip(lines.chunks_exact_mut(W::STEPS)) {
        unit.expand(panel.side, lines);
    }
    lines
}

fn is_avx2() -> bool {
    !simd::is_plain()
}

/// `x · W + b` with a weight (in, out) that is laid out as panels on the way, on the threads of the current pool.
pub fn plain_product(x: Matrix, weight: Matrix, bias: Option<&[f32]>) -> Vec<f32> {
    weight.check();
    by_panel(x, weight.columns, bias, &weight.t())
}

/// A weight that gives some of its columns at a time, up to sixteen.
pub trait WeightColumns: Sync {
    /// WeightColumns of `k` elements, each as a row; they may be put into the buffer.
    fn columns<'a>(&'a self, range: Range<usize>, k: usize, buffer: &'a mut Vec<f32>) -> Matrix<'a>;
}

/// The rows of a matrix are the columns of the weight.
impl WeightColumns for Matrix<'_> {
    fn columns<'a>(&'a self, range: Range<usize>, k: usize, _buffer: &'a mut Vec<f32>) -> Matrix<'a> {
        self.part(range, 0..k)
    }
}

/// `x · W + b` with a weight of `n` columns.
pub fn by_panel(x: Matrix, n: usize, bias: Option<&[f32]>, weight: &impl WeightColumns) -> Vec<f32> {
    x.check();
    assert!(bias.is_none_or(|bias| bias.len() == n), "the size of a bias");
    let (m, k) = (x.rows, x.columns);
    let mut y = vec![0f32; m * n];
    let base = bias.map(|bias| (bias.as_ptr(), 0));
    let output = Shared(Output { to: y.as_mut_ptr(), stride: n, base });
    let panels = (0..n.div_ceil(COLUMNS)).into_par_iter();
    panels.with_min_len((TASK / (k * COLUMNS).max(1)).max(1)).for_each_init(
        || (Vec::new(), vec![[0f32; COLUMNS]; inner_steps(k)]),
        |(buffer, lines), panel| {
            let range = panel * COLUMNS..((panel + 1) * COLUMNS).min(n);
            let columns = weight.columns(range.clone(), k, buffer);
            assert_eq!((columns.rows, columns.columns), (range.len(), k), "the columns of a panel");
            for first in (0..k.max(1)).step_by(inner_steps(k)) {
                let steps = first..(first + inner_steps(k)).min(k);
                let lines = &mut lines[..steps.len()];
                transpose(columns.part(0..range.len(), steps.clone()), lines);
                // SAFETY: `x` lies inside its buffer, and the output has room for its rows and these columns, which no
                // other panel writes.
                unsafe {
                    let output = output.columns(range.start, first);
                    let x = TileRows { at: x.data.as_ptr().wrapping_add(first), row: x.row_stride, step: 1 };
                    for i in (0..m).step_by(TILE_ROWS) {
                        let size = [TILE_ROWS.min(m - i), range.len()];
                        tile(output.part(i, 0), size, x.part(i, 0), lines);
                    }
                }
            }
        },
    );
    y
}

/// An output that threads share.
struct Shared(Output);

// SAFETY: each panel writes its own columns.
unsafe impl Sync for Shared {}

impl Shared {
    /// From a column on; what it is added to is the bias at first, then what is there.
    ///
    /// # Safety
    /// The output has this column.
    unsafe fn columns(&self, column: usize, first: usize) -> Output {
        // SAFETY: the caller's.
        let output = unsafe { self.0.part(0, column) };
        if first > 0 { output.added() } else { output }
    }
}

/// Up to six rows times a panel, by the kernel of this CPU.
///
/// # Safety
/// As for [`tile_portable`].
pub unsafe fn tile(output: Output, size: [usize; 2], x: TileRows, lines: &[PanelLine]) {
    // SAFETY: the caller's; the CPU has just been asked.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if is_avx2() {
            return tile_avx2(output, size, x, Panel::from(lines));
        }
        tile_portable(output, size, x, lines);
    }
}

/// Up to six rows times two panels of sixteen columns, by the kernel of this CPU.
///
/// # Safety
/// As for [`tile_portable`], for both.
pub unsafe fn two_tiles(outputs: [Output; 2], rows: usize, x: TileRows, lines: [&[PanelLine]; 2]) {
    // SAFETY: the caller's; the CPU has just been asked.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if is_avx2() && rows <= 3 {
            return two_tiles_avx2(outputs, rows, [COLUMNS; 2], x, lines.map(Panel::from));
        }
        tile(outputs[0], [rows, COLUMNS], x, lines[0]);
        tile(outputs[1], [rows, COLUMNS], x, lines[1]);
    }
}

/// Goes on with the chains of one row that a tile has begun, by the kernel of this CPU.
///
/// # Safety
/// The row has as many steps as there are lines.
pub unsafe fn extend(sums: &mut PanelLine, x: TileRows, lines: &[PanelLine]) {
    // SAFETY: the caller's; the CPU has just been asked.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if is_avx2() {
            return extend_avx2(sums, x, lines);
        }
        extend_portable(sums, x, lines);
    }
}

/// Up to sixteen rows as the columns of lines; the others are 0.
fn transpose(rows: Matrix, lines: &mut [PanelLine]) {
    #[cfg(target_arch = "x86_64")]
    if is_avx2() {
        // SAFETY: just asked; the rows lie inside their buffer, and there is a line for each of their elements.
        return unsafe { crate::gemm::packing::pack::<COLUMNS>(lines.as_flattened_mut(), rows) };
    }
    for (p, line) in lines.iter_mut().enumerate() {
        let element = |i: usize| {
            if i < rows.rows { rows.data[i * rows.row_stride + p * rows.column_stride] } else { 0.0 }
        };
        *line = std::array::from_fn(element);
    }
}

impl Panels<PanelLine> {
    /// A weight (in, out) as panels.
    pub fn of(weight: Matrix) -> Self {
        weight.check();
        let (k, n) = (weight.rows, weight.columns);
        let mut units = vec![[0f32; COLUMNS]; n.div_ceil(COLUMNS) * k];
        units.par_chunks_mut(k.max(1)).enumerate().for_each(|(panel, lines)| {
            let columns = panel * COLUMNS..((panel + 1) * COLUMNS).min(n);
            transpose(weight.t().part(columns, 0..k), lines);
        });
        Self { units, k, n }
    }

    /// The element of inner step `p` in column `j`.
    pub fn element(&self, p: usize, j: usize) -> f32 {
        self.units[j / COLUMNS * self.k + p][j % COLUMNS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::panel_format::Q8Unit;
    use crate::gemm::product::{in_one_order, linear_product};
    use crate::testing::{elements, random};
    use candle_core::quantized::{GgmlDType, QTensor};
    use half::{bf16, f16};
    use proptest::prelude::*;

    fn bits(x: &[f32]) -> Vec<u32> {
        x.iter().map(|x| x.to_bits()).collect()
    }

    fn by_definition(
        x: &[f32],
        m: usize,
        weight: &Panels<impl PanelFormat>,
        bias: Option<&[f32]>,
    ) -> Vec<f64> {
        let (k, n) = (weight.k, weight.n);
        let mut column = vec![0f32; k];
        let mut y = vec![0f64; m * n];
        for j in 0..n {
            weight.column(j, &mut column);
            for i in 0..m {
                let products =
                    x[i * k..][..k].iter().zip(&column).map(|(x, w)| f64::from(*x) * f64::from(*w));
                y[i * n + j] = products.sum::<f64>() + bias.map_or(0.0, |bias| f64::from(bias[j]));
            }
        }
        y
    }

    /// Near the definition; and each row the same to the bit alone, in any group, with any number of threads.
    fn assert_product<W: PanelFormat>(weight: &Panels<W>, m: usize, seed: u64) {
        let (k, n) = (weight.k, weight.n);
        let (x, bias) = (elements(m * k, seed), elements(n, seed ^ 1));
        let bias = seed.is_multiple_of(2).then_some(&bias[..]);
        let product =
            |rows: Range<usize>| weight.product(Matrix::new(&x[rows.start * k..], rows.len(), k, k), bias);
        let whole = product(0..m);
        for (got, want) in whole.iter().zip(by_definition(&x, m, weight, bias)) {
            let near = 1e-5 * (1.0 + (k as f64).sqrt()) * (1.0 + want.abs());
            assert!((f64::from(*got) - want).abs() < near, "{got} is not {want}");
        }
        for size in [1, 2, 3, 4, 7, 8, 12, 13, 24, 25] {
            let mut first = 0;
            while first < m {
                let rows = first..(first + size).min(m);
                let want = &whole[rows.start * n..rows.end * n];
                assert_eq!(bits(&product(rows.clone())), bits(want), "rows {rows:?} of {m}, ({k}, {n})");
                first += size.max(m / 3);
            }
        }
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert_eq!(bits(&pool.install(|| product(0..m))), bits(&whole), "{threads} threads");
        }
    }

    /// Every format with the same shape.
    fn assert_formats(m: usize, k: usize, n: usize, seed: u64) {
        let w = elements(k * n, seed ^ 5);
        let f32s = Panels::of(Matrix::new(&w, k, n, n));
        assert_product(&f32s, m, seed);
        // A weight as it is stored, either way round, is summed in the same order.
        let (x, transposed) = (elements(m * k, seed), elements(k * n, seed ^ 6));
        let x = Matrix::new(&x, m, k, k);
        let linear = |weight: Matrix| bits(&in_one_order(|| linear_product(x, weight, None)));
        assert_eq!(bits(&f32s.product(x, None)), linear(Matrix::new(&w, k, n, n)));
        let transposed = Matrix::new(&transposed, n, k, k).t();
        let packed = Panels::of(transposed);
        assert_eq!(bits(&packed.product(x, None)), linear(transposed));
        assert_eq!(bits(&packed.product(x, None)), bits(&plain_product(x, transposed, None)));

        let at = |j: usize, p: usize| w[p * n + j];
        assert_product(&Panels::<[[f16; 16]; 2]>::new(k, n, |j, p| f16::from_f32(at(j, p))), m, seed);
        assert_product(&Panels::<[[bf16; 16]; 2]>::new(k, n, |j, p| bf16::from_f32(at(j, p))), m, seed);
        let k = k.next_multiple_of(32);
        let w = QTensor::quantize(&random(&[n, k], seed), GgmlDType::Q8_0).unwrap();
        let bytes = w.data().unwrap().into_owned();
        let blocks = bytes.as_chunks::<34>().0;
        let q8 = Panels::<Q8Unit>::new(k, n, |j, unit| blocks[j * (k / 32) + unit]);
        let theirs = w.dequantize(&candle_core::Device::Cpu).unwrap().to_vec2::<f32>().unwrap();
        let mut ours = vec![0f32; k];
        for (j, theirs) in theirs.iter().enumerate() {
            q8.column(j, &mut ours);
            assert_eq!(ours, *theirs);
        }
        assert_product(&q8, m, seed);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn a_row_is_the_same_in_any_company(m in 1usize..60, k in 1usize..80, n in 1usize..90, seed: u64) {
            assert_formats(m, k, n, seed);
        }
    }

    #[test]
    fn products_of_several_blocks_keep_the_promise() {
        assert_formats(70, 800, 50, 1);
        assert_formats(BLOCK_ROWS + 30, 100, 20, 2);
        assert_formats(9, 1000, 700, 3);
    }

    #[test]
    fn no_rows_or_no_columns_are_no_mistake() {
        let weight = Panels::of(Matrix::new(&[], 3, 0, 0));
        assert!(weight.product(Matrix::new(&[1.0; 6], 2, 3, 3), None).is_empty());
        let weight = Panels::of(Matrix::new(&[1.0; 6], 3, 2, 2));
        assert!(weight.product(Matrix::new(&[], 0, 3, 3), None).is_empty());
    }

    /// Both kernels are called directly, so that each run tests both, whichever the dispatch would choose.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn both_kernels_make_the_same() {
        if !crate::testing::cpu_has_avx2("both_kernels_make_the_same") {
            return;
        }
        let (x, w, bias) = (elements(6 * 40, 1), elements(40 * 16, 2), elements(16, 3));
        let lines: &[PanelLine] = w.as_chunks().0;
        let x = TileRows { at: x.as_ptr(), row: 40, step: 1 };
        for rows in 1..=6 {
            for columns in [1, 7, 8, 15, 16] {
                let run = |avx2: bool| {
                    let mut y = vec![9f32; 6 * 18];
                    let output = Output { to: y.as_mut_ptr(), stride: 18, base: Some((bias.as_ptr(), 0)) };
                    // SAFETY: the CPU has AVX2; all have the sizes that they should have.
                    unsafe {
                        if avx2 {
                            tile_avx2(output, [rows, columns], x, Panel::from(lines));
                        } else {
                            tile_portable(output, [rows, columns], x, lines);
                        }
                    }
                    y
                };
                for (i, (a, b)) in run(true).iter().zip(run(false)).enumerate() {
                    assert!((a - b).abs() <= 1e-4, "{a} is not {b}");
                    assert!((i / 18 < rows && i % 18 < columns) != (*a == 9.0), "written where it should be");
                }
            }
        }
    }

    /// Two sides of the same units at once are the same to the bit as one after the other with the weights in f32, for any
    /// number of rows that a tile has, and in any number of turns.
    #[cfg(target_arch = "x86_64")]
    fn assert_sides<W: PanelFormat>(units: &[W]) {
        let k = units.len() * W::STEPS;
        let (x, bias) = (elements(6 * k, 1), elements(32, 2));
        let x = TileRows { at: x.as_ptr(), row: k, step: 1 };
        let lines = [0, 1].map(|side| {
            let mut lines = vec![[0f32; COLUMNS]; k];
            units.iter().zip(lines.chunks_mut(W::STEPS)).for_each(|(unit, lines)| unit.expand(side, lines));
            lines
        });
        for (rows, right) in (1..=6).flat_map(|rows| [1, 8, 15, 16].map(|right| (rows, right))) {
            let run = |together: bool| {
                let mut y = vec![9f32; 6 * 34];
                let output = Output { to: y.as_mut_ptr(), stride: 34, base: Some((bias.as_ptr(), 0)) };
                // SAFETY: the CPU has AVX2; all have the sizes that they should have.
                unsafe {
                    let outputs = [output, output.part(0, COLUMNS)];
                    if together {
                        let panels = [0, 1].map(|side| Panel { units, side });
                        two_tiles_avx2(outputs, rows, [COLUMNS, right], x, panels);
                    } else {
                        tile_avx2(outputs[0], [rows, COLUMNS], x, Panel::from(&lines[0][..]));
                        tile_avx2(outputs[1], [rows, right], x, Panel::from(&lines[1][..]));
                    }
                }
                y
            };
            assert_eq!(bits(&run(true)), bits(&run(false)), "{rows} rows, {right} columns, {k} steps");
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn two_sides_at_once_are_the_same_as_one_after_the_other() {
        if !crate::testing::cpu_has_avx2("two_sides_at_once_are_the_same_as_one_after_the_other") {
            return;
        }
        let halves: Vec<f16> = elements(200 * 32, 3).into_iter().map(f16::from_f32).collect();
        let block = |i: usize| -> [u8; 34] {
            let mut block = std::array::from_fn(|at| (i * 131 + at * 57 + i * at) as u8);
            block[..2].copy_from_slice(&halves[i].to_le_bytes());
            block
        };
        for units in [1, 4, 11] {
            let pack = |unit: usize| Q8Unit::pack(&std::array::from_fn::<_, 32, _>(|j| block(unit * 32 + j)));
            assert_sides(&(0..units).map(pack).collect::<Vec<_>>());
        }
        for units in [1, 3, 68, 150] {
            assert_sides(&halves.chunks(32).take(units).map(<[[f16; 16]; 2]>::pack).collect::<Vec<_>>());
            let halves: Vec<bf16> = halves.iter().map(|x| bf16::from_f32(x.to_f32())).collect();
            assert_sides(&halves.chunks(32).take(units).map(<[[bf16; 16]; 2]>::pack).collect::<Vec<_>>());
        }
    }
}
