//! What a chart of points over a logarithmic axis is: series of points, each with a line that need not go through them, as a law
//! and the measurements that it was fitted to.

use crate::points::Point;
use crate::xy_svg;

/// Series of points over an axis of powers of ten.
#[derive(Debug, Clone, Default)]
pub struct XyChart {
    /// Stands on top.
    pub title: String,
    /// Stands below the title.
    pub subtitle: String,
    /// What is to the right.
    pub x: String,
    /// What is upward.
    pub y: String,
    /// Heights that a line is drawn at from side to side.
    pub levels: Vec<f64>,
    /// What to show.
    pub series: Vec<Series>,
}

/// Points of one colour, and a line. What is not finite, or not above zero to the right, is left out.
#[derive(Debug, Clone, Default)]
pub struct Series {
    /// What the legend calls it.
    pub name: String,
    /// Each is drawn as a dot.
    pub dots: Vec<Point>,
    /// Drawn as a line.
    pub line: Vec<Point>,
    /// A part of that line to be drawn dashed, because nothing was measured there.
    pub dashed: Vec<Point>,
    /// A place to point at.
    pub callout: Option<Callout>,
}

/// A place with a word beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct Callout {
    /// Where.
    pub at: Point,
    /// From where to where it may be, to the right.
    pub range: Option<(f64, f64)>,
    /// What to say.
    pub text: String,
}

impl XyChart {
    /// One SVG file that needs nothing else, for light and dark pages.
    pub fn svg(&self) -> String {
        xy_svg::draw(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_points() -> impl Strategy<Value = Vec<Point>> {
        let number = || prop_oneof![any::<f64>(), 0.1..12.0_f64, Just(2.0)];
        proptest::collection::vec((number(), number()), 0..20)
    }

    proptest! {
        #[test]
        fn any_numbers_at_all_make_a_sound_picture(
            dots in any_points(), line in any_points(), dashed in any_points(), at in (any::<f64>(), any::<f64>()),
        ) {
            let callout = Some(Callout { at, range: Some(at), text: "<here>".to_owned() });
            let series = Series { name: "a & b".to_owned(), dots, line, dashed, callout };
            let chart = XyChart { series: vec![series.clone(), series], levels: vec![0.0, at.1], ..XyChart::default() };
            let svg = chart.svg();
            prop_assert!(svg.len() < 200_000 && svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
            prop_assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains("<here>"), "{}", svg);
        }
    }

    #[test]
    fn series_have_colours_names_and_places_to_point_at() {
        let series = |name: &str, at: f64| Series {
            name: name.to_owned(),
            dots: vec![(1e5, at), (1e6, at - 0.5)],
            line: vec![(1e5, at), (1e6, at - 0.4)],
            callout: Some(Callout { at: (3e5, at), range: Some((2e5, 4e5)), text: "best".to_owned() }),
            ..Series::default()
        };
        let chart = XyChart {
            title: "Loss".to_owned(),
            x: "tokens".to_owned(),
            y: "loss".to_owned(),
            series: vec![series("small", 3.0), series("large", 2.5)],
            ..XyChart::default()
        };
        let svg = chart.svg();
        for part in
            [">small<", ">large<", ">tokens<", ">200 k<", ">best<", "class=\"line s1\"", "class=\"f1\""]
        {
            assert!(svg.contains(part), "{part} is not in {svg}");
        }
        assert!(XyChart::default().svg().ends_with("</svg>\n"));
    }
}
