//! What a person may change in a chat, and how it is shown.

use anyhow::{Context, Result, bail};
use minigpt_charts::Table;
use minigpt_generate::{GenerationConfig, Style};
use std::str::FromStr;

/// How answers are made.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// What decoding takes.
    pub generation: GenerationConfig,
    /// Whether an answer that goes round in circles is cut.
    pub guard: bool,
    /// Whether the model is told what was said before.
    pub history: bool,
}

/// The names that `/set` knows, in the order of `/show`.
const NAMES: [&str; 11] = [
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "max_new_tokens",
    "seed",
    "stop",
    "guard",
    "history",
    "style",
];

impl Settings {
    /// Changes one setting. What makes no sense is refused, and nothing changes.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let mut new = self.clone();
        let generation = &mut new.generation;
        match name {
            "temperature" => {
                generation.temperature = number(name, value)?;
                generation.do_sample = generation.temperature > 0.0;
                if generation.temperature == 0.0 {
                    generation.temperature = 1.0;
                }
            }
            "top_k" => generation.top_k = number(name, value)?,
            "top_p" => generation.top_p = number(name, value)?,
            "min_p" => generation.min_p = number(name, value)?,
            "repetition_penalty" => generation.repetition_penalty = number(name, value)?,
            "max_new_tokens" => generation.max_new_tokens = number(name, value)?,
            "seed" => generation.seed = number(name, value)?,
            "stop" => generation.stop_strings = vec![value.replace("\\n", "\n")],
            "guard" => new.guard = on_or_off(name, value)?,
            "history" => new.history = on_or_off(name, value)?,
            "style" => value.parse::<Style>()?.apply(generation),
            _ => bail!("there is no setting {name}; there are {}", NAMES.join(", ")),
        }
        new.generation.validate()?;
        *self = new;
        Ok(())
    }

    /// All settings as a table.
    pub fn show(&self) -> String {
        let generation = &self.generation;
        let temperature = if generation.do_sample { generation.temperature } else { 0.0 };
        let switch = |on: bool| if on { "on" } else { "off" };
        let mut table = Table::default();
        table.row(["temperature", &temperature.to_string(), "0 always takes the likeliest token"]);
        table.row(["top_k", &generation.top_k.to_string(), "draw from the k likeliest; 0 for all"]);
        table.row(["top_p", &generation.top_p.to_string(), "draw from those that make up this probability"]);
        table.row(["min_p", &generation.min_p.to_string(), "at least this part of the likeliest one's"]);
        let penalty = generation.repetition_penalty.to_string();
        table.row(["repetition_penalty", &penalty, "above 1: less of what was said already"]);
        table.row(["max_new_tokens", &generation.max_new_tokens.to_string(), "the longest answer"]);
        table.row(["seed", &generation.seed.to_string(), "the same seed, the same answers"]);
        let stop = format!("{:?}", generation.stop_strings.first().map_or("", String::as_str));
        table.row(["stop", &stop, "what ends an answer"]);
        table.row(["guard", switch(self.guard), "cut an answer that goes round in circles"]);
        table.row(["history", switch(self.history), "tell the model what was said before"]);
        table.draw()
    }
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    value.parse().with_context(|| format!("{name} can't be {value}"))
}

fn on_or_off(name: &str, value: &str) -> Result<bool> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => bail!("{name} is on or off, not {value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings { generation: GenerationConfig::default(), guard: true, history: false }
    }

    #[test]
    fn every_name_can_be_set_and_is_shown() {
        for name in NAMES {
            let value = match name {
                "guard" | "history" => "on",
                "style" => "story",
                "top_k" | "max_new_tokens" | "seed" => "7",
                _ => "0.5",
            };
            let mut settings = settings();
            settings.set(name, value).unwrap_or_else(|e| panic!("{name}: {e:#}"));
            assert!(name == "style" || settings.show().contains(name), "{name}");
        }
    }

    #[test]
    fn temperature_0_is_greedy_and_any_other_draws() {
        let mut settings = settings();
        settings.set("temperature", "0.7").unwrap();
        assert!(settings.generation.do_sample && settings.generation.temperature == 0.7);
        settings.set("temperature", "0").unwrap();
        assert!(settings.generation.is_greedy());
        assert!(settings.show().contains("temperature         0 "), "{}", settings.show());
    }

    #[test]
    fn nonsense_is_refused_and_changes_nothing() {
        let mut changed = settings();
        for (name, value) in
            [("temperature", "-1"), ("top_p", "7"), ("top_k", "many"), ("guard", "1"), ("x", "1")]
        {
            let error = format!("{:#}", changed.set(name, value).unwrap_err());
            assert!(error.contains(name), "{error}");
            assert_eq!(changed, settings());
        }
    }
}
