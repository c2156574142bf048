//! What several machines would buy, as a part of `minigpt plan`.

use crate::language::{duration, t, tr};
use crate::screen;
use minigpt::{ClusterPlan, ClusterSpeed, Network};
use minigpt_charts::{Table, bytes, count};

/// The plan for machines and the network between them.
pub fn describe(plan: &ClusterPlan) -> String {
    let machines = count(plan.by_machines.last().map_or(1, |speed| speed.machines) as u64);
    let Network { bytes_per_second, latency } = plan.network;
    let (rate, latency) = (bytes(bytes_per_second as u64), format!("{:.0} µs", 1e6 * latency));
    let title = t!(
        "\nOn {machines} machines, {rate} a second and {latency} between them; a model of the exchange, not a measurement\n"
    );
    let columns = screen::table_columns();
    title + &costs(plan).draw_within(columns) + "\n" + &speeds(plan).draw_within(columns)
}

fn costs(plan: &ClusterPlan) -> Table {
    let rows = |rows: Option<usize>| match rows {
        Some(rows) => t!("{} rows", count(rows as u64)),
        None => tr("no batch").to_owned(),
    };
    let exchanged = t!("{} to the busiest machine", bytes(plan.exchange_bytes));
    let share = format!("{:.0} %", 100.0 * plan.largest_share);
    let share = t!("{share} of the moments; the first has all of them while it saves");
    let mut table = Table::new(&[1]);
    table.row([tr("exchange in a step"), &duration(plan.exchange_seconds), &exchanged]);
    table.row([tr("faster than one from"), &rows(plan.pays_from), tr("in a step, on all machines together")]);
    table.row([tr("half of the ideal from"), &rows(plan.half_from), ""]);
    table.row([tr("memory on each"), &bytes(plan.bytes_a_rank), &share]);
    table
}

/// Fewer machines first, then larger batches.
fn speeds(plan: &ClusterPlan) -> Table {
    let mut table = Table::new(&[0, 1, 2, 3, 4]);
    table.row([tr("machines"), tr("rows"), tr("a step alone"), tr("together"), tr("speed-up")]);
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
