//! Slots: room for the keys and values of one text each, allocated once. A slot keeps what it has read after its text is
//! done, so that a prompt that begins alike does not have to be read again.

use super::request::RequestId;
use crate::error::{Error, Result};
use minigpt_model::{Cache, DType, Gpt, TokenChunk};

/// All slots of an engine, and the model that fills them.
#[derive(Debug)]
pub(crate) struct Slots {
    gpt: Gpt,
    cache: Cache,
    slots: Vec<Slot>,
    /// Counts what is taken, to tell the slot that has been unused for longest.
    taken: u64,
}

#[derive(Debug, Default)]
struct Slot {
    /// The tokens whose keys and values it holds, from position 0 on.
    ids: Vec<u32>,
    owner: Option<RequestId>,
    /// Whose text it holds: only requests of the same key may go on with it.
    cache_key: u64,
    used: u64,
}

/// Tokens that go through the model in one step, behind those that a slot holds.
#[derive(Debug)]
pub(crate) struct Feed<'a> {
    pub slot: usize,
    pub ids: &'a [u32],
    /// How many of them, from the last one back, are to have logits of what comes next.
    pub logits: usize,
}

impl Slots {
    pub fn new(gpt: Gpt, slots: usize, context: usize) -> Result<Self> {
        let cache = Cache::new(gpt.config(), slots, context, gpt.cache_dtype(), gpt.device())?;
        let slots = (0..slots).map(|_| Slot::default()).collect();
        Ok(Self { gpt, cache, slots, taken: 0 })
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn context(&self) -> usize {
        self.cache.capacity()
    }

    /// The tokens that a slot holds.
    pub fn ids(&self, slot: usize) -> &[u32] {
        &self.slots[slot].ids
    }

    pub fn owner(&self, slot: usize) -> Option<RequestId> {
        self.slots[slot].owner
    }

    pub fn free(&self) -> usize {
        self.slots.iter().filter(|slot| slot.owner.is_none()).count()
    }

    /// Bytes of all keys and values.
    pub fn memory_bytes(&self) -> usize {
        self.cache.bytes()
    }

    /// Takes a free slot for a text that begins with `view`. The slot that holds most of its beginning goes on with it if
    /// it would lose less than half of what it holds; otherwise the one that has been unused for longest gets a copy. The
    /// last token is left to be read: it gives the logits.
    pub fn take(
        &mut self,
        owner: RequestId,
        view: &[u32],
        keep_prefix: bool,
        cache_key: u64,
    ) -> Result<Option<usize>> {
        let best = if keep_prefix { self.best_prefix(view, cache_key) } else { None };
        let oldest = |(_, slot): &(usize, &Slot)| (slot.used, slot.ids.len());
        let free = || self.slots.iter().enumerate().filter(|(_, slot)| slot.owner.is_none());
        let goes_on = best.filter(|&(slot, common)| {
            self.slots[slot].owner.is_none() && 2 * common >= self.slots[slot].ids.len()
        });
        let index = goes_on.map(|(slot, _)| slot).or_else(|| free().min_by_key(oldest).map(|(slot, _)| slot));
        let Some(index) = index else { return Ok(None) };
        match best {
            Some((from, common)) if from != index => self.copy(from, index, common)?,
            best => self.truncate(index, best.map_or(0, |(_, common)| common)),
        }
        self.taken += 1;
        let slot = &mut self.slots[index];
        (slot.owner, slot.used, slot.cache_key) = (Some(owner), self.taken, cache_key);
        Ok(Some(index))
    }

    /// The slot of this key that holds most of a text's beginning, and how much of it; of equals a free one. The last token
    /// does not count.
    pub fn best_prefix(&self, view: &[u32], cache_key: u64) -> Option<(usize, usize)> {
        let before_last = &view[..view.len().saturating_sub(1)];
        let common = |slot: &Slot| common_prefix(&slot.ids, before_last);
        let slots = self.slots.iter().enumerate().filter(|(_, slot)| slot.cache_key == cache_key);
        let slots = slots.map(|(index, slot)| (index, common(slot), slot.owner.is_none()));
        let best = slots.max_by_key(|&(_, common, is_free)| (common, is_free))?;
        (best.1 > 0).then_some((best.0, best.1))
    }

    /// Lets others have a slot, which keeps what it holds.
    pub fn release(&mut self, slot: usize) {
        self.slots[slot].owner = None;
    }

    /// Frees every slot of a request that failed, and forgets what is in them.
    pub fn abandon(&mut self, owner: RequestId) {
        for slot in 0..self.slots.len() {
            if self.slots[slot].owner == Some(owner) {
                self.truncate(slot, 0);
                self.release(slot);
            }
        }
    }

    /// Forgets all but the first tokens of a slot.
    pub fn truncate(&mut self, slot: usize, length: usize) {
        self.slots[slot].ids.truncate(length);
        self.cache.truncate(slot, length);
    }

    /// Makes a slot hold the first tokens that another holds.
    pub fn copy(&mut self, from: usize, to: usize, length: usize) -> Result<()> {
        if from != to {
            self.cache.copy(from, to, length)?;
            let ids = self.slots[from].ids[..length].to_vec();
            self.slots[to].ids = ids;
        }
        Ok(())
    }

    /// Runs the model on all that is fed, in one pass; the logits that were wanted of each.
    pub fn forward(&mut self, feeds: &[Feed]) -> Result<Vec<Vec<Vec<f32>>>> {
        let chunks: Vec<TokenChunk> = feeds
            .iter()
            .map(|feed| TokenChunk { row: feed.slot, ids: feed.ids, logits: feed.logits })
            .collect();
        let logits = self.gpt.step(&chunks, &mut self.cache)?.to_dtype(DType::F32).and_then(|x| x.to_vec2());
        let logits: Vec<Vec<f32>> = logits.map_err(|error| Error::Model(error.into()))?;
        let mut logits = logits.into_iter();
        for feed in feeds {
            self.slots[feed.slot].ids.extend_from_slice(feed.ids);
        }
        Ok(feeds.iter().map(|feed| logits.by_ref().take(feed.logits).collect()).collect())
    }
}

/// How many tokens two texts have in common at their beginning.
pub(crate) fn common_prefix(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use minigpt_model::{Config, Device};

    fn slots(n: usize) -> Slots {
        let config =
            Config { vocab_size: 50, block_size: 16, n_layer: 1, n_head: 1, n_embd: 4, ..Config::default() };
        Slots::new(Gpt::new(config, 1, &Device::Cpu).unwrap(), n, 16).unwrap()
    }

    /// Lets a text be read, and its slot be free again.
    fn read(slots: &mut Slots, text: &[u32]) -> (usize, usize) {
        let slot = slots.take(RequestId(0), text, true, 0).unwrap().unwrap();
        let kept = slots.ids(slot).len();
        slots.forward(&[Feed { slot, ids: &text[kept..], logits: 1 }]).unwrap();
        assert_eq!(slots.ids(slot), text);
        slots.release(slot);
        (slot, kept)
    }

    #[test]
    fn a_text_goes_on_where_most_of_it_has_been_read() {
        let mut slots = slots(3);
        assert_eq!(read(&mut slots, &[1, 2, 3, 4]), (0, 0));
        assert_eq!(read(&mut slots, &[9, 8, 7]), (1, 0));
        assert_eq!(read(&mut slots, &[1, 2, 3, 4, 5, 6]), (0, 4), "a further turn");
        assert_eq!(read(&mut slots, &[1, 2, 3, 4, 5, 6]), (0, 5), "the last token gives the logits");
        assert_eq!(read(&mut slots, &[1, 2, 30, 31]), (2, 2), "a copy, so that the longer text is kept");
        assert_eq!(read(&mut slots, &[1, 2, 3, 4, 5, 6, 7]), (0, 6));
        assert_eq!(read(&mut slots, &[40]), (1, 0), "unused for longest");
    }

    #[test]
    fn a_slot_in_use_lends_its_beginning_and_no_slot_is_taken_twice() {
        let mut slots = slots(2);
        let first = slots.take(RequestId(0), &[1, 2, 3], true, 0).unwrap().unwrap();
        slots.forward(&[Feed { slot: first, ids: &[1, 2, 3], logits: 1 }]).unwrap();
        let second = slots.take(RequestId(1), &[1, 2, 3], true, 0).unwrap().unwrap();
        assert_eq!((second, slots.ids(second), slots.free()), (1 - first, &[1, 2][..], 0));
        assert!(slots.take(RequestId(2), &[1], true, 0).unwrap().is_none());
        slots.release(second);
        let third = slots.take(RequestId(3), &[1, 2, 3], false, 0).unwrap().unwrap();
        assert_eq!((third, slots.ids(third).len()), (second, 0), "read anew");
    }

    #[test]
    fn a_prefix_is_shared_only_among_requests_of_one_key() {
        let mut slots = slots(2);
        let text = [1, 2, 3, 4];
        read(&mut slots, &text);
        let kept = |slots: &mut Slots, key: u64| {
            let slot = slots.take(RequestId(9), &text, true, key).unwrap().unwrap();
            let kept = slots.ids(slot).len();
            slots.forward(&[Feed { slot, ids: &text[kept..], logits: 1 }]).unwrap();
            slots.release(slot);
            kept
        };
        assert_eq!([kept(&mut slots, 7), kept(&mut slots, 7)], [0, 3], "another key, then the same");
        assert_eq!(kept(&mut slots, 0), 3, "the first key still has its own");
        let turns = [kept(&mut slots, 8), kept(&mut slots, 7), kept(&mut slots, 8)];
        assert_eq!(turns, [0, 0, 3], "a slot that changes hands holds nothing of its last owner");
    }
}
