//! The attention of inference: a few tokens of several texts, each with the keys and values of its own text.
//!
//! Keys are kept in panels of sixteen tokens and values in panels of sixteen elements, as `panels` keeps weights, so both
//! products are made by its micro-kernel. For each query and head there is one order of summation: a score is a chain over
//! the elements of the head, the softmax goes over exactly the keys that the query may see, and the mix is a chain over
//! these keys from the first to the last. So the result is the same to the bit for a query alone, in a block of queries,
//! and with any tokens beside it.
//!
//! Kept in f16 they take half the memory, and half as much is read. A block of queries then widens what it sees of a head, which
//! is exact, into a buffer that stays in the cache: beyond the rounding of what is kept, nothing is computed otherwise.
#![expect(unsafe_code, reason = "threads write disjoint rows of one buffer through pointers")]

use super::cache_line::CacheLine;
use super::mask::AttentionMask;
use super::one_head::softmax;
use super::{attention_composed, split_heads};
use crate::gemm::panel_format::{COLUMNS, PanelLine};
use crate::gemm::panel_tile::TileRows;
use crate::gemm::panels::{extend, tile, two_tiles};
use crate::gemm::product::{Output, TILE_ROWS};
use crate::{simd, with_floats};
use candle_core::{DType, Device, Result, Tensor};
use half::f16;
use rayon::prelude::*;
use std::cell::RefCell;
use std::ops::Range;

/// Queries of a task: their scores stay in the L2 cache, and they share what is read of the keys and values.
const BLOCK: usize = 4 * TILE_ROWS;
/// Multiply-adds below which waking other threads costs more than it saves.
const ONE_THREAD: usize = 1 << 17;

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

/// The keys and values of one layer: those of as many texts as there are slots, allocated once.
#[derive(Debug, Clone)]
pub struct KeyValues {
    n_head: usize,
    head_width: usize,
    capacity: usize,
    store: Store,
}

#[derive(Debug, Clone)]
enum Store {
    /// On the CPU, in f32.
    F32(Panels<PanelLine>),
    /// On the CPU, in f16.
    F16(Panels<[f16; COLUMNS]>),
    /// Elsewhere, or in another dtype: (slots, H, capacity, D).
    Tensors { keys: Tensor, values: Tensor },
}

/// Of each slot and head the panels of its keys, and those of its values.
#[derive(Debug, Clone)]
struct Panels<L> {
    keys: Vec<L>,
    values: Vec<L>,
}

/// What a thread computes the attention of a block of queries with.
#[derive(Default)]
struct Scratch {
    scores: Vec<f32>,
    mixed: Vec<f32>,
    wide: Vec<PanelLine>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl KeyValues {
    /// Room for `slots` texts of up to `capacity` tokens, in a dtype that may be narrower than that of the tokens' own.
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
            DType::F32 if device.is_cpu() => Store::F32(Panels::new(keys, values)),
            DType::F16 if device.is_cpu() => Store::F16(Panels::new(keys, values)),
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

    /// Makes the first `length` tokens of slot `to` those of slot `from`.
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

    /// Keeps the keys and values of new tokens.
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

/// How the panels of a layer lie.
#[derive(Clone, Copy)]
struct Layout {
    h: usize,
    d: usize,
    capacity: usize,
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
    fn keys(self, slot: usize, head: usize) -> Range<usize> {
        let (at, lines) = (slot * self.h + head, key_lines(self.capacity, self.d));
        at * lines..(at + 1) * lines
    }

    /// The lines of its values.
    fn values(self, slot: usize, head: usize) -> Range<usize> {
        let (at, lines) = (slot * self.h + head, value_lines(self.capacity, self.d));
        at * lines..(at + 1) * lines
    }
}

impl<L: CacheLine> Panels<L> {
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

    fn attend(&self, layout: Layout, qkv: &[f32], runs: &[TokenRun]) -> Vec<f32> {
        let Layout { h, d, capacity } = layout;
        let mut out = vec![0f32; runs.iter().map(|run| run.tokens.len()).sum::<usize>() * h * d];
        let mut tasks = Vec::new();
        let (mut row, mut work) = (0, 0);
        for run in runs {
            for first in (0..run.tokens.len()).step_by(BLOCK) {
                let count = BLOCK.min(run.tokens.len() - first);
                work += count * (run.start + first + count) * 2 * h * d;
                tasks.extend((0..h).map(|head| Task {
                    qkv: run.tokens.start + first,
                    row: row + first,
                    count,
                    start: run.start + first,
                    head,
                    keys: layout.keys(run.slot, head),
                    values: layout.values(run.slot, head),
                }));
            }
            row += run.tokens.len();
        }
        let heads = Heads { qkv, width: 3 * h * d, d, capacity, out: out.as_mut_ptr(), c: h * d };
        let attend = |task: &Task| {
            let (keys, values) = (&self.keys[task.keys.clone()], &self.values[task.values.clone()]);
            // SAFETY: whoever calls this made sure that the tokens lie inside of `qkv`, and that the slot has room for them;
            // `out` has a row for each, of which each task writes its own part.
            SCRATCH.with_borrow_mut(|scratch| unsafe { heads.attend(task, keys, values, scratch) });
        };
        if work < ONE_THREAD {
            tasks.iter().for_each(attend);
        } else {
            tasks.par_iter().for_each(attend);
        }
        out
    }
}

/// A block of queries of one head.
struct Task {
    /// The first of them in `qkv` and in the output.
    qkv: usize,
    row: usize,
    count: usize,
    /// The position of the first.
    start: usize,
    head: usize,
    keys: Range<usize>,
    values: Range<usize>,
}

/// What all tasks share.
struct Heads<'a> {
    /// (N, 3·C)
    qkv: &'a [f32],
    width: usize,
    d: usize,
    capacity: usize,
    /// (tokens, C)
    out: *mut f32,
    c: usize,
}

// SAFETY: tasks write disjoint parts of the output.
unsafe impl Sync for Heads<'_> {}

impl Heads<'_> {
    /// # Safety
    /// The tokens of the task lie inside of `qkv` and of the output, and its keys and values have been written.
    unsafe fn attend<L: CacheLine>(&self, task: &Task, keys: &[L], values: &[L], scratch: &mut Scratch) {
        let Scratch { scores, mixed, wide } = scratch;
        let (count, d, strips) = (task.count, self.d, self.d.div_ceil(COLUMNS));
        let seen = task.start + count;
        let padded = seen.next_multiple_of(COLUMNS);
        scores.resize(scores.len().max(count * padded), 0.0);
        mixed.resize(mixed.len().max(count * strips * COLUMNS), 0.0);
        // SAFETY: the caller's; the buffers have just been made large enough.
        unsafe {
            let (keys, _) = L::widened(keys, keys.len(), seen.div_ceil(COLUMNS) * d, wide);
            self.scores(task, keys, Output { to: scores.as_mut_ptr(), stride: padded, base: None });
            let scale = 1.0 / (d as f32).sqrt();
            simd::vectorized(|| {
                for (i, row) in scores.chunks_mut(padded).take(count).enumerate() {
                    let row = &mut row[..task.start + i + 1];
                    row.iter_mut().for_each(|s| *s *= scale);
                    softmax(row);
                }
            });
            let weights = TileRows { at: scores.as_ptr(), row: padded, step: 1 };
            let values = L::widened(values, self.capacity, seen, wide);
            self.mix(task, weights, values, &mut mixed[..count * strips * COLUMNS]);
            for (i, mixed) in mixed.chunks(strips * COLUMNS).take(count).enumerate() {
                let to = self.out.add((task.row + i) * self.c + task.head * d);
                mixed.as_ptr().copy_to_nonoverlapping(to, d);
            }
        }
    }

    /// q · kᵀ for all keys up to the last query's own. What is beyond a query's own position means nothing.
    ///
    /// # Safety
    /// As for [`Heads::attend`]; the output has a row for each query.
    unsafe fn scores(&self, task: &Task, keys: &[PanelLine], output: Output) {
        let q = &self.qkv[task.qkv * self.width + task.head * self.d..];
        let q = TileRows { at: q.as_ptr(), row: self.width, step: 1 };
        let panels = (task.start + task.count).div_ceil(COLUMNS);
        let panel = |i: usize| &keys[i * self.d..][..self.d];
        let mut at = 0;
        while at < panels {
            let two = task.count <= 3 && at + 1 < panels;
            for i in (0..task.count).step_by(TILE_ROWS) {
                let rows = TILE_ROWS.min(task.count - i);
                if at * COLUMNS >= task.start + i + rows {
                    continue;
                }
                // SAFETY: the caller's.
                unsafe {
                    let (x, to) = (q.part(i, 0), |at: usize| output.part(i, at * COLUMNS));
                    if two {
                        two_tiles([to(at), to(at + 1)], rows, x, [panel(at), panel(at + 1)]);
                    } else {
                        tile(to(at), [rows, COLUMNS], x, panel(at));
                    }
                }
            }
            at += 1 + usize::from(two);
        }
    }

    /// weights · v: of several queries together as far as the first of them sees, then of each alone what it sees beyond. The
    /// strips of the values are `apart` lines from each other.
    ///
    /// # Safety
    /// As for [`Heads::attend`]; the weights have a row for each query.
    unsafe fn mix(
        &self,
        task: &Task,
        weights: TileRows,
        (values, apart): (&[PanelLine], usize),
        mixed: &mut [f32],
    ) {
        let strips = self.d.div_ceil(COLUMNS);
        let strip = |i: usize, keys: Range<usize>| &values[i * apart..][keys];
        let stride = strips * COLUMNS;
        let mut at = 0;
        while at < strips {
            let two = task.count <= 3 && at + 1 < strips;
            for i in (0..task.count).step_by(TILE_ROWS) {
                let (rows, common) = (TILE_ROWS.min(task.count - i), task.start + i + 1);
                let x = weights.part(i, 0);
                let output = Output { to: mixed.as_mut_ptr(), stride, base: None };
                // SAFETY: the caller's.
                unsafe {
                    let to = |at: usize| output.part(i, at * COLUMNS);
                    let seen = |at: usize| strip(at, 0..common);
                    if two {
                        two_tiles([to(at), to(at + 1)], rows, x, [seen(at), seen(at + 1)]);
                    } else {
                        tile(to(at), [rows, COLUMNS], x, seen(at));
                    }
                    for (row, at) in
                        (1..rows).flat_map(|row| (at..=at + usize::from(two)).map(move |at| (row, at)))
                    {
                        let sums = &mut mixed[(i + row) * stride + at * COLUMNS..].as_chunks_mut().0[0];
                        extend(sums, x.part(row, common), strip(at, common..common + row));
                    }
                }
            }
            at += 1 + usize::from(two);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{random, relative_difference};
    use proptest::prelude::*;

    fn bits(x: &Tensor) -> Vec<u32> {
        x.flatten_all().unwrap().to_vec1::<f32>().unwrap().iter().map(|x| x.to_bits()).collect()
    }

    /// Reads texts in chunks, one chunk of each in turn, and returns the attention of all their tokens.
    fn read(texts: &[Tensor], cuts: &[usize], n_head: usize, dtype: DType, dirty: bool) -> Vec<Tensor> {
        let d = texts[0].dim(1).unwrap() / 3 / n_head;
        let capacity = texts.iter().map(|text| text.dim(0).unwrap()).max().unwrap();
        let mut cache = KeyValues::new(texts.len(), n_head, capacity, d, dtype, &Device::Cpu).unwrap();
        match &mut cache.store {
            Store::F32(Panels { keys, values }) if dirty => {
                keys.iter_mut().chain(values).for_each(|line| *line = [f32::NAN; COLUMNS]);
            }
            Store::F16(Panels { keys, values }) if dirty => {
                keys.iter_mut().chain(values).for_each(|line| *line = [f16::NAN; COLUMNS]);
            }
            _ => (),
        }
        let mut parts: Vec<Vec<Tensor>> = vec![Vec::new(); texts.len()];
        let (mut done, mut cuts) = (vec![0; texts.len()], cuts.iter().cycle());
        while done.iter().zip(texts).any(|(done, text)| *done < text.dim(0).unwrap()) {
            let (mut runs, mut batch, mut rows) = (Vec::new(), Vec::new(), 0);
            for (slot, text) in texts.iter().enumerate() {
                let count = (*cuts.next().unwrap()).min(text.dim(0).unwrap() - done[slot]);
                if count > 0 {
                    runs.push(TokenRun { slot, start: done[slot], tokens: rows..rows + count });
                    batch.push(text.narrow(0, done[slot], count).unwrap());
                    (rows, done[slot]) = (rows + count, done[slot] + count);
                }
            }
            let qkv = Tensor::cat(&batch, 0).unwrap();
            cache.write(&qkv, &runs).unwrap();
            let out = cache.attend(&qkv, &runs).unwrap();
            for run in runs {
                parts[run.slot].push(out.narrow(0, run.tokens.start, run.tokens.len()).unwrap());
            }
        }
        parts.iter().map(|parts| Tensor::cat(parts, 0).unwrap()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn a_query_is_the_same_in_any_company_and_near_the_definition(
            lengths in prop::collection::vec(1usize..70, 1..4), h in 1usize..4, d in 1usize..36,
            cuts in prop::collection::vec(1usize..40, 1..7), seed: u64,
        ) {
            let texts: Vec<Tensor> = lengths.iter().zip(seed..).map(|(&t, seed)| random(&[t, 3 * h * d], seed)).collect();
            for (dtype, near) in [(DType::F32, 1e-5), (DType::F16, 3e-3)] {
                let together = read(&texts, &cuts, h, dtype, true);
                for (text, got) in texts.iter().zip(&together) {
                    let alone = read(std::slice::from_ref(text), &[1], h, dtype, false);
                    let at_once = read(std::slice::from_ref(text), &[1000], h, dtype, true);
                    prop_assert_eq!(bits(got), bits(&alone[0]));
                    prop_assert_eq!(bits(got), bits(&at_once[0]));
                    let [q, k, v] = split_heads(&text.unsqueeze(0).unwrap(), h).unwrap();
                    let (want, _) = attention_composed(&q, &k, &v, &AttentionMask::causal(&[0]), None).unwrap();
                    let difference = relative_difference(got, &want.reshape(got.shape()).unwrap());
                    prop_assert!(difference < near, "differs by {}", difference);
                }
            }
        }
    }

    #[test]
    fn what_f16_holds_exactly_is_attended_to_as_in_f32() {
        let text = random(&[45, 3 * 40], 1);
        let rounded = text.to_dtype(DType::F16).unwrap().to_dtype(DType::F32).unwrap();
        let of = |dtype| bits(&read(std::slice::from_ref(&rounded), &[7, 1, 30], 2, dtype, true)[0]);
        assert_eq!(of(DType::F16), of(DType::F32));
    }

    #[test]
    fn a_copied_slot_goes_on_as_the_other_would() {
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
    fn tensors_of_another_dtype_take_the_composed_way() {
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
