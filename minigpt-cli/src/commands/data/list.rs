//! `minigpt data list`: what there is to learn from.

use crate::language::local;
use crate::language::messages::counts;
use crate::language::messages::data as message;
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
    output::text(message::BuiltInSet {
        name: &name,
        train: &(counts::Questions { n: train as u64 }.to_string()),
        facts: &(counts::Facts { n: facts as u64 }.to_string()),
        held_out: &count(held_out as u64),
    })?;
    let mut table = Table::new(&[2]);
    table.row([
        message::Name.text(),
        message::Language.text(),
        message::Size.text(),
        message::Checked.text(),
        message::Licence.text(),
        message::About.text(),
    ]);
    for set in PUBLIC_SETS {
        let checked = if set.sha256.is_some() { "SHA-256" } else { message::Recorded.text() };
        let size = bytes(set.bytes);
        table.row([set.name, set.language, &size, checked, &local(&set.licence), &local(&set.about)]);
    }
    output::text(message::PublicSets { table: &table.draw_within(screen::table_columns()) })
}
