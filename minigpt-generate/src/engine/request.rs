//! Requests to the engine, and the reasons to refuse one.

use crate::config::{ContextRule, GenerationConfig};
use crate::error::{Error, Result, SettingLimit, SettingProblem, SettingRange};
use crate::prompt;
use minigpt_model::Config;
use std::sync::Arc;
use std::time::Duration;

/// Settings of an engine. They determine all memory that it will ever hold.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// How many texts are written at once; each has room for keys and values of its own.
    pub slots: usize,
    /// How many tokens of a text the model has in view; no more than its `block_size`.
    pub context: usize,
    /// How many requests may wait for a slot. Texts with [`Request::follows`] do not count.
    pub max_queue: usize,
    /// How long a step should take: as many tokens of prompts are read in one as fit this time.
    pub step: Duration,
    /// How many tokens of prompts are read in a step, instead of as many as fit the time.
    pub fixed_chunk: Option<usize>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        let step = Duration::from_millis(60);
        Self { slots: 4, context: usize::MAX, max_queue: 256, step, fixed_chunk: None }
    }
}

/// One text to write, with its own settings.
#[derive(Debug, Clone)]
pub struct Request {
    /// The tokens that the text begins with.
    pub prompt: Vec<u32>,
    /// How to go on. `max_new_tokens` may be 0: the prompt is read, and nothing is written. `num_return_sequences` counts
    /// for beams only; other texts are requests of their own.
    pub config: GenerationConfig,
    /// Which random stream of the seed: the number of the text among those asked for.
    pub stream: u64,
    /// Added to the logits of tokens; shared by all texts of a request.
    pub logit_bias: Arc<[(u32, f32)]>,
    /// Whether stop tokens do not end the text.
    pub ignore_eos: bool,
    /// How many of the model's likeliest tokens come with each token.
    pub top_logprobs: Option<usize>,
    /// Whether the log-probabilities of the prompt's own tokens are wanted, with as many alternatives.
    pub prompt_logprobs: bool,
    /// Whether what a slot has read before may be used, where the prompt begins with it.
    pub keep_prefix: bool,
    /// Requests share what slots have read only with requests of the same key, so that one client can't find out what
    /// another one has sent.
    pub cache_key: u64,
    /// Whether this is a further text of a request whose first text has been submitted: it does not count in the queue.
    pub follows: bool,
    /// How many alternatives explain each token, if its choice is to be explained.
    pub explain: Option<usize>,
}

impl Request {
    /// A text that begins with a prompt, and nothing else asked for.
    pub fn new(prompt: Vec<u32>, config: GenerationConfig) -> Self {
        Self {
            prompt,
            config,
            stream: 0,
            logit_bias: Arc::default(),
            ignore_eos: false,
            top_logprobs: None,
            prompt_logprobs: false,
            keep_prefix: true,
            cache_key: 0,
            follows: false,
            explain: None,
        }
    }
}

/// A request that the engine has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// Why a request was not taken.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The queue is full.
    #[error("{limit} requests are waiting already, which is the limit: try again later")]
    QueueFull {
        /// How many may wait.
        limit: usize,
    },
    /// The prompt leaves no room for the first token of an answer, and the settings forbid cutting it.
    #[error("the prompt has {prompt} tokens, which leaves no room for an answer in the context of {context}")]
    TooLong {
        /// How many tokens the prompt has.
        prompt: usize,
        /// How many fit.
        context: usize,
    },
    /// A setting or the prompt is invalid.
    #[error(transparent)]
    Invalid(#[from] Error),
    /// The engine is being stopped.
    #[error("the engine is being stopped and takes no more requests")]
    Stopping,
    /// A panic ended the engine's thread.
    #[error("the engine stopped after an internal error: {message}")]
    EngineFailed {
        /// The message of the panic.
        message: String,
    },
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Invalid(error) => error,
            refused => Self::Refused(Box::new(refused)),
        }
    }
}

/// The properties of the engine that a request is checked against.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    pub model: Config,
    pub slots: usize,
    pub context: usize,
    pub max_queue: usize,
    pub has_tokenizer: bool,
}

impl Limits {
    pub fn new(model: &Config, config: &EngineConfig, has_tokenizer: bool) -> Result<Self> {
        let zero = SettingProblem::OutOfRange { range: SettingRange::AtLeastOne, value: 0.0 };
        if config.slots == 0 {
            return Err(Error::config("slots", zero));
        }
        if config.context == 0 {
            return Err(Error::config("context", zero));
        }
        let EngineConfig { slots, max_queue, .. } = *config;
        let context = config.context.min(model.block_size);
        Ok(Self { model: model.clone(), slots, context, max_queue, has_tokenizer })
    }

    /// Checks a request, and puts the first token of a text in the place of an empty prompt.
    pub fn check(&self, mut request: Request) -> std::result::Result<Request, Refused> {
        let Request { config, .. } = &mut request;
        // Nothing to write is fine here, but nowhere else.
        let most = config.max_new_tokens;
        config.max_new_tokens = most.max(1);
        let valid = config.validate_for(self.model.vocab_size);
        config.max_new_tokens = most;
        valid?;
        let (slots, beams) = (self.slots, config.num_beams);
        if beams > slots {
            let problem = SettingProblem::TooLarge { limit: SettingLimit::Slots, most: slots, value: beams };
            return Err(Error::config("num_beams", problem).into());
        }
        if !config.stop_strings.is_empty() && !self.has_tokenizer {
            return Err(Error::config("stop_strings", SettingProblem::NoTokenizer).into());
        }
        self.check_bias(&request)?;
        self.check_prompt(request)
    }

    fn check_bias(&self, request: &Request) -> Result<()> {
        let vocab_size = self.model.vocab_size;
        for &(id, bias) in request.logit_bias.iter() {
            if id as usize >= vocab_size {
                return Err(Error::config("logit_bias", SettingProblem::UnknownToken { id, vocab_size }));
            }
            if bias.is_nan() || bias == f32::INFINITY {
                return Err(Error::config("logit_bias", SettingProblem::Bias { id, bias }));
            }
        }
        Ok(())
    }

    fn check_prompt(&self, mut request: Request) -> std::result::Result<Request, Refused> {
        let (prompt, context) = (request.prompt.len(), self.context);
        let stops = request.config.context == ContextRule::Stop;
        let answer = usize::from(stops && request.config.max_new_tokens > 0);
        if (stops || request.prompt_logprobs) && prompt + answer > context {
            return Err(Refused::TooLong { prompt, context });
        }
        let checked = prompt::check(std::slice::from_ref(&request.prompt), &request.config, &self.model)?;
        request.prompt = checked.into_iter().next().unwrap_or_default();
        Ok(request)
    }
}
