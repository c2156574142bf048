//! Levenberg and Marquardt's method for the Huber loss of ln L: damped Newton steps with the exact second derivative, which
//! the logarithm of a sum of exponentials has in closed form. Where that is not positive, more damping makes it so.

use crate::design::{Design, EXPONENTS, FLOOR, Theta};
use crate::huber::Huber;

/// Steps after which it gives up getting any better.
const STEPS: usize = 400;
/// Improvements smaller than this part are none.
const ENOUGH: f64 = 1e-13;
/// So many of them in a row are the end.
const STALLED: usize = 4;

type Matrix = [[f64; 5]; 5];

/// The five numbers at the nearest minimum, and the objective there.
pub(crate) fn minimise(design: &Design, log_losses: &[f64], huber: Huber, start: &Theta) -> (Theta, f64) {
    let least = log_losses.iter().copied().fold(f64::MAX, f64::min);
    let mut theta = within(*start, least);
    let mut here = Slopes::at(design, log_losses, huber, &theta);
    let (mut damping, mut stalled) = (1e-3, 0);
    for _ in 0..STEPS {
        let Some(step) = here.step(damping) else {
            damping = (damping * 8.0_f64).max(1e-6);
            if damping > 1e12 { break } else { continue }
        };
        let mut next = theta;
        next.iter_mut().zip(step).for_each(|(value, by)| *value -= by);
        let next = within(next, least);
        let value = objective(design, log_losses, huber, &next);
        if value < here.objective {
            let gain = (here.objective - value) / here.objective.max(f64::MIN_POSITIVE);
            stalled = if gain < ENOUGH { stalled + 1 } else { 0 };
            theta = next;
            here = Slopes::at(design, log_losses, huber, &theta);
            damping = (damping / 6.0).max(1e-12);
        } else {
            damping *= 4.0;
        }
        if stalled >= STALLED || damping > 1e12 {
            break;
        }
    }
    (theta, here.objective)
}

/// Keeps numbers where they make sense.
fn within(theta: Theta, least: f64) -> Theta {
    let [e, a, b, alpha, beta] = theta;
    // No term is much larger than the largest loss could be.
    let term = |log: f64| log.clamp(least + FLOOR, least + 10.0);
    let exponent = |power: f64| power.clamp(EXPONENTS.0, EXPONENTS.1);
    [term(e), term(a), term(b), exponent(alpha), exponent(beta)]
}

/// ln L of the three terms, and the part of each.
fn log_sum(theta: &Theta, size: f64, data: f64) -> (f64, [f64; 3]) {
    let &[e, a, b, alpha, beta] = theta;
    let terms = [e, a - alpha * size, b - beta * data];
    let largest = terms.into_iter().fold(f64::MIN, f64::max);
    let parts = terms.map(|term| (term - largest).exp());
    let sum: f64 = parts.iter().sum();
    (largest + sum.ln(), parts.map(|part| part / sum))
}

fn objective(design: &Design, log_losses: &[f64], huber: Huber, theta: &Theta) -> f64 {
    let runs = design.size.iter().zip(&design.data).zip(log_losses);
    runs.map(|((&size, &data), &loss)| huber.loss(log_sum(theta, size, data).0 - loss)).sum()
}

/// The objective with its first and second derivatives.
struct Slopes {
    objective: f64,
    gradient: Theta,
    hessian: Matrix,
    /// The second derivative without what may be negative: the measure of damping.
    scale: Theta,
}

impl Slopes {
    fn at(design: &Design, log_losses: &[f64], huber: Huber, theta: &Theta) -> Self {
        let mut sum = Self { objective: 0.0, gradient: [0.0; 5], hessian: [[0.0; 5]; 5], scale: [0.0; 5] };
        for ((&size, &data), &loss) in design.size.iter().zip(&design.data).zip(log_losses) {
            let (log, [_, second, third]) = log_sum(theta, size, data);
            let residual = log - loss;
            let first = 1.0 - second - third;
            let slope = [first, second, third, -size * second, -data * third];
            let (psi, curvature) = (huber.slope(residual), huber.curvature(residual));
            sum.objective += huber.loss(residual);
            for i in 0..5 {
                sum.gradient[i] += psi * slope[i];
                sum.scale[i] += huber.weight(residual) * slope[i] * slope[i];
                for j in 0..5 {
                    sum.hessian[i][j] += (curvature - psi) * slope[i] * slope[j];
                }
            }
            // What the parts themselves bend: Σ p·g·gᵀ with g the slope of each term.
            sum.hessian[0][0] += psi * first;
            for (i, j, x, part) in [(1, 3, -size, second), (2, 4, -data, third)] {
                sum.hessian[i][i] += psi * part;
                sum.hessian[i][j] += psi * part * x;
                sum.hessian[j][i] += psi * part * x;
                sum.hessian[j][j] += psi * part * x * x;
            }
        }
        sum
    }

    /// The damped step; nothing where the damped matrix is not positive.
    fn step(&self, damping: f64) -> Option<Theta> {
        let mut matrix = self.hessian;
        let most = self.scale.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        for (i, row) in matrix.iter_mut().enumerate() {
            row[i] += damping * self.scale[i].max(1e-9 * most);
        }
        solve(&matrix, &self.gradient)
    }
}

/// Cholesky's solution; nothing for a matrix that is not positive.
fn solve(matrix: &Matrix, right: &Theta) -> Option<Theta> {
    let mut lower = [[0.0; 5]; 5];
    for i in 0..5 {
        for j in 0..=i {
            let known: f64 = (0..j).map(|k| lower[i][k] * lower[j][k]).sum();
            let rest: f64 = matrix[i][j] - known;
            if i != j {
                lower[i][j] = rest / lower[j][j];
            } else if rest > 1e-14 * matrix[i][i].abs() {
                lower[i][i] = rest.sqrt();
            } else {
                return None;
            }
        }
    }
    let mut x = *right;
    for i in 0..5 {
        let known: f64 = (0..i).map(|k| lower[i][k] * x[k]).sum();
        x[i] = (x[i] - known) / lower[i][i];
    }
    for i in (0..5).rev() {
        let known: f64 = (i + 1..5).map(|k| lower[k][i] * x[k]).sum();
        x[i] = (x[i] - known) / lower[i][i];
    }
    x.iter().all(|x| x.is_finite()).then_some(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Observation;

    fn design() -> (Design, Vec<f64>) {
        let runs: Vec<Observation> = (0..12)
            .map(|i| {
                Observation::new(
                    1e5 * 2_f64.powi(i % 4),
                    1e6 * 3_f64.powi(i / 4),
                    2.0 + f64::from(i % 5) / 7.0,
                )
            })
            .collect();
        (Design::new(&runs), runs.iter().map(|run| run.loss.ln()).collect())
    }

    #[test]
    fn derivatives_are_those_of_finite_differences() {
        let (design, losses) = design();
        let theta = [0.3, -0.7, -1.1, 0.4, 0.3];
        for huber in [Huber(1e-2), Huber(10.0)] {
            let here = Slopes::at(&design, &losses, huber, &theta);
            for i in 0..5 {
                let moved = |by: f64| {
                    let mut theta = theta;
                    theta[i] += by;
                    Slopes::at(&design, &losses, huber, &theta)
                };
                let (above, below, width) = (moved(1e-6), moved(-1e-6), 2e-6);
                let gradient = (above.objective - below.objective) / width;
                assert!((gradient - here.gradient[i]).abs() < 1e-7, "{i}: {gradient} {:?}", here.gradient);
                for j in 0..5 {
                    let second = (above.gradient[j] - below.gradient[j]) / width;
                    assert!((second - here.hessian[i][j]).abs() < 1e-6, "{i} {j}: {second}");
                }
            }
        }
    }

    #[test]
    fn a_matrix_that_is_not_positive_is_refused() {
        let mut matrix = [[0.0; 5]; 5];
        (0..5).for_each(|i| matrix[i][i] = 1.0 + i as f64);
        let x = solve(&matrix, &[1.0, 4.0, 9.0, 16.0, 25.0]).unwrap();
        assert!(x.iter().enumerate().all(|(i, x)| (x - (i + 1) as f64).abs() < 1e-12), "{x:?}");
        matrix[2][2] = -1.0;
        assert_eq!(solve(&matrix, &[1.0; 5]), None);
        matrix[2][2] = f64::NAN;
        assert_eq!(solve(&matrix, &[1.0; 5]), None);
    }
}
