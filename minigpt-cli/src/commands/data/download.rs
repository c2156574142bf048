//! `minigpt data download`: fetch a public set.

use crate::language::local;
use crate::language::messages::data as message;
use crate::progress::Progress;
use crate::{output, screen};
use anyhow::{Context, Result};
use clap::Args;
use clap::builder::PossibleValuesParser;
use minigpt_charts::{Table, bytes, count};
use minigpt_data::{Checked, DownloadEvent, DownloadOptions, Downloaded, PUBLIC_SETS, PublicSet, download};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
pub(super) struct DownloadArgs {
    /// Data set; `minigpt data list` lists them.
    #[arg(value_parser = PossibleValuesParser::new(PUBLIC_SETS.iter().map(|set| set.name)))]
    name: String,
    /// Folder to save it in.
    #[arg(long, value_name = "FOLDER", default_value = "data")]
    out: PathBuf,
    /// Mirror to use instead of the host in the data set's URL (for Hugging Face also by HF_ENDPOINT).
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Download it again if it exists.
    #[arg(long)]
    force: bool,
    /// Print {"path", "bytes", "sha256", …} as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &DownloadArgs) -> Result<()> {
    let set = PublicSet::find(&args.name).context(message::NoSuchSet)?;
    let options = DownloadOptions {
        endpoint: args.endpoint.clone().or_else(|| hugging_face_mirror(set)),
        force: args.force,
        pause: Duration::from_secs(1),
    };
    output::note(format!("{}: {}, {}", set.name, bytes(set.bytes), local(&set.licence)));
    let mut bar = None;
    let done = download(set, &args.out, &options, &mut |event| show(event, set, &mut bar))?;
    if let Some(bar) = bar {
        bar.finish();
    }
    if args.json {
        return output::json(&done);
    }
    output::text(in_words(&done))
}

fn hugging_face_mirror(set: &PublicSet) -> Option<String> {
    let mirror = std::env::var("HF_ENDPOINT").ok().filter(|mirror| !mirror.is_empty());
    mirror.filter(|_| set.is_on_hugging_face())
}

fn show(event: DownloadEvent, set: &PublicSet, bar: &mut Option<Progress>) {
    match event {
        DownloadEvent::Started { url, total, have } => {
            let total = total.unwrap_or(set.bytes);
            let rest =
                if have > 0 { message::PartlyHere { have: &count(have) }.to_string() } else { String::new() };
            let line = message::FetchingFrom { total: &count(total), rest: &rest, url: &url }.to_string();
            match bar {
                None => output::note(&line),
                Some(bar) => bar.note(&line),
            }
            bar.get_or_insert_with(|| Progress::of_bytes(message::Fetching.text(), total)).set(have);
        }
        DownloadEvent::Progress { have } => {
            if let Some(bar) = bar {
                bar.set(have);
            }
        }
        DownloadEvent::Damaged { problem } => {
            output::note(message::FetchingAgain { problem: &local(&problem) });
        }
        DownloadEvent::Retrying { problem } => {
            output::note(message::TryingAgain { problem: &local(&problem) });
        }
    }
}

fn in_words(done: &Downloaded) -> String {
    let checked = match &done.checked {
        Checked::Listed => message::HashMatches.text().to_owned(),
        Checked::Recorded => message::HashSame.text().to_owned(),
        Checked::First => message::HashRecorded.text().to_owned(),
        Checked::Changed(before) => message::PublisherChangedIt { before: &before }.to_string(),
    };
    let mut table = Table::new(&[]);
    table
        .row([message::File.text(), &done.path.display().to_string()])
        .row([message::Size.text(), &message::Bytes { bytes: &count(done.bytes) }.to_string()])
        .row(["SHA-256", &done.sha256])
        .row(["", &checked]);
    if !done.fetched {
        table.row(["", message::AlreadyHere.text()]);
    }
    table.draw_within(screen::table_columns())
}
