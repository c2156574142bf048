//! The points of a line: what is finite, smoothed against noise, and thinned to what can be seen.

/// Where on the horizontal axis, and how high.
pub type Point = (f64, f64);

/// Beyond this a number is as good as infinite.
const FINITE: f64 = 1e30;

/// The lowest and the highest of some numbers.
pub(crate) fn ends(numbers: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    numbers.map(|x| (x, x)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// The points that a chart can show.
pub(crate) fn finite(points: &[Point]) -> Vec<Point> {
    let shown = |&&(x, y): &&Point| (0.0..FINITE).contains(&x) && y.abs() < FINITE;
    points.iter().filter(shown).copied().collect()
}

/// At each of at most `count` places, the height of a straight line fitted to the points around it, near ones
/// counting most. That neither lags behind nor bends at the ends, as a running mean would. The first points, where
/// a loss falls fastest, are smoothed over the fewest neighbours.
pub(crate) fn smoothed(points: &[Point], count: usize) -> Vec<Point> {
    let places = points.len().min(count.max(2));
    let place = |i: usize| if places < 2 { 0 } else { i * (points.len() - 1) / (places - 1) };
    let around = |i: usize| (i / 2).min(points.len() / 10);
    (0..places).map(place).map(|i| (points[i].0, fitted(points, i, around(i)))).collect()
}

/// The height at point `i` of the line through its `2 * around` neighbours, weighted by nearness. Where there are
/// fewer than half of them on the right, more are taken on the left.
fn fitted(points: &[Point], i: usize, around: usize) -> f64 {
    let end = (i + around + 1).min(points.len());
    let start = end.saturating_sub(2 * around + 1);
    let beyond = (i - start + 1).max(end - i) as f64;
    let (mut w, mut wx, mut wxx, mut wy, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    let (mut low, mut high) = (f64::MAX, f64::MIN);
    for (j, &(_, y)) in (start..).zip(&points[start..end]) {
        let x = (j as f64 - i as f64) / beyond;
        let weight = (1.0 - x.abs().powi(3)).powi(3);
        (low, high) = (low.min(y), high.max(y));
        w += weight;
        wx += weight * x;
        wxx += weight * x * x;
        wy += weight * y;
        wxy += weight * x * y;
    }
    let spread = w * wxx - wx * wx;
    let height = if spread > 1e-9 { (wxx * wy - wx * wxy) / spread } else { wy / w };
    // Beside a cliff the line points beyond all that was measured.
    height.clamp(low, high)
}

/// The lowest and the highest point of each of `columns` parts of the axis, so that no spike is lost.
pub(crate) fn envelope(points: &[Point], columns: usize) -> Vec<Point> {
    if points.len() <= 2 * columns {
        return points.to_vec();
    }
    let extremes = |part: &[Point]| {
        let by_height = |a: &usize, b: &usize| part[*a].1.total_cmp(&part[*b].1);
        let (low, high) = ((0..part.len()).min_by(by_height), (0..part.len()).max_by(by_height));
        let mut both: Vec<usize> = low.into_iter().chain(high).collect();
        both.sort_unstable();
        both.dedup();
        both.into_iter().map(|i| part[i]).collect::<Vec<_>>()
    };
    parts(points, columns).flat_map(extremes).collect()
}

/// The lowest point of each of `columns` parts of the axis, and the ends.
pub(crate) fn lowest(points: &[Point], columns: usize) -> Vec<Point> {
    let [first, inner @ .., last] = points else { return points.to_vec() };
    if points.len() <= columns {
        return points.to_vec();
    }
    let low = |part: &[Point]| part.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1));
    let inner = parts(inner, columns.saturating_sub(2).max(1)).filter_map(low);
    std::iter::once(*first).chain(inner).chain([*last]).collect()
}

/// Cuts points into at most `columns` parts of as many points each.
fn parts(points: &[Point], columns: usize) -> impl Iterator<Item = &[Point]> {
    points.chunks(points.len().div_ceil(columns).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(heights: impl IntoIterator<Item = f64>) -> Vec<Point> {
        heights.into_iter().enumerate().map(|(i, y)| (i as f64, y)).collect()
    }

    #[test]
    fn a_straight_line_stays_where_it_is() {
        let points = line((0..200).map(|i| 5.0 - f64::from(i) / 50.0));
        for (smooth, point) in smoothed(&points, 200).iter().zip(&points) {
            assert!((smooth.1 - point.1).abs() < 1e-9, "{smooth:?} {point:?}");
        }
    }

    #[test]
    fn noise_is_taken_away_and_the_first_loss_is_kept() {
        let noise = |i: usize| if i.is_multiple_of(2) { 0.5 } else { -0.5 };
        let points = line((0..1000).map(|i| 2.0 + noise(i)));
        let smooth = smoothed(&points, 100);
        assert_eq!((smooth.len(), smooth[0], smooth[99].0), (100, points[0], 999.0));
        assert!(smooth[10..].iter().all(|point| (point.1 - 2.0).abs() < 0.05), "{smooth:?}");
    }

    #[test]
    fn thinning_keeps_spikes_ends_and_the_best() {
        let mut points = line((0..10_000).map(|_| 2.0));
        (points[5003].1, points[7001].1) = (9.0, 1.0);
        let thin = envelope(&points, 300);
        assert!(thin.len() <= 600 && thin.contains(&points[5003]) && thin.contains(&points[7001]));
        assert!(thin.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let thin = lowest(&points, 50);
        assert!(thin.len() <= 50 && thin.contains(&points[7001]));
        assert_eq!((thin[0], *thin.last().unwrap()), (points[0], points[9999]));
        assert_eq!(lowest(&points[..3], 2).len(), 3);
    }

    #[test]
    fn what_is_not_finite_is_no_point() {
        let heights = [2.0, f64::NAN, f64::INFINITY, 1e300, 1.0];
        assert_eq!(finite(&line(heights)), [(0.0, 2.0), (4.0, 1.0)]);
        assert_eq!(finite(&[(-1.0, 1.0), (f64::NAN, 1.0), (0.0, -1.0)]), [(0.0, -1.0)]);
    }
}
