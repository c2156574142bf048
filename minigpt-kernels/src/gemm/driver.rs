//! The loop nest of every product, as BLIS has it: blocks of columns, inner steps and rows that stay in the caches, and in
//! them tile by tile the micro-kernel of this CPU.
//!
//! # Summation order
//! An element is summed in blocks of inner steps, [`inner_steps`] each, which depend on the depth of the weight alone: one chain of
//! multiply-adds per block that starts at 0, and the blocks added one after the other onto the base (the bias, or what the output
//! held). Tiles, threads, packing and the other rows of a batch change nothing, so training, prefill and decoding make the
//! same bits, in any company.
#![expect(unsafe_code, reason = "threads write disjoint parts of one buffer through pointers")]

use crate::cpu::{Kernels, kernels};
use crate::gemm::epilogue::{Epilogue, Output};
use crate::gemm::formats::{COLUMNS, PanelFormat, PanelLine};
use crate::gemm::matrix::Matrix;
use crate::gemm::micro::{Panel, PanelKernels, Tile, TileRows};
use crate::gemm::pack::{Buffer, PanelBlock, RightFactor, pack};
use std::cell::RefCell;
use std::ops::Range;

/// Inner steps of a block at most.
const DEPTH: usize = 384;
/// Rows of the left factor at a time: they stay in the L2 cache.
const HEIGHT: usize = 264;
/// Columns of the right factor at a time: they stay in the L3 cache.
const WIDTH: usize = 4096;
/// Up to this many rows are read where they are; of more, a block is packed first if it is used often enough.
pub const FEW_ROWS: usize = 24;
/// Columns at a time where a weight is streamed: four of its rows and the sums stay in the L1 cache.
const STRIP: usize = 1024;
/// Columns at a time if there are few rows: what was packed is still in the L2 cache.
const WIDTH_FOR_FEW_ROWS: usize = 192;
/// Packing rows does not pay if they are multiplied with at most this many columns.
const NARROW: usize = 512;
/// Threads and blocks of columns get whole tiles of this width, whatever the kernel.
const TILE_COLUMNS: usize = 2 * COLUMNS;
/// Threads get whole tiles of this height, whatever the kernel.
const TILE_ROWS: usize = 12;

/// Number of inner steps of `k` that are summed in one chain: blocks of about the same size, of whole units of every format.
pub fn inner_steps(k: usize) -> usize {
    k.div_ceil(k.div_ceil(DEPTH).max(1)).next_multiple_of(32).max(32)
}

/// Number of parts in which a product of `work` multiply-adds is split: one if there are fewer than `alone`, otherwise two per
/// thread, so that a thread that is held up is helped by the others; but none of fewer than `part`.
pub fn parts(work: usize, alone: usize, part: usize) -> usize {
    let threads = rayon::current_num_threads();
    if work < alone || threads == 1 { 1 } else { (2 * threads).min(work / part).max(1) }
}

/// Halves a range of panels until there are enough parts, which the threads of the current pool share.
pub fn split(panels: Range<usize>, parts: usize, part: &(impl Fn(Range<usize>) + Sync)) {
    if parts <= 1 || panels.len() <= 1 {
        return part(panels);
    }
    let middle = panels.start + panels.len() / 2;
    let (left, right) = (panels.start..middle, middle..panels.end);
    rayon::join(|| split(left, parts.div_ceil(2), part), || split(right, parts.div_ceil(2), part));
}

/// The buffers of a thread.
#[derive(Default)]
struct Scratch {
    rows: Buffer,
    panels: Buffer,
    expanded: [Buffer; 2],
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// A product: `output = epilogue(base + a · b)`.
pub struct Product<'a, B> {
    pub kernels: &'static Kernels,
    pub a: Matrix<'a>,
    pub b: &'a B,
    pub epilogue: Epilogue,
    pub output: Output,
}

/// A block of rows as tiles read them.
struct Rows {
    first: TileRows,
    /// Rows of a tile.
    tile: usize,
    /// Elements from a tile to the next.
    apart: usize,
}

impl<'a, B: RightFactor> Product<'a, B> {
    /// `a · b` by the micro-kernels of this CPU. All elements of `a` lie inside its buffer, and the inner sizes agree.
    pub fn new(a: Matrix<'a>, b: &'a B, output: Output) -> Self {
        a.check();
        assert_eq!(b.shape().0, a.columns, "the inner sizes of a product");
        Self { kernels: kernels(), a, b, epilogue: Epilogue::default(), output }
    }

    /// Makes the product in parts, on the threads of the current pool.
    ///
    /// # Safety
    /// The output and its base have room for all rows of `a` and columns of `b`, those of the base with values. Only the
    /// output and its base may be the same memory.
    pub unsafe fn run(&self, parts: usize) {
        // SAFETY: the caller's.
        unsafe { self.split(0..self.a.rows, 0..self.b.shape().1, parts) }
    }

    /// Halves the product along its longer side until there are enough parts: each part packs only what it needs of the longer
    /// factor.
    ///
    /// # Safety
    /// As for [`Product::run`], for these rows and columns.
    unsafe fn split(&self, rows: Range<usize>, columns: Range<usize>, parts: usize) {
        let (m, n) = (rows.len(), columns.len());
        if parts <= 1 || m == 0 || n == 0 {
            // SAFETY: the caller's.
            return unsafe { self.part(rows, columns) };
        }
        let halves = |range: Range<usize>, unit: usize| {
            let middle = (range.start + (range.len() / 2).next_multiple_of(unit)).min(range.end);
            [range.start..middle, middle..range.end]
        };
        // Not the rows if the weight is kept as panels: each part would read all of it.
        let ([top, bottom], [left, right]) = if m > n && !B::KEPT {
            (halves(rows, TILE_ROWS), [columns.clone(), columns])
        } else {
            ([rows.clone(), rows], halves(columns, TILE_COLUMNS))
        };
        let parts = parts.div_ceil(2);
        rayon::join(
            // SAFETY: the caller's, and both halves write different elements.
            move || unsafe { self.split(top, left, parts) },
            // SAFETY: the same.
            move || unsafe { self.split(bottom, right, parts) },
        );
    }

    /// The product of some rows and columns, on the calling thread.
    ///
    /// # Safety
    /// As for [`Product::run`], for these rows and columns. The first column is a multiple of 32.
    pub unsafe fn part(&self, rows: Range<usize>, columns: Range<usize>) {
        // Packing a weight takes one row twice the time of the product itself.
        let one = rows.len() == 1 && self.a.column_stride == 1 && self.epilogue.scale == 1.0;
        if let Some(weight) = self.b.contiguous_rows().filter(|_| one) {
            // SAFETY: the caller's.
            return unsafe { self.stream(rows.start, columns, weight) };
        }
        let (k, few) = (self.a.columns, rows.len() <= FEW_ROWS);
        if few && B::KEPT && self.a.column_stride == 1 && self.reads_pairs(rows.len()) {
            // SAFETY: the caller's.
            return unsafe { self.pairs_of_panels(rows, columns) };
        }
        let width = match (few, B::KEPT) {
            (true, true) => TILE_COLUMNS,
            (true, false) => even(columns.len(), WIDTH_FOR_FEW_ROWS, TILE_COLUMNS),
            (false, _) => even(columns.len(), WIDTH, TILE_COLUMNS),
        };
        let (height, depth) = (even(rows.len(), HEIGHT, self.kernels.gemm.rows), inner_steps(k));
        let in_place = self.a.column_stride == 1 && (few || columns.len() <= NARROW);
        SCRATCH.with_borrow_mut(|Scratch { rows: packed, panels, expanded }| {
            for columns in blocks(columns, width) {
                // Without any inner step there is still one block: it copies the base.
                for first in blocks(0..k.max(1), depth) {
                    let steps = first.start..first.end.min(k);
                    let b = self.b.block(&self.kernels.gemm, columns.clone(), steps.clone(), panels);
                    for rows in blocks(rows.clone(), height) {
                        let a = self.rows(rows.clone(), steps.clone(), in_place, packed);
                        // SAFETY: the caller's; `a` and `b` are the factors of this block.
                        unsafe { self.block(rows, columns.clone(), steps.clone(), &a, b, expanded, few) };
                    }
                }
            }
        });
    }

    /// Whether tiles of a few rows read two panels at once, as they are kept.
    fn reads_pairs(&self, rows: usize) -> bool {
        let kernels = &self.kernels.gemm;
        // One chain at a time is slower than memory, and two panels may share their units.
        let pairs = kernels.panels == 2 || rows <= 3 || B::Format::SIDES == 2;
        pairs && rows <= B::Format::kernels(kernels).direct
    }

    /// The product of a few rows with a weight that is kept as panels, two at a time: the same loop nest with nothing between
    /// two tiles, since a pair of panels takes only 0.1 to 1 µs.
    ///
    /// # Safety
    /// As for [`Product::part`].
    unsafe fn pairs_of_panels(&self, rows: Range<usize>, columns: Range<usize>) {
        let kernels = &self.kernels.gemm;
        let tile = B::Format::kernels(kernels).tile;
        let (k, depth) = (self.a.columns, inner_steps(self.a.columns));
        let tile_rows = rows.len().div_ceil(rows.len().div_ceil(kernels.rows).max(1));
        let mut unused = Buffer::default();
        for left in columns.clone().step_by(TILE_COLUMNS) {
            let width = TILE_COLUMNS.min(columns.end - left);
            // SAFETY: the part lies inside the output.
            let mut output = unsafe { self.output.part(rows.start, left) };
            // Without any inner step there is still one block: it copies the base.
            for steps in blocks(0..k.max(1), depth) {
                let steps = steps.start..steps.end.min(k);
                let b = self.b.block(kernels, left..left + width, steps.clone(), &mut unused);
                let panels = [b.panel(0), b.panel(usize::from(width > COLUMNS))];
                let at = self.a.data.as_ptr().wrapping_add(rows.start * self.a.row_stride + steps.start);
                let a = TileRows { at, row: self.a.row_stride, step: 1 };
                for block in blocks(0..rows.len(), tile_rows) {
                    // SAFETY: the caller's; these rows are inside the output and `a`.
                    unsafe {
                        tile(Tile {
                            output: output.part(block.start, 0),
                            rows: block.len(),
                            columns: width,
                            scale: self.epilogue.scale,
                            continues: false,
                            streams: true,
                            a: a.part(block.start, 0),
                            panels,
                        });
                    }
                }
                output = output.added();
            }
        }
    }

    /// The product of one row with a weight that is not packed, but read once in the order in which it lies in memory.
    ///
    /// # Safety
    /// As for [`Product::part`].
    unsafe fn stream(&self, row: usize, columns: Range<usize>, weight: Matrix) {
        let (k, n) = (self.a.columns, columns.len());
        // SAFETY: the part lies inside the output.
        let output = unsafe { self.output.part(row, columns.start) };
        let (a, weight) = (self.a.row(row), weight.part(0..k, columns));
        SCRATCH.with_borrow_mut(|scratch| {
            let sums = scratch.panels.room(n);
            for block in blocks(0..k.max(1), inner_steps(k)) {
                sums.fill(0.0);
                for steps in blocks(block.start..block.end.min(k), 4) {
                    for strip in blocks(0..n, STRIP) {
                        let weight = weight.part(steps.clone(), strip.clone());
                        (self.kernels.gemm.add_rows)(&mut sums[strip], &a[steps.clone()], weight);
                    }
                }
                let base = if block.start > 0 { output.added().base } else { output.base };
                for (j, sum) in sums.iter().enumerate() {
                    // SAFETY: the row of the output and of its base has n columns.
                    unsafe { *output.to.add(j) = base.map_or(*sum, |(base, _)| *base.add(j) + *sum) };
                }
            }
        });
    }

    /// Rows as tiles read them: where they are, or packed.
    fn rows(&self, rows: Range<usize>, steps: Range<usize>, in_place: bool, packed: &mut Buffer) -> Rows {
        let (tile, count, depth) = (self.kernels.gemm.rows, rows.len(), steps.len());
        let a = self.a.part(rows, steps);
        if in_place {
            let (row, tile) = (a.row_stride, count.div_ceil(count.div_ceil(tile).max(1)).max(1));
            return Rows { first: TileRows { at: a.data.as_ptr(), row, step: 1 }, tile, apart: tile * row };
        }
        let room = packed.room(count.next_multiple_of(tile) * depth);
        match tile {
            3 => pack::<3>(&self.kernels.gemm, room, a),
            6 => pack::<6>(&self.kernels.gemm, room, a),
            12 => pack::<12>(&self.kernels.gemm, room, a),
            other => unreachable!("tiles of {other} rows"),
        }
        Rows { first: TileRows { at: room.as_ptr(), row: 1, step: tile }, tile, apart: tile * depth }
    }

    /// The product of a block of rows with the panels of a block, which stay in the caches while all tiles of rows are multiplied
    /// with them.
    ///
    /// # Safety
    /// As for [`Product::run`], for these rows and columns, of which `a` and `b` have these inner steps.
    #[expect(clippy::too_many_arguments, reason = "the block's place, its two factors and a buffer")]
    unsafe fn block(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        steps: Range<usize>,
        a: &Rows,
        b: PanelBlock<B::Format>,
        expanded: &mut [Buffer; 2],
        few: bool,
    ) {
        let kernels = &self.kernels.gemm;
        let format = B::Format::kernels(kernels);
        let direct = rows.len() <= format.direct;
        // A few rows read two panels at once, because one chain at a time is slower than memory, and because two panels may
        // share their units.
        let pairs = kernels.panels == 2 || few && direct && (rows.len() <= 3 || B::Format::SIDES == 2);
        let together = if pairs { 2 } else { 1 };
        let count = columns.len().div_ceil(COLUMNS);
        for panels in blocks(0..count, together) {
            let panel = panels.start;
            let left = columns.start + panel * COLUMNS;
            let width = (together * COLUMNS).min(columns.end - left);
            let panels = [panel, (panel + 1).min(count - 1)].map(|panel| b.panel(panel));
            // The first row whose tile has an element on or below the diagonal.
            let first =
                if self.epilogue.lower { left.saturating_sub(rows.start) / a.tile * a.tile } else { 0 };
            // SAFETY: the part lies inside the output.
            unsafe {
                let output = self.output.part(rows.start, left);
                let output = if steps.start > 0 { output.added() } else { output };
                let size = [first, rows.len(), width];
                if direct {
                    self.tiles(format.tile, output, size, a, panels);
                } else {
                    let [left, right] = expanded;
                    let left = expand(format, panels[0], steps.len(), left, few);
                    let right = if width > COLUMNS {
                        expand(format, panels[1], steps.len(), right, few)
                    } else {
                        left
                    };
                    self.tiles(kernels.f32.tile, output, size, a, [left, right]);
                }
            }
        }
    }

    /// All tiles of a block of rows from `first` on, with `width` columns of one panel or two.
    ///
    /// # Safety
    /// As for [`Product::block`].
    unsafe fn tiles<W: PanelFormat>(
        &self,
        tile: unsafe fn(Tile<W>),
        output: Output,
        [first, rows, columns]: [usize; 3],
        a: &Rows,
        panels: [Panel<W>; 2],
    ) {
        let mut at = a.first.at.wrapping_add(first / a.tile * a.apart);
        for block in blocks(first..rows, a.tile) {
            // SAFETY: the caller's; these rows are inside the output and `a`.
            unsafe {
                tile(Tile {
                    output: output.part(block.start, 0),
                    rows: block.len(),
                    columns,
                    scale: self.epilogue.scale,
                    continues: false,
                    streams: B::KEPT && a.first.step == 1,
                    a: TileRows { at, ..a.first },
                    panels,
                });
            }
            at = at.wrapping_add(a.apart);
        }
    }
}

/// A panel in f32. With `ahead`, what follows it is prefetched: of a few rows, that is the next panel.
fn expand<'a, W: PanelFormat>(
    kernels: &PanelKernels<W>,
    panel: Panel<W>,
    steps: usize,
    buffer: &'a mut Buffer,
    ahead: bool,
) -> Panel<'a, PanelLine> {
    let lines = buffer.room(steps * COLUMNS).as_chunks_mut().0;
    (kernels.expand)(panel, lines, ahead);
    Panel::from(&*lines)
}

/// The size of blocks of a range: about the same for all, of whole units and at most `most`.
fn even(length: usize, most: usize, unit: usize) -> usize {
    length.div_ceil(length.div_ceil(most).max(1)).next_multiple_of(unit).max(unit)
}

/// A range in blocks. Unlike `step_by`, it does not divide, which counts where a few rows are multiplied.
fn blocks(range: Range<usize>, size: usize) -> impl Iterator<Item = Range<usize>> {
    let mut start = range.start;
    std::iter::from_fn(move || {
        let block = start..range.end.min(start + size);
        start = block.end;
        (!block.is_empty()).then_some(block)
    })
}
