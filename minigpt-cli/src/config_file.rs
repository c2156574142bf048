//! A configuration by name: a file, or one of those that are built in.

use crate::arguments::numbers;
use crate::language::messages::arguments::SeedDrawn;
use crate::language::messages::main as message;
use crate::output;
use anyhow::{Context, Result, bail};
use minigpt::settings::misspelling;
use minigpt::{READY_CONFIGS, ReadyConfig, RunConfig};
use std::path::{Path, PathBuf};

/// A configuration by name. A file wins over a built-in one; a note says which one is used if both exist.
pub struct Opened {
    /// Its text, which may leave the model open.
    pub text: String,
    /// The changes, plus a seed if the file asks for a random one.
    pub changes: Vec<String>,
}

/// Finds the configuration of this name and checks it with changes such as `train.max_iters=100`.
pub fn open(name: &Path, changes: &[String]) -> Result<Opened> {
    let found = find(name)?;
    if let Some(note) = &found.note {
        output::note(note);
    }
    let mut changes = changes.to_vec();
    let text = match found.source {
        Source::File(path) => {
            let named = |change: &String| change.trim_start().starts_with("train.seed");
            if asks_for_a_seed(&path) && !changes.iter().any(named) {
                let seed = numbers::draw_seed();
                output::note(SeedDrawn { seed }.to_string());
                changes.push(format!("train.seed={seed}"));
            }
            RunConfig::read_open(&path, &changes)?
        }
        Source::Ready(ready) => {
            RunConfig::parse_open(ready.text, &changes)
                .with_context(|| message::Unchangeable { name: ready.name })?;
            ready.text.to_owned()
        }
    };
    Ok(Opened { text, changes })
}

/// Whether a file has `seed = "random"`. Its errors are reported when it is read as a configuration.
fn asks_for_a_seed(path: &Path) -> bool {
    let text = minigpt_files::read_text(path, 1 << 20).unwrap_or_default();
    let table: toml::Table = text.parse().unwrap_or_default();
    table.get("train").and_then(|train| train.get("seed")).is_some_and(|seed| seed.as_str() == Some("random"))
}

enum Source {
    File(PathBuf),
    Ready(&'static ReadyConfig),
}

struct Found {
    source: Source,
    note: Option<String>,
}

fn find(name: &Path) -> Result<Found> {
    let ready = name.to_str().and_then(ReadyConfig::find);
    let Some(ready) = ready else {
        if name.exists() {
            return Ok(Found { source: Source::File(name.to_owned()), note: None });
        }
        bail!("{}", unknown(name));
    };
    let shown = ready.name;
    let with_ending = PathBuf::from(format!("{shown}.toml"));
    if let Some(file) = [name.to_owned(), with_ending].into_iter().find(|file| file.is_file()) {
        let note = message::FileWins { file: Path::new(".").join(&file).display(), name: shown }.to_string();
        return Ok(Found { source: Source::File(file), note: Some(note) });
    }
    let beside = Path::new("configs").join(format!("{shown}.toml"));
    let differs = std::fs::read_to_string(&beside).is_ok_and(|text| text != ready.text);
    let note = differs.then(|| message::BuiltinWins { name: shown, file: beside.display() }.to_string());
    Ok(Found { source: Source::Ready(ready), note })
}

/// The message for a name that is neither a file nor built in.
pub fn unknown(name: &Path) -> String {
    let stem = name.file_stem().unwrap_or_default().to_string_lossy();
    let near = READY_CONFIGS.iter().filter_map(|ready| Some((misspelling(&stem, ready.name)?, ready.name)));
    let (name, near) = (name.display(), near.min().map(|(_, near)| near));
    match near {
        Some(near) if near == stem => message::NameBuiltin { name, near }.to_string(),
        Some(near) => message::NearConfig { name, near }.to_string(),
        None => message::NoConfig { name }.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_near_is_guessed() {
        let said = |name: &str| unknown(Path::new(name));
        assert!(said("shakespear-cpu").contains("did you mean shakespeare-cpu?"));
        assert!(said("configs/qa.toml").contains("qa is built in"));
        assert!(
            !said("novel.toml").contains("did you mean")
                && said("novel.toml").contains("minigpt config list")
        );
    }
}
