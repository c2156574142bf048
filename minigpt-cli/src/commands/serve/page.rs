//! The page of a server: which runs it shows, and how their snapshots are opened.

use super::browser;
use crate::language::messages::serve as message;
use crate::output;
use anyhow::{Context, Result};
use minigpt::ModelFolder;
use minigpt_serve::{OpenSnapshot, OpenedModel, PageConfig, Running, ServeConfig, Server};
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;

/// Where runs are kept where nobody says it.
const RUNS: &str = "runs";

/// Adds the page, with the runs of a folder: the one that was named, or `runs` if there is one here.
pub fn add(server: Server, runs: Option<&Path>, files: bool) -> Server {
    let usual = || Some(Path::new(RUNS)).filter(|runs| runs.is_dir());
    let runs = runs.or_else(usual).map(Path::to_owned);
    let open: OpenSnapshot = Arc::new(|folder| open(folder).map_err(|error| error.to_string()));
    server.with_page(PageConfig { runs, open, files })
}

fn open(folder: &Path) -> minigpt::Result<OpenedModel> {
    let model = ModelFolder::open(folder)?;
    let format = model.format()?.clone();
    Ok(OpenedModel { gpt: model.gpt, tokenizer: model.tokenizer, format })
}

/// Shows a run on the page while it goes, to this machine alone: on the usual port, or on a free one. No model is served; the
/// run's snapshots can be looked into. The page is there for as long as what comes back lives.
pub fn show_run(run: &Path) -> Result<Running> {
    let run = std::path::absolute(run).context(message::FolderWithoutPath)?;
    let usual = Server::bind(ServeConfig::default());
    let server = usual.or_else(|_| Server::bind(ServeConfig { port: 0, ..ServeConfig::default() }))?;
    let shown = add(server, run.parent(), true).start()?;
    shown.serve(Vec::new())?;
    let name: String =
        run.file_name().unwrap_or_default().to_string_lossy().bytes().map(in_address).collect();
    let address = format!("http://{}/#/training?runs={name}", shown.address());
    output::note(message::WatchTheRun { address: &address });
    if std::io::stderr().is_terminal() {
        browser::open(&address);
    }
    Ok(shown)
}

/// A byte as it stands in an address.
fn in_address(byte: u8) -> String {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    }
}
