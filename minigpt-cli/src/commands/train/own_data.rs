//! `minigpt train novel.txt`: data of one's own, and what is chosen for it.

use super::TrainArgs;
use crate::config_file::{self, Opened};
use crate::language::duration;
use crate::language::messages::counts;
use crate::language::messages::train as message;
use crate::{output, shell};
use anyhow::{Context, Result, bail};
use minigpt::{Further, MINUTES, MOST_MINUTES, Suggestion, decided_by_model};
use minigpt_charts::count;
use minigpt_train::BestBy;
use std::path::{Path, PathBuf};
use tempfile::{NamedTempFile, TempPath};

/// The folder of a new run. One that is named after data is a new one each time.
pub fn folder(args: &TrainArgs) -> Result<PathBuf> {
    if let Some(out) = &args.out {
        return Ok(out.clone());
    }
    let named = args.config.as_ref().or(args.data.as_ref()).context(message::WhichRun)?;
    let folder = Path::new("runs").join(name(named)?);
    if args.config.is_some() {
        return Ok(folder);
    }
    let numbered = (2..10_000).map(|i| folder.with_file_name(format!("{}-{i}", file_name(&folder))));
    match std::iter::once(folder.clone()).chain(numbered).find(|folder| !folder.exists()) {
        Some(folder) => Ok(folder),
        None => bail!("{}", message::NamesTaken { folder: &folder.display() }),
    }
}

/// What a run on a file or folder is called.
pub fn name(path: &Path) -> Result<String> {
    if path == Path::new("-") {
        return Ok("stdin".to_owned());
    }
    let whole = if path.is_dir() { path.canonicalize().unwrap_or(path.to_owned()) } else { path.to_owned() };
    let name = if path.is_dir() { whole.file_name() } else { whole.file_stem() };
    match name {
        // `train.bin` and `train.jsonl` are parts of what their folder is called.
        Some(stem) if stem == "train" && !path.is_dir() => {
            name_of_parent(path).map_or_else(|| Ok("train".to_owned()), Ok)
        }
        Some(name) => Ok(name.to_string_lossy().into_owned()),
        None => bail!("{}", message::NameTheFolder { path: &path.display() }),
    }
}

fn name_of_parent(path: &Path) -> Option<String> {
    Some(path.canonicalize().ok()?.parent()?.file_name()?.to_string_lossy().into_owned())
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The changes that were asked for, with the data that was named as its path.
pub fn changes(args: &TrainArgs) -> Result<Vec<String>> {
    match args.data.as_deref() {
        None => Ok(args.changes.clone()),
        Some(data) if data == Path::new("-") => {
            bail!(message::StdinNotKept)
        }
        Some(data) => {
            refuse_model(data)?;
            with_path(args, data.to_str().context(message::DataNotUnicode)?)
        }
    }
}

fn with_path(args: &TrainArgs, path: &str) -> Result<Vec<String>> {
    // First, so that somebody who says data.path as well is obeyed.
    let path = format!("data.path={}", serde_json::to_string(path)?);
    Ok([&[path], &args.changes[..]].concat())
}

/// The configuration of a new run: what was said, and what suits the data where nothing was. `input` is where standard input was
/// read to, see [`standard_input`].
pub fn suggest(args: &TrainArgs, input: Option<&Path>) -> Result<Suggestion> {
    let minutes = args.minutes;
    if let Some(minutes) = minutes.filter(|&minutes| !(minutes > 0.0 && minutes <= MOST_MINUTES)) {
        let minutes = if minutes.abs() < 1e15 { minutes.to_string() } else { format!("{minutes:e}") };
        bail!("{}", message::MinutesOutOfRange { minutes: &minutes, most: &count(MOST_MINUTES as u64) });
    }
    let changes = match input {
        Some(input) => with_path(args, input.to_str().context(message::FolderNotUnicode)?)?,
        None => changes(args)?,
    };
    let (text, changes) = match &args.config {
        Some(config) => {
            let Opened { text, changes } = config_file::open(config, &changes)?;
            (text, changes)
        }
        None => (String::new(), changes),
    };
    if let Some(from) = &args.from {
        announce_decided(&text, from);
    }
    Ok(Suggestion::new(&text, &changes, minutes, args.from.as_deref())?)
}

/// Says which settings of a configuration a model that is trained further decides otherwise.
fn announce_decided(text: &str, from: &Path) {
    // What can't be read is said by the run.
    let decided = decided_by_model(text, from).unwrap_or_default();
    if !decided.is_empty() {
        let decided: Vec<String> = decided.iter().map(ToString::to_string).collect();
        let decided = decided.join(", ");
        output::note(message::ShapeKept { ignored: &decided });
    }
}

/// A run or a model is nothing to learn from, though its folder has files that could be read as text.
fn refuse_model(data: &Path) -> Result<()> {
    let (has, shown) = (|name: &str| data.join(name).join("config.json").is_file(), data.display());
    let typed = shell::path(data);
    if has("best") || has("last") {
        bail!("{}", message::RunAsData { path: &shown, typed: &typed });
    }
    if has("") {
        bail!("{}", message::ModelAsData { path: &shown, typed: &typed });
    }
    Ok(())
}

/// Reads standard input, if it is the data, to a temporary file: beside the run's folder, which may be another run's or a
/// person's own, so that the run can move it into the folder once that is known to be free.
pub fn standard_input(args: &TrainArgs, out: &Path) -> Result<Option<TempPath>> {
    if args.data.as_deref() != Some(Path::new("-")) {
        return Ok(None);
    }
    let mut file = temporary_file(out).context(message::NoFileForStdin)?;
    std::io::copy(&mut std::io::stdin().lock(), &mut file).context(message::StdinUnreadable)?;
    Ok(Some(file.into_temp_path()))
}

fn temporary_file(out: &Path) -> std::io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".stdin-").suffix(".txt");
    #[cfg(unix)]
    {
        // As any other file, minus what the umask takes: it becomes a file of the run.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let above = out.ancestors().skip(1).map(|path| if path == Path::new("") { Path::new(".") } else { path });
    match above.into_iter().find(|path| path.is_dir()) {
        Some(folder) => builder.tempfile_in(folder).or_else(|_| builder.tempfile()),
        None => builder.tempfile(),
    }
}

/// Says what was chosen.
pub fn announce(suggestion: &Suggestion, quiet: bool) {
    if quiet || !(suggestion.model || suggestion.further.is_some() || suggestion.seconds.is_some()) {
        return;
    }
    let config = &suggestion.config;
    if suggestion.model {
        let model = &config.model;
        let tokens = match config.data.tokenizer.as_deref() {
            None => message::TokensAsGiven.text(),
            Some("char") => message::CharacterTokens.text(),
            Some(_) => message::BpeTokens.text(),
        };
        output::note(message::ChosenModel {
            n_layer: &(counts::Layers { n: model.n_layer as u64 }.to_string()),
            n_head: &(counts::Heads { n: model.n_head as u64 }.to_string()),
            n_embd: &model.n_embd,
            block_size: &model.block_size,
            tokens: &tokens,
        });
    }
    if let Some(Further { learning_rate, batch_size }) = suggestion.further {
        let (rate, rows) = (
            format!("{:e}", config.train.learning_rate),
            counts::Rows { n: config.train.batch_size as u64 }.to_string(),
        );
        match (learning_rate, batch_size) {
            (true, true) => output::note(message::FineTuningRateAndBatches { rate: &rate, rows: &rows }),
            (true, false) => {
                output::note(message::FineTuningRate { rate: &rate });
            }
            (false, true) => output::note(message::FineTuningBatches { rows: &rows }),
            (false, false) => {}
        }
    }
    if suggestion.by_heart && config.train.best_by == BestBy::Answers {
        output::note(message::AllQuestionsLearned);
    }
    if let Some(seconds) = suggestion.seconds {
        let steps = counts::Steps { n: config.train.max_iters }.to_string();
        let other = if seconds == 60.0 * MINUTES { message::SetMinutes.text() } else { "" };
        output::note(message::EstimatedTime { steps: &steps, time: &duration(seconds), hint: &other });
    }
    match suggestion.enough {
        Some(epochs) if suggestion.further.is_some() => {
            output::note(message::EpochsBeforeForgetting { epochs: &epochs });
        }
        Some(epochs) if suggestion.by_heart => output::note(message::EpochsToMemorize { epochs: &epochs }),
        Some(epochs) => output::note(message::EpochsBeforeOverfitting { epochs: &epochs }),
        None => {}
    }
}
