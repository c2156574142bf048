//! Variable projection: with the exponents α and β fixed, the law is linear in E, A and B, so the best of these are found
//! directly. A coarse grid of exponents then says where to begin, whatever the scale of the data.

use crate::design::{Design, FLOOR, Theta};
use crate::huber::Huber;

/// Exponents that are tried: twelve from 0.03 to 2, evenly spaced by their logarithm.
const EXPONENTS: usize = 12;
const SMALLEST: f64 = 0.03;
const LARGEST: f64 = 2.0;
/// Rounds in which large residuals lose their weight.
const ROUNDS: usize = 3;

/// The columns of the linear problem for every exponent of the grid. They depend on sizes and counts alone, so one serves all
/// fits of the same runs with other losses.
pub(crate) struct Projection {
    exponents: Vec<f64>,
    /// e^(−αx) of every run, for each α.
    size: Vec<Vec<f64>>,
    /// e^(−βy) of every run, for each β.
    data: Vec<Vec<f64>>,
}

impl Projection {
    pub fn new(design: &Design) -> Self {
        let exponent = |i: usize| SMALLEST * (LARGEST / SMALLEST).powf(i as f64 / (EXPONENTS - 1) as f64);
        let exponents: Vec<f64> = (0..EXPONENTS).map(exponent).collect();
        let columns = |logs: &[f64]| {
            exponents.iter().map(|&power| logs.iter().map(|&log| (-power * log).exp()).collect()).collect()
        };
        Self { size: columns(&design.size), data: columns(&design.data), exponents }
    }

    /// The best places of the grid, at most so many, none of which is beside a better one.
    pub fn starts(&self, losses: &[f64], huber: Huber, count: usize) -> Vec<Theta> {
        let count_of = self.exponents.len();
        let at = |i: usize, j: usize| solve(&self.size[i], &self.data[j], losses, huber);
        let solved: Vec<Vec<([f64; 3], f64)>> =
            (0..count_of).map(|i| (0..count_of).map(|j| at(i, j)).collect()).collect();
        let around = |i: usize| i.saturating_sub(1)..(i + 2).min(count_of);
        let lowest =
            |i: usize, j: usize| around(i).all(|k| around(j).all(|l| solved[k][l].1 >= solved[i][j].1));
        let places = (0..count_of).flat_map(|i| (0..count_of).map(move |j| (i, j)));
        let mut best: Vec<(usize, usize)> = places.filter(|&(i, j)| lowest(i, j)).collect();
        best.sort_by(|a, b| solved[a.0][a.1].1.total_cmp(&solved[b.0][b.1].1));
        let least = losses.iter().copied().fold(f64::MAX, f64::min);
        let theta = |&(i, j): &(usize, usize)| {
            let [e, a, b] = solved[i][j].0.map(|x| x.max(least * FLOOR.exp()).ln());
            [e, a, b, self.exponents[i], self.exponents[j]]
        };
        best.iter().take(count).map(theta).collect()
    }
}

/// E, A and B that fit best for these columns, none of them negative, and the objective there. A relative error of the loss
/// stands for that of its logarithm.
fn solve(size: &[f64], data: &[f64], losses: &[f64], huber: Huber) -> ([f64; 3], f64) {
    let mut weights = vec![1.0; losses.len()];
    let mut best = [0.0; 3];
    for _ in 0..ROUNDS {
        let (mut square, mut right) = ([[0.0; 3]; 3], [0.0; 3]);
        for (((&u, &v), &loss), &weight) in size.iter().zip(data).zip(losses).zip(&weights) {
            let row = [1.0 / loss, u / loss, v / loss];
            for i in 0..3 {
                right[i] += weight * row[i];
                for j in 0..3 {
                    square[i][j] += weight * row[i] * row[j];
                }
            }
        }
        best = nonnegative(&square, &right);
        for ((weight, &loss), (&u, &v)) in weights.iter_mut().zip(losses).zip(size.iter().zip(data)) {
            *weight = huber.weight((best[0] + best[1] * u + best[2] * v) / loss - 1.0);
        }
    }
    let residual =
        |((&u, &v), &loss): ((&f64, &f64), &f64)| (best[0] + best[1] * u + best[2] * v) / loss - 1.0;
    let objective = size.iter().zip(data).zip(losses).map(|row| huber.loss(residual(row))).sum();
    (best, objective)
}

/// The least squares solution without negative parts: of all choices of what is zero, the best that has none.
fn nonnegative(square: &[[f64; 3]; 3], right: &[f64; 3]) -> [f64; 3] {
    // xᵀSx − 2xᵀr
    let objective = |x: &[f64; 3]| {
        (0..3)
            .map(|i| x[i] * ((0..3).map(|j| square[i][j] * x[j]).sum::<f64>() - 2.0 * right[i]))
            .sum::<f64>()
    };
    let mut best = ([0.0; 3], 0.0);
    for chosen in 1..8_u32 {
        let kept: Vec<usize> = (0..3).filter(|i| chosen & (1 << i) != 0).collect();
        let Some(x) = solve_kept(square, right, &kept) else { continue };
        let value = objective(&x);
        if x.iter().all(|&x| x >= 0.0 && x.is_finite()) && value < best.1 {
            best = (x, value);
        }
    }
    best.0
}

/// Gauss elimination over some of the unknowns; the others are zero. Nothing where they can't be told apart.
fn solve_kept(square: &[[f64; 3]; 3], right: &[f64; 3], kept: &[usize]) -> Option<[f64; 3]> {
    let mut rows: Vec<Vec<f64>> =
        kept.iter().map(|&i| kept.iter().map(|&j| square[i][j]).chain([right[i]]).collect()).collect();
    let count = kept.len();
    for pivot in 0..count {
        let largest = square[kept[pivot]][kept[pivot]];
        if rows[pivot][pivot] <= 1e-12 * largest {
            return None;
        }
        for row in pivot + 1..count {
            let (above, below) = rows.split_at_mut(row);
            let factor = below[0][pivot] / above[pivot][pivot];
            below[0].iter_mut().zip(&above[pivot]).skip(pivot).for_each(|(x, above)| *x -= factor * above);
        }
    }
    let mut x = [0.0; 3];
    for row in (0..count).rev() {
        let known: f64 = (row + 1..count).map(|column| rows[row][column] * x[kept[column]]).sum();
        x[kept[row]] = (rows[row][count] - known) / rows[row][row];
    }
    Some(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_squares_are_never_negative() {
        let square = [[2.0, 0.0, 0.0], [0.0, 4.0, 1.0], [0.0, 1.0, 3.0]];
        let x = nonnegative(&square, &[2.0, 6.0, 7.0]);
        assert!((x[0] - 1.0).abs() + (x[1] - 1.0).abs() + (x[2] - 2.0).abs() < 1e-12, "{x:?}");
        assert_eq!(nonnegative(&square, &[2.0, -4.0, 0.0]), [1.0, 0.0, 0.0]);
        // The same column twice: one of both is enough.
        let x = nonnegative(&[[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], &[2.0, 2.0, -1.0]);
        assert!((x[0] + x[1] - 2.0).abs() < 1e-9, "{x:?}");
    }
}
