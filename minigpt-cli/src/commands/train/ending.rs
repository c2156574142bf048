//! The end of a run: how it went, what that means, and what to type next.

use super::watch::Watch;
use crate::language::messages::train as message;
use crate::{output, screen, shell};
use minigpt::RunConfig;
use minigpt_charts::{Table, count};
use minigpt_data::CorpusKind;
use minigpt_model::Gpt;
use minigpt_tokenizer::Tokenizer;
use minigpt_train::{Ended, Observer, Report};
use std::path::Path;

/// A run that ended.
pub struct Ending<'a> {
    pub report: Report,
    pub config: &'a RunConfig,
    pub kind: CorpusKind,
    pub tokenizer: Option<&'a Tokenizer>,
}

impl Ending<'_> {
    /// Shows what the model writes now.
    pub fn sample(&self, watch: &mut Watch, gpt: &Gpt) {
        if let Some(text) = watch.sample(gpt, self.report.step) {
            output::note(message::FinalSample { text: &text.trim_end() });
        }
    }

    /// How a run went.
    pub fn table(&self) -> Table {
        let Report { ended, step, last, best, tokens, seconds, .. } = &self.report;
        let mut table = Table::default();
        let why = match ended {
            Ended::Finished => message::AllStepsDone.text(),
            Ended::Patience => message::PatienceExhausted.text(),
            Ended::TimeLimit => message::TimeLimit.text(),
            Ended::Stopped => message::StoppedByUser.text(),
        };
        table.row([message::Ended.text(), &message::EndedAt { step: &count(*step), why: &why }.to_string()]);
        if let Some(last) = last {
            table.row([message::Loss.text(), &format!("{:.4}", last.loss)]);
        }
        let val_loss = best.and_then(|best| best.val_loss);
        if let (Some(best), Some(val_loss)) = (best, val_loss) {
            let label = if best.answers.is_some() {
                message::ValidationOfBest.text()
            } else {
                message::BestValidation.text()
            };
            table.row([label, &message::BestAt { loss: &val_loss, step: &count(best.step) }.to_string()]);
        }
        let loss = val_loss.or(last.as_ref().map(|last| last.loss));
        if let Some(loss) = loss {
            table.row([message::LossMeaning.text(), &in_words(loss, self.config.model.vocab_size)]);
        }
        table.row([message::Tokens.text(), &count(*tokens)]);
        table.row([message::Time.text(), &format!("{seconds:.1} s")]);
        table
    }

    /// The same with where the model is and what to type next.
    pub fn describe(&self, mut table: Table) -> String {
        let model = &self.report.model;
        table.row([message::Model.text(), &model.display().to_string()]);
        for (i, command) in self.next(model).iter().enumerate() {
            table.row([if i == 0 { message::TryIt.text() } else { "" }, command]);
        }
        format!("\n{}", table.draw_within(screen::table_columns()))
    }

    /// What to type next; a model without a tokenizer is given ids.
    fn next(&self, model: &Path) -> Vec<String> {
        let run = model.parent().unwrap_or(model);
        // Its folder means its best model, and leaves room for the prompt in a line.
        let run = shell::path(run);
        let prompt = shell::prompt(self.tokenizer, &self.config.sample.prompt);
        let first = match self.kind {
            CorpusKind::Qa if self.tokenizer.is_some() => format!("minigpt chat {run}"),
            _ => format!("minigpt generate {run} {prompt}"),
        };
        vec![first, format!("minigpt inspect {run} {prompt}"), format!("minigpt plot {run}")]
    }
}

/// What a loss means: how unsure the model is, beside somebody who knows nothing.
fn in_words(loss: f64, vocab_size: usize) -> String {
    let choices = loss.exp();
    let choices = if choices < 100.0 { format!("{choices:.1}") } else { count(choices.round() as u64) };
    let (all, guessing) = (count(vocab_size as u64), (vocab_size.max(1) as f64).ln());
    if loss >= guessing {
        return message::WorseThanGuessing { all: &all, guessing: &guessing }.to_string();
    }
    message::Uncertainty { choices: &choices, all: &all, guessing: &guessing }.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_told_as_a_choice() {
        assert_eq!(
            in_words(1.5, 65),
            "as uncertain as a choice among 4.5 tokens; guessing among all 65 has a loss of 4.17"
        );
        let worse = "no better than guessing among all 8 tokens, which has a loss of 2.08";
        assert_eq!(in_words(7.54, 8), worse);
    }
}
