//! Products with few rows, which is what writing one token after another consists of: the weights are read once, in the
//! order in which they lie, by all cores. Packing them first, as a large product does, would cost more than it saves.
#![expect(unsafe_code, reason = "vector instructions")]

use super::dot::dot;
use super::simd;
use rayon::prelude::*;

/// So many rows are few.
pub const FEW: usize = 16;
/// Multiply-adds that are worth a thread.
const TASK: usize = 1 << 15;

/// `x · W` for the few rows of `x`, `k` wide, and a weight (k, n).
pub fn times(x: &[f32], k: usize, weight: &[f32], n: usize) -> Vec<f32> {
    let m = x.len() / k.max(1);
    check(x, m, k, weight, n);
    // A task makes some columns of the result, beside each other in every row of the weight.
    let share = n.div_ceil(rayon::current_num_threads()).next_multiple_of(32);
    let columns = share.min(1024).max(TASK / k);
    let mut y = vec![0f32; m * n];
    let mut tiles: Vec<Vec<f32>> = (0..n)
        .into_par_iter()
        .step_by(columns)
        .map(|first| {
            let width = columns.min(n - first);
            let mut tile = vec![0f32; m * width];
            add_tile(x, k, weight, n, first, width, &mut tile);
            tile
        })
        .collect();
    if m == 1 {
        return if tiles.len() == 1 { tiles.remove(0) } else { tiles.concat() };
    }
    for (tile, first) in tiles.iter().zip((0..n).step_by(columns)) {
        let width = tile.len() / m;
        for (tile, y) in tile.chunks(width).zip(y.chunks_mut(n)) {
            y[first..first + width].copy_from_slice(tile);
        }
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
            for (y, x) in y.iter_mut().zip(x.chunks(k)) {
                *y = dot(w, x);
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

fn check(x: &[f32], m: usize, k: usize, weight: &[f32], n: usize) {
    assert!(m > 0 && k > 0 && n > 0, "an empty product");
    assert_eq!((x.len(), weight.len()), (m * k, k * n), "the sizes of a product");
}

/// Columns `first` to `first + width` of `x · W`, added to `y` (m, width).
fn add_tile(x: &[f32], k: usize, weight: &[f32], n: usize, first: usize, width: usize, y: &mut [f32]) {
    let whole = k / 4 * 4;
    for i in (0..whole).step_by(4) {
        let rows = [0, 1, 2, 3].map(|j| &weight[(i + j) * n + first..][..width]);
        for (x, y) in x.chunks(k).zip(y.chunks_mut(width)) {
            add_four([x[i], x[i + 1], x[i + 2], x[i + 3]], rows, y);
        }
    }
    for i in whole..k {
        let row = &weight[i * n + first..][..width];
        for (x, y) in x.chunks(k).zip(y.chunks_mut(width)) {
            simd::vectorized(|| y.iter_mut().zip(row).for_each(|(y, w)| *y += x[i] * w));
        }
    }
}

/// `y += Σ aᵢ · rowᵢ`
#[inline]
fn add_four(a: [f32; 4], rows: [&[f32]; 4], y: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if simd::has_avx2() {
        // SAFETY: just asked; the rows are as long as `y`.
        unsafe { add_four_avx2(a, rows, y) };
        return;
    }
    add_four_portable(a, rows, y);
}

fn add_four_portable(a: [f32; 4], rows: [&[f32]; 4], y: &mut [f32]) {
    for (j, y) in y.iter_mut().enumerate() {
        *y += a[0] * rows[0][j] + a[1] * rows[1][j] + (a[2] * rows[2][j] + a[3] * rows[3][j]);
    }
}

/// # Safety
/// The CPU has AVX2 and FMA, and the rows are as long as `y`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn add_four_avx2(a: [f32; 4], rows: [&[f32]; 4], y: &mut [f32]) {
    use std::arch::x86_64::*;
    debug_assert!(rows.iter().all(|row| row.len() == y.len()));
    let b = a.map(|a| _mm256_set1_ps(a));
    let whole = y.len() / 8 * 8;
    for j in (0..whole).step_by(8) {
        // SAFETY: eight numbers from `j` on are there, in `y` and in every row.
        unsafe {
            let at = y.as_mut_ptr().add(j);
            let mut sum = _mm256_loadu_ps(at);
            for (b, row) in b.iter().zip(rows) {
                sum = _mm256_fmadd_ps(*b, _mm256_loadu_ps(row.as_ptr().add(j)), sum);
            }
            _mm256_storeu_ps(at, sum);
        }
    }
    add_four_portable(a, rows.map(|row| &row[whole..]), &mut y[whole..]);
}

#[cfg(test)]
mod tests {
    use super::super::matrix::{Matrix, new_product};
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
            assert_near(&times(&x, k, &w, n), &new_product(a, Matrix::new(&w, k, n, n)), k);
            assert_near(&times_turned(&x, k, &w, n), &new_product(a, Matrix::new(&w, n, k, k).t()), k);
        }
    }

    #[test]
    fn products_of_many_tasks_equal_a_product() {
        let (m, k, n) = (3, 130, 2500);
        let (x, w) = (numbers(m * k, 1), numbers(k * n, 2));
        let a = Matrix::new(&x, m, k, k);
        assert_near(&times(&x, k, &w, n), &new_product(a, Matrix::new(&w, k, n, n)), k);
        assert_near(&times_turned(&x, k, &w, n), &new_product(a, Matrix::new(&w, n, k, k).t()), k);
    }

    #[test]
    fn both_kernels_add_the_same() {
        let rows: Vec<Vec<f32>> = (0..4).map(|seed| numbers(37, seed)).collect();
        let rows = [&rows[0][..], &rows[1], &rows[2], &rows[3]];
        let (mut one, mut other) = (numbers(37, 9), numbers(37, 9));
        add_four([0.5, -1.0, 2.0, 0.1], rows, &mut one);
        add_four_portable([0.5, -1.0, 2.0, 0.1], rows, &mut other);
        assert_near(&one, &other, 4);
    }
}
