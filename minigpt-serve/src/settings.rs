//! What a request asks for, from any of the interfaces, as the engine's settings.

use crate::problem::Problem;
use crate::served_model::ServedModel;
use minigpt_chat::Format;
use minigpt_generate::{ContextRule, GenerationConfig, Request};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use utoipa::ToSchema;

/// Texts of one request: prompts times `n`.
pub(crate) const MOST_TEXTS: usize = 2048;
/// Texts of one prompt, as OpenAI has it.
const MOST_OF_ONE: u64 = 128;
/// Strings that end a text, and the bytes of all.
const MOST_STOPS: usize = 64;
const LONGEST_STOPS: usize = 4096;
/// Alternatives with each token.
pub(crate) const MOST_ALTERNATIVES: usize = 100;

/// A string or several.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
pub(crate) enum Strings {
    One(String),
    Many(Vec<String>),
}

/// What is asked for, whatever the interface calls it. What is absent is as the defaults say.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// 0 writes nothing: the prompt is read, and that is all.
    pub max_tokens: Option<u64>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub top_k: Option<i64>,
    pub min_p: Option<f64>,
    pub repetition_penalty: Option<f64>,
    pub num_beams: Option<u64>,
    pub n: Option<u64>,
    pub stop: Option<Strings>,
    pub seed: Option<i64>,
    pub logit_bias: Vec<(u32, f32)>,
    pub ignore_eos: bool,
    /// Alternatives with each token; none means no log-probabilities at all.
    pub alternatives: Option<usize>,
    pub prompt_logprobs: bool,
    pub keep_prefix: bool,
}

/// How tokens are chosen where a request does not say it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Defaults {
    pub temperature: f64,
    pub top_k: usize,
    pub top_p: f64,
    pub min_p: f64,
    pub max_tokens: Option<u64>,
}

impl Defaults {
    /// OpenAI's for texts: all that the model says, sixteen tokens.
    pub const OPENAI: Self =
        Self { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, max_tokens: Some(16) };
    /// llama.cpp's.
    pub const LLAMA: Self = Self { temperature: 0.8, top_k: 40, top_p: 0.95, min_p: 0.05, max_tokens: None };

    /// What suits a conversation: a question has one right answer; what is said freely is drawn.
    pub fn chat(format: &Format) -> Self {
        let temperature = if *format == Format::Qa { 0.0 } else { 0.8 };
        Self { temperature, top_k: 40, top_p: 1.0, min_p: 0.0, max_tokens: None }
    }
}

/// Everything about the texts of a request but their prompts.
#[derive(Debug)]
pub(crate) struct Settings {
    request: Request,
    /// Texts of each prompt.
    pub n: usize,
}

impl Wanted {
    pub fn settle(self, model: &ServedModel, defaults: Defaults) -> Result<Settings, Problem> {
        let n = self.n.unwrap_or(1);
        if !(1..=MOST_OF_ONE).contains(&n) {
            return Err(Problem::field("n", format!("n must be from 1 to {MOST_OF_ONE}, but is {n}")));
        }
        let max_tokens = self.max_tokens.or(defaults.max_tokens);
        let most = model.context as u64;
        let num_beams = count("num_beams", self.num_beams.unwrap_or(1))?;
        if num_beams > 1 && (n > 1 || self.temperature.is_some_and(|temperature| temperature > 0.0)) {
            let message = "num_beams finds the one likeliest text: it goes with n 1 and temperature 0";
            return Err(Problem::field("num_beams", message));
        }
        if self.alternatives.is_some_and(|alternatives| alternatives > MOST_ALTERNATIVES) {
            let message = format!("at most {MOST_ALTERNATIVES} alternatives are given with each token");
            return Err(Problem::field("logprobs", message));
        }
        let temperature = match num_beams {
            1 => self.temperature.unwrap_or(defaults.temperature),
            _ => 0.0,
        };
        let config = GenerationConfig {
            max_new_tokens: max_tokens.unwrap_or(most).min(most) as usize,
            do_sample: temperature != 0.0,
            temperature: if temperature == 0.0 { 1.0 } else { temperature },
            top_k: self.top_k.map_or(defaults.top_k, |top_k| usize::try_from(top_k).unwrap_or(0)),
            // 0 is the likeliest token alone.
            top_p: match self.top_p.unwrap_or(defaults.top_p) {
                0.0 => f64::MIN_POSITIVE,
                top_p => top_p,
            },
            min_p: self.min_p.unwrap_or(defaults.min_p),
            repetition_penalty: self.repetition_penalty.unwrap_or(1.0),
            num_beams,
            bos_token_id: model.first_token(),
            eos_token_id: model.stop_ids.clone(),
            stop_strings: stops(self.stop)?,
            seed: self.seed.map_or_else(random, |seed| seed as u64),
            context: ContextRule::Stop,
            ..GenerationConfig::default()
        };
        let request = Request {
            logit_bias: self.logit_bias,
            ignore_eos: self.ignore_eos,
            top_logprobs: self.alternatives,
            prompt_logprobs: self.prompt_logprobs,
            keep_prefix: self.keep_prefix,
            ..Request::new(Vec::new(), config)
        };
        Ok(Settings { request, n: n as usize })
    }
}

impl Settings {
    /// The rows of these prompts: all texts of the first, then those of the second. A text depends on its prompt, the settings
    /// and its number among those of the request.
    pub fn rows(&self, prompts: Vec<Vec<u32>>) -> Result<Vec<Request>, Problem> {
        let texts = prompts.len().saturating_mul(self.n);
        if texts > MOST_TEXTS {
            let message = format!("{texts} texts are asked for at once; {MOST_TEXTS} is the most");
            return Err(Problem::field("prompt", message));
        }
        let each = prompts.into_iter().flat_map(|prompt| std::iter::repeat_n(prompt, self.n));
        let row = |(stream, prompt)| Request { prompt, stream: stream as u64, ..self.request.clone() };
        Ok(each.enumerate().map(row).collect())
    }

    /// How tokens are chosen.
    pub fn config(&self) -> &GenerationConfig {
        &self.request.config
    }
}

/// Biases by id, as OpenAI writes them.
pub(crate) fn biases(
    given: Option<BTreeMap<String, f64>>,
    vocab_size: usize,
) -> Result<Vec<(u32, f32)>, Problem> {
    let one = |(id, bias): (String, f64)| {
        let known = id.trim().parse::<u32>().ok().filter(|id| (*id as usize) < vocab_size);
        let wrong = || {
            let id: String = id.chars().take(40).collect();
            Problem::field("logit_bias", format!("logit_bias: {id:?} is no id below {vocab_size}"))
        };
        bias_of(known.ok_or_else(wrong)?, bias)
    };
    given.into_iter().flatten().map(one).collect()
}

pub(crate) fn bias_of(id: u32, bias: f64) -> Result<(u32, f32), Problem> {
    if !(-100.0..=100.0).contains(&bias) {
        let message = format!("logit_bias of {id} must be from -100 to 100, but is {bias}");
        return Err(Problem::field("logit_bias", message));
    }
    Ok((id, bias as f32))
}

/// Refuses what this server can't do rather than to leave it out without a word.
pub(crate) fn refuse_penalties(frequency: Option<f64>, presence: Option<f64>) -> Result<(), Problem> {
    for (name, value) in [("frequency_penalty", frequency), ("presence_penalty", presence)] {
        if value.is_some_and(|value| value != 0.0) {
            return Err(Problem::field(name, format!("{name} is not supported: use repetition_penalty")));
        }
    }
    Ok(())
}

fn stops(stop: Option<Strings>) -> Result<Vec<String>, Problem> {
    let stops = match stop {
        None => Vec::new(),
        Some(Strings::One(stop)) => vec![stop],
        Some(Strings::Many(stops)) => stops,
    };
    let bytes: usize = stops.iter().map(String::len).sum();
    if stops.len() > MOST_STOPS || bytes > LONGEST_STOPS {
        let message = format!(
            "stop has {} strings of {bytes} bytes; {MOST_STOPS} of {LONGEST_STOPS} bytes together is the most",
            stops.len()
        );
        return Err(Problem::field("stop", message));
    }
    Ok(stops)
}

fn count(field: &str, value: u64) -> Result<usize, Problem> {
    usize::try_from(value)
        .map_err(|_| Problem::field(field, format!("{field} is {value}, which is too much")))
}

/// A seed that nobody chose, of 32 bits: it is told, and numbers in JavaScript have no 64.
fn random() -> u64 {
    RandomState::new().hash_one(std::time::SystemTime::now()) >> 32
}
