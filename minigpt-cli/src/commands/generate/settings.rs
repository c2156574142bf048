//! How the text is made: what the options say, and variants of it to be compared.

use super::{ContextName, GenerateArgs};
use crate::language::messages::generate as message;
use crate::sampling;
use anyhow::{Context, Result, bail, ensure};
use minigpt::ModelFolder;
use minigpt_generate::{ContextRule, GenerationConfig, Style};
use serde_json::Number;
use std::str::FromStr;

/// The settings that may differ between variants, by their names in [`GenerationConfig`].
const NAMES: [&str; 11] = [
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
    "repeat_last_n",
    "num_beams",
    "length_penalty",
    "seed",
];

/// Settings, and what a variant is called.
pub struct Setting {
    pub label: Option<String>,
    pub config: GenerationConfig,
}

/// The variants of one `--compare`: a style begins one, and `name=value` belongs to the one before it.
#[derive(Debug, Clone, PartialEq)]
pub struct Variants(Vec<Variant>);

#[derive(Debug, Clone, Default, PartialEq)]
struct Variant {
    style: Option<Style>,
    changes: Vec<(String, Number)>,
}

impl FromStr for Variants {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut variants: Vec<Variant> = Vec::new();
        for part in text.split(',').map(str::trim) {
            match part.split_once('=') {
                None => {
                    let style = Some(part.parse().map_err(|_| unknown(part))?);
                    variants.push(Variant { style, ..Variant::default() });
                }
                Some((name, value)) => {
                    let change = change(name.trim(), value.trim())?;
                    match variants.last_mut() {
                        Some(variant) => variant.changes.push(change),
                        None => variants.push(Variant { style: None, changes: vec![change] }),
                    }
                }
            }
        }
        Ok(Self(variants))
    }
}

fn unknown(part: &str) -> String {
    let styles = Style::ALL.map(Style::name).join(", ");
    message::NotAStyle { part: &part, styles: &styles }.to_string()
}

fn change(name: &str, value: &str) -> Result<(String, Number), String> {
    if !NAMES.contains(&name) {
        return Err(message::UnknownSetting { name: &name, names: &NAMES.join(", ") }.to_string());
    }
    let number = value.parse().map_err(|_| message::NotANumber { name: &name, value: &value }.to_string())?;
    Ok((name.to_owned(), number))
}

impl Variant {
    fn label(&self) -> String {
        let style = self.style.map(|style| style.name().to_owned()).into_iter();
        let changes = self.changes.iter().map(|(name, value)| format!("{name}={value}"));
        style.chain(changes).collect::<Vec<_>>().join(", ")
    }

    /// The settings of this variant that only matter to a draw.
    fn asks_for_a_draw(&self) -> Vec<&str> {
        const OF_A_DRAW: [&str; 5] = ["temperature", "top_k", "top_p", "min_p", "seed"];
        let style = self.style.filter(|style| *style != Style::Exact).map(Style::name);
        let changes = self.changes.iter().filter(|(name, value)| {
            OF_A_DRAW.contains(&name.as_str()) && !(name == "temperature" && value.as_f64() == Some(0.0))
        });
        style.into_iter().chain(changes.map(|(name, _)| name.as_str())).collect()
    }

    fn apply(&self, base: &GenerationConfig) -> Result<GenerationConfig> {
        let mut config = base.clone();
        if let Some(style) = self.style {
            style.apply(&mut config);
        }
        let mut fields = serde_json::to_value(&config)?;
        for (name, value) in &self.changes {
            fields[name] = value.clone().into();
            // A temperature means that tokens are drawn; 0 is greedy all the same.
            fields["do_sample"] = (name == "temperature" || fields["do_sample"] == true).into();
        }
        Ok(serde_json::from_value(fields)?)
    }
}

/// The settings to write with: one, or as many as are compared.
pub fn all(args: &GenerateArgs, model: &ModelFolder) -> Result<Vec<Setting>> {
    let most = model.gpt.config().vocab_size;
    if let Some(id) = args.stop_id.iter().find(|&&id| id as usize >= most) {
        bail!("{}", message::StopIdBeyondVocabulary { id: &id, most: &(most - 1) });
    }
    let base = base(args, model);
    let mut settings = vec![Setting { label: None, config: base.clone() }];
    if args.compare.is_empty() {
        check_beams("", &base, &args.sampling.asks_for_a_draw())?;
        sampling::say_unused(&base, &args.sampling.of_a_draw());
        sampling::say_unused_window(&base, "--repeat-last-n");
    } else {
        let variants = args.compare.iter().flat_map(|variants| &variants.0);
        settings = variants
            .map(|variant| {
                let label = variant.label();
                let config = variant.apply(&base).with_context(|| format!("--compare {label}"))?;
                sampling::say_unused_window(
                    &config,
                    &message::CompareRepeatLastN { label: &label }.to_string(),
                );
                check_beams(&format!("--compare {label}: "), &config, &variant.asks_for_a_draw())?;
                ensure!(
                    config.num_beams == 1 || !args.explain,
                    "{}",
                    message::NoExplanationOfBeams { label: &label }
                );
                Ok(Setting { label: Some(label), config })
            })
            .collect::<Result<_>>()?;
    }
    let constraint = args.structured.constraint(model)?;
    for Setting { config, .. } in &mut settings {
        config.constraint.clone_from(&constraint);
        // A beam search looks for the likeliest text; it does not draw.
        config.do_sample &= config.num_beams == 1;
        // All of them before the first is computed.
        config.validate()?;
    }
    Ok(settings)
}

/// Refuses a beam search that is also to draw, and a length penalty without beams.
fn check_beams(place: &str, config: &GenerationConfig, draws: &[&str]) -> Result<()> {
    ensure!(
        config.num_beams == 1 || draws.is_empty(),
        "{}",
        message::SamplingWithBeams {
            place: &place,
            setting: &draws.join(", "),
            num_beams: &config.num_beams
        }
    );
    ensure!(
        config.num_beams > 1 || config.length_penalty == 1.0,
        "{}",
        message::LengthPenaltyWithoutBeams { place: &place, length_penalty: &config.length_penalty }
    );
    Ok(())
}

fn base(args: &GenerateArgs, model: &ModelFolder) -> GenerationConfig {
    let mut config = GenerationConfig {
        max_new_tokens: 200,
        min_new_tokens: args.min_new_tokens,
        do_sample: true,
        temperature: 0.8,
        top_k: 200,
        num_beams: args.num_beams,
        length_penalty: args.length_penalty,
        num_return_sequences: args.num_samples,
        eos_token_id: args.stop_id.iter().copied().chain(model.stop_ids()).collect(),
        seed: 1337,
        context: match args.context {
            ContextName::Slide => ContextRule::Slide,
            ContextName::Crop => ContextRule::Crop,
            ContextName::Stop => ContextRule::Stop,
        },
        ..GenerationConfig::default()
    };
    args.sampling.apply(&mut config);
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> Vec<String> {
        text.parse::<Variants>().unwrap().0.iter().map(Variant::label).collect()
    }

    #[test]
    fn a_style_begins_a_variant_and_a_setting_belongs_to_the_one_before() {
        assert_eq!(labels("story,exact,code"), ["story", "exact", "code"]);
        assert_eq!(labels("temperature=1.2,top_k=5"), ["temperature=1.2, top_k=5"]);
        assert_eq!(labels("story, top_k=5,exact"), ["story, top_k=5", "exact"]);
        for (text, part) in [
            ("poem", "neither a style"),
            ("heat=1", "unknown setting heat; there are temperature"),
            ("temperature=hot", "expected a number"),
            ("", "neither"),
        ] {
            let error = text.parse::<Variants>().unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_variant_changes_what_it_names_and_leaves_the_rest() {
        let base = GenerationConfig { seed: 9, top_k: 7, ..GenerationConfig::default() };
        let apply = |text: &str| text.parse::<Variants>().unwrap().0[0].apply(&base);
        let warm = apply("temperature=0.3,top_p=0.9").unwrap();
        let want = GenerationConfig { do_sample: true, temperature: 0.3, top_p: 0.9, ..base.clone() };
        assert_eq!(warm, want);
        assert!(apply("exact").unwrap().is_greedy() && apply("top_k=3").unwrap().is_greedy());
        assert!(apply("top_k=0.5").is_err());
    }
}
