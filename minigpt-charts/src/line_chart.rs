//! What a line chart is: curves over one quantity, each with a noisy measure and a rarer one to trust. The heights are
//! something that should fall, as a loss does: the lowest is the best.

use crate::axis::{Quantity, Scale};
use crate::points::{Point, ends, finite, smoothed};
use crate::{line_svg, line_terminal};

/// Curves to compare, or one to look at closely.
///
/// One curve shows every noisy point faintly, their smoothed line, and the marked points. Several have a colour each.
#[derive(Debug, Clone)]
pub struct LineChart {
    /// Stands on top.
    pub title: String,
    /// Stands below the title.
    pub subtitle: String,
    /// What is to the right.
    pub x: Quantity,
    /// What is upward, in a word.
    pub y: &'static str,
    /// What the noisy points of every curve are, in a word.
    pub noisy: &'static str,
    /// What the marked points of every curve are, in a word.
    pub marked: &'static str,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// One curve of a chart. What is not finite in it is left out.
#[derive(Debug, Clone, Default)]
pub struct Curve {
    /// What the legend calls it.
    pub name: String,
    /// Many points with noise in their heights.
    pub noisy: Vec<Point>,
    /// Fewer points, each of which is drawn.
    pub marked: Vec<Point>,
    /// Whether high is good: the best is then the highest.
    pub rises: bool,
}

impl LineChart {
    /// One SVG file that needs nothing else, for light and dark pages.
    pub fn svg(&self) -> String {
        line_svg::draw(self)
    }

    /// A picture of text for a terminal of so many columns (40 or more), at most 80 wide; nothing without a point. One
    /// curve shows both of its lines. Several show one each: the marked points if all have some, else the noisy ones.
    /// Without colours, the lines of several curves are letters.
    pub fn terminal(&self, columns: usize, colours: bool) -> String {
        line_terminal::draw(self, columns, colours)
    }

    /// The lines of all curves, the smoothed ones with at most `points` points each.
    pub(crate) fn lines(&self, points: usize) -> Vec<Lines> {
        self.curves.iter().map(|curve| Lines::of(curve, points)).collect()
    }

    pub(crate) fn across(&self, end: f64) -> Scale {
        Scale::across(self.x, end)
    }
}

/// The lines of one curve.
pub(crate) struct Lines {
    /// Every noisy point.
    pub noisy: Vec<Point>,
    /// The same without the noise.
    pub smoothed: Vec<Point>,
    /// Every marked point.
    pub marked: Vec<Point>,
    rises: bool,
}

impl Lines {
    fn of(curve: &Curve, points: usize) -> Self {
        let noisy = finite(&curve.noisy);
        Lines { smoothed: smoothed(&noisy, points), noisy, marked: finite(&curve.marked), rises: curve.rises }
    }

    /// How far to the right the curve reaches.
    pub fn end(&self) -> f64 {
        self.noisy.iter().chain(&self.marked).map(|point| point.0).fold(0.0, f64::max)
    }

    /// The lowest marked point, or the highest where high is good; the first one of equals.
    pub fn best(&self) -> Option<Point> {
        let badness = |point: &Point| if self.rises { -point.1 } else { point.1 };
        self.marked.iter().copied().min_by(|a, b| badness(a).total_cmp(&badness(b)))
    }

    /// What is more than twice as high as the curve began is of no interest: a curve that ran away would leave nothing
    /// to see of the others. `None` for a curve without points.
    pub fn ceiling(&self) -> Option<f64> {
        let began = self.noisy.iter().take(10).chain(self.marked.first());
        began.map(|point| point.1).reduce(f64::max).map(|began| began + began.abs().max(1.0))
    }

    /// The lowest and the highest that a picture must show; a few outliers may leave it.
    pub fn heights(&self) -> Option<(f64, f64)> {
        let ceiling = self.ceiling()?;
        let mut heights: Vec<f64> = self.noisy.iter().map(|point| point.1).collect();
        heights.sort_by(f64::total_cmp);
        let outliers = heights.len() / 200;
        let usual = heights[outliers..heights.len() - outliers].iter().copied();
        let lines = self.smoothed.iter().chain(&self.marked).map(|point| point.1);
        ends(usual.chain(lines).map(|height| height.min(ceiling)))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub const STEPS: Quantity = Quantity { units: &[(1.0, "step")], whole: true };
    pub const TIME: Quantity = Quantity { units: &[(1.0, "seconds"), (60.0, "minutes")], whole: false };

    pub fn chart(x: Quantity, curves: &[Curve]) -> LineChart {
        LineChart {
            title: "Loss".to_owned(),
            subtitle: "of a run".to_owned(),
            x,
            y: "loss",
            noisy: "training",
            marked: "validation",
            curves: curves.to_vec(),
        }
    }

    /// A curve that falls, with some noise and a mark at every tenth point.
    pub fn falling(name: &str, points: u32, floor: f64) -> Curve {
        let height = |i: u32| floor + 3.0 / (1.0 + f64::from(i) / 8.0).sqrt();
        let noisy = |i: u32| (f64::from(i * 10), height(i) + f64::from((i * 7919) % 101) / 500.0);
        let marked = |i: u32| (f64::from(i * 10), height(i) + 0.1);
        Curve {
            name: name.to_owned(),
            noisy: (1..=points).map(noisy).collect(),
            marked: (1..=points / 10).map(|i| marked(10 * i)).collect(),
            rises: false,
        }
    }

    /// A curve of one point.
    pub fn single(noisy: f64, marked: Option<f64>) -> Curve {
        let marked = marked.into_iter().map(|height| (1.0, height)).collect();
        Curve { name: "run".to_owned(), noisy: vec![(1.0, noisy)], marked, rises: false }
    }

    #[test]
    fn a_curve_that_ran_away_does_not_squeeze_the_rest() {
        let heights = (0..50).map(|_| 4.0).chain((0..50).map(|i| 10_f64.powi(i)));
        let noisy = heights.enumerate().map(|(i, height)| (i as f64, height)).collect();
        let lines = Lines::of(&Curve { noisy, ..Curve::default() }, 100);
        assert_eq!(lines.heights(), Some((1.0, 8.0)));
        assert_eq!(Lines::of(&Curve::default(), 100).heights(), None);
        assert_eq!(Lines::of(&single(f64::NAN, None), 100).heights(), None);
    }

    fn any_points() -> impl Strategy<Value = Vec<Point>> {
        let number = || prop_oneof![any::<f64>(), 0.0..12.0_f64, Just(2.0)];
        proptest::collection::vec((number(), number()), 0..40)
    }

    proptest! {
        #[test]
        fn any_numbers_at_all_make_a_sound_picture(
            noisy in any_points(),
            marked in any_points(),
            x in prop_oneof![Just(STEPS), Just(TIME)],
        ) {
            let curve = Curve { name: "run".to_owned(), noisy, marked, rises: false };
            for curves in [vec![curve.clone()], vec![curve.clone(), curve]] {
                let chart = chart(x, &curves);
                let svg = chart.svg();
                prop_assert!(svg.len() < 200_000);
                prop_assert!(!svg.contains("NaN") && !svg.contains("inf"), "{}", svg);
                chart.terminal(80, false);
            }
        }
    }
}
