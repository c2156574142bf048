//! What a request asks for as the engine's settings: its fields (see `sampling`) checked, with defaults for those not set.

use crate::problem::Problem;
use crate::sampling::Strings;
use crate::served_model::ServedModel;
use minigpt_chat::Format;
use minigpt_generate::{Constraint, ContextRule, GenerationConfig, Request};
use std::hash::{BuildHasher, RandomState};

/// Texts of one request: prompts times `n`.
pub(crate) const MOST_TEXTS: usize = 2048;
/// Texts of one prompt, as OpenAI has it.
const MOST_OF_ONE: u64 = 128;
/// Strings that end a text, and the bytes of all.
pub(crate) const MOST_STOPS: usize = 64;
pub(crate) const LONGEST_STOPS: usize = 4096;
/// Alternatives with each token.
pub(crate) const MOST_ALTERNATIVES: usize = 100;

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
