//! What a request asks for, from any of the interfaces, as the engine's settings.

use crate::body::parse;
use crate::fields::{Fields, Route};
use crate::problem::Problem;
use crate::prompts::encode;
use crate::served_model::ServedModel;
use crate::structured::Structured;
use minigpt_chat::Format;
use minigpt_generate::{Constraint, ContextRule, GenerationConfig, Request};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::hash::{BuildHasher, RandomState};
use utoipa::ToSchema;

/// Texts of one request: prompts times `n`.
pub(crate) const MOST_TEXTS: usize = 2048;
/// Texts of one prompt, as OpenAI has it.
const MOST_OF_ONE: u64 = 128;
/// Strings that end a text, and the bytes of all.
const MOST_STOPS: usize = 64;
const LONGEST_STOPS: usize = 4096;
/// Tokens at the end of a text that llama.cpp's penalties look at.
const LLAMA_WINDOW: i64 = 64;
/// The seed by which llama.cpp's clients ask for a random one, beside -1.
const LLAMA_RANDOM: i64 = 0xFFFF_FFFF;
/// Characters of a client's text in an error.
const LONGEST_SHOWN: usize = 40;
/// Alternatives with each token.
pub(crate) const MOST_ALTERNATIVES: usize = 100;

/// A string or several.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
pub(crate) enum Strings {
    One(String),
    Many(Vec<String>),
}

/// How to write: the fields that all routes which write have in common, under OpenAI's, vLLM's and llama.cpp's names.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct Sampling {
    /// The model; the first one where none is named.
    pub model: Option<String>,
    /// Tokens to write at most; 0 only reads the prompt. Default: 16 for `/v1/completions`, elsewhere as many as the context holds.
    #[schema(minimum = 0, example = 16)]
    max_tokens: Option<u64>,
    /// The same under OpenAI's newer name, which wins over the others.
    #[schema(minimum = 0)]
    max_completion_tokens: Option<u64>,
    /// The same, as llama.cpp calls it; -1 for as many as the context holds.
    #[schema(minimum = -1)]
    n_predict: Option<i64>,
    /// Tokens to write before one may end the text.
    #[schema(minimum = 0)]
    min_tokens: Option<u64>,
    /// 0 always takes the likeliest token. Default: 1 for `/v1/completions`, 0.8 for `/completion`; in a chat 0 for models that know
    /// single questions, 0.8 for others.
    #[schema(minimum = 0.0)]
    temperature: Option<f64>,
    /// Draw from the smallest set of tokens that has this probability. Default: 1; 0.95 for `/completion`.
    #[schema(minimum = 0.0, maximum = 1.0)]
    top_p: Option<f64>,
    /// Draw from the k likeliest tokens; 0 or less draws from all. Default: 40; 0 for `/v1/completions`.
    top_k: Option<i64>,
    /// Draw from tokens with at least this part of the likeliest one's probability. Default: 0; 0.05 for `/completion`.
    #[schema(minimum = 0.0, maximum = 1.0)]
    min_p: Option<f64>,
    /// Above 1: less of what the text has already, prompt included.
    repetition_penalty: Option<f64>,
    /// The same, as llama.cpp calls it.
    repeat_penalty: Option<f64>,
    /// Subtracted from a token's logit for each time that it was written.
    #[schema(minimum = -2.0, maximum = 2.0)]
    frequency_penalty: Option<f64>,
    /// Subtracted once from the logit of each token that was written.
    #[schema(minimum = -2.0, maximum = 2.0)]
    presence_penalty: Option<f64>,
    /// The penalties look at so many tokens at the end of the text, prompt included; -1 for all. Default: 64 for `/completion`;
    /// elsewhere `repetition_penalty` looks at the whole text, the other two at what was written.
    #[schema(minimum = -1)]
    repeat_last_n: Option<i64>,
    /// Beams of a search for the likeliest text; goes with n 1 and temperature 0.
    #[schema(minimum = 1)]
    num_beams: Option<u64>,
    /// Strings that end a text and are not part of it.
    stop: Option<Strings>,
    /// Tokens that end a text, beside the model's own.
    stop_token_ids: Option<Vec<u32>>,
    /// Words that may not be written.
    bad_words: Option<Vec<String>>,
    /// The same seed, the same text. On `/completion`, -1 draws one.
    seed: Option<i64>,
    /// What to add to the logits of tokens: `{"id": bias}`, or llama.cpp's `[[id or text, bias or false], …]`.
    #[schema(value_type = Option<Object>)]
    logit_bias: Option<Value>,
    /// Write on behind the model's tokens that end a text.
    ignore_eos: Option<bool>,
    /// Whether what was read before may be used where the prompt begins with it. Default: true.
    cache_prompt: Option<bool>,
    /// Whether tokens come as events, as soon as they are there.
    pub stream: Option<bool>,
}

/// The fields that all routes which write have in common, and those of one route. They are read from the same object.
#[derive(Debug, ToSchema)]
pub(crate) struct Asked<T: ToSchema> {
    #[schema(inline)]
    #[serde(flatten)]
    pub sampling: Sampling,
    #[schema(inline)]
    #[serde(flatten)]
    pub structured: Structured,
    #[schema(inline)]
    #[serde(flatten)]
    pub own: T,
}

/// The fields of one route that writes.
pub(crate) trait Own: DeserializeOwned + ToSchema {
    const ROUTE: Route;
}

impl<T: Own> Fields for Asked<T> {
    const ROUTE: Route = T::ROUTE;

    fn read(bytes: &[u8]) -> Result<Self, Problem> {
        Ok(Self { sampling: parse(bytes)?, structured: parse(bytes)?, own: parse(bytes)? })
    }
}

impl Sampling {
    /// What is asked for, as the route means it.
    pub fn wanted(&mut self, model: &ServedModel, route: Route) -> Result<Wanted, Problem> {
        let llama = route == Route::Llama;
        let vocab_size = model.gpt.config().vocab_size;
        let stop_token_ids = self.stop_token_ids.take().unwrap_or_default();
        if stop_token_ids.len() > MOST_STOPS {
            return Err(Problem::field("stop_token_ids", format!("at most {MOST_STOPS} tokens end a text")));
        }
        stop_token_ids.iter().try_for_each(|&id| check_id("stop_token_ids", id, vocab_size))?;
        let random = |seed: i64| llama && (seed == -1 || seed == LLAMA_RANDOM);
        let window = self.repeat_last_n.or(llama.then_some(LLAMA_WINDOW));
        let repetition =
            either(["repetition_penalty", "repeat_penalty"], self.repetition_penalty, self.repeat_penalty)?;
        Ok(Wanted {
            max_tokens: self.most()?,
            min_tokens: self.min_tokens,
            temperature: self.temperature.map(|t| if llama { t.max(0.0) } else { t }),
            top_p: self.top_p,
            top_k: self.top_k,
            min_p: self.min_p,
            repetition_penalty: repetition,
            frequency_penalty: self.frequency_penalty,
            presence_penalty: self.presence_penalty,
            repeat_last_n: at_least("repeat_last_n", window, -1)?
                .map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
            num_beams: self.num_beams,
            stop: self.stop.take(),
            stop_token_ids,
            bad_words: bad_words(model, &self.bad_words.take().unwrap_or_default())?,
            seed: self.seed.filter(|&seed| !random(seed)),
            logit_bias: match self.logit_bias.take() {
                Some(given) => biases(model, &given, route)?,
                None => Vec::new(),
            },
            ignore_eos: self.ignore_eos.unwrap_or(false),
            keep_prefix: self.cache_prompt.unwrap_or(true),
            names_window: self.repeat_last_n.is_some(),
            ..Wanted::default()
        })
    }
}

impl Sampling {
    /// Tokens to write at most, under either name; none is as many as the context holds.
    fn most(&self) -> Result<Option<u64>, Problem> {
        // -1 is one of the two values that are compared, too.
        let theirs = at_least("n_predict", self.n_predict, -1)?;
        let n_predict = theirs.map(|n| u64::try_from(n).ok());
        let most = either(["max_tokens", "n_predict"], self.max_tokens.map(Some), n_predict)?;
        Ok(self.max_completion_tokens.or(most.flatten()))
    }
}

fn at_least(field: &str, value: Option<i64>, least: i64) -> Result<Option<i64>, Problem> {
    match value {
        Some(n) if n < least => {
            Err(Problem::field(field, format!("{field} must be {least} or more, but is {n}")))
        }
        value => Ok(value),
    }
}

/// What is asked for, whatever the interface calls it. What is absent is as the defaults say.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// 0 writes nothing: the prompt is read, and that is all.
    pub max_tokens: Option<u64>,
    pub min_tokens: Option<u64>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub top_k: Option<i64>,
    pub min_p: Option<f64>,
    pub repetition_penalty: Option<f64>,
    pub frequency_penalty: Option<f64>,
    pub presence_penalty: Option<f64>,
    pub repeat_last_n: Option<usize>,
    pub num_beams: Option<u64>,
    pub n: Option<u64>,
    pub stop: Option<Strings>,
    pub stop_token_ids: Vec<u32>,
    pub bad_words: Vec<Vec<u32>>,
    pub seed: Option<i64>,
    pub logit_bias: Vec<(u32, f32)>,
    pub ignore_eos: bool,
    /// Alternatives with each token; none means no log-probabilities at all.
    pub alternatives: Option<usize>,
    pub prompt_logprobs: bool,
    pub keep_prefix: bool,
    /// Whether the request itself says which tokens penalties look at.
    pub names_window: bool,
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
    /// Fields of the request that do nothing beside the others.
    pub ignored: Vec<&'static str>,
}

impl Wanted {
    /// Refuses what a search for the likeliest text does not have: draws, and alternatives of a token.
    fn check_beams(&self) -> Result<(), Problem> {
        let asked = [
            ("top_p", self.top_p.is_some_and(|top_p| top_p != 1.0)),
            ("top_k", self.top_k.is_some_and(|top_k| top_k > 0)),
            ("min_p", self.min_p.is_some_and(|min_p| min_p != 0.0)),
            ("seed", self.seed.is_some()),
        ];
        if let Some((field, _)) = asked.into_iter().find(|(_, asked)| *asked) {
            let message = format!(
                "{field} and num_beams: a beam search looks for the likeliest text and draws nothing"
            );
            return Err(Problem::field(field, message));
        }
        if self.alternatives.is_some_and(|alternatives| alternatives > 0) {
            let message = "num_beams gives the log-probabilities of its text alone: ask for 0 alternatives";
            return Err(Problem::field("num_beams", message));
        }
        Ok(())
    }

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
        if num_beams > 1 {
            self.check_beams()?;
        }
        if self.alternatives.is_some_and(|alternatives| alternatives > MOST_ALTERNATIVES) {
            let message = format!("at most {MOST_ALTERNATIVES} alternatives are given with each token");
            return Err(Problem::field("logprobs", message));
        }
        let temperature = match num_beams {
            1 => self.temperature.unwrap_or(defaults.temperature),
            _ => 0.0,
        };
        // Tokens that the request names end a text also where the model's own do not.
        let own = if self.ignore_eos && !self.stop_token_ids.is_empty() { &[][..] } else { &model.stop_ids };
        let ignore_eos = self.ignore_eos && self.stop_token_ids.is_empty();
        let config = GenerationConfig {
            max_new_tokens: max_tokens.unwrap_or(most).min(most) as usize,
            min_new_tokens: count("min_tokens", self.min_tokens.unwrap_or(0))?,
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
            frequency_penalty: self.frequency_penalty.unwrap_or(0.0),
            presence_penalty: self.presence_penalty.unwrap_or(0.0),
            repeat_last_n: self.repeat_last_n,
            num_beams,
            bos_token_id: model.first_token(),
            eos_token_id: own.iter().copied().chain(self.stop_token_ids).collect(),
            bad_words_ids: self.bad_words,
            stop_strings: stops(self.stop)?,
            seed: self.seed.map_or_else(random, |seed| seed as u64),
            context: ContextRule::Stop,
            ..GenerationConfig::default()
        };
        let request = Request {
            logit_bias: self.logit_bias.into(),
            ignore_eos,
            top_logprobs: self.alternatives,
            prompt_logprobs: self.prompt_logprobs,
            keep_prefix: self.keep_prefix,
            ..Request::new(Vec::new(), config)
        };
        let window_only = self.names_window && !request.config.penalizes();
        let ignored = window_only.then_some("repeat_last_n").into_iter().collect();
        Ok(Settings { request, n: n as usize, ignored })
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

    /// Holds the texts to a schema or grammar.
    pub fn constrain(&mut self, constraint: Option<Constraint>) {
        self.request.config.constraint = constraint;
    }

    /// Ends the texts at one more string, which is not part of them.
    pub fn stop_at(&mut self, text: &str) {
        self.request.config.stop_strings.push(text.to_owned());
    }

    /// How tokens are chosen.
    pub fn config(&self) -> &GenerationConfig {
        &self.request.config
    }
}

/// Biases in OpenAI's form or llama.cpp's: `{"id": bias}` or `[[id or text, bias or false], …]`. A text means each of its tokens,
/// and `false` a token that may never come. In an object, only `/completion` takes texts.
fn biases(model: &ServedModel, given: &Value, route: Route) -> Result<Vec<(u32, f32)>, Problem> {
    let wrong = || {
        let message = "logit_bias must be [[id or text, number or false], …] or an object of numbers by id";
        Problem::field("logit_bias", message)
    };
    let vocab_size = model.gpt.config().vocab_size;
    let mut biases = Vec::new();
    let mut add = |token: &Value, bias: &Value| {
        let never = *bias == false;
        let bias = if never { f64::NEG_INFINITY } else { bias.as_f64().ok_or_else(wrong)? };
        let ids = match token {
            Value::String(text) => ids_of(model, text)?,
            token => vec![token.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(wrong)?],
        };
        for id in ids {
            check_id("logit_bias", id, vocab_size)?;
            if !never && !(-100.0..=100.0).contains(&bias) {
                let message = format!("logit_bias of {id} must be from -100 to 100, but is {bias}");
                return Err(Problem::field("logit_bias", message));
            }
            biases.push((id, bias as f32));
        }
        Ok(())
    };
    match given {
        Value::Array(pairs) => {
            for pair in pairs {
                match pair.as_array().map(Vec::as_slice) {
                    Some([token, bias]) => add(token, bias)?,
                    _ => return Err(wrong()),
                }
            }
        }
        Value::Object(map) => {
            for (id, bias) in map {
                match id.trim().parse::<u32>() {
                    Ok(id) => add(&id.into(), bias)?,
                    Err(_) if route == Route::Llama => add(&id.as_str().into(), bias)?,
                    Err(_) => return Err(wrong()),
                }
            }
        }
        _ => return Err(wrong()),
    }
    Ok(biases)
}

/// The tokens of a text, all of which the vocabulary has.
fn ids_of(model: &ServedModel, text: &str) -> Result<Vec<u32>, Problem> {
    let tokenizer = model.need_tokenizer()?;
    let shown: String = text.chars().take(LONGEST_SHOWN).collect();
    let refuse = |why: String| Err(Problem::field("logit_bias", format!("logit_bias names {shown:?}{why}")));
    if let Some(unknown) = tokenizer.unknown_beside_special(text).first() {
        return refuse(format!(", but the vocabulary lacks {unknown:?}"));
    }
    let ids = encode(tokenizer, text)?;
    if ids.is_empty() { refuse(", which has no tokens".to_owned()) } else { Ok(ids) }
}

fn check_id(field: &str, id: u32, vocab_size: usize) -> Result<(), Problem> {
    if (id as usize) < vocab_size {
        return Ok(());
    }
    Err(Problem::field(
        field,
        format!("{field} names token {id}, but the vocabulary has {vocab_size} tokens"),
    ))
}

/// The tokens of words that may not be written: each as it is and behind a space, because most vocabularies tell the two apart.
fn bad_words(model: &ServedModel, words: &[String]) -> Result<Vec<Vec<u32>>, Problem> {
    let bytes: usize = words.iter().map(String::len).sum();
    if words.len() > MOST_STOPS || bytes > LONGEST_STOPS || words.iter().any(String::is_empty) {
        let message = format!(
            "bad_words has at most {MOST_STOPS} words of {LONGEST_STOPS} bytes together, none of them empty"
        );
        return Err(Problem::field("bad_words", message));
    }
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let tokenizer = model.need_tokenizer()?;
    // A word with a character that the vocabulary lacks can't be written anyway.
    let words = words.iter().filter(|word| tokenizer.unknown(word).is_empty());
    let both = words.flat_map(|word| [word.clone(), format!(" {}", word.trim_start())]);
    let ids = both.filter_map(|word| tokenizer.encode(&word).ok()).filter(|ids| !ids.is_empty());
    Ok(ids.collect())
}

/// A value that has two names.
pub(crate) fn either<T: PartialEq>(
    names: [&str; 2],
    one: Option<T>,
    other: Option<T>,
) -> Result<Option<T>, Problem> {
    match (one, other) {
        (Some(one), Some(other)) if one != other => {
            let message = format!("{} and {} mean the same, but differ", names[0], names[1]);
            Err(Problem::field(names[1], message))
        }
        (one, other) => Ok(one.or(other)),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Regression: six requests with biases of a whole vocabulary took 5.3 GB, because each text had a copy.
    #[test]
    fn the_texts_of_a_request_share_its_biases() {
        let biases: Vec<(u32, f32)> = (0..1000).map(|id| (id, -1.0)).collect();
        let request =
            Request { logit_bias: biases.into(), ..Request::new(Vec::new(), GenerationConfig::default()) };
        let settings = Settings { request, n: 64, ignored: Vec::new() };
        let rows = settings.rows(vec![vec![1], vec![2]]).unwrap();
        assert_eq!(rows.len(), 128);
        assert!(rows.iter().all(|row| Arc::ptr_eq(&row.logit_bias, &settings.request.logit_bias)));
    }
}
