//! `minigpt data list`: what there is to learn from.

use crate::output;
use crate::table::{Table, bytes};
use anyhow::Result;
use clap::Args;
use minigpt_data::{PUBLIC_SETS, PublicSet};
use serde::Serialize;

#[derive(Args)]
pub(super) struct ListArgs {
    /// Print {"builtin", "public"} as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Answer {
    public: &'static [PublicSet],
}

pub(super) fn run(args: &ListArgs) -> Result<()> {
    if args.json {
        return output::json(&Answer { public: PUBLIC_SETS });
    }
    let mut table = Table::new(&[2]);
    table.row(["name", "language", "size", "checked", "licence", "what"]);
    for set in PUBLIC_SETS {
        let checked = if set.sha256.is_some() { "SHA-256" } else { "recorded" };
        let size = bytes(set.bytes);
        table.row([set.name, set.language, &size, checked, set.licence, set.about]);
    }
    output::text(&format!(
        "Public sets, fetched with `minigpt data download NAME`:\n\n{}\n\
         checked: against a known SHA-256, or, where the publisher may revise the file, against the one recorded \
         on the first download\n",
        table.draw()
    ))
}
