//! Products with a small batch, a few rows of `x`, which is what decoding one token after another consists of. The time
//! goes into reading the weight, so it is read once, in the order in which it lies in memory, by all cores; packing it
//! first, as a large product does, would cost more than it saves.
#![expect(unsafe_code, reason = "vector instructions")]

use crate::dot::dot_rows;
use crate::gemm::matrix::Matrix;
use crate::gemm::product::inner_steps;
use crate::simd;
use rayon::prelude::*;
use std::array::from_fn;

/// The largest batch for one thread: it works on what is in its cache, where packing pays from the third row on.
const SMALL_FOR_ONE_THREAD: usize = 2;
/// Multiply-adds that are worth a task of their own.
const TASK: usize = 1 << 15;
/// Rows of a weight that are added at a time,
const GROUP: usize = 4;
/// and columns: so many of these rows stay in the L1 cache while all rows of `x` are multiplied with them.
const GROUP_COLUMNS: usize = 128;

/// `x · W + b` in a new buffer, on all threads, for a CPU with AVX2. Neither factor is empty; both lie in memory without
/// gaps. An element is summed as `tiles` does it: a chain for each block of inner steps, and the blocks in their order.
pub fn new_product(x: Matrix, weight: Matrix, bias: Option<&[f32]>) -> Vec<f32> {
    let (m, k, n) = (x.rows, x.columns, weight.columns);
    assert!(m > 0 && k > 0 && n > 0, "an empty product");
    assert_eq!((x.row_stride, x.column_stride), (k, 1), "rows of x without gaps");
    assert_eq!((weight.row_stride, weight.column_stride), (n, 1), "a weight without gaps");
    let (x, weight, block) = (&x.data[..m * k], &weight.data[..k * n], inner_steps(k));
    // A task takes a block of rows of the weight, which lie behind one another, and what they add to all of the result; or
    // to a part of it, if there are more threads than blocks.
    let blocks = k.div_ceil(block);
    let parts = (rayon::current_num_threads().div_ceil(blocks)).min(k * n / TASK / blocks).max(1);
    let width = n.div_ceil(parts).next_multiple_of(GROUP_COLUMNS);
    let tasks: Vec<(usize, usize)> =
        (0..blocks).flat_map(|i| (0..n).step_by(width).map(move |left| (i, left))).collect();
    let add = |&(i, left): &(usize, usize)| {
        let columns = width.min(n - left);
        let mut y = vec![0f32; m * columns];
        let rows = &weight[i * block * n + left..((i + 1) * block).min(k) * n];
        add_rows(x, k, i * block, rows, n, columns, &mut y);
        y
    };
    let sums: Vec<Vec<f32>> =
        if k * n < 2 * TASK { tasks.iter().map(add).collect() } else { tasks.par_iter().map(add).collect() };
    let mut y = match bias {
        Some(bias) => bias.repeat(m),
        None => Vec::new(),
    };
    if y.is_empty() && width >= n {
        let mut sums = sums.into_iter();
        y = sums.next().unwrap_or_default();
        sums.for_each(|sum| add_to(&mut y, &sum));
        return y;
    }
    let first_is_all = y.is_empty();
    y.resize(m * n, 0.0);
    for ((i, left), sum) in tasks.into_iter().zip(sums) {
        let columns = width.min(n - left);
        for (y, sum) in y.chunks_mut(n).zip(sum.chunks(columns)) {
            let y = &mut y[left..left + columns];
            if first_is_all && i == 0 { y.copy_from_slice(sum) } else { add_to(y, sum) }
        }
    }
    y
}

fn add_to(y: &mut [f32], more: &[f32]) {
    simd::vectorized(|| y.iter_mut().zip(more).for_each(|(y, more)| *y += more));
}

/// Whether [`product_on_one_thread`] is the kernel for these two: a small batch, and a factor that is read in the order in
/// which it lies in memory.
pub fn suits_one_thread(a: Matrix, b: Matrix) -> bool {
    a.rows <= SMALL_FOR_ONE_THREAD && a.column_stride == 1 && (b.row_stride == 1 || b.column_stride == 1)
}

/// `dst = scale · a · b` on the calling thread, for two that suit. `dst` holds `a.rows` × `b.columns` elements.
pub fn product_on_one_thread(dst: &mut [f32], scale: f32, a: Matrix, b: Matrix) {
    let n = b.columns;
    for (i, y) in dst.chunks_mut(n.max(1)).enumerate() {
        let x = a.row(i);
        if b.row_stride == 1 {
            dot_rows(x, b.data, b.column_stride, y);
        } else {
            y.fill(0.0);
            add_rows(x, a.columns, 0, b.data, b.row_stride, n, y);
        }
        if scale != 1.0 {
            simd::vectorized(|| y.iter_mut().for_each(|y| *y *= scale));
        }
    }
}

/// Adds to `y` what the rows `first`, `first + 1`, … of a weight contribute to `x · W`. The rows lie `stride` elements apart.
fn add_rows(x: &[f32], k: usize, first: usize, weight: &[f32], stride: usize, n: usize, y: &mut [f32]) {
    let rows = weight.len().div_ceil(stride).min(k - first);
    let grouped = rows / GROUP * GROUP;
    for i in (0..grouped).step_by(GROUP) {
        for left in (0..n).step_by(GROUP_COLUMNS) {
            let columns = left..(left + GROUP_COLUMNS).min(n);
            let group: [&[f32]; GROUP] = from_fn(|j| &weight[(i + j) * stride..][columns.clone()]);
            // Two rows of x share what is read of the weight.
            for (x, y) in x.chunks(2 * k).zip(y.chunks_mut(2 * n)) {
                let a = |row: usize| from_fn(|j| x[row * k + first + i + j]);
                match y.split_at_mut(n) {
                    (one, []) => add_group([a(0)], group, [&mut one[columns.clone()]]),
                    (one, two) => {
                        let y = [&mut one[columns.clone()], &mut two[columns.clone()]];
                        add_group([a(0), a(1)], group, y);
                    }
                }
            }
        }
    }
    for i in grouped..rows {
        let weight = &weight[i * stride..][..n];
        for (x, y) in x.chunks(k).zip(y.chunks_mut(n)) {
            add_row(x[first + i], weight, y);
        }
    }
}

/// `y += a · row`.
fn add_row(a: f32, row: &[f32], y: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if simd::has_avx2() {
        // SAFETY: just asked.
        return unsafe { add_row_fma(a, row, y) };
    }
    y.iter_mut().zip(row).for_each(|(y, w)| *y += a * w);
}

/// # Safety
/// The CPU has AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn add_row_fma(a: f32, row: &[f32], y: &mut [f32]) {
    y.iter_mut().zip(row).for_each(|(y, w)| *y = a.mul_add(*w, *y));
}

/// `yₘ += Σᵢ aₘᵢ · rowᵢ`, for M rows of `a` and `y`.
#[inline]
fn add_group<const M: usize>(a: [[f32; GROUP]; M], rows: [&[f32]; GROUP], y: [&mut [f32]; M]) {
    #[cfg(target_arch = "x86_64")]
    if simd::has_avx2() {
        let n = rows[0].len();
        let equal = rows.iter().all(|row| row.len() == n) && y.iter().all(|y| y.len() == n);
        assert!(equal, "rows of one length");
        // SAFETY: just asked and asserted.
        unsafe { add_group_avx2(a, rows, y) };
        return;
    }
    add_group_portable(a, rows, y);
}

fn add_group_portable<const M: usize>(a: [[f32; GROUP]; M], rows: [&[f32]; GROUP], y: [&mut [f32]; M]) {
    for (a, y) in a.iter().zip(y) {
        for (a, row) in a.iter().zip(rows) {
            y.iter_mut().zip(row).for_each(|(y, w)| *y += a * w);
        }
    }
}

/// # Safety
/// The CPU has AVX2 and FMA, and all rows are of one length.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn add_group_avx2<const M: usize>(a: [[f32; GROUP]; M], rows: [&[f32]; GROUP], y: [&mut [f32]; M]) {
    use std::arch::x86_64::*;
    let b = a.map(|a| a.map(|a| _mm256_set1_ps(a)));
    let whole = rows[0].len() / 8 * 8;
    for j in (0..whole).step_by(8) {
        // SAFETY: every row has eight elements from `j` on.
        unsafe {
            let mut sums: [__m256; M] = from_fn(|m| _mm256_loadu_ps(y[m].as_ptr().add(j)));
            for (i, row) in rows.iter().enumerate() {
                let w = _mm256_loadu_ps(row.as_ptr().add(j));
                for (sum, b) in sums.iter_mut().zip(b) {
                    *sum = _mm256_fmadd_ps(b[i], w, *sum);
                }
            }
            for (m, sum) in sums.into_iter().enumerate() {
                _mm256_storeu_ps(y[m].as_mut_ptr().add(j), sum);
            }
        }
    }
    for (a, y) in a.iter().zip(y) {
        for (&a, row) in a.iter().zip(rows) {
            // SAFETY: the caller's.
            unsafe { add_row_fma(a, &row[whole..], &mut y[whole..]) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::product::{self, SMALL_BATCH};
    #[cfg(target_arch = "x86_64")]
    use crate::testing::cpu_has_avx2;
    use crate::testing::elements;
    use proptest::prelude::*;

    fn assert_near(got: &[f32], want: &[f32], k: usize) {
        assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().zip(want) {
            assert!(
                (got - want).abs() <= 1e-5 * (k as f32).sqrt() * (1.0 + want.abs()),
                "{got} is not {want}"
            );
        }
    }

    /// The same to the bit as the large product, where there is AVX2.
    fn assert_product([m, k, n]: [usize; 3], seed: u64) {
        if simd::is_plain() {
            return;
        }
        let (x, w, bias) = (elements(m * k, seed), elements(k * n, seed ^ 1), elements(n, seed ^ 2));
        let (x, weight) = (Matrix::new(&x, m, k, k), Matrix::new(&w, k, n, n));
        for bias in [None, Some(&bias[..])] {
            assert_eq!(new_product(x, weight, bias), product::new_product(x, weight, bias));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn a_small_batch_equals_the_large_product(m in 1usize..=SMALL_BATCH, k in 1usize..70, n in 1usize..300, seed: u64) {
            assert_product([m, k, n], seed);
        }
    }

    #[test]
    fn products_of_many_tasks_equal_the_large_product() {
        assert_product([3, 130, 2500], 1);
        assert_product([2, 900, 777], 2);
        for threads in [1, 3, 7] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| assert_product([5, 400, 1000], 3));
        }
    }

    #[test]
    fn one_thread_makes_the_same_of_strided_rows() {
        for (k, n) in [(64, 80), (80, 64), (5, 3), (1, 200), (0, 4), (7, 1)] {
            let (x, w) = (elements(2 * k + 5, 1), elements((k.max(n) + 2) * (k.max(n) + 3), 2));
            let a = Matrix::new(&x, 2, k, k + 3);
            for b in [Matrix::new(&w, k, n, n + 2), Matrix::new(&w, n, k, k + 1).t()] {
                assert!(suits_one_thread(a, b));
                let mut y = vec![7f32; 2 * n];
                product_on_one_thread(&mut y, 0.5, a, b);
                let want: Vec<f32> = product::new_product(a, b, None).iter().map(|y| 0.5 * y).collect();
                assert_near(&y, &want, k.max(1));
            }
        }
    }

    /// Both kernels are called directly, so that each run tests both, whichever the dispatch would choose.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn both_kernels_add_the_same() {
        if !cpu_has_avx2("both_kernels_add_the_same") {
            return;
        }
        let rows: Vec<Vec<f32>> = (0..GROUP).map(|seed| elements(37, seed as u64)).collect();
        let rows: [&[f32]; GROUP] = from_fn(|i| &rows[i][..]);
        let a = from_fn(|m| from_fn(|i| (m + i) as f32 * 0.3 - 1.0));
        let start = || (elements(37, 98), elements(37, 99));
        let (mut avx2, mut portable) = (start(), start());
        // SAFETY: the CPU has AVX2, and all rows are of one length.
        unsafe { add_group_avx2(a, rows, [&mut avx2.0, &mut avx2.1]) };
        add_group_portable(a, rows, [&mut portable.0, &mut portable.1]);
        assert_near(&avx2.0, &portable.0, GROUP);
        assert_near(&avx2.1, &portable.1, GROUP);
    }
}
