//! Sweeps: the same text learned by models of several sizes from several amounts of it, so that a scaling law can be fitted.
//!
//! A [`SweepPlan`] says which runs fit into a time, a [`Sweep`] is the folder in which they are trained, each a run folder like
//! any other. `runs.csv` in it is what `minigpt_scaling` reads, `sweep.json` says what the sweep is.
//!
//! In reading order: `sizes` (which models, and at which rate each learns), `speed` (how fast they are here, and whether side by
//! side is faster), `plan` (which runs fit), `folder` (what is kept), `running` (training them).

mod error;
mod folder;
mod plan;
mod running;
mod sizes;
mod speed;

pub use error::SweepError;
pub use folder::{Sweep, SweepRow};
pub use plan::{Budget, PlannedRun, SweepOptions, SweepPlan};
pub use running::{SweepEnd, SweepEvent, SweepObserver};
pub use sizes::SweepSize;
