//! `minigpt data list`: what there is to learn from.

use crate::language::{counted, t, tr};
use crate::{output, screen};
use anyhow::Result;
use clap::Args;
use minigpt_charts::{Table, bytes, count};
use minigpt_data::{PUBLIC_SETS, PublicSet, builtin};
use serde::Serialize;

#[derive(Args)]
pub(super) struct ListArgs {
    /// Print {"builtin", "public"} as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct BuiltIn {
    name: &'static str,
    facts: usize,
    train: usize,
    held_out: usize,
}

impl BuiltIn {
    fn measure() -> Self {
        let (train, held_out) = (builtin::train().len(), builtin::held_out().len());
        BuiltIn { name: builtin::NAME, facts: builtin::facts(), train, held_out }
    }
}

#[derive(Serialize)]
struct Answer {
    builtin: BuiltIn,
    public: &'static [PublicSet],
}

pub(super) fn run(args: &ListArgs) -> Result<()> {
    let builtin = BuiltIn::measure();
    if args.json {
        return output::json(&Answer { builtin, public: PUBLIC_SETS });
    }
    let BuiltIn { name, facts, train, held_out } = builtin;
    output::text(&t!(
        "Built in, by the name `{name}`: {} and answers in Chinese and English about {}, {} more held out for \
         scoring\n\n",
        counted(train as u64, "question"),
        counted(facts as u64, "fact"),
        count(held_out as u64)
    ))?;
    let mut table = Table::new(&[2]);
    table.row([tr("name"), tr("language"), tr("size"), tr("checked"), tr("licence"), tr("what")]);
    for set in PUBLIC_SETS {
        let checked = if set.sha256.is_some() { "SHA-256" } else { tr("recorded") };
        let size = bytes(set.bytes);
        table.row([set.name, set.language, &size, checked, tr(set.licence), tr(set.about)]);
    }
    output::text(&t!(
        "Public sets, fetched with `minigpt data download NAME`:\n\n{}\n\
         checked: against a known SHA-256, or, where the publisher may revise the file, against the one recorded \
         on the first download\n",
        table.draw_within(screen::table_columns())
    ))
}
