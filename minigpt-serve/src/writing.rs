//! A text as it is written: which tokens have been shown, and where in the text they stand.

use crate::served_model::ServedModel;
use minigpt_generate::{FinishReason, TokenLogprobs};
use std::sync::Arc;

/// A token with what is known of it.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    pub id: u32,
    /// None for the first token of a prompt, which nothing predicts.
    pub logprob: Option<f64>,
    pub top: Vec<(u32, f64)>,
    /// Characters of the text before it.
    pub offset: usize,
}

/// What can be shown now: text, and the tokens that it comes from.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    pub text: String,
    pub tokens: Vec<Written>,
}

/// One text under way.
pub(crate) struct Writing {
    model: Arc<ServedModel>,
    /// Characters that have begun in the tokens so far.
    begun: usize,
    /// Characters that were shown.
    shown: usize,
    /// Tokens whose text waits: half a character, or what could become a stop string.
    waiting: Vec<Written>,
}

impl Writing {
    pub fn new(model: &Arc<ServedModel>) -> Self {
        Self { model: Arc::clone(model), begun: 0, shown: 0, waiting: Vec::new() }
    }

    /// The prompt, said again before the text.
    pub fn echo(&mut self, text: String, tokens: Vec<TokenLogprobs>) -> Piece {
        let tokens =
            tokens.into_iter().map(|token| self.written(token.id, token.logprob, token.top)).collect();
        self.shown = text.chars().count();
        // Bytes that are no characters count as they are shown.
        self.begun = self.shown;
        Piece { text, tokens }
    }

    /// A token, and the text that became clear with it.
    pub fn token(&mut self, id: u32, logprob: f64, top: Vec<(u32, f64)>, text: String) -> Piece {
        let written = self.written(id, Some(logprob), top);
        self.waiting.push(written);
        self.show(text, false)
    }

    /// A whole text at once, as a search finds it.
    pub fn found(&mut self, ids: &[u32], logprobs: &[f64], text: String) -> Piece {
        for (&id, &logprob) in ids.iter().zip(logprobs) {
            let written = self.written(id, Some(logprob), Vec::new());
            self.waiting.push(written);
        }
        self.show(text, false)
    }

    /// The end. Tokens of a stop string are no part of the text, and neither is one that ends it, unless all are wanted.
    pub fn end(&mut self, reason: FinishReason, rest: String, all: bool) -> Piece {
        self.show(rest, all || reason == FinishReason::Length)
    }

    fn show(&mut self, text: String, all: bool) -> Piece {
        self.shown += text.chars().count();
        let clear = self.waiting.iter().take_while(|token| all || token.offset < self.shown).count();
        Piece { text, tokens: self.waiting.drain(..clear).collect() }
    }

    fn written(&mut self, id: u32, logprob: Option<f64>, top: Vec<(u32, f64)>) -> Written {
        let bytes = self.model.token_bytes(id).unwrap_or("\u{FFFD}".as_bytes());
        let goes_on = |byte: &u8| byte & 0xC0 == 0x80;
        // A token that goes on with a character stands where that character does.
        let inside = bytes.first().is_some_and(goes_on);
        let offset = self.begun - usize::from(inside && self.begun > 0);
        self.begun += bytes.iter().filter(|byte| !goes_on(byte)).count();
        Written { id, logprob, top, offset }
    }
}
