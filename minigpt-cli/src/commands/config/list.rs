//! `minigpt config list`: the configurations that are built in.

use crate::language::messages::config as message;
use crate::language::purpose;
use crate::{output, screen};
use anyhow::Result;
use clap::Args;
use minigpt::READY_CONFIGS;
use minigpt_charts::Table;

#[derive(Args)]
pub(super) struct ListArgs {
    /// Print a list of {"name", "data", "about"} as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ListArgs) -> Result<()> {
    if args.json {
        let entry = |config: &minigpt::ReadyConfig| serde_json::json!({ "name": config.name, "data": config.data(), "about": config.about() });
        return output::json(&READY_CONFIGS.iter().map(entry).collect::<Vec<_>>());
    }
    let mut table = Table::new(&[]);
    table.row([message::Name.text(), message::Data.text(), message::Purpose.text()]);
    for config in READY_CONFIGS {
        table.row([config.name, &config.data(), &purpose(config)]);
    }
    output::text(message::List { table: &table.draw_within(screen::table_columns()) })
}
