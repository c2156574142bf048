//! The part of each text that the model has in view, kept in the key/value cache.
//!
//! Callers pass whole texts, and the model runs forward on what is new: the prompt at first (prefill), then one token
//! at a time (decode). When a text no longer fits the context, the last half of the window is computed again from
//! position 0: learned positions can't be shifted in the cache. So one prefill of half a window buys as many further
//! tokens. Cropping, as nanoGPT does it, computes the whole window again for every further token.

use crate::config::ContextRule;
use crate::error::{Error, Result};
use minigpt_model::{Cache, DType, Gpt};

/// Texts whose keys and values are cached as they grow.
#[derive(Debug)]
pub struct Window<'a> {
    gpt: &'a Gpt,
    cache: Cache,
    /// How many tokens of each text the model has seen.
    seen: Vec<usize>,
    rule: ContextRule,
}

impl<'a> Window<'a> {
    /// Room for `rows` texts that grow to no more than `longest` tokens, or to the model's context if that is less.
    pub fn new(gpt: &'a Gpt, rows: usize, longest: usize, rule: ContextRule) -> Result<Self> {
        let cache = Cache::new(gpt.config(), rows, longest, gpt.dtype(), gpt.device())?;
        Ok(Self { gpt, cache, seen: vec![0; rows], rule })
    }

    /// Runs the model on what is new in each text, one token at least, and returns the logits of what comes next.
    pub fn next_logits(&mut self, texts: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        let new: Vec<&[u32]> = texts.iter().enumerate().map(|(row, text)| self.unseen(row, text)).collect();
        let logits = self.gpt.next_logits(&new, &mut self.cache)?; // (B, V)
        self.seen = texts.iter().map(|text| text.len()).collect();
        let logits = logits.to_dtype(DType::F32).and_then(|logits| logits.to_vec2());
        let logits: Vec<Vec<f32>> = logits.map_err(minigpt_model::Error::from)?;
        texts.iter().zip(&logits).try_for_each(|(text, logits)| check(logits, text.len()))?;
        Ok(logits)
    }

    /// The tokens of a text that must go through the model. Empties its cache if they don't fit beside what is in it.
    fn unseen<'t>(&mut self, row: usize, text: &'t [u32]) -> &'t [u32] {
        let (capacity, kept) = (self.cache.capacity(), self.cache.lengths()[row]);
        let new = &text[self.seen[row]..];
        if kept + new.len() <= capacity {
            return new;
        }
        self.cache.truncate(row, 0);
        let whole = kept == 0 || self.rule == ContextRule::Crop;
        let again = if whole { capacity } else { (capacity / 2).max(1) };
        &text[text.len().saturating_sub(again)..]
    }

    /// Whether the context has no room for a further token of this text.
    pub fn is_full(&self, row: usize) -> bool {
        self.cache.lengths()[row] >= self.gpt.config().block_size
    }

    /// Makes text `rows[i]` the new text `i`.
    pub fn select(&mut self, rows: &[usize]) -> Result<()> {
        self.cache.select_rows(rows)?;
        self.seen = rows.iter().map(|&row| self.seen[row]).collect();
        Ok(())
    }
}

/// Minus infinity is a token that can't come; anything else that is no number is a broken model.
fn check(logits: &[f32], position: usize) -> Result<()> {
    let broken = logits.iter().position(|x| x.is_nan() || *x == f32::INFINITY);
    let broken = broken.or(logits.iter().all(|x| x.is_infinite()).then_some(0));
    match broken {
        Some(id) => Err(Error::NotFinite { position, id, value: logits[id] }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use minigpt_model::{Config, Device};

    const BLOCK_SIZE: usize = 7;

    fn gpt() -> Gpt {
        let config = Config {
            vocab_size: 11,
            block_size: BLOCK_SIZE,
            n_layer: 2,
            n_head: 2,
            n_embd: 8,
            initializer_range: 0.3,
            ..Config::default()
        };
        Gpt::new(config, 1, &Device::Cpu).unwrap()
    }

    fn text(n: usize) -> Vec<u32> {
        (0..n as u32).map(|i| (i * i + 3 * i) % 11).collect()
    }

    fn assert_sees(logits: &[f32], gpt: &Gpt, view: &[u32]) {
        let want = gpt.logits(&gpt.ids(&[view]).unwrap()).unwrap().get(0).unwrap();
        let want = want.get(view.len() - 1).unwrap().to_vec1::<f32>().unwrap();
        for (got, want) in logits.iter().zip(&want) {
            assert!((got - want).abs() < 1e-5, "{got} is not {want}");
        }
    }

    #[test]
    fn a_full_window_is_read_again_by_half() {
        let (gpt, text) = (gpt(), text(20));
        let mut window = Window::new(&gpt, 1, usize::MAX, ContextRule::Slide).unwrap();
        let mut start = 0;
        for n in 5..=text.len() {
            if n - start > BLOCK_SIZE {
                start = n - BLOCK_SIZE / 2;
            }
            let logits = window.next_logits(&[&text[..n]]).unwrap();
            assert_sees(&logits[0], &gpt, &text[start..n]);
            assert_eq!(window.is_full(0), n - start == BLOCK_SIZE);
        }
    }

    #[test]
    fn of_a_long_prompt_the_end_is_read() {
        let (gpt, text) = (gpt(), text(18));
        let mut window = Window::new(&gpt, 2, 99, ContextRule::Slide).unwrap();
        let logits = window.next_logits(&[&text[..17], &text[..2]]).unwrap();
        assert_sees(&logits[0], &gpt, &text[17 - BLOCK_SIZE..17]);
        assert_sees(&logits[1], &gpt, &text[..2]);
        let logits = window.next_logits(&[&text[..18], &text[..3]]).unwrap();
        assert_sees(&logits[0], &gpt, &text[18 - BLOCK_SIZE / 2..18]);
        assert_sees(&logits[1], &gpt, &text[..3]);
    }

    #[test]
    fn a_context_of_one_token_still_works() {
        let gpt = Gpt::new(Config { block_size: 1, ..gpt().config().clone() }, 1, &Device::Cpu).unwrap();
        for rule in [ContextRule::Slide, ContextRule::Crop] {
            let mut window = Window::new(&gpt, 1, 9, rule).unwrap();
            for n in 1..4 {
                let text = text(n);
                assert_sees(&window.next_logits(&[&text]).unwrap()[0], &gpt, &text[n - 1..]);
            }
        }
    }

    #[test]
    fn a_cropped_window_always_has_the_last_tokens_in_view() {
        let (gpt, text) = (gpt(), text(20));
        let mut window = Window::new(&gpt, 2, usize::MAX, ContextRule::Crop).unwrap();
        for n in 5..=text.len() {
            // Beside it a text that begins later and is full at another time.
            let rows = [&text[..n], &text[3..n]];
            let logits = window.next_logits(&rows).unwrap();
            for (logits, row) in logits.iter().zip(rows) {
                assert_sees(logits, &gpt, &row[row.len().saturating_sub(BLOCK_SIZE)..]);
            }
        }
    }

    #[test]
    fn logits_that_are_no_numbers_are_an_error_that_says_so() {
        check(&[1.0, f32::NEG_INFINITY], 3).unwrap();
        let complaint = |logits: &[f32]| check(logits, 3).unwrap_err().to_string();
        assert!(complaint(&[1.0, f32::NAN]).starts_with("after 3 tokens the model gives NaN for token 1"));
        assert!(complaint(&[f32::INFINITY, 1.0]).contains("gives inf for token 0"));
        assert!(complaint(&[f32::NEG_INFINITY; 2]).contains("gives -inf for token 0"));
    }
}
