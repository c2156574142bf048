//! How to decode: every setting, under the name and with the meaning that Hugging Face's `generate` gives it.

use crate::constraint::Constraint;
use crate::error::{Error, Result, SettingLimit, SettingProblem, SettingRange};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// Below this a temperature counts as 0: the likeliest token, always.
const COLDEST: f64 = 1e-6;

/// Above this, sampling is practically uniform: such a temperature is a mistake.
const HOTTEST: f64 = 100.0;

/// Texts that are written at once for a prompt: each has keys and values of its own.
const MOST_ROWS: usize = 65_536;

/// How to continue a prompt. The defaults are Hugging Face's, but for `max_new_tokens`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GenerationConfig {
    /// How many tokens to write at most.
    pub max_new_tokens: usize,
    /// How many tokens to write before a stop token may come.
    pub min_new_tokens: usize,
    /// Draw tokens at random; otherwise the likeliest one comes, always, and `temperature`, `top_k`, `top_p` and
    /// `min_p` mean nothing ([`Self::warnings`] says so).
    pub do_sample: bool,
    /// Divides the logits: below 1 likely tokens become likelier, above 1 all become more alike. 0 is greedy.
    pub temperature: f64,
    /// Draw from the k likeliest tokens only; 0 is off.
    pub top_k: usize,
    /// Draw from the smallest set of tokens that has this probability; 1 is off.
    pub top_p: f64,
    /// Draw from tokens with at least this part of the likeliest one's probability; 0 is off.
    pub min_p: f64,
    /// Makes tokens that the text has already (prompt included) less likely, if above 1.
    pub repetition_penalty: f64,
    /// Subtracted from a token's logit once for each time that the text written so far has it (OpenAI's definition); 0 is off.
    pub frequency_penalty: f64,
    /// Subtracted once from the logit of each token that the text written so far has; 0 is off.
    pub presence_penalty: f64,
    /// The three penalties look at the last `n` tokens of the whole text, prompt included, as in llama.cpp. If not set,
    /// `repetition_penalty` looks at the whole text and the other two at what was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat_last_n: Option<usize>,
    /// Sequences of tokens that may never be written. A single stop token in here is ignored.
    pub bad_words_ids: Vec<Vec<u32>>,
    /// Tokens that may never be written.
    pub suppress_tokens: Vec<u32>,
    /// How many continuations a beam search follows at once; 1 is no beam search.
    pub num_beams: usize,
    /// A finished beam's score is its log-probability divided by its length to this power: above 0 favours long
    /// ones, below 0 short ones.
    pub length_penalty: f64,
    /// When a beam search is over.
    pub early_stopping: EarlyStopping,
    /// How many continuations of each prompt to return.
    pub num_return_sequences: usize,
    /// First token of an empty prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bos_token_id: Option<u32>,
    /// Tokens that end a text. In JSON one or a list.
    #[serde(deserialize_with = "one_or_many")]
    pub eos_token_id: Vec<u32>,
    /// Strings that end a text and are not part of it; they need a tokenizer. In JSON one or a list.
    #[serde(deserialize_with = "one_or_many")]
    pub stop_strings: Vec<String>,
    /// Where random draws begin: the same seed, the same text.
    pub seed: u64,
    /// What happens when the text no longer fits the model's context.
    pub context: ContextRule,
    /// What the text has to look like: only tokens that a schema or grammar allows. Goes with one beam, and is not written to
    /// JSON.
    #[serde(skip)]
    pub constraint: Option<Constraint>,
}

impl Default for GenerationConfig {
    fn default() -> Self {
        Self {
            max_new_tokens: 128,
            min_new_tokens: 0,
            do_sample: false,
            temperature: 1.0,
            top_k: 50,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            repeat_last_n: None,
            bad_words_ids: Vec::new(),
            suppress_tokens: Vec::new(),
            num_beams: 1,
            length_penalty: 1.0,
            early_stopping: EarlyStopping::Heuristic,
            num_return_sequences: 1,
            bos_token_id: None,
            eos_token_id: Vec::new(),
            stop_strings: Vec::new(),
            seed: 0,
            context: ContextRule::Slide,
            constraint: None,
        }
    }
}

/// What happens when the text no longer fits the model's context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContextRule {
    /// The last half of the window is prefilled again, from position 0, and the text goes on; the model no longer sees
    /// what came before. Of a prompt longer than the context only the end that fits is used.
    #[default]
    Slide,
    /// The model sees the last `block_size` tokens at each step, as in nanoGPT's `idx[:, -block_size:]`. Every token moves all
    /// positions, so once the context is full each one costs a prefill of the whole window.
    Crop,
    /// The text ends with `length`. A prompt longer than the context is an error.
    Stop,
}

/// When a beam search is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub enum EarlyStopping {
    /// `false`: when the best running beam, scored at its present length, is no better than the worst finished one.
    #[default]
    Heuristic,
    /// `true`: as soon as there are as many finished texts as beams.
    Always,
    /// `"never"`: only when no running beam can become better than the worst finished one.
    Never,
}

impl TryFrom<Value> for EarlyStopping {
    type Error = SettingProblem;

    fn try_from(value: Value) -> std::result::Result<Self, Self::Error> {
        match value {
            Value::Bool(false) => Ok(Self::Heuristic),
            Value::Bool(true) => Ok(Self::Always),
            Value::String(word) if word == "never" => Ok(Self::Never),
            other => Err(SettingProblem::EarlyStopping(other)),
        }
    }
}

impl From<EarlyStopping> for Value {
    fn from(early_stopping: EarlyStopping) -> Self {
        match early_stopping {
            EarlyStopping::Heuristic => false.into(),
            EarlyStopping::Always => true.into(),
            EarlyStopping::Never => "never".into(),
        }
    }
}

/// A sampling setting that has no effect, because decoding is greedy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IgnoredSetting {
    /// The name of the setting.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
    /// Whether `do_sample` is on: then it is the temperature of 0 that makes decoding greedy.
    pub do_sample: bool,
}

impl fmt::Display for IgnoredSetting {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self { name, value, do_sample } = self;
        let reason = if *do_sample { "temperature is 0" } else { "do_sample is false" };
        write!(f, "{name} is {value}, but {reason}: the likeliest token is always chosen")
    }
}

impl GenerationConfig {
    /// The settings of a `generation_config.json`: what it leaves out, or says is null, is as by default, and what
    /// this crate does not know is passed over.
    pub fn from_json(text: &str) -> Result<Self> {
        let mut fields: Map<String, Value> = serde_json::from_str(text).map_err(Error::ConfigJson)?;
        fields.retain(|_, value| !value.is_null());
        // Each alone first, for serde does not say which field it dislikes.
        for (name, value) in &fields {
            if name == "early_stopping" {
                EarlyStopping::try_from(value.clone()).map_err(|problem| Error::config(name, problem))?;
            }
            let alone = Value::Object(Map::from_iter([(name.clone(), value.clone())]));
            serde_json::from_value::<Self>(alone).map_err(|error| {
                let (value, reason) = (value.to_string(), error.to_string());
                Error::config(name, SettingProblem::WrongType { value, reason })
            })?;
        }
        let config: Self = serde_json::from_value(Value::Object(fields)).map_err(Error::ConfigJson)?;
        config.validate()?;
        Ok(config)
    }

    /// Whether the likeliest token comes, always.
    pub fn is_greedy(&self) -> bool {
        !self.do_sample || self.temperature < COLDEST
    }

    /// Whether a penalty is on.
    pub fn penalizes(&self) -> bool {
        self.repetition_penalty != 1.0 || self.frequency_penalty != 0.0 || self.presence_penalty != 0.0
    }

    /// Sampling settings that have no effect because decoding is greedy.
    ///
    /// ```
    /// use minigpt_generate::GenerationConfig;
    ///
    /// let config = GenerationConfig { temperature: 0.7, ..GenerationConfig::default() };
    /// assert!(config.warnings()[0].to_string().starts_with("temperature is 0.7, but do_sample is false"));
    /// ```
    pub fn warnings(&self) -> Vec<IgnoredSetting> {
        let usual = Self::default();
        if !self.is_greedy() {
            return Vec::new();
        }
        let warm = !self.do_sample && self.temperature >= COLDEST && self.temperature != usual.temperature;
        let set = [
            ("temperature", self.temperature, warm),
            ("top_k", self.top_k as f64, self.top_k != usual.top_k && self.top_k != 0),
            ("top_p", self.top_p, self.top_p != usual.top_p),
            ("min_p", self.min_p, self.min_p != usual.min_p),
        ];
        set.into_iter()
            .filter(|(.., set)| *set)
            .map(|(name, value, _)| IgnoredSetting { name, value, do_sample: self.do_sample })
            .collect()
    }

    /// Checks all that can be checked without a model.
    pub fn validate(&self) -> Result<()> {
        self.validate_lengths()?;
        self.validate_filters()?;
        self.validate_beams()
    }

    /// Checks all that this model's vocabulary says, too. Stop tokens outside of it are no mistake: they never come.
    pub fn validate_for(&self, vocab_size: usize) -> Result<()> {
        self.validate()?;
        if self.num_beams > vocab_size {
            return wrong("num_beams", SettingLimit::Vocabulary, self.num_beams, vocab_size);
        }
        let banned = [("suppress_tokens", &self.suppress_tokens)].into_iter();
        let banned = banned.chain(self.bad_words_ids.iter().map(|word| ("bad_words_ids", word)));
        for (field, ids) in banned {
            if let Some(id) = ids.iter().find(|&&id| id as usize >= vocab_size) {
                return Err(Error::config(field, SettingProblem::UnknownToken { id: *id, vocab_size }));
            }
        }
        Ok(())
    }

    fn validate_lengths(&self) -> Result<()> {
        let most = self.max_new_tokens;
        require(most > 0, "max_new_tokens", SettingRange::AtLeastOne, most as f64)?;
        if self.min_new_tokens > most {
            return wrong("min_new_tokens", SettingLimit::MaxNewTokens, self.min_new_tokens, most);
        }
        if self.stop_strings.iter().any(String::is_empty) {
            return Err(Error::config("stop_strings", SettingProblem::EmptyString));
        }
        if self.bad_words_ids.iter().any(Vec::is_empty) {
            return Err(Error::config("bad_words_ids", SettingProblem::EmptyWord));
        }
        Ok(())
    }

    fn validate_filters(&self) -> Result<()> {
        let Self { temperature, top_p, min_p, repetition_penalty, .. } = *self;
        let positive = |x: f64| x.is_finite() && x > 0.0;
        let in_range = (0.0..=HOTTEST).contains(&temperature);
        require(in_range, "temperature", SettingRange::Temperature(HOTTEST), temperature)?;
        require(positive(top_p) && top_p <= 1.0, "top_p", SettingRange::Share, top_p)?;
        from_to(0.0, 1.0, "min_p", min_p)?;
        from_to(0.01, 100.0, "repetition_penalty", repetition_penalty)?;
        let Self { frequency_penalty, presence_penalty, .. } = *self;
        for (field, penalty) in
            [("frequency_penalty", frequency_penalty), ("presence_penalty", presence_penalty)]
        {
            from_to(-2.0, 2.0, field, penalty)?;
        }
        Ok(())
    }

    fn validate_beams(&self) -> Result<()> {
        let Self { num_beams, num_return_sequences: n, length_penalty, .. } = *self;
        from_to(1.0, MOST_ROWS as f64, "num_beams", num_beams as f64)?;
        from_to(1.0, MOST_ROWS as f64, "num_return_sequences", n as f64)?;
        require(length_penalty.is_finite(), "length_penalty", SettingRange::Finite, length_penalty)?;
        if num_beams > 1 && !self.is_greedy() {
            return Err(Error::config("num_beams", SettingProblem::SampledBeams(num_beams)));
        }
        if num_beams > 1 && self.constraint.is_some() {
            return Err(Error::config("num_beams", SettingProblem::BeamsWithGrammar(num_beams)));
        }
        if self.min_new_tokens > 0 && self.constraint.is_some() {
            let problem = SettingProblem::MinimumWithGrammar(self.min_new_tokens);
            return Err(Error::config("min_new_tokens", problem));
        }
        if num_beams > 1 && n > num_beams {
            return wrong("num_return_sequences", SettingLimit::NumBeams, n, num_beams);
        }
        if num_beams == 1 && n > 1 && self.is_greedy() {
            return Err(Error::config("num_return_sequences", SettingProblem::OneGreedyAnswer(n)));
        }
        Ok(())
    }
}

fn require(holds: bool, field: &str, range: SettingRange, value: f64) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::config(field, SettingProblem::OutOfRange { range, value })) }
}

fn from_to(least: f64, most: f64, field: &str, value: f64) -> Result<()> {
    require((least..=most).contains(&value), field, SettingRange::FromTo(least, most), value)
}

/// The error of a number above its limit.
fn wrong(field: &str, limit: SettingLimit, value: usize, most: usize) -> Result<()> {
    Err(Error::config(field, SettingProblem::TooLarge { limit, most, value }))
}

fn one_or_many<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> std::result::Result<Vec<T>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany<T> {
        One(T),
        Many(Vec<T>),
    }
    Ok(match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(one) => vec![one],
        OneOrMany::Many(many) => many,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(change: impl FnOnce(&mut GenerationConfig)) -> String {
        let mut config = GenerationConfig { do_sample: true, ..GenerationConfig::default() };
        change(&mut config);
        config.validate_for(10).unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_are_valid_and_greedy() {
        let config = GenerationConfig::default();
        config.validate_for(1).unwrap();
        assert!(config.is_greedy());
    }

    #[test]
    fn temperature_zero_is_greedy() {
        let config = GenerationConfig { do_sample: true, ..GenerationConfig::default() };
        assert!(!config.is_greedy());
        for temperature in [0.0, 1e-9] {
            let config = GenerationConfig { temperature, ..config.clone() };
            config.validate().unwrap();
            assert!(config.is_greedy());
        }
    }

    #[test]
    fn what_only_sampling_uses_is_warned_of_where_nothing_is_sampled() {
        let greedy = GenerationConfig { temperature: 0.7, top_p: 0.9, ..GenerationConfig::default() };
        let warnings: Vec<String> = greedy.warnings().iter().map(ToString::to_string).collect();
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].starts_with("temperature is 0.7") && warnings[1].starts_with("top_p is 0.9"));
        assert_eq!(GenerationConfig { do_sample: true, ..greedy }.warnings(), []);
        let cold =
            GenerationConfig { do_sample: true, temperature: 0.0, top_k: 5, ..GenerationConfig::default() };
        assert_eq!(
            cold.warnings()[0].to_string(),
            "top_k is 5, but temperature is 0: the likeliest token is always chosen"
        );
        assert_eq!(GenerationConfig::default().warnings(), []);
    }

    #[test]
    fn a_bad_value_is_named_with_its_field_and_its_rule() {
        let rule = "top_p must be above 0 and at most 1, but is";
        assert_eq!(complaint(|c| c.top_p = 0.0), format!("{rule} 0"));
        assert_eq!(complaint(|c| c.top_p = 1.5), format!("{rule} 1.5"));
        assert_eq!(complaint(|c| c.top_p = f64::NAN), format!("{rule} NaN"));
        let rule = "temperature must be from 0 (greedy) to 100, but is";
        assert_eq!(complaint(|c| c.temperature = -0.5), format!("{rule} -0.5"));
        assert_eq!(complaint(|c| c.temperature = 5000.0), format!("{rule} 5000"));
        assert!(complaint(|c| c.temperature = f64::NAN).starts_with("temperature must"));
        assert!(complaint(|c| c.temperature = f64::INFINITY).starts_with("temperature must"));
        assert!(complaint(|c| c.min_p = -0.1).starts_with("min_p must"));
        assert!(complaint(|c| c.repetition_penalty = 0.0).starts_with("repetition_penalty must"));
        assert!(
            complaint(|c| c.frequency_penalty = 2.5).starts_with("frequency_penalty must be from -2 to 2")
        );
        assert!(complaint(|c| c.presence_penalty = f64::NAN).starts_with("presence_penalty must"));
        assert!(complaint(|c| c.length_penalty = f64::NAN).starts_with("length_penalty must"));
        assert!(complaint(|c| c.max_new_tokens = 0).starts_with("max_new_tokens must"));
        assert!(complaint(|c| c.num_beams = 0).starts_with("num_beams must"));
        assert!(complaint(|c| c.num_return_sequences = 0).starts_with("num_return_sequences must"));
        assert!(complaint(|c| c.stop_strings = vec![String::new()]).starts_with("stop_strings has"));
    }

    #[test]
    fn settings_that_contradict_each_other_are_named() {
        assert_eq!(
            complaint(|c| (c.min_new_tokens, c.max_new_tokens) = (9, 4)),
            "min_new_tokens must be at most max_new_tokens (4), but is 9"
        );
        assert!(complaint(|c| c.num_beams = 2).contains("beams do not sample"));
        let beams = |n| move |c: &mut GenerationConfig| (c.do_sample, c.num_beams) = (false, n);
        assert_eq!(
            complaint(beams(11)),
            "num_beams must be at most the size of the vocabulary (10), but is 11"
        );
        assert!(
            complaint(|c| (c.do_sample, c.num_return_sequences) = (false, 2)).contains("only one answer")
        );
        assert!(
            complaint(|c| (c.do_sample, c.num_beams, c.num_return_sequences) = (false, 2, 3))
                .contains("num_beams (2)")
        );
        assert_eq!(
            complaint(|c| c.suppress_tokens = vec![3, 10]),
            "suppress_tokens names token 10, outside of the vocabulary of 10 tokens"
        );
        assert!(
            complaint(|c| c.bad_words_ids = vec![vec![1], vec![2, 12]])
                .starts_with("bad_words_ids names token 12")
        );
    }

    #[test]
    fn a_generation_config_of_transformers_is_read() {
        let text = r#"{"_from_model_config": true, "bos_token_id": 0, "eos_token_id": 7, "top_p": null,
            "early_stopping": "never", "do_sample": true, "temperature": 1, "transformers_version": "5.22.2"}"#;
        let config = GenerationConfig::from_json(text).unwrap();
        assert_eq!((config.eos_token_id, config.top_p), (vec![7], 1.0));
        assert_eq!((config.early_stopping, config.do_sample), (EarlyStopping::Never, true));
        let many = GenerationConfig::from_json(r#"{"eos_token_id": [1, 2], "stop_strings": "。"}"#).unwrap();
        assert_eq!((many.eos_token_id, many.stop_strings), (vec![1, 2], vec!["。".to_owned()]));
    }

    #[test]
    fn a_value_of_the_wrong_type_is_named_with_its_field() {
        let complaint = |text| GenerationConfig::from_json(text).unwrap_err().to_string();
        assert!(complaint(r#"{"top_p": 0.5, "top_k": -1}"#).starts_with("top_k is -1: "));
        assert!(complaint(r#"{"early_stopping": 3}"#).contains("must be false, true or \"never\""));
        assert!(complaint("[]").starts_with("the generation config"));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let config = GenerationConfig {
            early_stopping: EarlyStopping::Always,
            context: ContextRule::Stop,
            eos_token_id: vec![3],
            ..GenerationConfig::default()
        };
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(GenerationConfig::from_json(&text).unwrap(), config);
    }
}
