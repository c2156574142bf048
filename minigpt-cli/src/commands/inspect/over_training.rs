//! The same questions, put to every snapshot that a run has kept.

use super::answer::Answer;
use super::args::InspectArgs;
use super::roles_chart::chart;
use crate::language::local;
use crate::language::messages::inspect as message;
use crate::{output, screen, shell};
use anyhow::{Context, Result, bail};
use minigpt::{ModelFolder, Snapshot, snapshots};
use minigpt_charts::{Table, count};
use minigpt_insight::{Appearance, Development, DevelopmentProbe, Subject};
use serde::Serialize;
use std::path::Path;

#[derive(Serialize)]
struct OverTraining {
    snapshots: Vec<AtStep>,
    #[serde(skip_serializing_if = "Option::is_none")]
    induction: Option<Appearance>,
}

#[derive(Serialize)]
struct AtStep {
    step: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    best_induction: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    best_previous: Option<f64>,
    #[serde(flatten)]
    answer: Answer,
}

/// Runs `inspect --snapshots` on a run's folder.
pub fn run(args: &InspectArgs, run: &Path) -> Result<()> {
    let kept = snapshots(run)?;
    if kept.is_empty() {
        bail!("{}", message::NoSnapshots { run: &run.display() });
    }
    if let (Some(_), Some(last)) = (&args.html, kept.last()) {
        bail!("{}", message::HtmlShowsOneModel { path: &shell::path(&last.path) });
    }
    let mut found = Vec::new();
    let mut probe: Option<DevelopmentProbe> = None;
    for Snapshot { step, path } in &kept {
        let model = ModelFolder::open_on(path, &args.device.open()?)?;
        // All snapshots of a run have one tokenizer.
        if found.is_empty() {
            model.warnings().iter().for_each(|warning| output::note(local(warning)));
            super::say_what_is_left_out(args, &model);
        }
        let answer = Answer::without_heads(args, &model)
            .with_context(|| message::StepNumber { step: &step }.to_string())?;
        if args.heads {
            let probe = match &mut probe {
                Some(probe) => probe,
                None => probe
                    .insert(DevelopmentProbe::new(model.gpt.config(), args.repeat(&model.special_ids()))?),
            };
            let words = model.words();
            probe.add(*step, &Subject::new(&model.gpt).with_words(&words))?;
        }

        found.push(AtStep { step: *step, best_induction: None, best_previous: None, answer });
    }
    let development = probe.map(DevelopmentProbe::finish);
    if let (Some(file), Some(development)) = (&args.svg, &development) {
        minigpt_files::write_file(file, chart(development).svg().as_bytes())
            .context(message::CouldNotDraw)?;
    }
    if !args.json {
        return show(args, &found, development.as_ref());
    }
    let induction = development.as_ref().and_then(|development| development.induction);
    for (at, roles) in
        found.iter_mut().zip(development.into_iter().flat_map(|development| development.snapshots))
    {
        (at.best_induction, at.best_previous) = (Some(roles.best_induction), Some(roles.best_previous));
        at.answer.heads = Some(roles.roles);
    }
    output::json(&OverTraining { snapshots: found, induction })
}

fn show(args: &InspectArgs, found: &[AtStep], development: Option<&Development>) -> Result<()> {
    if found.iter().any(|at| at.answer.text.is_some()) {
        output::text(texts(found))?;
    }
    let Some(development) = development else { return Ok(()) };
    output::drawn(&format!("\n{}", chart(development).terminal(screen::picture_columns(), false)))?;
    output::text(roles(development))?;
    match &args.svg {
        Some(file) => output::text(message::Drawn { file: &file.display() }),
        None => Ok(()),
    }
}

/// What each snapshot made of the text.
fn texts(found: &[AtStep]) -> String {
    let mut table = Table::new(&[0, 1, 3]);
    table.row([
        message::Step.text(),
        message::Loss.text(),
        message::Next.text(),
        message::Probability.text(),
        "",
    ]);
    for AtStep { step, answer, .. } in found {
        let Some(text) = &answer.text else { continue };
        let Some(next) = text.top.first() else { continue };
        table.row([
            &count(*step),
            &text.loss.map_or_else(|| "–".to_owned(), |loss| format!("{loss:.4}")),
            &super::tokens::label(next.token.as_deref(), next.candidate.id),
            &super::tokens::percent(next.candidate.probability),
            &output::bar(next.candidate.probability),
        ]);
    }
    message::OverTraining { table: &table.draw_within(screen::table_columns()) }.to_string()
}

/// What heads did, and when induction appeared.
fn roles(development: &Development) -> String {
    let mut table = Table::new(&[0, 1, 2, 3, 4]);
    table.row([
        message::Step.text(),
        message::Induction.text(),
        message::Previous.text(),
        message::FirstHalf.text(),
        message::SecondHalf.text(),
        message::HeadsRole.text(),
    ]);
    for at in &development.snapshots {
        let named = at.roles.heads.iter().filter_map(|head| {
            let role = match head.role? {
                minigpt_insight::HeadRole::Previous => message::Previous.text(),
                minigpt_insight::HeadRole::Duplicate => message::Duplicate.text(),
                minigpt_insight::HeadRole::Induction => message::Induction.text(),
            };
            Some(format!("{}.{} {role}", head.layer, head.head))
        });
        table.row([
            &count(at.step),
            &format!("{:.1} %", 100.0 * at.best_induction),
            &format!("{:.1} %", 100.0 * at.best_previous),
            &format!("{:.3}", at.roles.copying.first_half_loss),
            &format!("{:.3}", at.roles.copying.second_half_loss),
            &named.collect::<Vec<_>>().join(", "),
        ]);
    }
    let said = match development.induction {
        Some(Appearance { steps: (from, to), induction, loss, together }) => {
            let together = if together { message::ChangedTogether.text() } else { "" };
            let steps = message::InductionRose {
                from: &count(from),
                to: &count(to),
                induction: &format!("{:.0}", 100.0 * induction.0),
                induction_after: &format!("{:.0}", 100.0 * induction.1),
                loss: &format!("{:.2}", loss.0),
                loss_after: &format!("{:.2}", loss.1),
            }
            .to_string();
            steps + together
        }
        None => message::NoInductionHead.text().to_owned(),
    };
    message::RolesOverTraining { table: &table.draw_within(screen::table_columns()), induction: &said }
        .to_string()
}
