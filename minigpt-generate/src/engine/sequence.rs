//! A text in a slot: what of it the model has in view, and what has still to be read.
//!
//! When a text no longer fits the context, the last half of the window is read again from position 0: learned positions
//! can't be shifted in the cache. So one prefill of half a window buys as many further tokens. Cropping, as nanoGPT does
//! it, reads the whole window again for every further token.

use super::slots::Slots;
use crate::config::ContextRule;

/// A text and its place.
#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    /// The whole text: prompt and all that was written.
    pub ids: Vec<u32>,
    pub slot: usize,
    /// Where the text begins that the slot holds, from its position 0 on.
    start: usize,
    /// Logits behind all of it, until somebody has used them.
    pub logits: Option<Vec<f32>>,
}

/// The end of a text that fits the context.
pub(crate) fn view(ids: &[u32], context: usize) -> &[u32] {
    &ids[ids.len().saturating_sub(context)..]
}

impl Sequence {
    /// A text whose view begins with what the slot holds.
    pub fn new(ids: Vec<u32>, slot: usize, context: usize) -> Self {
        let start = ids.len().saturating_sub(context);
        Self { ids, slot, start, logits: None }
    }

    /// The same text, one token longer, perhaps in another slot that holds as much of it.
    pub fn extended(&self, ids: Vec<u32>, slot: usize) -> Self {
        Self { ids, slot, start: self.start, logits: None }
    }

    /// Makes room where a text has outgrown the context.
    pub fn make_room(&mut self, slots: &mut Slots, rule: ContextRule) {
        let context = slots.context();
        if self.ids.len() - self.start <= context {
            return;
        }
        let again = match rule {
            ContextRule::Crop => context,
            ContextRule::Slide | ContextRule::Stop => (context / 2).max(1),
        };
        slots.truncate(self.slot, 0);
        self.start = self.ids.len().saturating_sub(again);
    }

    /// The part of the text that the model is to have in view.
    pub fn view(&self) -> &[u32] {
        &self.ids[self.start..]
    }

    /// The tokens that are not in the cache yet.
    pub fn pending<'a>(&'a self, slots: &Slots) -> &'a [u32] {
        &self.ids[self.start + slots.ids(self.slot).len()..]
    }
}
