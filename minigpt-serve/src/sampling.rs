//! The fields that all text-generating routes have in common, under OpenAI's, vLLM's and llama.cpp's names, read into [`Wanted`].

use crate::body::parse;
use crate::fields::{Fields, Route};
use crate::problem::Problem;
use crate::prompts::encode;
use crate::served_model::ServedModel;
use crate::settings::{Defaults, LONGEST_STOPS, MOST_STOPS, Settings, Wanted};
use crate::structured::Structured;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use utoipa::ToSchema;

/// Tokens at the end of a text that llama.cpp's penalties look at.
const LLAMA_WINDOW: i64 = 64;
/// The seed by which llama.cpp's clients ask for a random one, beside -1.
const LLAMA_RANDOM: i64 = 0xFFFF_FFFF;
/// Characters of a client's text in an error.
const LONGEST_SHOWN: usize = 40;

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
    /// Number of tokens at the end of the text that the penalties consider, prompt included; -1 for all. Default: 64 for `/completion`;
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

/// The fields of one route that generates text.
pub(crate) trait Own: DeserializeOwned + ToSchema {
    const ROUTE: Route;

    /// How tokens are chosen if a request doesn't say.
    fn defaults(model: &ServedModel) -> Defaults;

    /// Adds what these fields ask for to what the fields of all routes ask for.
    fn add(&self, wanted: Wanted) -> Result<Wanted, Problem>;
}

impl<T: Own> Asked<T> {
    /// The engine's settings for this request.
    pub async fn settings(&mut self, model: &Arc<ServedModel>) -> Result<Settings, Problem> {
        settings(&mut self.sampling, &mut self.structured, &self.own, model).await
    }
}

/// The engine's settings for a request with these fields, which are taken out of it.
pub(crate) async fn settings<T: Own>(
    sampling: &mut Sampling,
    structured: &mut Structured,
    own: &T,
    model: &Arc<ServedModel>,
) -> Result<Settings, Problem> {
    let wanted = own.add(sampling.wanted(model, T::ROUTE)?)?;
    let mut settings = wanted.settle(model, T::defaults(model))?;
    settings.constrain(std::mem::take(structured).constraint(model).await?);
    Ok(settings)
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
