//! What several machines would buy, as a part of `minigpt plan`.

use crate::language::duration;
use crate::language::messages::cluster as message;
use crate::screen;
use minigpt::{ClusterPlan, ClusterSpeed, Network};
use minigpt_charts::{Table, bytes, count};

/// The plan for machines and the network between them.
pub fn describe(plan: &ClusterPlan) -> String {
    let machines = count(plan.by_machines.last().map_or(1, |speed| speed.machines) as u64);
    let Network { bytes_per_second, latency } = plan.network;
    let (rate, latency) = (bytes(bytes_per_second as u64), format!("{:.0} µs", 1e6 * latency));
    let title = message::Title { machines: &machines, bandwidth: &rate, latency: &latency }.to_string();
    let columns = screen::table_columns();
    title + &costs(plan).draw_within(columns) + "\n" + &speeds(plan).draw_within(columns)
}

fn costs(plan: &ClusterPlan) -> Table {
    let rows = |rows: Option<usize>| match rows {
        Some(rows) => message::RowCount { rows: &count(rows as u64) }.to_string(),
        None => message::NoBatch.text().to_owned(),
    };
    let exchanged = message::Exchanged { exchange_bytes: &bytes(plan.exchange_bytes) }.to_string();
    let share = format!("{:.0} %", 100.0 * plan.largest_share);
    let share = message::MemoryShare { share: &share }.to_string();
    let mut table = Table::new(&[1]);
    table.row([message::ExchangeTime.text(), &duration(plan.exchange_seconds), &exchanged]);
    table.row([message::FasterFrom.text(), &rows(plan.pays_from), message::PerStepInAll.text()]);
    table.row([message::HalfIdealFrom.text(), &rows(plan.half_from), ""]);
    table.row([message::MemoryPerMachine.text(), &bytes(plan.bytes_a_rank), &share]);
    table
}

/// Fewer machines first, then larger batches.
fn speeds(plan: &ClusterPlan) -> Table {
    let mut table = Table::new(&[0, 1, 2, 3, 4]);
    table.row([
        message::Machines.text(),
        message::Rows.text(),
        message::StepAlone.text(),
        message::StepTogether.text(),
        message::SpeedUp.text(),
    ]);
    let all = plan.by_machines.iter().chain(plan.by_batch.iter().skip(1));
    for ClusterSpeed { machines, batch_size, alone_seconds, seconds, speed_up } in all {
        table.row([
            &count(*machines as u64),
            &count(*batch_size as u64),
            &duration(*alone_seconds),
            &duration(*seconds),
            &format!("{speed_up:.2}"),
        ]);
    }
    table
}
