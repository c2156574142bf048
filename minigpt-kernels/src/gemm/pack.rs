//! Packing: copies a matrix into panels, in the order in which a micro-kernel reads it. Products of training pack both factors
//! on the way, block by block; a weight that is kept for inference is packed once ([`Panels`]).
#![expect(unsafe_code, reason = "the micro-kernel that packs rows is unsafe to call")]

use crate::cpu::kernels;
use crate::gemm::formats::{COLUMNS, PanelFormat, PanelLine, Q8Block};
use crate::gemm::matrix::Matrix;
use crate::gemm::micro::{Kernels, Panel};
use rayon::prelude::*;
use std::ops::Range;

/// The right factor of a product, which gives its panels block by block.
pub trait RightFactor: Sync {
    /// The format of its panels.
    type Format: PanelFormat;
    /// Whether it is kept as panels. If not, giving them copies them.
    const KEPT: bool;

    /// Number of inner steps and of columns.
    fn shape(&self) -> (usize, usize);

    /// The weight itself, if it is not kept as panels and its rows are contiguous.
    fn contiguous_rows(&self) -> Option<Matrix<'_>> {
        None
    }

    /// The panels of a block. The first column is a multiple of 32 and the first step one of [`PanelFormat::STEPS`].
    fn block<'a>(
        &'a self,
        kernels: &Kernels,
        columns: Range<usize>,
        steps: Range<usize>,
        buffer: &'a mut Buffer,
    ) -> PanelBlock<'a, Self::Format>;
}

/// Some inner steps of neighbouring panels.
#[derive(Clone, Copy)]
pub struct PanelBlock<'a, W> {
    /// All units from the first one of the first panels on.
    units: &'a [W],
    /// Units of a panel in this block.
    length: usize,
    /// Units from those of a panel to those of the next one that does not share them.
    apart: usize,
}

impl<'a, W: PanelFormat> PanelBlock<'a, W> {
    /// Panel `i` of the block.
    pub fn panel(&self, i: usize) -> Panel<'a, W> {
        let first = i / W::SIDES * self.apart;
        Panel { units: &self.units[first..first + self.length], side: i % W::SIDES }
    }
}

/// A buffer that is reused from call to call and begins at a cache line.
#[derive(Default)]
pub struct Buffer(Vec<f32>);

impl Buffer {
    /// Room for that many elements, which are left as they are.
    pub fn room(&mut self, size: usize) -> &mut [f32] {
        const LINE: usize = 64;
        self.0.resize(self.0.len().max(size + LINE / size_of::<f32>()), 0.0);
        let skip = self.0.as_ptr().align_offset(LINE);
        &mut self.0[skip..skip + size]
    }
}

/// A weight (in, out) that is stored in any order, and packed for each product.
impl RightFactor for Matrix<'_> {
    type Format = PanelLine;
    const KEPT: bool = false;

    fn shape(&self) -> (usize, usize) {
        (self.rows, self.columns)
    }

    fn contiguous_rows(&self) -> Option<Matrix<'_>> {
        (self.column_stride == 1).then_some(*self)
    }

    fn block<'a>(
        &'a self,
        kernels: &Kernels,
        columns: Range<usize>,
        steps: Range<usize>,
        buffer: &'a mut Buffer,
    ) -> PanelBlock<'a, PanelLine> {
        let length = steps.len();
        let room = buffer.room(columns.len().next_multiple_of(COLUMNS) * length);
        pack::<COLUMNS>(kernels, room, self.part(steps, columns).t());
        PanelBlock { units: room.as_chunks().0, length, apart: length }
    }
}

/// A weight (in, out) as panels.
pub struct Panels<W> {
    /// The units of the first [`PanelFormat::SIDES`] panels, then those of the next, and so on.
    units: Vec<W>,
    k: usize,
    n: usize,
}

impl<W: PanelFormat> Panels<W> {
    /// A weight with `k` inner steps and `n` columns, of which `source(column, unit)` gives the elements.
    pub fn new(k: usize, n: usize, source: impl Fn(usize, usize) -> W::Source + Sync) -> Self {
        assert!(k.is_multiple_of(W::STEPS), "whole units");
        let (width, length) = (W::SIDES * COLUMNS, k / W::STEPS);
        let units = (0..n.div_ceil(width) * length).into_par_iter().with_min_len(length.max(1));
        let units = units.map_init(Vec::new, |sources, at| {
            let (group, unit) = (at / length, at % length);
            sources.clear();
            sources.extend((group * width..((group + 1) * width).min(n)).map(|column| source(column, unit)));
            W::pack(sources)
        });
        Self { units: units.collect(), k, n }
    }

    /// The weights of one column as f32.
    pub fn column(&self, column: usize, out: &mut [f32]) {
        assert!(column < self.n && out.len() == self.k, "a column of this weight");
        let width = W::SIDES * COLUMNS;
        let units = self.units_of(column);
        for (unit, out) in units.iter().zip(out.chunks_mut(W::STEPS)) {
            unit.column(column % width, out);
        }
    }

    /// The blocks that it was made of, column by column, where [`PanelFormat::block`] has them.
    pub fn blocks(&self) -> Option<Vec<Q8Block>> {
        let width = W::SIDES * COLUMNS;
        let column = |column: usize| {
            let units = self.units_of(column).iter();
            units.map(|unit| unit.block(column % width)).collect::<Option<Vec<_>>>()
        };
        let columns = (0..self.n).into_par_iter().map(column).collect::<Option<Vec<_>>>()?;
        Some(columns.concat())
    }

    /// The units that hold a column.
    fn units_of(&self, column: usize) -> &[W] {
        let length = self.k / W::STEPS;
        &self.units[column / (W::SIDES * COLUMNS) * length..][..length]
    }
}

impl<W: PanelFormat> RightFactor for Panels<W> {
    type Format = W;
    const KEPT: bool = true;

    fn shape(&self) -> (usize, usize) {
        (self.k, self.n)
    }

    fn block<'a>(
        &'a self,
        _kernels: &Kernels,
        columns: Range<usize>,
        steps: Range<usize>,
        _buffer: &'a mut Buffer,
    ) -> PanelBlock<'a, W> {
        let apart = self.k / W::STEPS;
        let first = columns.start / (W::SIDES * COLUMNS) * apart + steps.start / W::STEPS;
        PanelBlock { units: &self.units[first..], length: steps.len() / W::STEPS, apart }
    }
}

impl Panels<PanelLine> {
    /// A weight (in, out) as panels.
    pub fn of(weight: Matrix) -> Self {
        let (k, n) = (weight.rows, weight.columns);
        let mut units = vec![[0f32; COLUMNS]; n.div_ceil(COLUMNS) * k];
        units.par_chunks_mut(k.max(1)).enumerate().for_each(|(panel, lines)| {
            let columns = panel * COLUMNS..((panel + 1) * COLUMNS).min(n);
            pack::<COLUMNS>(&kernels().gemm, lines.as_flattened_mut(), weight.part(0..k, columns).t());
        });
        Self { units, k, n }
    }

    /// The element of inner step `p` in column `j`.
    pub fn element(&self, p: usize, j: usize) -> f32 {
        self.units[j / COLUMNS * self.k + p][j % COLUMNS]
    }
}

/// Copies a matrix into panels of S rows: column by column, S elements each. The last panel is filled up with zeros. S is 16 or
/// the rows of a tile.
pub fn pack<const S: usize>(kernels: &Kernels, panels: &mut [f32], matrix: Matrix) {
    matrix.check();
    let (whole, depth) = (matrix.rows / S, matrix.columns);
    let (panels, edge) = panels.split_at_mut(whole * S * depth);
    match (matrix.row_stride, matrix.column_stride) {
        (1, _) => pack_columns::<S>(panels, matrix, whole),
        (_, 1) => {
            for (i, panel) in panels.chunks_exact_mut((S * depth).max(1)).enumerate() {
                let rows = matrix.part(i * S..(i + 1) * S, 0..depth);
                // SAFETY: the rows are contiguous and inside their buffer, and S is one of the sizes that the kernel takes.
                unsafe { (kernels.interleave)(panel, rows) };
            }
        }
        _ => {
            for (i, panel) in panels.chunks_exact_mut((S * depth).max(1)).enumerate() {
                pack_element_by_element::<S>(panel, matrix.part(i * S..(i + 1) * S, 0..depth));
            }
        }
    }
    if whole * S < matrix.rows {
        let rows = matrix.part(whole * S..matrix.rows, 0..depth);
        pack_element_by_element::<S>(&mut edge[..S * depth], rows);
    }
}

/// A panel of up to S rows, element by element.
fn pack_element_by_element<const S: usize>(panel: &mut [f32], matrix: Matrix) {
    for (p, to) in panel.as_chunks_mut::<S>().0.iter_mut().enumerate() {
        for (i, to) in to.iter_mut().enumerate() {
            *to = if i < matrix.rows {
                matrix.data[i * matrix.row_stride + p * matrix.column_stride]
            } else {
                0.0
            };
        }
    }
}

/// Whole panels of a matrix whose columns are contiguous.
fn pack_columns<const S: usize>(panels: &mut [f32], matrix: Matrix, whole: usize) {
    /// Columns that go into all panels before the next do, so that both reads and writes stay close together.
    const AT_A_TIME: usize = 8;
    let depth = matrix.columns;
    let panels = panels.as_chunks_mut::<S>().0;
    for first in (0..depth).step_by(AT_A_TIME) {
        for i in 0..whole {
            for p in first..(first + AT_A_TIME).min(depth) {
                let column = &matrix.data[p * matrix.column_stride + i * S..][..S];
                panels[i * depth + p].copy_from_slice(column);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::for_each_instruction_set;
    use crate::testing::elements;

    fn assert_packed<const S: usize>(kernels: &Kernels, rows: usize, columns: usize, transposed: bool) {
        let data = elements(rows * columns, 1);
        let matrix = if transposed {
            Matrix::new(&data, columns, rows, rows).t()
        } else {
            Matrix::new(&data, rows, columns, columns)
        };
        let mut panels = vec![7f32; rows.next_multiple_of(S) * columns];
        pack::<S>(kernels, &mut panels, matrix);
        for (at, &got) in panels.iter().enumerate() {
            let (panel, p, i) = (at / (S * columns), at / S % columns, at % S);
            let row = panel * S + i;
            let want =
                if row < rows { data[row * matrix.row_stride + p * matrix.column_stride] } else { 0.0 };
            assert_eq!(got, want, "panels of {S}: row {row}, column {p}");
        }
    }

    for_each_instruction_set! {
        fn every_element_has_its_place_in_panels_of_every_width(kernels) {
            for (rows, columns) in [(1, 1), (12, 16), (33, 35), (64, 64), (70, 21)] {
                for transposed in [false, true] {
                    assert_packed::<6>(&kernels.gemm, rows, columns, transposed);
                    assert_packed::<12>(&kernels.gemm, rows, columns, transposed);
                    assert_packed::<16>(&kernels.gemm, rows, columns, transposed);
                }
            }
        }
    }
}
