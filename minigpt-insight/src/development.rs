//! Over training: the same question put to every kept snapshot of a run, and the steps at which the answers change most.

use crate::detection::Detections;
use crate::error::Result;
use crate::repeated::{RepeatOptions, RepeatedTokens};
use crate::roles::{HeadRole, HeadRoles, RoleScores, head_roles_with, scores};
use crate::subject::Subject;
use minigpt_model::{Config, Gpt};
use serde::Serialize;

/// The rise of a score is the stretch in which it passes from this part of it …
const BEGUN: f64 = 0.25;
/// … to this one.
const DONE: f64 = 0.75;
/// The loss changed together with the score if it lost this part of what it was, in that stretch.
const FALL: f64 = 0.25;
/// How far the best induction score must rise over all for it to be an appearance at all.
const RISE: f64 = crate::roles::ROLE_MARGIN;

/// What heads do, snapshot by snapshot.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Development {
    /// By step.
    pub snapshots: Vec<SnapshotRoles>,
    /// When induction heads appeared, if they did.
    pub induction: Option<Appearance>,
}

/// What heads do after a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SnapshotRoles {
    /// The step.
    pub step: u64,
    /// The largest induction score of any head.
    pub best_induction: f64,
    /// The largest previous-token score of any head.
    pub best_previous: f64,
    /// All scores.
    #[serde(flatten)]
    pub roles: HeadRoles,
}

/// The stretch of a run in which induction heads appeared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Appearance {
    /// From the last snapshot with less than a quarter of the rise of the best induction score to the first with three quarters.
    pub steps: (u64, u64),
    /// The best induction score at both.
    pub induction: (f64, f64),
    /// The loss on the second half of repeated tokens at both.
    pub loss: (f64, f64),
    /// Whether the loss fell by at least a quarter in the same stretch.
    pub together: bool,
}

/// Measures snapshot after snapshot on the same tokens, against one baseline.
pub struct DevelopmentProbe {
    repeated: RepeatedTokens,
    baseline: Vec<(RoleScores, Detections)>,
    snapshots: Vec<SnapshotRoles>,
}

impl DevelopmentProbe {
    /// For models of a configuration.
    pub fn new(config: &Config, options: RepeatOptions) -> Result<Self> {
        let fresh = Gpt::new(config.clone(), options.seed, &minigpt_model::Device::Cpu)?;
        let subject = Subject::new(&fresh);
        let repeated = RepeatedTokens::for_model(&subject, options)?;
        let (baseline, _) = scores(&subject, &repeated)?;
        Ok(Self { repeated, baseline, snapshots: Vec::new() })
    }

    /// Adds the snapshot of a step; steps come in order.
    pub fn add(&mut self, step: u64, subject: &Subject) -> Result<()> {
        let roles = head_roles_with(subject, self.repeated.clone(), &self.baseline)?;
        let best = |score: fn(&RoleScores) -> f64| {
            roles.heads.iter().map(|head| score(&head.scores)).fold(0.0, f64::max)
        };
        let (best_induction, best_previous) =
            (best(|scores| scores.induction), best(|scores| scores.previous));
        self.snapshots.push(SnapshotRoles { step, best_induction, best_previous, roles });
        Ok(())
    }

    /// What came of it.
    pub fn finish(self) -> Development {
        let points: Vec<Point> = self
            .snapshots
            .iter()
            .map(|at| (at.step, at.best_induction, at.roles.copying.second_half_loss))
            .collect();
        let any =
            |role| self.snapshots.iter().flat_map(|at| &at.roles.heads).any(|head| head.role == Some(role));
        let induction = any(HeadRole::Induction).then(|| appearance(&points)).flatten();
        Development { snapshots: self.snapshots, induction }
    }
}

/// A snapshot in three numbers: step, score, loss.
type Point = (u64, f64, f64);

/// Where the score rose, and what became of the loss meanwhile.
fn appearance(points: &[Point]) -> Option<Appearance> {
    let first = points.first()?.1;
    let rise = points.iter().map(|point| point.1 - first).fold(0.0, f64::max);
    if rise < RISE {
        return None;
    }
    let done = points.iter().position(|point| point.1 - first >= DONE * rise)?;
    let begun = points[..done].iter().rposition(|point| point.1 - first <= BEGUN * rise)?;
    let (from, to) = (points[begun], points[done]);
    let together = to.2 <= (1.0 - FALL) * from.2;
    Some(Appearance { steps: (from.0, to.0), induction: (from.1, to.1), loss: (from.2, to.2), together })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sudden_rise_is_found_and_a_flat_line_is_not() {
        let points = [(0, 0.02, 4.0), (5, 0.3, 3.9), (10, 0.03, 4.0), (30, 0.6, 2.0), (100, 0.8, 1.8)];
        let found = appearance(&points).unwrap();
        assert_eq!((found.steps, found.induction, found.loss), ((10, 100), (0.03, 0.8), (4.0, 1.8)));
        assert!(found.together);
        assert_eq!(appearance(&[(0, 0.02, 4.0), (10, 0.05, 3.0)]), None);
        assert_eq!(appearance(&[(0, 0.02, 4.0)]), None);
        let apart = [(0, 0.0, 4.0), (1, 0.5, 4.0), (2, 0.5, 4.0), (3, 0.5, 1.0)];
        assert!(!appearance(&apart).unwrap().together);
    }

    #[test]
    fn a_run_of_fresh_models_has_no_induction() {
        let shape =
            Config { n_layer: 1, n_head: 2, n_embd: 8, block_size: 16, vocab_size: 10, ..Config::default() };
        let mut probe = DevelopmentProbe::new(&shape, RepeatOptions::default()).unwrap();
        for step in [0, 5] {
            let gpt = Gpt::new(shape.clone(), step, &minigpt_model::Device::Cpu).unwrap();
            probe.add(step, &Subject::new(&gpt)).unwrap();
        }
        let development = probe.finish();
        assert_eq!(development.snapshots.len(), 2);
        assert_eq!(development.induction, None);
    }
}
