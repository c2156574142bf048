//! The key/value cache of one layer: the keys and values of several texts, allocated once.
//!
//! Keys are kept in panels of sixteen tokens and values in panels of sixteen elements, as products keep weights, in f32 or f16.
//! How they are attended to is `cached.rs`. On a GPU, or in another dtype, they are plain tensors, and attention is its definition.

use super::cache_line::CacheLine;
use super::mask::AttentionMask;
use super::{attention_composed, split_heads};
use crate::gemm::formats::{COLUMNS, PanelLine};
use crate::with_floats;
use candle_core::{DType, Device, Result, Tensor};
use half::f16;
use std::ops::Range;

/// Consecutive tokens of one text in a batch of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRun {
    /// Where the keys and values of the text are.
    pub slot: usize,
    /// The position of the first token in its text.
    pub start: usize,
    /// Which tokens of the batch they are.
    pub tokens: Range<usize>,
}

/// The keys and values of one layer, of one text per slot.
#[derive(Debug, Clone)]
pub struct KeyValues {
    n_head: usize,
    head_width: usize,
    capacity: usize,
    pub(super) store: Store,
}

#[derive(Debug, Clone)]
pub(super) enum Store {
    /// On the CPU, in f32.
    F32(KeyValuePanels<PanelLine>),
    /// On the CPU, in f16.
    F16(KeyValuePanels<[f16; COLUMNS]>),
    /// Elsewhere, or in another dtype: (slots, H, capacity, D).
    Tensors { keys: Tensor, values: Tensor },
}

/// The panels of the keys of each slot and head, and those of the values.
#[derive(Debug, Clone)]
pub(super) struct KeyValuePanels<L> {
    pub keys: Vec<L>,
    pub values: Vec<L>,
}

impl KeyValues {
    /// Allocates `slots` texts of up to `capacity` tokens, in a dtype that may be narrower than that of the tokens.
    pub fn new(
        slots: usize,
        n_head: usize,
        capacity: usize,
        head_width: usize,
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let heads = slots * n_head;
        let (keys, values) =
            (heads * key_lines(capacity, head_width), heads * value_lines(capacity, head_width));
        let store = match dtype {
            DType::F32 if device.is_cpu() => Store::F32(KeyValuePanels::new(keys, values)),
            DType::F16 if device.is_cpu() => Store::F16(KeyValuePanels::new(keys, values)),
            _ => {
                let zeros = || Tensor::zeros((slots, n_head, capacity, head_width), dtype, device);
                Store::Tensors { keys: zeros()?, values: zeros()? }
            }
        };
        Ok(Self { n_head, head_width, capacity, store })
    }

    /// Bytes that the keys and values of one text take in one layer.
    pub fn slot_bytes(n_head: usize, capacity: usize, head_width: usize, dtype: DType) -> Option<usize> {
        let lines = capacity.checked_next_multiple_of(COLUMNS)?.checked_mul(head_width)?;
        let values = head_width.checked_next_multiple_of(COLUMNS)?.checked_mul(capacity)?;
        lines.checked_add(values)?.checked_mul(n_head)?.checked_mul(dtype.size_in_bytes())
    }

    fn layout(&self) -> Layout {
        let Self { n_head, head_width, capacity, .. } = *self;
        Layout { h: n_head, d: head_width, capacity }
    }

    /// Copies the first `length` tokens of slot `from` to slot `to`.
    pub fn copy(&mut self, from: usize, to: usize, length: usize) -> Result<()> {
        let layout = self.layout();
        match &mut self.store {
            Store::F32(panels) => panels.copy(layout, from, to, length),
            Store::F16(panels) => panels.copy(layout, from, to, length),
            Store::Tensors { keys, values } if length > 0 => {
                for cache in [keys, values] {
                    let read = cache.narrow(0, from, 1)?.narrow(2, 0, length)?.force_contiguous()?;
                    cache.narrow(0, to, 1)?.slice_set(&read, 2, 0)?;
                }
            }
            Store::Tensors { .. } => (),
        }
        Ok(())
    }

    /// Writes the keys and values of new tokens.
    ///
    /// # Shapes
    /// - `qkv`: (N, 3·C), of which each run's tokens are rows
    pub fn write(&mut self, qkv: &Tensor, runs: &[TokenRun]) -> Result<()> {
        let (n, width) = qkv.dims2()?;
        self.check(n, width, runs);
        let layout = self.layout();
        match &mut self.store {
            Store::F32(panels) => with_floats([qkv], |[qkv]| {
                panels.write(layout, qkv, runs);
                Ok(())
            }),
            Store::F16(panels) => with_floats([qkv], |[qkv]| {
                panels.write(layout, qkv, runs);
                Ok(())
            }),
            Store::Tensors { keys, values } => {
                for run in runs.iter().filter(|run| !run.tokens.is_empty()) {
                    let new = qkv.narrow(0, run.tokens.start, run.tokens.len())?.unsqueeze(0)?;
                    let [_, k, v] = split_heads(&new, layout.h)?; // (1, H, T, D)
                    for (cache, new) in [(&*keys, k), (&*values, v)] {
                        let new = new.to_dtype(cache.dtype())?.contiguous()?;
                        cache.narrow(0, run.slot, 1)?.slice_set(&new, 2, run.start)?;
                    }
                }
                Ok(())
            }
        }
    }

    /// Attention of tokens whose keys and values have been written, each to those of its text up to its own position.
    ///
    /// # Shapes
    /// - `qkv`: (N, 3·C), of which each run's tokens are rows; output: (tokens of all runs, C)
    pub fn attend(&self, qkv: &Tensor, runs: &[TokenRun]) -> Result<Tensor> {
        let (n, width) = qkv.dims2()?;
        self.check(n, width, runs);
        let tokens: usize = runs.iter().map(|run| run.tokens.len()).sum();
        let c = self.n_head * self.head_width;
        let layout = self.layout();
        match &self.store {
            Store::F32(panels) => {
                let out = with_floats([qkv], |[qkv]| Ok(panels.attend(layout, qkv, runs)))?;
                Tensor::from_vec(out, (tokens, c), qkv.device())
            }
            Store::F16(panels) => {
                let out = with_floats([qkv], |[qkv]| Ok(panels.attend(layout, qkv, runs)))?;
                Tensor::from_vec(out, (tokens, c), qkv.device())
            }
            Store::Tensors { keys, values } => {
                let attend = |run: &TokenRun| {
                    let new = qkv.narrow(0, run.tokens.start, run.tokens.len())?.unsqueeze(0)?;
                    let [q, ..] = split_heads(&new, self.n_head)?; // (1, H, T, D)
                    let seen = |cache: &Tensor| {
                        let seen =
                            cache.narrow(0, run.slot, 1)?.narrow(2, 0, run.start + run.tokens.len())?;
                        seen.to_dtype(qkv.dtype())?.contiguous()
                    };
                    let mask = AttentionMask::causal(&[run.start]);
                    let (out, _) = attention_composed(&q, &seen(keys)?, &seen(values)?, &mask, None)?;
                    out.reshape((run.tokens.len(), c))
                };
                Tensor::cat(&runs.iter().map(attend).collect::<Result<Vec<_>>>()?, 0)
            }
        }
    }

    fn check(&self, n: usize, width: usize, runs: &[TokenRun]) {
        assert_eq!(width, 3 * self.n_head * self.head_width, "a joint projection of this width");
        for TokenRun { start, tokens, .. } in runs {
            assert!(tokens.end <= n && start + tokens.len() <= self.capacity, "tokens that have room");
        }
    }
}

/// The layout of a layer's panels.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub h: usize,
    pub d: usize,
    pub capacity: usize,
}

/// Lines of the keys of one head: a panel of sixteen tokens has one for each element.
fn key_lines(capacity: usize, head_width: usize) -> usize {
    capacity.div_ceil(COLUMNS) * head_width
}

/// Lines of the values of one head: a panel of sixteen elements has one for each token.
fn value_lines(capacity: usize, head_width: usize) -> usize {
    head_width.div_ceil(COLUMNS) * capacity
}

impl Layout {
    /// The lines of the keys of a slot's head.
    pub fn keys(self, slot: usize, head: usize) -> Range<usize> {
        let (at, lines) = (slot * self.h + head, key_lines(self.capacity, self.d));
        at * lines..(at + 1) * lines
    }

    /// The lines of its values.
    pub fn values(self, slot: usize, head: usize) -> Range<usize> {
        let (at, lines) = (slot * self.h + head, value_lines(self.capacity, self.d));
        at * lines..(at + 1) * lines
    }
}

impl<L: CacheLine> KeyValuePanels<L> {
    fn new(keys: usize, values: usize) -> Self {
        Self { keys: vec![L::ZERO; keys], values: vec![L::ZERO; values] }
    }

    fn copy(&mut self, layout: Layout, from: usize, to: usize, length: usize) {
        let panels = length.div_ceil(COLUMNS) * layout.d;
        for head in 0..layout.h {
            let start = layout.keys(from, head).start;
            self.keys.copy_within(start..start + panels, layout.keys(to, head).start);
            let (from, to) = (layout.values(from, head), layout.values(to, head));
            for (start, to) in from.zip(to).step_by(layout.capacity.max(1)) {
                self.values.copy_within(start..start + length, to);
            }
        }
    }

    fn write(&mut self, layout: Layout, qkv: &[f32], runs: &[TokenRun]) {
        let Layout { h, d, capacity } = layout;
        let width = 3 * h * d;
        for (run, head) in runs.iter().flat_map(|run| (0..h).map(move |head| (run, head))) {
            let keys = &mut self.keys[layout.keys(run.slot, head)];
            let values = &mut self.values[layout.values(run.slot, head)];
            for (position, token) in (run.start..).zip(run.tokens.clone()) {
                let row = &qkv[token * width..][..width];
                let (k, v) = (&row[(h + head) * d..][..d], &row[(2 * h + head) * d..][..d]);
                let panel = &mut keys[position / COLUMNS * d..][..d];
                panel.iter_mut().zip(k).for_each(|(line, k)| line.set(position % COLUMNS, *k));
                for (strip, v) in v.chunks(COLUMNS).enumerate() {
                    let line = &mut values[strip * capacity + position];
                    v.iter().enumerate().for_each(|(at, v)| line.set(at, *v));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{random, relative_difference};

    fn bits(x: &Tensor) -> Vec<u32> {
        x.flatten_all().unwrap().to_vec1::<f32>().unwrap().iter().map(|x| x.to_bits()).collect()
    }

    #[test]
    fn a_copied_slot_continues_like_the_original() {
        for dtype in [DType::F32, DType::F16, DType::F64] {
            let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
            let text = random(&[40, 3 * 20], 1).to_dtype(wide).unwrap();
            let mut cache = KeyValues::new(3, 2, 40, 10, dtype, &Device::Cpu).unwrap();
            let run = |slot, start, tokens| [TokenRun { slot, start, tokens }];
            cache.write(&text.narrow(0, 0, 33).unwrap(), &run(0, 0, 0..33)).unwrap();
            cache.copy(0, 2, 33).unwrap();
            let rest = text.narrow(0, 33, 7).unwrap();
            let mut attend = |slot| {
                cache.write(&rest, &run(slot, 33, 0..7)).unwrap();
                bits(&cache.attend(&rest, &run(slot, 33, 0..7)).unwrap().to_dtype(DType::F32).unwrap())
            };
            assert_eq!(attend(0), attend(2));
        }
    }

    #[test]
    fn tensors_of_another_dtype_take_the_definition() {
        let text = random(&[9, 3 * 8], 1);
        let read = |dtype| {
            let mut cache = KeyValues::new(2, 2, 9, 4, dtype, &Device::Cpu).unwrap();
            let text = text.to_dtype(dtype).unwrap();
            let parts = [0..5, 5..9].map(|tokens| {
                let qkv = text.narrow(0, tokens.start, tokens.len()).unwrap();
                let run = [TokenRun { slot: 1, start: tokens.start, tokens: 0..tokens.len() }];
                cache.write(&qkv, &run).unwrap();
                cache.attend(&qkv, &run).unwrap().to_dtype(DType::F32).unwrap()
            });
            Tensor::cat(&parts, 0).unwrap()
        };
        assert!(relative_difference(&read(DType::F32), &read(DType::F64)) < 1e-5);
    }
}
