//! The same questions, put to every snapshot that a run has kept.

use super::answer::Answer;
use super::args::InspectArgs;
use super::roles_chart::chart;
use crate::language::{t, tr};
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
        bail!(
            "{}: there are no snapshots. Name the folder of a run; a run of a model of up to 5 million parameters keeps 16 of \
             them, others those that train.snapshots asks for",
            run.display()
        );
    }
    if let (Some(_), Some(last)) = (&args.html, kept.last()) {
        bail!("--html shows one model: name a snapshot, such as {}", shell::path(&last.path));
    }
    let mut found = Vec::new();
    let mut probe: Option<DevelopmentProbe> = None;
    for Snapshot { step, path } in &kept {
        let model = ModelFolder::open_on(path, &args.device.open()?)?;
        // All snapshots of a run have one tokenizer.
        if found.is_empty() {
            model.warnings().iter().for_each(|warning| output::note(warning));
            super::say_what_is_left_out(args, &model);
        }
        let answer = Answer::without_heads(args, &model).with_context(|| t!("step {step}"))?;
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
            .context("the picture could not be drawn")?;
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
        output::text(&texts(found))?;
    }
    let Some(development) = development else { return Ok(()) };
    output::drawn(&format!("\n{}", chart(development).terminal(screen::picture_columns(), false)))?;
    output::text(&roles(development))?;
    match &args.svg {
        Some(file) => output::text(&t!("drawn in {}\n", file.display())),
        None => Ok(()),
    }
}

/// What each snapshot made of the text.
fn texts(found: &[AtStep]) -> String {
    let mut table = Table::new(&[0, 1, 3]);
    table.row([tr("step"), tr("loss"), tr("next"), tr("probability"), ""]);
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
    t!(
        "\nWhat the model made of the text as it learned (more of each snapshot with --json)\n{}",
        table.draw_within(screen::table_columns())
    )
}

/// What heads did, and when induction appeared.
fn roles(development: &Development) -> String {
    let mut table = Table::new(&[0, 1, 2, 3, 4]);
    table.row([
        tr("step"),
        tr("induction"),
        tr("previous"),
        tr("first half"),
        tr("second half"),
        tr("heads with a role"),
    ]);
    for at in &development.snapshots {
        let named = at.roles.heads.iter().filter_map(|head| {
            let role = match head.role? {
                minigpt_insight::HeadRole::Previous => tr("previous"),
                minigpt_insight::HeadRole::Duplicate => tr("duplicate"),
                minigpt_insight::HeadRole::Induction => tr("induction"),
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
            let together = if together { tr("  the two changed together\n") } else { "" };
            let steps = t!(
                "  from step {} to {} the best induction score rose from {} to {} %, the loss on repeated tokens went from {} to {}\n",
                count(from),
                count(to),
                format!("{:.0}", 100.0 * induction.0),
                format!("{:.0}", 100.0 * induction.1),
                format!("{:.2}", loss.0),
                format!("{:.2}", loss.1)
            );
            steps + together
        }
        None => tr("  no head became an induction head\n").to_owned(),
    };
    t!(
        "\nThe best score of any head, and the loss on repeated random tokens\n{}{said}",
        table.draw_within(screen::table_columns())
    )
}
