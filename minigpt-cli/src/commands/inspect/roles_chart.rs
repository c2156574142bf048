//! What heads learn over a run, as a picture; pictures are in English.

use minigpt_charts::{Curve, LineChart, Point, Quantity};
use minigpt_insight::{Development, SnapshotRoles};

/// The best scores and the loss on what is repeated, by step: shares of 1, so that one axis serves all.
pub fn chart(development: &Development) -> LineChart {
    let points = |value: &dyn Fn(&SnapshotRoles) -> f64| {
        let at = development.snapshots.iter().filter(|at| at.step > 0);
        at.map(|at| (at.step as f64, value(at))).collect::<Vec<Point>>()
    };
    let first = development.snapshots.first().map_or(1.0, |at| at.roles.copying.second_half_loss);
    let curve =
        |name: &str, marked, rises| Curve { name: name.to_owned(), marked, rises, ..Curve::default() };
    let heads = development.snapshots.first().map_or(0, |at| at.roles.heads.len());
    LineChart {
        title: "What heads learn, and what it is worth".to_owned(),
        subtitle: format!(
            "on repeated random tokens: the best of {heads} heads, and the loss on the second half as a part of what it was at first"
        ),
        x: Quantity { units: &[(1.0, "step")], whole: true },
        y: "score, part of the loss",
        noisy: "",
        marked: "",
        curves: vec![
            curve("induction score", points(&|at| at.best_induction), true),
            curve("previous-token score", points(&|at| at.best_previous), true),
            curve("second-half loss", points(&|at| at.roles.copying.second_half_loss / first), false),
        ],
    }
}
