//! All views of a text as one page that stands alone: the data inside, nothing fetched, light and dark.

use super::answer::Answer;
use super::tokens;
use crate::language::messages::inspect as message;
use crate::language::{self, Language};
use anyhow::{Context, Result};
use minigpt::ModelFolder;
use minigpt_insight::{Subject, each_layer};
use minigpt_model::Tensor;
use serde::Serialize;
use std::path::Path;

/// The page, with a place for the data.
const PAGE: &str = include_str!("page.html");
/// Where the data goes.
const PLACE: &str = "\"DATA\"";
/// Weights of attention that a page may hold; a longer text goes without them.
const MOST_WEIGHTS: usize = 4 << 20;

#[derive(Serialize)]
struct Page<'a> {
    model: String,
    labels: Vec<String>,
    #[serde(flatten)]
    answer: &'a Answer,
    /// In thousandths, by layer, head, query and key.
    attention: Option<Vec<Vec<Vec<Vec<u16>>>>>,
    /// Names of the tokens that the attribution, the lens and the walk speak of come with these.
    choice: Option<String>,
}

/// Writes the page.
pub fn write(file: &Path, model: &ModelFolder, answer: &Answer) -> Result<()> {
    let text = answer.text.as_ref().context(message::HtmlNeedsAText)?;
    let chosen = answer.walk.as_ref().and_then(|walk| walk.walk.last()).and_then(|step| step.values.first());
    let page = Page {
        model: tokens::summary(model).trim_end().to_owned(),
        labels: tokens::labels(text),
        answer,
        attention: attention(model, &text.ids)?,
        choice: chosen.and_then(|&id| tokens::name(model, id as u32)),
    };
    let data = serde_json::to_string(&page).context(message::JsonUnwritable)?;
    let language = if language::current() == Language::Zh { "zh" } else { "en" };
    let page =
        PAGE.replacen("lang=\"en\"", &format!("lang=\"{language}\""), 1).replacen(PLACE, &harmless(&data), 1);
    minigpt_files::write_file(file, page.as_bytes()).with_context(|| format!("--html {}", file.display()))
}

/// JSON that can't end the element it stands in: it means the same.
fn harmless(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// Weights by layer, head, query and key, in thousandths.
type Weights = Vec<Vec<Vec<Vec<u16>>>>;

fn attention(model: &ModelFolder, ids: &[u32]) -> Result<Option<Weights>> {
    let config = model.gpt.config();
    if config.n_layer * config.n_head * ids.len().pow(2) > MOST_WEIGHTS {
        return Ok(None);
    }
    let mut layers = Vec::new();
    each_layer(&Subject::new(&model.gpt), ids, |_, pattern: &Tensor| {
        let heads = pattern.to_vec3::<f32>()?;
        let thousandths =
            |weights: &Vec<f32>| weights.iter().map(|a| (1000.0 * a).round() as u16).collect::<Vec<u16>>();
        layers.push(heads.iter().map(|head| head.iter().map(thousandths).collect()).collect());
        Ok(())
    })?;
    Ok(Some(layers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_asks_nobody_and_text_stays_text() {
        assert_eq!(PAGE.matches(PLACE).count(), 1);
        for outside in ["http:", "https:", "src=", "@import", "url(", "innerHTML", "fetch("] {
            assert!(!PAGE.contains(outside), "{outside}");
        }
        let text = serde_json::to_string("</script><b>&").unwrap();
        assert!(!harmless(&text).contains('<'));
        assert_eq!(serde_json::from_str::<String>(&harmless(&text)).unwrap(), "</script><b>&");
    }
}
