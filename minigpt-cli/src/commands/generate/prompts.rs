//! What is gone on with: one prompt, or many.

use super::GenerateArgs;
use crate::input::{self, MOST_TEXT};
use crate::output;
use anyhow::{Context, Result, bail, ensure};
use minigpt::ModelFolder;
use serde::Deserialize;
use std::path::Path;

/// Prompts as ids.
pub struct Prompts {
    pub ids: Vec<Vec<u32>>,
    /// Whether they were given as a list, which may have one entry.
    pub several: bool,
}

/// A line of a file with prompts.
#[derive(Deserialize)]
struct Line {
    prompt: Option<String>,
    ids: Option<Vec<u32>>,
}

/// The prompts that were asked for, encoded.
pub fn read(args: &GenerateArgs, model: &ModelFolder) -> Result<Prompts> {
    let several = args.prompts.is_some() || args.prompt.len() > 1 || args.ids.len() > 1;
    let ids = match (&args.prompts, &args.prompt[..], &args.ids[..]) {
        (Some(path), _, _) => lines(path, model)?,
        (None, [], []) => vec![encode("the prompt", &whole(args)?, model)?],
        (None, [text], _) => vec![encode("the prompt", text, model)?],
        (None, [], ids) => ids.iter().map(|ids| ids.0.clone()).collect(),
        (None, texts, _) => {
            let numbered = texts.iter().enumerate();
            numbered
                .map(|(i, text)| encode(&format!("prompt {}", i + 1), text, model))
                .collect::<Result<_>>()?
        }
    };
    Ok(Prompts { ids, several })
}

/// One prompt with all its line ends, from a file or standard input.
fn whole(args: &GenerateArgs) -> Result<String> {
    match &args.prompt_file {
        Some(path) => file(path),
        None => input::text("prompt", MOST_TEXT),
    }
}

fn file(path: &Path) -> Result<String> {
    if path.as_os_str() == "-" {
        return input::text("prompts", MOST_TEXT);
    }
    Ok(minigpt_files::read_text_or_pipe(path, MOST_TEXT)?)
}

fn encode(what: &str, text: &str, model: &ModelFolder) -> Result<Vec<u32>> {
    let ids = model.encode(text).with_context(|| format!("{what} can't be encoded"))?;
    output::unknown(what, model.need_tokenizer()?, text);
    ensure!(!ids.is_empty(), "{what} is empty: give at least one token to go on with");
    Ok(ids)
}

/// One prompt a line, or one JSON object a line where the first line is one. Empty lines are no prompts.
fn lines(path: &Path, model: &ModelFolder) -> Result<Vec<Vec<u32>>> {
    let text = file(path)?;
    let lines: Vec<(usize, &str)> =
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).collect();
    let Some((_, first)) = lines.first() else { bail!("{}: there is no prompt in it", path.display()) };
    let json = serde_json::from_str::<serde_json::Map<_, _>>(first).is_ok();
    let prompt = |&(i, line): &(usize, &str)| {
        let what = format!("{}, line {}", path.display(), i + 1);
        if json { from_json(&what, line, model) } else { encode(&what, line, model) }
    };
    lines.iter().map(prompt).collect()
}

fn from_json(what: &str, line: &str, model: &ModelFolder) -> Result<Vec<u32>> {
    match serde_json::from_str(line).with_context(|| format!("{what}: not a prompt"))? {
        Line { prompt: Some(text), ids: None } => encode(what, &text, model),
        Line { prompt: None, ids: Some(ids) } => {
            ensure!(!ids.is_empty(), "{what} is empty: give at least one token to go on with");
            Ok(ids)
        }
        Line { .. } => bail!("{what}: expected {{\"prompt\": …}} or {{\"ids\": […]}}"),
    }
}
