//! What heads do: on random tokens that repeat, does a head look at the token before, at the same token before, or behind the
//! same token before? Each score stands beside that of a model with fresh weights; a role is named only where a head beats
//! it by a margin.

use crate::attention::each_layer_of_rows;
use crate::copying::{Copying, copied, losses};
use crate::detection::Detections;
use crate::error::Result;
use crate::repeated::{RepeatOptions, RepeatedTokens};
use crate::subject::{Subject, floats};
use minigpt_model::Gpt;
use serde::Serialize;

/// By how much a head must beat its baseline for a role to be named.
pub const ROLE_MARGIN: f64 = 0.3;

/// What every head of a model does on repeated random tokens.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeadRoles {
    /// By layer and head.
    pub heads: Vec<HeadScores>,
    /// By how much a head must beat its baseline for a role to be named.
    pub margin: f64,
    /// How well the model repeats what it has read once.
    pub copying: Copying,
    /// The tokens on which all of this was measured.
    pub repeated: RepeatedTokens,
}

/// What one head does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeadScores {
    /// The layer.
    pub layer: usize,
    /// The head.
    pub head: usize,
    /// The three scores.
    #[serde(flatten)]
    pub scores: RoleScores,
    /// The same of a model with fresh weights.
    pub baseline: RoleScores,
    /// What the head does, if it beats the baseline by the margin.
    pub role: Option<HeadRole>,
    /// How well it matches whole patterns: the second opinion.
    pub detect_head: Detections,
    /// What the head adds to the logit of the token that comes when the text repeats, over what it adds to a token on average:
    /// the mean over the second half. None where attribution is not defined.
    pub copied: Option<f64>,
}

/// Shares of attention, means over queries q, with tokens repeating at distance L.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct RoleScores {
    /// On the token before: A\[q, q − 1\], over all queries but the first.
    pub previous: f64,
    /// On the same token before: A\[q, q − L\], over the second half.
    pub duplicate: f64,
    /// Behind the same token before, where stands what comes next: A\[q, q − L + 1\], over the second half.
    pub induction: f64,
}

/// What a head does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadRole {
    /// Looks at the token before.
    Previous,
    /// Looks at the same token before.
    Duplicate,
    /// Looks behind the same token before.
    Induction,
}

impl RoleScores {
    /// Of a head's weights (T, T) on tokens that repeat at a distance.
    fn of(pattern: &[f32], t: usize, distance: usize) -> Self {
        let mean = |queries: std::ops::Range<usize>, back: usize| {
            let n = queries.len() as f64;
            queries.map(|q| f64::from(pattern[q * t + q - back])).sum::<f64>() / n
        };
        Self {
            previous: mean(1..t, 1),
            duplicate: mean(distance..t, distance),
            induction: mean(distance..t, distance - 1),
        }
    }

    fn add(&mut self, other: &Self, share: f64) {
        self.previous += share * other.previous;
        self.duplicate += share * other.duplicate;
        self.induction += share * other.induction;
    }

    /// The role in which a head beats its baseline by most, if that is by the margin.
    pub fn role(&self, baseline: &Self) -> Option<HeadRole> {
        let over = [
            (HeadRole::Previous, self.previous - baseline.previous),
            (HeadRole::Duplicate, self.duplicate - baseline.duplicate),
            (HeadRole::Induction, self.induction - baseline.induction),
        ];
        let best = over.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
        best.filter(|(_, over)| *over >= ROLE_MARGIN).map(|(role, _)| role)
    }
}

/// What every head of a model does on tokens that repeat.
pub fn head_roles(subject: &Subject, options: RepeatOptions) -> Result<HeadRoles> {
    let repeated = RepeatedTokens::for_model(subject, options)?;
    // The fresh model is dropped before the other is run.
    let baseline = {
        let fresh = Gpt::new(subject.config().clone(), options.seed, subject.gpt.device())?;
        scores(&Subject::new(&fresh), &repeated)?.0
    };
    head_roles_with(subject, repeated, &baseline)
}

/// The same on given tokens, with the scores of a baseline by layer and head.
pub(crate) fn head_roles_with(
    subject: &Subject,
    repeated: RepeatedTokens,
    baseline: &[(RoleScores, Detections)],
) -> Result<HeadRoles> {
    let (measured, logits) = scores(subject, &repeated)?;
    let copying = losses(&logits, &repeated)?;
    drop(logits);
    let copied = copied(subject, &repeated)?;
    let n_head = subject.config().n_head;
    let heads =
        measured.iter().zip(baseline).enumerate().map(|(at, ((scores, detect_head), (baseline, _)))| {
            HeadScores {
                layer: at / n_head,
                head: at % n_head,
                scores: *scores,
                baseline: *baseline,
                role: scores.role(baseline),
                detect_head: *detect_head,
                copied: copied.as_ref().map(|copied| copied[at]),
            }
        });
    Ok(HeadRoles { heads: heads.collect(), margin: ROLE_MARGIN, copying, repeated })
}

/// The scores of every head, by layer and head, and the logits (B, T, V).
pub(crate) fn scores(
    subject: &Subject,
    repeated: &RepeatedTokens,
) -> Result<(Vec<(RoleScores, Detections)>, candle_core::Tensor)> {
    let rows = &repeated.sequences;
    let (t, n_head, share) = (2 * repeated.distance, subject.config().n_head, 1.0 / rows.len() as f64);
    let mut all = Vec::new();
    let logits = each_layer_of_rows(subject, rows, &mut |_, patterns| {
        let patterns = floats(patterns)?; // (B, H, T, T)
        let mut heads = vec![<(RoleScores, Detections)>::default(); n_head];
        for (at, pattern) in patterns.chunks(t * t).enumerate() {
            let (scores, detections) = &mut heads[at % n_head];
            scores.add(&RoleScores::of(pattern, t, repeated.distance), share);
            detections.add(&Detections::of(pattern, &rows[at / n_head]), share);
        }
        all.extend(heads);
        Ok(())
    })?;
    Ok((all, logits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_needs_more_than_the_baseline() {
        let scores = |previous, duplicate, induction| RoleScores { previous, duplicate, induction };
        let fresh = scores(0.05, 0.05, 0.05);
        assert_eq!(scores(0.9, 0.0, 0.0).role(&fresh), Some(HeadRole::Previous));
        assert_eq!(scores(0.4, 0.0, 0.5).role(&fresh), Some(HeadRole::Induction));
        assert_eq!(scores(0.3, 0.1, 0.1).role(&fresh), None);
        assert_eq!(scores(f64::NAN, 0.1, 0.1).role(&fresh), None);
    }

    #[test]
    fn scores_read_the_diagonals() {
        // Two tokens, repeated: every query looks at the token before, and there is what came behind the same token.
        let mut pattern = vec![0f32; 16];
        for (query, key) in [(0, 0), (1, 0), (2, 1), (3, 2)] {
            pattern[query * 4 + key] = 1.0;
        }
        let RoleScores { previous, duplicate, induction } = RoleScores::of(&pattern, 4, 2);
        assert_eq!((previous, duplicate, induction), (1.0, 0.0, 1.0));
    }
}
