//! Products with few rows, which is what writing one token after another consists of: the weights are read once, in the
//! order in which they lie, by all cores. Packing them first, as a large product does, would cost more than it saves.
#![expect(unsafe_code, reason = "vector instructions")]

use super::dot::{dot, dot_rows};
use super::matrix::Matrix;
use super::simd;
use rayon::prelude::*;
use std::array::from_fn;

/// So many rows are few.
pub const FEW: usize = 8;
/// So many, if one thread does it all and the other factor is in the cache.
const FEW_BY_ONE: usize = 2;
/// Multiply-adds that are worth a thread.
const TASK: usize = 1 << 15;
/// Rows of a weight that are added at a time,
const ROWS: usize = 4;
/// and columns: so many of these rows stay in the first cache while all rows of `x` meet them.
const COLUMNS: usize = 128;

/// `x · W` for the few rows of `x`, `k` wide, and a weight (k, n).
pub fn times(x: &[f32], k: usize, weight: &[f32], n: usize) -> Vec<f32> {
    let m = x.len() / k.max(1);
    check(x, m, k, weight, n);
    // A task takes some rows of the weight, which lie behind one another, and what they add to all of the result.
    let tasks = (2 * rayon::current_num_threads()).min(k * n / TASK).max(1);
    let rows = k.div_ceil(tasks).next_multiple_of(ROWS);
    let parts: Vec<Vec<f32>> = weight
        .par_chunks(rows * n)
        .enumerate()
        .map(|(task, weight)| {
            let mut y = vec![0f32; m * n];
            add_rows(x, k, task * rows, weight, n, n, &mut y);
            y
        })
        .collect();
    let mut parts = parts.into_iter();
    let mut y = parts.next().unwrap_or_default();
    for part in parts {
        simd::vectorized(|| y.iter_mut().zip(&part).for_each(|(y, part)| *y += part));
    }
    y
}

/// `x · Wᵀ` for the few rows of `x`, `k` wide, and a weight (n, k).
pub fn times_turned(x: &[f32], k: usize, weight: &[f32], n: usize) -> Vec<f32> {
    let m = x.len() / k.max(1);
    check(x, m, k, weight, n);
    let rows = (TASK / k.max(1)).max(1);
    let mut turned = vec![0f32; m * n]; // (n, m)
    turned.par_chunks_mut(rows * m).zip(weight.par_chunks(rows * k)).for_each(|(y, weight)| {
        for (y, w) in y.chunks_mut(m).zip(weight.chunks(k)) {
            match y {
                [y] => *y = dot(w, x),
                y => dot_rows(w, x, k, y),
            }
        }
    });
    if m == 1 {
        return turned;
    }
    let mut y = vec![0f32; m * n];
    for (column, values) in turned.chunks(m).enumerate() {
        values.iter().enumerate().for_each(|(row, value)| y[row * n + column] = *value);
    }
    y
}

/// Whether [`product`] takes these two: a few rows, and a factor that is read in the order in which it lies.
pub fn suits(a: Matrix, b: Matrix) -> bool {
    a.rows <= FEW_BY_ONE && a.column == 1 && (b.row == 1 || b.column == 1)
}

/// `dst = scale · a · b` on one thread, for two that suit. `dst` holds `a.rows` × `b.columns` elements.
pub fn product(dst: &mut [f32], scale: f32, a: Matrix, b: Matrix) {
    let n = b.columns;
    for (i, y) in dst.chunks_mut(n.max(1)).enumerate() {
        let x = &a.data[i * a.row..][..a.columns];
        if b.row == 1 {
            dot_rows(x, b.data, b.column, y);
        } else {
            y.fill(0.0);
            add_rows(x, a.columns, 0, b.data, b.row, n, y);
        }
        if scale != 1.0 {
            simd::vectorized(|| y.iter_mut().for_each(|y| *y *= scale));
        }
    }
}

fn check(x: &[f32], m: usize, k: usize, weight: &[f32], n: usize) {
    assert!(m > 0 && k > 0 && n > 0, "an empty product");
    assert_eq!((x.len(), weight.len()), (m * k, k * n), "the sizes of a product");
}

/// What rows `first`, `first + 1`, … of a weight add to `x · W`. The rows lie `row` numbers apart.
fn add_rows(x: &[f32], k: usize, first: usize, weight: &[f32], row: usize, n: usize, y: &mut [f32]) {
    let rows = weight.len().div_ceil(row).min(k - first);
    let whole = rows / ROWS * ROWS;
    for i in (0..whole).step_by(ROWS) {
        for left in (0..n).step_by(COLUMNS) {
            let columns = left..(left + COLUMNS).min(n);
            let group: [&[f32]; ROWS] = from_fn(|j| &weight[(i + j) * row..][columns.clone()]);
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
    for i in whole..rows {
        let weight = &weight[i * row..][..n];
        for (x, y) in x.chunks(k).zip(y.chunks_mut(n)) {
            simd::vectorized(|| y.iter_mut().zip(weight).for_each(|(y, w)| *y += x[first + i] * w));
        }
    }
}

/// `y += Σ aᵢ · rowᵢ`, for M of `a` and `y`.
#[inline]
fn add_group<const M: usize>(a: [[f32; ROWS]; M], rows: [&[f32]; ROWS], y: [&mut [f32]; M]) {
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

fn add_group_portable<const M: usize>(a: [[f32; ROWS]; M], rows: [&[f32]; ROWS], y: [&mut [f32]; M]) {
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
unsafe fn add_group_avx2<const M: usize>(a: [[f32; ROWS]; M], rows: [&[f32]; ROWS], y: [&mut [f32]; M]) {
    use std::arch::x86_64::*;
    let b = a.map(|a| a.map(|a| _mm256_set1_ps(a)));
    let whole = rows[0].len() / 8 * 8;
    for j in (0..whole).step_by(8) {
        // SAFETY: eight numbers from `j` on are there, in every row.
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
    add_group_portable(a, rows.map(|row| &row[whole..]), y.map(|y| &mut y[whole..]));
}

#[cfg(test)]
mod tests {
    use super::super::matrix::new_product;
    use super::super::testing::random;
    use super::*;
    use proptest::prelude::*;

    fn numbers(n: usize, seed: u64) -> Vec<f32> {
        random(&[n], seed).to_vec1().unwrap()
    }

    fn assert_near(got: &[f32], want: &[f32], k: usize) {
        assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().zip(want) {
            assert!(
                (got - want).abs() <= 1e-5 * (k as f32).sqrt() * (1.0 + want.abs()),
                "{got} is not {want}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn few_rows_equal_a_product(m in 1usize..=FEW, k in 1usize..70, n in 1usize..300, seed: u64) {
            let (x, w) = (numbers(m * k, seed), numbers(k * n, seed ^ 1));
            let a = Matrix::new(&x, m, k, k);
            assert_near(&times(&x, k, &w, n), &new_product(a, Matrix::new(&w, k, n, n), None), k);
            assert_near(&times_turned(&x, k, &w, n), &new_product(a, Matrix::new(&w, n, k, k).t(), None), k);
        }
    }

    #[test]
    fn products_of_many_tasks_equal_a_product() {
        let (m, k, n) = (3, 130, 2500);
        let (x, w) = (numbers(m * k, 1), numbers(k * n, 2));
        let a = Matrix::new(&x, m, k, k);
        assert_near(&times(&x, k, &w, n), &new_product(a, Matrix::new(&w, k, n, n), None), k);
        assert_near(&times_turned(&x, k, &w, n), &new_product(a, Matrix::new(&w, n, k, k).t(), None), k);
    }

    #[test]
    fn one_thread_makes_the_same_of_strided_rows() {
        for (k, n) in [(64, 80), (80, 64), (5, 3), (1, 200), (0, 4), (7, 1)] {
            let (x, w) = (numbers(2 * k + 5, 1), numbers((k.max(n) + 2) * (k.max(n) + 3), 2));
            let a = Matrix::new(&x, 2, k, k + 3);
            for b in [Matrix::new(&w, k, n, n + 2), Matrix::new(&w, n, k, k + 1).t()] {
                assert!(suits(a, b));
                let mut y = vec![7f32; 2 * n];
                product(&mut y, 0.5, a, b);
                let want: Vec<f32> = new_product(a, b, None).iter().map(|y| 0.5 * y).collect();
                assert_near(&y, &want, k.max(1));
            }
        }
    }

    #[test]
    fn both_kernels_add_the_same() {
        let rows: Vec<Vec<f32>> = (0..ROWS).map(|seed| numbers(37, seed as u64)).collect();
        let rows: [&[f32]; ROWS] = from_fn(|i| &rows[i][..]);
        let a = from_fn(|m| from_fn(|i| (m + i) as f32 * 0.3 - 1.0));
        let start = || (numbers(37, 98), numbers(37, 99));
        let (mut one, mut other) = (start(), start());
        add_group(a, rows, [&mut one.0, &mut one.1]);
        add_group_portable(a, rows, [&mut other.0, &mut other.1]);
        assert_near(&one.0, &other.0, ROWS);
        assert_near(&one.1, &other.1, ROWS);
    }
}
