//! The attention of inference: a few tokens of several texts, each with the keys and values of its own text.
//!
//! Keys are kept in panels of sixteen tokens and values in panels of sixteen elements, as `panels` keeps weights, so both
//! products are made by its micro-kernel. For each query and head there is one order of summation: a score is a chain over
//! the elements of the head, the softmax goes over exactly the keys that the query may see, and the mix is a chain over
//! these keys from the first to the last. So the result is the same to the bit for a query alone, in a block of queries,
//! and with any tokens beside it.
#![expect(unsafe_code, reason = "threads write disjoint rows of one buffer through pointers")]

use super::mask::AttentionMask;
use super::one_head::softmax;
use super::{attention_composed, split_heads};
use crate::panel_format::{COLUMNS, PanelLine};
use crate::panel_tile::TileRows;
use crate::panels::{extend, tile, two_tiles};
use crate::product::{Output, TILE_ROWS};
use crate::{simd, with_floats};
use candle_core::{DType, Device, Result, Tensor};
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
    /// On the CPU: of each slot and head the panels of its keys, and those of its values.
    Panels { keys: Vec<PanelLine>, values: Vec<PanelLine> },
    /// Elsewhere, or in another dtype: (slots, H, capacity, D).
    Tensors { keys: Tensor, values: Tensor },
}

thread_local! {
    /// Scores and mixed values of a block of queries.
    static SCRATCH: RefCell<(Vec<f32>, Vec<f32>)> = RefCell::default();
}

impl KeyValues {
    /// Room for `slots` texts of up to `capacity` tokens.
    pub fn new(
        slots: usize,
        n_head: usize,
        capacity: usize,
        head_width: usize,
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let mut new =
            Self { n_head, head_width, capacity, store: Store::Panels { keys: vec![], values: vec![] } };
        new.store = if device.is_cpu() && dtype == DType::F32 {
            let zeros = |lines: usize| vec![[0f32; COLUMNS]; slots * n_head * lines];
            Store::Panels { keys: zeros(new.key_lines()), values: zeros(new.value_lines()) }
        } else {
            let zeros = || Tensor::zeros((slots, n_head, capacity, head_width), dtype, device);
            Store::Tensors { keys: zeros()?, values: zeros()? }
        };
        Ok(new)
    }

    /// Bytes that the keys and values of one text take in one layer.
    pub fn slot_bytes(n_head: usize, capacity: usize, head_width: usize, dtype: DType) -> Option<usize> {
        let lines = capacity.checked_next_multiple_of(COLUMNS)?.checked_mul(head_width)?;
        let values = head_width.checked_next_multiple_of(COLUMNS)?.checked_mul(capacity)?;
        lines.checked_add(values)?.checked_mul(n_head)?.checked_mul(dtype.size_in_bytes())
    }

    /// Lines of the keys of one head: a panel of sixteen tokens has one for each element.
    fn key_lines(&self) -> usize {
        self.capacity.div_ceil(COLUMNS) * self.head_width
    }

    /// Lines of the values of one head: a panel of sixteen elements has one for each token.
    fn value_lines(&self) -> usize {
        self.head_width.div_ceil(COLUMNS) * self.capacity
    }

    /// Makes the first `length` tokens of slot `to` those of slot `from`.
    pub fn copy(&mut self, from: usize, to: usize, length: usize) -> Result<()> {
        let (h, key_lines, value_lines) = (self.n_head, self.key_lines(), self.value_lines());
        let (width, capacity) = (self.head_width, self.capacity);
        match &mut self.store {
            Store::Panels { keys, values } => {
                let panels = length.div_ceil(COLUMNS) * width;
                for head in 0..h {
                    let start = (from * h + head) * key_lines;
                    keys.copy_within(start..start + panels, (to * h + head) * key_lines);
                    for strip in (0..value_lines).step_by(capacity.max(1)) {
                        let start = (from * h + head) * value_lines + strip;
                        values.copy_within(start..start + length, (to * h + head) * value_lines + strip);
                    }
                }
            }
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
        let (key_lines, value_lines) = (self.key_lines(), self.value_lines());
        let Self { n_head, head_width: d, capacity, store } = self;
        let (h, d, capacity) = (*n_head, *d, *capacity);
        match store {
            Store::Panels { keys, values } => with_floats([qkv], |[qkv]| {
                for (run, head) in runs.iter().flat_map(|run| (0..h).map(move |head| (run, head))) {
                    let keys = &mut keys[(run.slot * h + head) * key_lines..][..key_lines];
                    let values = &mut values[(run.slot * h + head) * value_lines..][..value_lines];
                    for (position, token) in (run.start..).zip(run.tokens.clone()) {
                        let row = &qkv[token * width..][..width];
                        let (k, v) = (&row[(h + head) * d..][..d], &row[(2 * h + head) * d..][..d]);
                        let panel = &mut keys[position / COLUMNS * d..][..d];
                        panel.iter_mut().zip(k).for_each(|(line, k)| line[position % COLUMNS] = *k);
                        for (strip, v) in v.chunks(COLUMNS).enumerate() {
                            values[strip * capacity + position][..v.len()].copy_from_slice(v);
                        }
                    }
                }
                Ok(())
            }),
            Store::Tensors { keys, values } => {
                for run in runs.iter().filter(|run| !run.tokens.is_empty()) {
                    let new = qkv.narrow(0, run.tokens.start, run.tokens.len())?.unsqueeze(0)?;
                    let [_, k, v] = split_heads(&new, h)?; // (1, H, T, D)
                    for (cache, new) in [(&*keys, k), (&*values, v)] {
                        cache.narrow(0, run.slot, 1)?.slice_set(&new.contiguous()?, 2, run.start)?;
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
        match &self.store {
            Store::Panels { keys, values } => {
                let out = with_floats([qkv], |[qkv]| Ok(self.fused(keys, values, qkv, runs)))?;
                Tensor::from_vec(out, (tokens, c), qkv.device())
            }
            Store::Tensors { keys, values } => {
                let attend = |run: &TokenRun| {
                    let new = qkv.narrow(0, run.tokens.start, run.tokens.len())?.unsqueeze(0)?;
                    let [q, ..] = split_heads(&new, self.n_head)?; // (1, H, T, D)
                    let seen = |cache: &Tensor| {
                        cache.narrow(0, run.slot, 1)?.narrow(2, 0, run.start + run.tokens.len())?.contiguous()
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

    fn fused(&self, keys: &[PanelLine], values: &[PanelLine], qkv: &[f32], runs: &[TokenRun]) -> Vec<f32> {
        let (h, d) = (self.n_head, self.head_width);
        let mut out = vec![0f32; runs.iter().map(|run| run.tokens.len()).sum::<usize>() * h * d];
        let mut tasks = Vec::new();
        let (mut row, mut work) = (0, 0);
        for run in runs {
            for first in (0..run.tokens.len()).step_by(BLOCK) {
                let count = BLOCK.min(run.tokens.len() - first);
                work += count * (run.start + first + count) * 2 * h * d;
                tasks.extend((0..h).map(|head| {
                    let (keys, values) = (self.key_lines(), self.value_lines());
                    Task {
                        qkv: run.tokens.start + first,
                        row: row + first,
                        count,
                        start: run.start + first,
                        head,
                        keys: (run.slot * h + head) * keys..(run.slot * h + head + 1) * keys,
                        values: (run.slot * h + head) * values..(run.slot * h + head + 1) * values,
                    }
                }));
            }
            row += run.tokens.len();
        }
        let heads =
            Heads { qkv, width: 3 * h * d, d, capacity: self.capacity, out: out.as_mut_ptr(), c: h * d };
        let attend = |task: &Task| {
            let (keys, values) = (&keys[task.keys.clone()], &values[task.values.clone()]);
            // SAFETY: `check` made sure that the tokens lie inside of `qkv`, and that the slot has room for them; `out`
            // has a row for each, of which each task writes its own part.
            SCRATCH.with_borrow_mut(|scratch| unsafe { heads.attend(task, keys, values, scratch) });
        };
        match work < ONE_THREAD {
            true => tasks.iter().for_each(attend),
            false => tasks.par_iter().for_each(attend),
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
    unsafe fn attend(
        &self,
        task: &Task,
        keys: &[PanelLine],
        values: &[PanelLine],
        (scores, mixed): &mut (Vec<f32>, Vec<f32>),
    ) {
        let (count, d, strips) = (task.count, self.d, self.d.div_ceil(COLUMNS));
        let padded = (task.start + count).next_multiple_of(COLUMNS);
        scores.resize(scores.len().max(count * padded), 0.0);
        mixed.resize(mixed.len().max(count * strips * COLUMNS), 0.0);
        // SAFETY: the caller's; the buffers have just been made large enough.
        unsafe {
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
                    match two {
                        true => two_tiles([to(at), to(at + 1)], rows, x, [panel(at), panel(at + 1)]),
                        false => tile(to(at), [rows, COLUMNS], x, panel(at)),
                    }
                }
            }
            at += 1 + usize::from(two);
        }
    }

    /// weights · v: of several queries together as far as the first of them sees, then of each alone what it sees beyond.
    ///
    /// # Safety
    /// As for [`Heads::attend`]; the weights have a row for each query.
    unsafe fn mix(&self, task: &Task, weights: TileRows, values: &[PanelLine], mixed: &mut [f32]) {
        let strips = self.d.div_ceil(COLUMNS);
        let strip = |i: usize, keys: Range<usize>| &values[i * self.capacity..][keys];
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
                    match two {
                        true => two_tiles([to(at), to(at + 1)], rows, x, [seen(at), seen(at + 1)]),
                        false => tile(to(at), [rows, COLUMNS], x, seen(at)),
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
    fn read(texts: &[Tensor], cuts: &[usize], n_head: usize, dirty: bool) -> Vec<Tensor> {
        let d = texts[0].dim(1).unwrap() / 3 / n_head;
        let capacity = texts.iter().map(|text| text.dim(0).unwrap()).max().unwrap();
        let mut cache = KeyValues::new(texts.len(), n_head, capacity, d, DType::F32, &Device::Cpu).unwrap();
        if dirty && let Store::Panels { keys, values } = &mut cache.store {
            keys.iter_mut().chain(values).for_each(|line| *line = [f32::NAN; COLUMNS]);
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
            let together = read(&texts, &cuts, h, true);
            for (text, got) in texts.iter().zip(&together) {
                let alone = read(std::slice::from_ref(text), &[1], h, false);
                let at_once = read(std::slice::from_ref(text), &[1000], h, true);
                prop_assert_eq!(bits(got), bits(&alone[0]));
                prop_assert_eq!(bits(got), bits(&at_once[0]));
                let [q, k, v] = split_heads(&text.unsqueeze(0).unwrap(), h).unwrap();
                let (want, _) = attention_composed(&q, &k, &v, &AttentionMask::causal(&[0]), None).unwrap();
                let difference = relative_difference(got, &want.reshape(got.shape()).unwrap());
                prop_assert!(difference < 1e-5, "differs by {}", difference);
            }
        }
    }

    #[test]
    fn a_copied_slot_goes_on_as_the_other_would() {
        for dtype in [DType::F32, DType::F64] {
            let text = random(&[40, 3 * 20], 1).to_dtype(dtype).unwrap();
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
