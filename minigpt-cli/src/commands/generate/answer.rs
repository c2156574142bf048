//! The answer for programs. One prompt under one setting is `{prompt_ids, completions, tokens_per_second}`; where there
//! are several of either, `{results: [{prompt_ids, completions}], tokens_per_second}`.

use super::Group;
use super::explain::Step;
use crate::output;
use anyhow::Result;
use minigpt::ModelFolder;
use minigpt_generate::{Completion, FinishReason, GenerationConfig};
use serde::Serialize;

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    result: Written<'a>,
    tokens_per_second: f64,
}

#[derive(Serialize)]
struct Answers<'a> {
    results: Vec<Written<'a>>,
    tokens_per_second: f64,
}

/// What was written for one prompt under one setting.
#[derive(Serialize)]
struct Written<'a> {
    prompt_ids: &'a [u32],
    /// What the variant is called, where several are compared, and all of its settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    settings: Option<&'a GenerationConfig>,
    completions: Vec<Text<'a>>,
}

#[derive(Serialize)]
struct Text<'a> {
    ids: &'a [u32],
    text: Option<&'a str>,
    finish_reason: Option<FinishReason>,
    logprob: f64,
    /// How each token was chosen, where that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps: Vec<Step>,
}

/// Prints the answer.
pub fn print(model: &ModelFolder, groups: &[Group], several: bool, tokens_per_second: f64) -> Result<()> {
    let mut results: Vec<Written> = groups.iter().map(|group| written(model, group)).collect();
    match results.pop() {
        Some(result) if !several => output::json(&Answer { result, tokens_per_second }),
        last => {
            results.extend(last);
            output::json(&Answers { results, tokens_per_second })
        }
    }
}

fn written<'a>(model: &ModelFolder, group: &'a Group) -> Written<'a> {
    let label = group.setting.label.as_deref();
    Written {
        prompt_ids: group.prompt,
        label,
        settings: label.map(|_| &group.setting.config),
        completions: group.completions.iter().map(|completion| text(model, completion)).collect(),
    }
}

fn text<'a>(model: &ModelFolder, completion: &'a Completion) -> Text<'a> {
    let steps = completion.ids.iter().zip(&completion.explanations);
    Text {
        ids: &completion.ids,
        text: completion.text.as_deref(),
        finish_reason: completion.finish_reason,
        logprob: completion.logprob(),
        steps: steps.map(|(&id, explanation)| Step::new(model, id, explanation)).collect(),
    }
}
