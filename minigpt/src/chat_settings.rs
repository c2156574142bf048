//! How a model answers in a conversation: what suits its format, and changes by name.

use crate::error::Result;
use crate::model_folder::ModelFolder;
use crate::settings::whole_number;
use minigpt_chat::Format;
use minigpt_data::QaEncoder;
use minigpt_generate::{GenerationConfig, Style};
use std::str::FromStr;

/// How answers are made.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatSettings {
    /// How tokens are chosen, and when an answer ends.
    pub generation: GenerationConfig,
    /// Whether an answer that goes round in circles is cut.
    pub guard: bool,
    /// Whether the prompt includes earlier messages.
    pub history: bool,
}

impl ChatSettings {
    /// The names that [`Self::set`] knows.
    pub const NAMES: [&str; 14] = [
        "temperature",
        "top_k",
        "top_p",
        "min_p",
        "repetition_penalty",
        "frequency_penalty",
        "presence_penalty",
        "repeat_last_n",
        "max_new_tokens",
        "seed",
        "stop",
        "guard",
        "history",
        "style",
    ];

    /// Settings that suit a format: greedy decoding up to the separator for questions, which have one right answer, and
    /// sampling otherwise. A question/answer model is trained on single questions, so earlier messages are left out.
    pub fn suited_to(format: &Format, model: &ModelFolder) -> Result<Self> {
        let generation = match format {
            Format::Qa => {
                let separator = QaEncoder::new(model.need_tokenizer()?)?.separator();
                GenerationConfig { eos_token_id: vec![separator], top_k: 0, ..GenerationConfig::default() }
            }
            Format::Template(_) | Format::Plain => {
                let drawn =
                    GenerationConfig { do_sample: true, temperature: 0.8, ..GenerationConfig::default() };
                GenerationConfig { eos_token_id: model.stop_ids(), top_k: 40, ..drawn }
            }
        };
        let generation = GenerationConfig { max_new_tokens: 256, ..generation };
        Ok(Self { generation, guard: true, history: format.remembers() })
    }

    /// Changes one setting. An invalid value is an error and changes nothing.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let mut new = self.clone();
        let generation = &mut new.generation;
        // As options write them, and llama.cpp and Ollama.
        let name = match &*name.replace('-', "_") {
            "temp" => "temperature",
            "repeat_penalty" => "repetition_penalty",
            "num_predict" | "n_predict" => "max_new_tokens",
            dashed => Self::NAMES.into_iter().find(|known| *known == dashed).unwrap_or(name),
        };
        match name {
            "temperature" => {
                generation.temperature = real(name, value)?;
                generation.do_sample = generation.temperature > 0.0;
                if generation.temperature == 0.0 {
                    generation.temperature = 1.0;
                }
            }
            "top_k" => generation.top_k = whole(name, value)?,
            "top_p" => generation.top_p = real(name, value)?,
            "min_p" => generation.min_p = real(name, value)?,
            "repetition_penalty" => generation.repetition_penalty = real(name, value)?,
            "frequency_penalty" => generation.frequency_penalty = real(name, value)?,
            "presence_penalty" => generation.presence_penalty = real(name, value)?,
            "repeat_last_n" => generation.repeat_last_n = Some(whole(name, value)?),
            "max_new_tokens" => generation.max_new_tokens = whole(name, value)?,
            "seed" => generation.seed = whole(name, value)?,
            "stop" => generation.stop_strings = vec![value.replace("\\n", "\n")],
            "guard" => new.guard = on_or_off(name, value)?,
            "history" => new.history = on_or_off(name, value)?,
            "style" => value.parse::<Style>()?.apply(generation),
            _ => return Err(ChatSettingError::Unknown { name: name.to_owned() }.into()),
        }
        new.generation.validate()?;
        *self = new;
        Ok(())
    }
}

/// Why a setting of a chat cannot be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what the variants are")]
pub enum ChatSettingError {
    #[error("unknown setting {name}; settings are {}", ChatSettings::NAMES.join(", "))]
    Unknown { name: String },
    #[error("{name} is {value}; it must be a whole number, 0 or more")]
    NotWhole { name: String, value: String },
    #[error("{name} is {value}; it must be a number")]
    NotANumber { name: String, value: String },
    #[error("{name} is {value}; it must be on or off")]
    NotASwitch { name: String, value: String },
}

/// A whole number, in the spellings that options take.
fn whole<T: FromStr>(name: &str, value: &str) -> Result<T> {
    let number = whole_number(value).and_then(|digits| digits.parse().ok());
    let wrong = || ChatSettingError::NotWhole { name: name.to_owned(), value: value.to_owned() };
    Ok(number.ok_or_else(wrong)?)
}

fn real(name: &str, value: &str) -> Result<f64> {
    let number = value.parse().ok().filter(|number: &f64| number.is_finite());
    let wrong = || ChatSettingError::NotANumber { name: name.to_owned(), value: value.to_owned() };
    Ok(number.ok_or_else(wrong)?)
}

fn on_or_off(name: &str, value: &str) -> Result<bool> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(ChatSettingError::NotASwitch { name: name.to_owned(), value: value.to_owned() }.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> ChatSettings {
        ChatSettings { generation: GenerationConfig::default(), guard: true, history: false }
    }

    #[test]
    fn every_name_can_be_set_and_changes_something() {
        for name in ChatSettings::NAMES {
            let value = match name {
                "guard" => "off",
                "history" => "on",
                "style" => "story",
                "top_k" | "max_new_tokens" | "repeat_last_n" | "seed" => "7",
                _ => "0.5",
            };
            let mut changed = settings();
            changed.set(name, value).unwrap_or_else(|e| panic!("{name}: {e:#}"));
            assert_ne!(changed, settings(), "{name}");
        }
    }

    #[test]
    fn temperature_0_is_greedy_and_any_other_draws() {
        let mut settings = settings();
        settings.set("temperature", "0.7").unwrap();
        assert!(settings.generation.do_sample && settings.generation.temperature == 0.7);
        settings.set("temperature", "0").unwrap();
        assert!(settings.generation.is_greedy());
    }

    #[test]
    fn whole_numbers_are_taken_as_options_take_them() {
        let mut settings = settings();
        settings.set("max_new_tokens", "1e3").unwrap();
        settings.set("seed", "1_000").unwrap();
        assert_eq!((settings.generation.max_new_tokens, settings.generation.seed), (1000, 1000));
    }

    #[test]
    fn names_of_options_and_of_other_programs_mean_ours() {
        for (theirs, ours) in [
            ("top-k", "top_k"),
            ("temp", "temperature"),
            ("repeat_penalty", "repetition_penalty"),
            ("num_predict", "max_new_tokens"),
        ] {
            let [mut one, mut other] = [settings(), settings()];
            one.set(theirs, "3").unwrap();
            other.set(ours, "3").unwrap();
            assert_eq!(one, other, "{theirs}");
        }
    }

    #[test]
    fn nonsense_is_refused_and_changes_nothing() {
        let mut changed = settings();
        for (name, value) in [
            ("temperature", "-1"),
            ("temperature", "5000"),
            ("temperature", "nan"),
            ("repetition_penalty", "1e300"),
            ("min_p", "inf"),
            ("top_p", "7"),
            ("top_k", "many"),
            ("top_k", "-1"),
            ("max_new_tokens", "1.5"),
            ("guard", "1"),
            ("x", "1"),
        ] {
            let error = format!("{:#}", changed.set(name, value).unwrap_err());
            assert!(error.contains(name), "{error}");
            assert_eq!(changed, settings());
        }
    }
}
