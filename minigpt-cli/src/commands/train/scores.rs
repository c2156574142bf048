//! What a run learned and, where it trained a model further, what that model forgot: scored on the same data before and after.

use crate::language::messages::train as message;
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
                    message::ScoreBefore { score: &in_words(before), path: &path }.to_string()
                }
                SetSource::Samples => message::FormerDataMissing { loss: &before.loss }.to_string(),
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
                table.row([message::Learned.text(), &change(&self.own.set, before, &own)]);
            }
            (None, Some(Answers { right, asked })) => {
                let (right, asked) = (count(*right), count(*asked));
                table.row([
                    message::Answers.text(),
                    &message::AnsweredExactly { right: &right, asked: &asked }.to_string(),
                ]);
            }
            (None, None) => {}
        }
        if let Some(Scored { set, before: Some(before) }) = &mut self.base {
            let after = set.score(gpt)?;
            table.row([message::Kept.text(), &change(set, before, &after)]);
            return Ok(forgotten(before.loss, after.loss));
        }
        Ok(None)
    }
}

/// What to do if a model has forgotten much of what it knew.
fn forgotten(before: f64, after: f64) -> Option<String> {
    // A loss that is not a number has not stayed.
    let kept = after - before <= FORGOTTEN;
    (!kept).then(|| message::MostlyForgotten { after: &after, before: &before }.to_string())
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
        SetSource::Samples => message::OwnTexts.text().to_owned(),
    };
    let (then, now) = (before.loss, after.loss);
    match (before.answers, after.answers) {
        (Some(Answers { right: then_right, .. }), Some(Answers { right, asked })) => {
            let (right, asked, then_right) = (count(right), count(asked), count(then_right));
            message::KeptAnswersAndLoss {
                right: &right,
                asked: &asked,
                data: &of,
                then_right: &then_right,
                now: &now,
                then: &then,
            }
            .to_string()
        }
        _ => message::KeptLoss { data: &of, now: &now, then: &then }.to_string(),
    }
}

fn in_words(score: &Score) -> String {
    let loss = score.loss;
    match score.answers {
        Some(Answers { right, asked }) => {
            let (right, asked) = (count(right), count(asked));
            message::ScoreAnswersAndLoss { right: &right, asked: &asked, loss: &loss }.to_string()
        }
        None => message::ScoreLoss { loss: &loss }.to_string(),
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
