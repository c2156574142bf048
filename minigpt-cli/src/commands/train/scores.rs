//! What a run learned and, where it trained a model further, what that model forgot: scored on the same data before and after.

use crate::language::{t, tr};
use crate::output;
use anyhow::Result;
use minigpt::{EvalSet, Run, Score, SetSource};
use minigpt_charts::{Table, count};
use minigpt_model::Gpt;
use minigpt_train::Answers;
use std::path::Path;

/// The data of a run, and that of the model that it trains further.
pub struct Scores {
    own: Scored,
    base: Option<Scored>,
}

/// A loss on the base's kind of data that has risen by more than this many nats: tokens are on average 1.6 times less likely.
const FORGOTTEN: f64 = 0.5;

/// Data, and how the model did on it before the run.
struct Scored {
    set: EvalSet,
    before: Option<Score>,
}

impl Scores {
    /// Scores the model before the first step.
    pub fn new(run: &Run, from: Option<&Path>, quiet: bool) -> Result<Self> {
        let gpt = run.trainer.gpt();
        let own = Scored::new(run.own_set()?, from.is_some().then_some(gpt))?;
        let base = match from {
            Some(from) => Some(Scored::new(EvalSet::of_base(from, gpt)?, Some(gpt))?),
            None => None,
        };
        if let Some(Scored { set, before: Some(before) }) = base.as_ref().filter(|_| !quiet) {
            let knows = match set.source() {
                SetSource::Data(path) => {
                    t!("before: {} on {path}, what the model was trained on", in_words(before))
                }
                SetSource::Samples => t!(
                    "the data of the model is not to be found: what it keeps is measured on texts that it wrote itself just now (loss {:.3})",
                    before.loss
                ),
            };
            output::note(&knows);
        }
        Ok(Self { own, base })
    }

    /// Adds the rows of the report, for the model that the run leaves. Returns a sentence if that model has forgotten much.
    pub fn describe(&mut self, gpt: &Gpt, table: &mut Table) -> Result<Option<String>> {
        let own = self.own.set.score(gpt)?;
        match (&self.own.before, &own.answers) {
            (Some(before), _) => {
                table.row([tr("learned"), &change(&self.own.set, before, &own)]);
            }
            (None, Some(Answers { right, asked })) => {
                let (right, asked) = (count(*right), count(*asked));
                table.row([tr("answers"), &t!("{right} of {asked} questions, word for word")]);
            }
            (None, None) => {}
        }
        if let Some(Scored { set, before: Some(before) }) = &mut self.base {
            let after = set.score(gpt)?;
            table.row([tr("kept"), &change(set, before, &after)]);
            return Ok(forgotten(before.loss, after.loss));
        }
        Ok(None)
    }
}

/// What to do if a model has forgotten much of what it knew.
fn forgotten(before: f64, after: f64) -> Option<String> {
    // A loss that is not a number has not stayed.
    let kept = after - before <= FORGOTTEN;
    (!kept).then(|| {
        format!(
            "the model has forgotten most of what it knew (loss {after:.3}, before: {before:.3}): add what it was trained on to the data, or make fewer steps (--max_iters=N)"
        )
    })
}

impl Scored {
    fn new(mut set: EvalSet, gpt: Option<&Gpt>) -> Result<Self> {
        let before = gpt.map(|gpt| set.score(gpt)).transpose()?;
        Ok(Self { set, before })
    }
}

/// How well a model did, then and now.
fn change(set: &EvalSet, before: &Score, after: &Score) -> String {
    let of = match set.source() {
        SetSource::Data(path) => path.clone(),
        SetSource::Samples => tr("texts that the model wrote before").to_owned(),
    };
    let (then, now) = (before.loss, after.loss);
    match (before.answers, after.answers) {
        (Some(Answers { right: then_right, .. }), Some(Answers { right, asked })) => {
            let (right, asked, then_right) = (count(right), count(asked), count(then_right));
            t!(
                "{right} of {asked} questions of {of} (before: {then_right}), loss {now:.3} (before: {then:.3})"
            )
        }
        _ => t!("{of}: loss {now:.3} (before: {then:.3})"),
    }
}

fn in_words(score: &Score) -> String {
    let loss = score.loss;
    match score.answers {
        Some(Answers { right, asked }) => {
            let (right, asked) = (count(right), count(asked));
            t!("{right} of {asked} questions answered, loss {loss:.3}")
        }
        None => t!("loss {loss:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_that_rises_sharply_is_forgetting() {
        assert!(forgotten(0.351, 2.12).is_some_and(|said| said.contains("loss 2.120, before: 0.351")));
        assert!(forgotten(1.0, f64::NAN).is_some());
        assert_eq!([(2.0, 2.4), (2.0, 0.3)].map(|(before, after)| forgotten(before, after)), [None, None]);
    }
}
