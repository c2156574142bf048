//! Loops that the compiler turns into vector instructions, compiled once for each instruction set and chosen at run
//! time, and the few functions (`exp`, `tanh`, `erf`) that it can't vectorise by itself.
//!
//! Everything here is plain Rust over fixed groups of lanes: the same source is the portable path and the fast one.

use crate::cpu;

/// Independent partial results in a reduction: wide enough to fill two AVX2 registers.
const LANES: usize = 16;

/// Runs `f` compiled for the best instruction set of this CPU, or for the plainest one when the environment
/// variable `MINIGPT_FORCE_PORTABLE` is set. `f` and all that it calls must be `#[inline(always)]` or closures.
pub fn vectorized<R>(f: impl FnOnce() -> R) -> R {
    cpu::pulp_arch().dispatch(f)
}

/// The sum of `f(a, b)` over pairs of elements.
#[inline(always)]
pub fn sum2(a: &[f32], b: &[f32], f: impl Fn(f32, f32) -> f32) -> f32 {
    let (a_lanes, a_rest) = a.as_chunks::<LANES>();
    let (b_lanes, b_rest) = b[..a.len()].as_chunks::<LANES>();
    let mut acc = [0f32; LANES];
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for i in 0..LANES {
            acc[i] += f(a[i], b[i]);
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(&a, &b)| f(a, b)).sum();
    fold(acc, |a, b| a + b) + rest
}

/// The sum of `f(a)` over all elements.
#[inline(always)]
pub fn sum(a: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    sum2(a, a, |x, _| f(x))
}

/// The largest element; negative infinity when there is none, NaN when any is NaN.
#[inline(always)]
pub fn max(a: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if b > a || b.is_nan() { b } else { a };
    let (lanes, rest) = a.as_chunks::<LANES>();
    let mut acc = [f32::NEG_INFINITY; LANES];
    for chunk in lanes {
        for i in 0..LANES {
            acc[i] = larger(acc[i], chunk[i]);
        }
    }
    rest.iter().fold(fold(acc, larger), |a, &b| larger(a, b))
}

/// Combines the lanes as a tree, in an order that never changes.
#[inline(always)]
fn fold(mut acc: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            acc[i] = f(acc[i], acc[i + width]);
        }
        width /= 2;
    }
    acc[0]
}

/// `a · b + c`: in one instruction where every CPU that this build runs on has it, otherwise in two.
#[inline(always)]
pub fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
    if cpu::ALWAYS_FMA { a.mul_add(b, c) } else { a * b + c }
}

/// The polynomial with these coefficients, the one of the highest power first.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[0];
    for coefficient in &coefficients[1..] {
        sum = multiply_add(sum, x, *coefficient);
    }
    sum
}

/// `e^x` within two units in the last place; zero below the smallest normal number; NaN stays NaN.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // x = n ln 2 + r with |r| ≤ ln 2 / 2, then a polynomial for e^r and n put into the exponent. Adding 1.5·2^23
    // rounds to the nearest integer and leaves it in the low bits.
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let inside = x.clamp(-87.3, 88.7);
    let shifted = multiply_add(inside, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = multiply_add(-n, LN_2_LOW, multiply_add(-n, LN_2_HIGH, inside));
    let p = polynomial(
        r,
        [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_58e-2, 1.666_666_5e-1, 0.5, 1.0, 1.0],
    );
    // n = 128 does not fit the exponent, so the power is applied in two halves.
    let half = |bits: u32| f32::from_bits(bits.wrapping_add(127) << 23);
    let whole = shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    let low = whole >> 1;
    let y = p * half(low as u32) * half((whole - low) as u32);
    if x < -87.3 { 0.0 } else { y }
}

/// `tanh x`, absolute error below 2·10⁻⁷.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    1.0 - 2.0 / (exp(2.0 * x) + 1.0)
}

/// `erf x`, absolute error below 4·10⁻⁷: a rational approximation on [-4, 4], beyond which it is ±1 in f32.
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    let x = x.clamp(-4.0, 4.0);
    let s = x * x;
    let p = polynomial(
        s,
        [
            -2.726_142_3e-10,
            2.770_681_5e-8,
            -2.101_024e-6,
            -5.692_506_5e-5,
            -7.349_906_4e-4,
            -2.954_6e-3,
            -1.609_603_3e-2,
        ],
    );
    let q =
        polynomial(s, [-1.456_607_2e-5, -2.133_740_6e-4, -1.682_827e-3, -7.373_329_3e-3, -1.426_473_9e-2]);
    x * p / q
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_two_ulp_of_the_real_one() {
        for i in -873_000..887_000 {
            let x = i as f32 * 1e-4;
            let want = f64::from(x).exp();
            let error = ((f64::from(exp(x)) - want) / want).abs();
            assert!(error < 2.4e-7, "exp({x}): relative error {error}");
        }
    }

    #[test]
    fn exp_at_the_edges() {
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(-1e30), 0.0);
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(f32::NAN).is_nan());
        assert!(exp(1e30) > 1e38);
    }

    #[test]
    fn tanh_and_erf_stay_close_to_the_real_ones() {
        for i in -60_000..60_000 {
            let x = i as f32 * 1e-4;
            assert!((f64::from(tanh(x)) - f64::from(x).tanh()).abs() < 2e-7, "tanh({x})");
            let want = candle_core::cpu::erf::erf_f64(f64::from(x));
            assert!((f64::from(erf(x)) - want).abs() < 4e-7, "erf({x}) = {} not {want}", erf(x));
        }
    }

    #[test]
    fn reductions_cover_every_element_of_any_length() {
        for n in [0, 1, 15, 16, 17, 31, 32, 33, 100] {
            let a: Vec<f32> = (0..n).map(|i| i as f32 - 7.0).collect();
            assert_eq!(sum(&a, |x| x), a.iter().sum::<f32>());
            assert_eq!(max(&a), a.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        }
        assert!(max(&[1.0, f32::NAN, 2.0]).is_nan());
    }
}
