//! The shortest way from a prompt to a text: `model.generate("…")`. Thin over `minigpt_generate`, which has all the rest.

use crate::chat_settings::ChatSettings;
use crate::error::Result;
use crate::model_folder::ModelFolder;
use minigpt_generate::{Constraint, GenerationConfig, Generator, Grammar, GrammarCompiler, generate};

impl ModelFolder {
    /// Writes a text. A model that knows questions or a chat answers the prompt; any other goes on with it. How tokens are
    /// chosen is what suits the model ([`Self::generation_config`]).
    pub fn generate(&self, prompt: &str) -> Result<String> {
        self.generate_with(prompt, &self.generation_config()?)
    }

    /// The same with other settings. Where they name no token that ends a text, the model's own do.
    pub fn generate_with(&self, prompt: &str, config: &GenerationConfig) -> Result<String> {
        let (prompts, config) = ([self.prompt(prompt)?], self.ending(config));
        let written = generate(&self.gpt, &prompts, &config, self.tokenizer.as_ref())?;
        Ok(written.into_iter().next().and_then(|completion| completion.text).unwrap_or_default())
    }

    /// [`Self::generate`], piece by piece, as the text is written.
    pub fn stream(&self, prompt: &str) -> Result<TextPieces<'_>> {
        self.stream_with(prompt, &self.generation_config()?)
    }

    /// [`Self::generate_with`], piece by piece, as the text is written.
    pub fn stream_with(&self, prompt: &str, config: &GenerationConfig) -> Result<TextPieces<'_>> {
        let (prompts, config) = ([self.prompt(prompt)?], self.ending(config));
        Ok(TextPieces(Generator::new(&self.gpt, &prompts, &config, self.tokenizer.as_ref())?))
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

/// A text as it is written: whole characters, one piece after the other. Dropped, nothing more is computed.
#[derive(Debug)]
pub struct TextPieces<'a>(Generator<'a>);

impl Iterator for TextPieces<'_> {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        // A token may be a part of a character, or of what could become a stop string.
        self.0
            .by_ref()
            .map(|step| Ok(step?.into_iter().map(|token| token.text).collect()))
            .find(|piece: &Result<String>| !piece.as_ref().is_ok_and(String::is_empty))
    }
}
