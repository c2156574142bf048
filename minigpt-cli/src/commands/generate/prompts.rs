//! What is gone on with: one prompt, or many.

use super::GenerateArgs;
use crate::input::{self, MOST_TEXT};
use crate::language::local;
use crate::language::messages::generate as message;
use crate::output;
use anyhow::{Context, Result, bail, ensure};
use minigpt::{Format, ModelFolder};
use minigpt_data::Unknown;
use serde::Deserialize;
use std::cell::Cell;
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

/// What makes ids of texts.
struct Encoder<'a> {
    model: &'a ModelFolder,
    /// What a bare text is wrapped in.
    format: Option<&'a Format>,
    /// Whether one was.
    wrapped: Cell<bool>,
}

/// The prompts that were asked for, encoded; says so where they were wrapped in the model's format.
pub fn read(args: &GenerateArgs, model: &ModelFolder) -> Result<Prompts> {
    let several = args.prompts.is_some() || args.prompt.len() > 1 || args.ids.len() > 1;
    let format = if args.raw || model.tokenizer.is_none() || !args.ids.is_empty() {
        None
    } else {
        Some(model.format()?)
    };
    let encoder = Encoder { model, format, wrapped: Cell::new(false) };
    let words = [args.words.join(" ")];
    let texts = if args.words.is_empty() { &args.prompt[..] } else { &words[..] };
    let ids = match (&args.prompts, texts, &args.ids[..]) {
        (Some(path), _, _) => lines(path, &encoder)?,
        (None, [], []) => vec![encoder.encode(message::ThePrompt.text(), &whole(args)?)?],
        (None, [text], _) => vec![encoder.encode(message::ThePrompt.text(), text)?],
        (None, [], ids) => ids.iter().map(|ids| ids.0.clone()).collect(),
        (None, texts, _) => {
            let numbered = texts.iter().enumerate();
            numbered
                .map(|(i, text)| {
                    encoder.encode(&message::PromptNumber { number: &(i + 1) }.to_string(), text)
                })
                .collect::<Result<_>>()?
        }
    };
    if let (true, Some(format)) = (encoder.wrapped.get(), format) {
        let what = if several { message::PromptsAre.text() } else { message::PromptIs.text() };
        output::note(message::Wrapped { what: &what, format: &local(format) });
    }
    Ok(Prompts { ids, several })
}

impl Encoder<'_> {
    fn encode(&self, what: &str, text: &str) -> Result<Vec<u32>> {
        let ids = self.ids(text).with_context(|| message::CouldNotEncode { what: &what }.to_string())?;
        if let Some(tokenizer) = &self.model.tokenizer {
            output::unknown(what, tokenizer, &Unknown::beside_special(tokenizer, text));
        }
        ensure!(!ids.is_empty(), "{}", message::EmptyPrompt { what: &what });
        Ok(ids)
    }

    fn ids(&self, text: &str) -> Result<Vec<u32>, minigpt::Error> {
        // A question has no line end behind it, but a file and a shell do.
        let question = text.trim_end_matches(['\r', '\n']);
        let wrapped = match self.format {
            Some(format) => format.wrap(self.model.need_tokenizer()?, question)?,
            None => None,
        };
        match wrapped {
            Some(ids) => {
                self.wrapped.set(true);
                Ok(ids)
            }
            None => self.model.encode(text),
        }
    }
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

/// One prompt a line, or one JSON object a line where the first line is one. Empty lines are no prompts.
fn lines(path: &Path, encoder: &Encoder) -> Result<Vec<Vec<u32>>> {
    let text = file(path)?;
    let lines: Vec<(usize, &str)> =
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).collect();
    let Some((_, first)) = lines.first() else {
        bail!("{}", message::NoPromptInFile { path: &path.display() })
    };
    let json = serde_json::from_str::<serde_json::Map<_, _>>(first).is_ok();
    let prompt = |&(i, line): &(usize, &str)| {
        let what = message::LineOf { path: &path.display(), line: &(i + 1) }.to_string();
        if json { from_json(&what, line, encoder) } else { encoder.encode(&what, line) }
    };
    lines.iter().map(prompt).collect()
}

fn from_json(what: &str, line: &str, encoder: &Encoder) -> Result<Vec<u32>> {
    match serde_json::from_str(line).with_context(|| message::NotAPrompt { what: &what }.to_string())? {
        Line { prompt: Some(text), ids: None } => encoder.encode(what, &text),
        Line { prompt: None, ids: Some(ids) } => {
            ensure!(!ids.is_empty(), "{}", message::EmptyPrompt { what: &what });
            Ok(ids)
        }
        Line { .. } => bail!("{}", message::ExpectedPromptOrIds { what: &what }),
    }
}
