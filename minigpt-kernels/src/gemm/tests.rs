//! Every micro-kernel against the loop that it implements, and products against the documented order of summation, to the bit,
//! for each instruction set.

use super::driver::{FEW_ROWS, inner_steps};
use super::formats::{PanelFormat, Q8Unit};
use super::micro::{Panel, TileRows};
use super::pack::Panels;
use super::*;
use crate::cpu::{InstructionSet, Kernels, for_each_instruction_set};
use crate::simd;
use crate::testing::{elements, random};
use candle_core::quantized::{GgmlDType, QTensor};
use half::{bf16, f16};
use proptest::prelude::*;

/// `a · b + c` as the micro-kernels of an instruction set make it.
fn multiply_add(kernels: &Kernels, a: f32, b: f32, c: f32) -> f32 {
    if kernels.set == InstructionSet::Portable { simd::multiply_add(a, b, c) } else { a.mul_add(b, c) }
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

/// The sides of some units in f32, by [`PanelFormat::expand`].
fn lines<W: PanelFormat>(units: &[W], side: usize) -> Vec<PanelLine> {
    let mut lines = vec![[0f32; COLUMNS]; units.len() * W::STEPS];
    units.iter().zip(lines.chunks_mut(W::STEPS)).for_each(|(unit, lines)| unit.expand(side, lines));
    lines
}

/// A micro-kernel makes the bits of the loop, and writes nothing else.
fn assert_tiles<W: PanelFormat>(kernels: &'static Kernels, units: [&[W]; 2]) {
    const STRIDE: usize = 40;
    let kernel = W::kernels(&kernels.gemm);
    let panels = [Panel { units: units[0], side: 0 }, Panel { units: units[1], side: W::SIDES - 1 }];
    let weights = panels.map(|panel| lines(panel.units, panel.side));
    for (panel, lines) in panels.into_iter().zip(&weights) {
        let mut expanded = vec![[9f32; COLUMNS]; lines.len()];
        (kernel.expand)(panel, &mut expanded, true);
        assert_eq!(&expanded, lines, "expanded");
    }
    let (most, depth) = (kernels.gemm.rows, weights[0].len());
    let (x, bias) = (elements(most * depth, 1), elements(2 * COLUMNS, 2));
    let before = elements(most * STRIDE, 3);
    for rows in 1..=most {
        for (columns, base, continues) in [1usize, 8, 15, 16, 17, 31, 32]
            .into_iter()
            .flat_map(|n| (0..4).map(move |base| (n, base, base == 3)))
        {
            // Packed, and as it is; a tile that continues has whole panels.
            let columns = if continues { columns.next_multiple_of(COLUMNS) } else { columns };
            let (row, step) = if rows % 2 == 0 { (1, most) } else { (depth, 1) };
            let mut y = before.clone();
            let output = Output { to: y.as_mut_ptr(), stride: STRIDE, base: None };
            let output = match base {
                0 => output,
                1 => Output { base: Some((bias.as_ptr(), 0)), ..output },
                _ => output.added(),
            };
            let scale = if continues { 1.0 } else { 0.7 };
            let a = TileRows { at: x.as_ptr(), row, step };
            // SAFETY: this CPU has the instruction set; `x`, `bias` and `y` have the rows, steps and columns of the tile.
            unsafe {
                (kernel.tile)(Tile { output, rows, columns, scale, continues, streams: rows > 3, a, panels });
            };
            for (i, j) in (0..most).flat_map(|i| (0..STRIDE).map(move |j| (i, j))) {
                let old = before[i * STRIDE + j];
                let mut want = old;
                if i < rows && j < columns {
                    let mut sum = if continues { old } else { 0.0 };
                    for p in 0..depth {
                        let w = weights[j / COLUMNS][p][j % COLUMNS];
                        sum = multiply_add(kernels, x[i * row + p * step], w, sum);
                    }
                    want = match base {
                        0 => scale * sum,
                        1 => multiply_add(kernels, sum, scale, bias[j]),
                        2 => multiply_add(kernels, sum, scale, old),
                        _ => sum,
                    };
                }
                let got = y[i * STRIDE + j];
                assert_eq!(got.to_bits(), want.to_bits(), "({i}, {j}) of {rows} × {columns}: {got}, {want}");
            }
        }
    }
}

/// Q8_0 blocks of any integers, with finite scales.
fn q8_units(count: usize) -> Vec<Q8Unit> {
    let scales = elements(count * 32, 7);
    let block = |i: usize| -> [u8; 34] {
        let mut block = std::array::from_fn(|at| (i * 131 + at * 57 + i * at) as u8);
        block[..2].copy_from_slice(&f16::from_f32(scales[i]).to_le_bytes());
        block
    };
    let unit = |unit: usize| Q8Unit::pack(&std::array::from_fn::<_, 32, _>(|j| block(unit * 32 + j)));
    (0..count).map(unit).collect()
}

for_each_instruction_set! {
    fn micro_kernels_make_the_bits_of_their_loop(kernels) {
        for depth in [1, 3, 68, 150] {
            let w = elements(depth * 2 * COLUMNS, 4);
            let (left, right) = w.as_chunks().0.split_at(depth);
            assert_tiles::<PanelLine>(kernels, [left, right]);
            let halves: Vec<_> = w.chunks(32).map(|w| <[[f16; 16]; 2]>::pack(&w.iter().map(|w| f16::from_f32(*w)).collect::<Vec<_>>())).collect();
            assert_tiles(kernels, [&halves, &halves]);
            let halves: Vec<_> = w.chunks(32).map(|w| <[[bf16; 16]; 2]>::pack(&w.iter().map(|w| bf16::from_f32(*w)).collect::<Vec<_>>())).collect();
            assert_tiles(kernels, [&halves, &halves]);
        }
        for units in [1, 4, 11] {
            let units = q8_units(units);
            assert_tiles(kernels, [&units, &units]);
        }
    }

    fn added_rows_are_the_next_steps_of_the_chains(kernels) {
        for (steps, columns) in [(0, 3), (1, 37), (4, 16), (7, 40)] {
            let (a, w, before) = (elements(steps, 1), elements(steps * (columns + 1), 2), elements(columns, 3));
            let rows = Matrix::new(&w, steps, columns, columns + 1);
            let mut y = before.clone();
            (kernels.gemm.add_rows)(&mut y, &a, rows);
            for (j, (y, before)) in y.iter().zip(before).enumerate() {
                let want = (0..steps).fold(before, |sum, i| multiply_add(kernels, a[i], rows.row(i)[j], sum));
                assert_eq!(y.to_bits(), want.to_bits(), "column {j} of {columns}, {steps} steps");
            }
        }
    }

    fn products_of_awkward_shapes_sum_in_the_documented_order(kernels) {
        let shape = (0usize..30, 0usize..40, 0usize..70);
        let all = (shape, any::<[bool; 2]>(), 0usize..3, -2f32..2.0, any::<u64>());
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(96));
        runner
            .run(&all, |((m, k, n), transposed, base, scale, seed)| {
                assert_product(kernels, [m, k, n], transposed, base, scale, seed);
                Ok(())
            })
            .unwrap();
    }

    fn products_larger_than_the_caches_sum_in_the_documented_order(kernels) {
        for transposed in [[false, false], [false, true], [true, false], [true, true]] {
            assert_product(kernels, [271, 773, 19], transposed, 1, 0.5, 1);
            assert_product(kernels, [7, 385, 4117], transposed, 2, 1.0, 2);
            assert_product(kernels, [30, 40, 530], transposed, 0, 1.0, 3);
        }
    }

    fn kept_weights_of_every_format_sum_in_the_documented_order(kernels) {
        for (m, k, n) in [(1, 70, 33), (3, 800, 50), (7, 33, 90), (FEW_ROWS, 64, 17), (FEW_ROWS + 1, 400, 40), (300, 97, 20)] {
            assert_formats(kernels, m, k, n);
        }
    }
}

/// `base + scale · a · b`, element by element in blocks of inner steps.
fn by_definition(
    kernels: &Kernels,
    a: Matrix,
    b: Matrix,
    scale: f32,
    base: impl Fn(usize, usize) -> Option<f32>,
) -> Vec<f32> {
    let at = |m: &Matrix, i: usize, j: usize| m.data[i * m.row_stride + j * m.column_stride];
    let k = a.columns;
    let element = |(i, j)| {
        let mut y = base(i, j);
        for first in (0..k.max(1)).step_by(inner_steps(k)) {
            let steps = first..(first + inner_steps(k)).min(k);
            let sum = steps.fold(0.0, |sum, p| multiply_add(kernels, at(&a, i, p), at(&b, p, j), sum));
            y = Some(y.map_or(scale * sum, |y| multiply_add(kernels, sum, scale, y)));
        }
        y.unwrap()
    };
    (0..a.rows).flat_map(|i| (0..b.columns).map(move |j| (i, j))).map(element).collect()
}

fn assert_product(
    kernels: &'static Kernels,
    [m, k, n]: [usize; 3],
    [transpose_a, transpose_b]: [bool; 2],
    base: usize,
    scale: f32,
    seed: u64,
) {
    let (a, b) = (elements(m * k, seed), elements(k * n, seed ^ 1));
    let a = if transpose_a { Matrix::new(&a, k, m, m).t() } else { Matrix::new(&a, m, k, k) };
    let b = if transpose_b { Matrix::new(&b, n, k, k).t() } else { Matrix::new(&b, k, n, n) };
    // Two columns more than the product has, which must stay as they are.
    let row = n + 2;
    let (before, bias) = (elements(m * row, seed ^ 2), elements(n, seed ^ 3));
    let want =
        by_definition(kernels, a, b, scale, |i, j| [None, Some(bias[j]), Some(before[i * row + j])][base]);
    let mut after = before.clone();
    let output = Output { to: after.as_mut_ptr(), stride: row, base: None };
    let output = match base {
        0 => output,
        1 => Output { base: Some((bias.as_ptr(), 0)), ..output },
        _ => output.added(),
    };
    let epilogue = Epilogue { scale, ..Epilogue::default() };
    // SAFETY: this CPU has the kernels; all have the sizes that they should have.
    unsafe { Product { kernels, epilogue, ..Product::new(a, &b, output) }.run(3) };
    for (i, j) in (0..m).flat_map(|i| (0..row).map(move |j| (i, j))) {
        let want = if j < n { want[i * n + j] } else { before[i * row + j] };
        let got = after[i * row + j];
        assert_eq!(got.to_bits(), want.to_bits(), "({i}, {j}) of {m} × {k} × {n}: {got}, {want}");
    }
}

/// Rows times a kept weight are what the definition says, whatever their number and that of the threads.
fn assert_kept<W: PanelFormat>(kernels: &'static Kernels, weight: &Panels<W>, m: usize) {
    let (k, n) = weight.shape();
    let (x, bias) = (elements(m * k, 1), elements(n, 2));
    let mut plain = vec![0f32; k * n];
    plain.chunks_mut(k).enumerate().for_each(|(j, column)| weight.column(j, column));
    let (x, plain) = (Matrix::new(&x, m, k, k), Matrix::new(&plain, n, k, k).t());
    let want = by_definition(kernels, x, plain, 1.0, |_, j| Some(bias[j]));
    let product = |rows: Range<usize>, parts: usize| {
        let mut y = vec![9f32; rows.len() * n];
        let output = Output { to: y.as_mut_ptr(), stride: n, base: Some((bias.as_ptr(), 0)) };
        // SAFETY: this CPU has the kernels; the output has room for these rows.
        unsafe { Product { kernels, ..Product::new(x.part(rows, 0..k), weight, output) }.run(parts) };
        y
    };
    for size in [1, 2, 3, 4, 7, 8, 12, 13, 24, 25, m] {
        for first in (0..m).step_by(size.max(m / 3)) {
            let rows = first..(first + size).min(m);
            let want = &want[rows.start * n..rows.end * n];
            assert_eq!(bits(&product(rows.clone(), 1)), bits(want), "rows {rows:?} of {m}, ({k}, {n})");
            assert_eq!(
                bits(&product(rows.clone(), 4)),
                bits(want),
                "rows {rows:?} of {m}, ({k}, {n}), in parts"
            );
        }
    }
}

/// Every format with the same shape.
fn assert_formats(kernels: &'static Kernels, m: usize, k: usize, n: usize) {
    let w = elements(k * n, 5);
    assert_kept(kernels, &Panels::of(Matrix::new(&w, k, n, n)), m);
    let at = |j: usize, p: usize| w[p * n + j];
    assert_kept(kernels, &Panels::<[[f16; 16]; 2]>::new(k, n, |j, p| f16::from_f32(at(j, p))), m);
    assert_kept(kernels, &Panels::<[[bf16; 16]; 2]>::new(k, n, |j, p| bf16::from_f32(at(j, p))), m);
    let k = k.next_multiple_of(32);
    let w = QTensor::quantize(&random(&[n, k], 3), GgmlDType::Q8_0).unwrap();
    let bytes = w.data().unwrap().into_owned();
    let blocks = bytes.as_chunks::<34>().0;
    let q8 = Panels::<Q8Unit>::new(k, n, |j, unit| blocks[j * (k / 32) + unit]);
    let theirs = w.dequantize(&candle_core::Device::Cpu).unwrap().to_vec2::<f32>().unwrap();
    let mut ours = vec![0f32; k];
    for (j, theirs) in theirs.iter().enumerate() {
        q8.column(j, &mut ours);
        assert_eq!(ours, *theirs);
    }
    assert_kept(kernels, &q8, m);
}

#[test]
fn no_rows_or_no_columns_make_an_empty_product() {
    let weight = Panels::of(Matrix::new(&[], 3, 0, 0));
    assert!(new_product(Matrix::new(&[1.0; 6], 2, 3, 3), &weight, None).is_empty());
    let weight = Panels::of(Matrix::new(&[1.0; 6], 3, 2, 2));
    assert!(new_product(Matrix::new(&[], 0, 3, 3), &weight, None).is_empty());
}

#[test]
fn products_of_strided_and_transposed_views() {
    let a = [1.0, 2.0, 9.0, 3.0, 4.0, 9.0]; // 2 × 2, rows three apart
    let b = [5.0, 6.0, 7.0, 8.0];
    let (a, b) = (Matrix::new(&a, 2, 2, 3), Matrix::new(&b, 2, 2, 2));
    let mut dst = [1.0; 4];
    product(&mut dst, false, 2.0, a, b);
    assert_eq!(dst, [38.0, 44.0, 86.0, 100.0]);
    product(&mut dst, true, 1.0, a.t(), b);
    assert_eq!(dst, [38.0 + 26.0, 44.0 + 30.0, 86.0 + 38.0, 100.0 + 44.0]);
}

#[test]
fn an_empty_inner_size_gives_zeros() {
    let mut dst = [7.0; 4];
    let (a, b) = (Matrix::new(&[], 2, 0, 0), Matrix::new(&[], 0, 2, 2));
    product(&mut dst, false, 1.0, a, b);
    assert_eq!(dst, [0.0; 4]);
    assert_eq!(new_product(a, &b, None), [0.0; 4]);
    assert_eq!(new_product(a, &b, Some(&[1.0, 2.0])), [1.0, 2.0, 1.0, 2.0]);
    let mut dst = [7.0; 4];
    add_product(&mut dst, a, b);
    assert_eq!(dst, [7.0; 4]);
}

#[test]
#[should_panic(expected = "beyond its buffer")]
fn a_view_that_is_too_large_is_refused() {
    product(&mut [0.0; 4], false, 1.0, Matrix::new(&[0.0; 3], 2, 2, 2), Matrix::new(&[0.0; 4], 2, 2, 2));
}

#[test]
fn half_of_a_symmetric_product_is_mirrored() {
    for (n, k) in [(1, 3), (5, 2), (64, 70), (130, 40), (300, 400)] {
        let x = elements(n * k, 1);
        let x = Matrix::new(&x, n, k, k);
        let (mut half, mut whole) = (vec![7f32; n * n], vec![7f32; n * n]);
        symmetric_product(&mut half, x, x.t());
        product(&mut whole, false, 1.0, x, x.t());
        for (half, whole) in half.iter().zip(&whole) {
            assert!((half - whole).abs() <= 1e-5 * (1.0 + whole.abs()), "{n}: {half} is not {whole}");
        }
    }
}
