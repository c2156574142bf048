//! The shortest way from a prompt to a text: `model.generate("…")`. Thin over `minigpt_generate`, which has all the rest.

use crate::chat_settings::ChatSettings;
use crate::error::Result;
use crate::model_folder::ModelFolder;
use minigpt_generate::{
    Constraint, GenerationConfig, Generator, Grammar, GrammarCompiler, IgnoredSetting, generate,
};

impl ModelFolder {
    /// Generates text. A question/answer or chat model answers the prompt; any other continues it. How tokens are
    /// chosen is what suits the model ([`Self::generation_config`]).
    pub fn generate(&self, prompt: &str) -> Result<String> {
        Ok(self.generate_with(prompt, &self.generation_config()?)?.text)
    }

    /// The same with other settings. Where they name no token that ends a text, the model's own do. Settings that change
    /// nothing are named in [`Generated::warnings`].
    pub fn generate_with(&self, prompt: &str, config: &GenerationConfig) -> Result<Generated> {
        let (prompts, config) = ([self.prompt(prompt)?], self.ending(config));
        let written = generate(&self.gpt, &prompts, &config, self.tokenizer.as_ref())?;
        let text = written.into_iter().next().and_then(|completion| completion.text).unwrap_or_default();
        Ok(Generated { text, warnings: config.warnings() })
    }

    /// [`Self::generate`], piece by piece, as the text is written.
    pub fn stream(&self, prompt: &str) -> Result<TextPieces<'_>> {
        self.stream_with(prompt, &self.generation_config()?)
    }

    /// [`Self::generate_with`], piece by piece, as the text is written. Settings that change nothing are named in
    /// [`TextPieces::warnings`].
    pub fn stream_with(&self, prompt: &str, config: &GenerationConfig) -> Result<TextPieces<'_>> {
        let (prompts, config) = ([self.prompt(prompt)?], self.ending(config));
        let warnings = config.warnings();
        let steps = Generator::new(&self.gpt, &prompts, &config, self.tokenizer.as_ref())?;
        Ok(TextPieces { steps, warnings })
    }

    /// What suits the model: for questions the likeliest tokens, otherwise tokens drawn at temperature 0.8.
    pub fn generation_config(&self) -> Result<GenerationConfig> {
        Ok(ChatSettings::suited_to(self.format()?, self)?.generation)
    }

    /// The ids of a prompt: in the format that the model knows, unless it names special tokens and so is in it already.
    pub fn prompt(&self, text: &str) -> Result<Vec<u32>> {
        match self.format()?.wrap(self.need_tokenizer()?, text)? {
            Some(ids) => Ok(ids),
            None => self.encode(text),
        }
    }

    /// Compiles a JSON schema, regular expression or grammar for this model's vocabulary, for
    /// [`GenerationConfig::constraint`]. A program that compiles many keeps a [`GrammarCompiler`] instead.
    pub fn constraint(&self, grammar: &Grammar) -> Result<Constraint> {
        let compiler = GrammarCompiler::new(self.need_tokenizer()?, self.gpt.config().vocab_size)?;
        Ok(compiler.compile(grammar)?)
    }

    fn ending(&self, config: &GenerationConfig) -> GenerationConfig {
        let mut config = config.clone();
        if config.eos_token_id.is_empty() {
            config.eos_token_id = self.stop_ids();
        }
        config
    }
}

/// A text that a model wrote.
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    /// The text, without the prompt.
    pub text: String,
    /// Settings that were accepted and changed nothing ([`GenerationConfig::warnings`]), for example a `temperature` without
    /// `do_sample`.
    pub warnings: Vec<IgnoredSetting>,
}

/// A text as it is written: whole characters, one piece after the other. Dropped, nothing more is computed.
#[derive(Debug)]
pub struct TextPieces<'a> {
    steps: Generator<'a>,
    warnings: Vec<IgnoredSetting>,
}

impl TextPieces<'_> {
    /// Settings that were accepted and change nothing ([`GenerationConfig::warnings`]).
    pub fn warnings(&self) -> &[IgnoredSetting] {
        &self.warnings
    }
}

impl Iterator for TextPieces<'_> {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        // A token may be a part of a character, or of what could become a stop string.
        self.steps
            .by_ref()
            .map(|step| Ok(step?.into_iter().map(|token| token.text).collect()))
            .find(|piece: &Result<String>| !piece.as_ref().is_ok_and(String::is_empty))
    }
}
