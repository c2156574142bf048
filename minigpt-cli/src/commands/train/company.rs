//! In whose company a process trains: alone, as one of several that MPI has launched, or with threads of its own that
//! play the others.

use crate::language::messages::{counts, train as message};
use crate::language::{causes, labeled_error, local};
use crate::output;
use anyhow::{Context, Result, bail, ensure};
use minigpt::machine;
use minigpt_train::{AbortReason, Exchange, Launcher, MpiRank, SingleRank, ThreadRank};
use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// Where all ranks fail alike, the first one says it; so long the others wait with what they have to say.
const FIRST: Duration = Duration::from_secs(1);

/// Runs `work` as every rank there is to be in this process: `threads` of them, or the one that a launcher made it.
pub fn run(threads: Option<u16>, work: impl Fn(&Arc<dyn Exchange>) -> Result<()> + Sync) -> Result<()> {
    match (Launcher::of_this_process(), threads) {
        (None, None | Some(1)) => work(&SingleRank::exchange()),
        (None, Some(ranks)) => on_threads(ranks.into(), work),
        (Some(launcher), None) => on_mpi(&launcher, work),
        (Some(_), Some(_)) => {
            bail!(message::RanksUnderLauncher)
        }
    }
}

/// The ranks of this process share its threads. The first error that is a rank's own is everybody's.
fn on_threads(ranks: usize, work: impl Fn(&Arc<dyn Exchange>) -> Result<()> + Sync) -> Result<()> {
    let threads = (rayon::current_num_threads() / ranks).max(1);
    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let start = |rank: ThreadRank| {
            let work = &work;
            scope.spawn(move || {
                let exchange: Arc<dyn Exchange> = Arc::new(rank);
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
                let done = pool.context(message::NoMoreThreads)?.install(|| work(&exchange));
                if let Err(error) = &done {
                    exchange.abort(AbortReason::Failed(causes(error)));
                }
                done
            })
        };
        let started: Vec<_> = ThreadRank::group(ranks).into_iter().map(start).collect();
        started.into_iter().map(|rank| rank.join().unwrap_or_else(|panic| bail!(words(&*panic)))).collect()
    });
    let (own, of_others): (Vec<_>, Vec<_>) =
        results.into_iter().filter_map(Result::err).partition(|error| !is_of_another(error));
    own.into_iter().chain(of_others).next().map_or(Ok(()), Err)
}

/// One of several processes. Whatever goes wrong here ends them all.
fn on_mpi(launcher: &Launcher, work: impl Fn(&Arc<dyn Exchange>) -> Result<()>) -> Result<()> {
    let rank = MpiRank::start(launcher, |error| output::note(labeled_error(&local(error))))?;
    let version = rank.version().to_owned();
    let exchange: Arc<dyn Exchange> = Arc::new(rank);
    let whole = || {
        same_arguments(&exchange)?;
        announce(&exchange, &version)?;
        work(&exchange)
    };
    let message = match catch_unwind(AssertUnwindSafe(whole)) {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => causes(&error),
        Err(panic) => words(&*panic),
    };
    if exchange.rank() > 0 {
        std::thread::sleep(FIRST);
    }
    exchange.abort(AbortReason::Failed(message.clone()));
    bail!(message)
}

/// Whether an error only says that another rank has failed.
fn is_of_another(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let own = cause.downcast_ref::<minigpt_train::Error>();
        let inside = match cause.downcast_ref() {
            Some(minigpt::Error::Train(error)) => Some(error),
            _ => own,
        };
        matches!(inside, Some(minigpt_train::Error::OtherRank(_)))
    })
}

/// What a panic said.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    message::InternalError { problem: &text.unwrap_or(message::Panicked.text()) }.to_string()
}

/// Refuses ranks that were asked for different things. Only the first one's arguments count, so nobody would notice.
fn same_arguments(exchange: &Arc<dyn Exchange>) -> Result<()> {
    let own: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let records = exchange.gather(own.join("\n").as_bytes())?;
    let other = records.iter().position(|record| *record != records[0]);
    let other = other.map(|rank| (rank, String::from_utf8_lossy(&records[rank]).replace('\n', " ")));
    ensure!(
        other.is_none(),
        "{}",
        message::RanksDiffer {
            rank: &({
                let (rank, arguments) = other.unwrap_or_default();
                format!("{rank} ({arguments})")
            })
        }
    );
    Ok(())
}

/// Says how many ranks there are, and where a launcher keeps them from using their machine.
fn announce(exchange: &Arc<dyn Exchange>, version: &str) -> Result<()> {
    let cores = machine::cores_of_this_process().unwrap_or_default();
    let own = serde_json::to_vec(&(machine::host(), cores.0, cores.1, rayon::current_num_threads()))?;
    let records = exchange.gather(&own)?;
    if exchange.rank() > 0 {
        return Ok(());
    }
    let mut hosts: BTreeMap<String, (usize, usize, usize)> = BTreeMap::new();
    for record in &records {
        let (host, own, all, threads): (String, usize, usize, usize) = serde_json::from_slice(record)?;
        let of_host = hosts.entry(host).or_default();
        *of_host = (of_host.0 + own, all, of_host.2 + threads);
    }
    output::note(message::RanksStarted {
        ranks: &records.len(),
        hosts: &(counts::Machines { n: hosts.len() as u64 }.to_string()),
        version: &version,
    });
    for (host, (own, all, threads)) in hosts {
        if own < all {
            output::note(message::CoresBound { host: &host, own: &own, all: &all });
        } else if threads > all && all > 0 {
            output::note(message::TooManyThreads { host: &host, threads: &threads, all: &all });
        }
    }
    Ok(())
}
