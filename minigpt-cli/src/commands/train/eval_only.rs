//! `minigpt train --eval-only`: the validation loss and nothing else.

use super::{TrainArgs, own_data};
use crate::language::local;
use crate::language::messages::train as message;
use crate::{models, output, screen};
use anyhow::Result;
use minigpt::{Run, RunEvaluation};
use minigpt_charts::{Table, count};
use minigpt_model::Device;
use std::path::Path;

/// Measures the run that is in the folder, or else the model that one would begin with.
pub(super) fn run(args: &TrainArgs, out: &Path, device: &Device) -> Result<()> {
    let evaluation = if args.resume || (args.from.is_none() && Run::is_at(out)) {
        Run::evaluate(out, &own_data::changes(args)?, device)?
    } else {
        let from = args.from.as_deref().map(models::find).transpose()?;
        let input = own_data::standard_input(args, out)?;
        let suggestion = own_data::suggest(args, input.as_deref())?;
        Run::evaluate_start(suggestion.config, from.as_deref(), device)?
    };
    let RunEvaluation { model, loss, tokens, notes } = evaluation;
    if !args.quiet {
        notes.iter().for_each(|note| output::note(local(note)));
    }
    let name = model.map_or(message::Untrained.text().to_owned(), |model| model.display().to_string());
    let mut table = Table::default();
    table.row([message::Model.text(), &name]);
    table.row([message::ValidationLoss.text(), &format!("{loss:.4}")]);
    table.row([message::Perplexity.text(), &format!("{:.2}", loss.exp())]);
    table.row([message::Tokens.text(), &count(tokens)]);
    output::text(table.draw_within(screen::table_columns()))
}
