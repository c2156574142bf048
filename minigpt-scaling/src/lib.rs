//! Scaling laws from training runs: what more parameters or more data would buy.
//!
//! Give [`ScalingFit::new`] some [`Observation`]s (or read them from a table with [`RunTable`]) and it fits the [`Law`]
//! L(N, D) = E + A·N^(−α) + B·D^(−β), with an interval for every number and an error on runs that it has not seen. `predict`, `best_model`, `gain`
//! and `isoflops` ask it questions, `loss_chart`, `isoflop_chart` and `residual_chart` draw it. [`RepeatedFit`] is for data that was seen more than
//! once, [`expected_loss`] for the law that others have published.
//!
//! In reading order: `law` → `observation` → `design` and `huber` → `projection` (where to begin) → `levenberg` (the fit) → `fit` (with the bootstrap) →
//! `interval` → `held_out` → `predict`, `isoflop`, `repeated`, `published` → `pictures`. It knows no tensors, no files and no training.
//!
//! ```
//! use minigpt_scaling::{FitOptions, Law, Observation, ScalingFit};
//!
//! let truth = Law { e: 1.2, a: 30.0, b: 150.0, alpha: 0.35, beta: 0.4 };
//! let sizes = [1e4, 3e4, 1e5, 3e5].into_iter().flat_map(|n| [1e5, 3e5, 1e6].map(|d| (n, d)));
//! let runs: Vec<Observation> = sizes.map(|(n, d)| Observation::new(n, d, truth.loss(n, d))).collect();
//! let fit = ScalingFit::new(&runs, &FitOptions { draws: 20, ..FitOptions::default() })?;
//! let larger = fit.predict(1e6, 2e6).expect("sizes span a factor of 30, tokens one of 10");
//! assert!((larger.loss.value - truth.loss(1e6, 2e6)).abs() < 0.01 && !larger.extrapolation);
//! # Ok::<(), minigpt_scaling::Error>(())
//! ```

mod design;
mod error;
mod fit;
mod held_out;
mod huber;
mod interval;
mod isoflop;
mod law;
mod levenberg;
mod observation;
mod pictures;
mod predict;
mod projection;
mod published;
mod random;
mod repeated;

pub use error::{Error, LineProblem, Result};
pub use fit::{DeltaSource, FEWEST_RUNS, FEWEST_SIZES, FitOptions, LawIntervals, ScalingFit};
pub use held_out::{HeldOut, HeldOutErrors};
pub use interval::{Estimate95, Interval, Undetermined};
pub use isoflop::{IsoFlop, IsoMinimum, Towards};
pub use law::{FLOPS, Law, LossTerms, flops};
pub use observation::{Condition, Observation, RunColumns, RunTable, by_size, seed_noise};
pub use predict::{BestModel, Doubling, FARTHEST, NARROWEST, Prediction};
pub use published::{CHINCHILLA, ExpectedLoss, Publication, Withheld, expected_loss};
pub use repeated::{MUENNIGHOFF, RepeatedFit, RepeatedLaw};
