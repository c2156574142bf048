//! Attention of inference: a few tokens of several texts, each with the cached keys and values of its own text.
//!
//! Both products are made by the micro-kernel of matrix products, since keys and values lie in panels. For each query and head
//! there is one order of summation: a score is a chain over the elements of the head, the softmax goes over exactly the keys that
//! the query may see, and the mix is a chain over these keys from the first to the last. So the result is the same to the bit for
//! a query alone, in a block of queries, and beside any other tokens.
//!
//! A block of queries first widens what it sees of a head in f16, which is exact, into a buffer that stays in the cache.
#![expect(unsafe_code, reason = "threads write disjoint rows of one buffer through pointers")]

use super::cache_line::CacheLine;
use super::key_values::{KeyValuePanels, Layout, TokenRun};
use super::one_head::softmax;
use crate::gemm::epilogue::Output;
use crate::gemm::formats::{COLUMNS, PanelLine};
use crate::gemm::micro::{Panel, Tile, TileRows};
use crate::gemm::rows_times_panels;
use crate::simd;
use rayon::prelude::*;
use std::cell::RefCell;
use std::ops::Range;

/// Queries of a task: their scores stay in the L2 cache, and they share the keys and values that are read.
const BLOCK: usize = 4 * TILE_ROWS;
/// Queries that are multiplied together.
const TILE_ROWS: usize = 6;
/// Multiply-adds below which waking other threads costs more than it saves.
const ONE_THREAD: usize = 1 << 17;

/// A thread's buffers.
#[derive(Default)]
struct Scratch {
    scores: Vec<f32>,
    mixed: Vec<f32>,
    wide: Vec<PanelLine>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl<L: CacheLine> KeyValuePanels<L> {
    /// The attention of all tokens of the runs, each to those of its text up to its own position.
    pub fn attend(&self, layout: Layout, qkv: &[f32], runs: &[TokenRun]) -> Vec<f32> {
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
        let batch = AttentionBatch { qkv, width: 3 * h * d, d, capacity, out: out.as_mut_ptr(), c: h * d };
        let attend = |task: &Task| {
            let (keys, values) = (&self.keys[task.keys.clone()], &self.values[task.values.clone()]);
            // SAFETY: `KeyValues` has checked that the tokens lie inside of `qkv` and that their slots have room for them; `out`
            // has a row for each token, of which each task writes its own part.
            SCRATCH.with_borrow_mut(|scratch| unsafe { batch.attend(task, keys, values, scratch) });
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

/// The batch that all tasks share.
struct AttentionBatch<'a> {
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
unsafe impl Sync for AttentionBatch<'_> {}

impl AttentionBatch<'_> {
    /// # Safety
    /// The tokens of the task lie inside of `qkv` and of the output, and its keys and values have been written.
    unsafe fn attend<L: CacheLine>(&self, task: &Task, keys: &[L], values: &[L], scratch: &mut Scratch) {
        let Scratch { scores, mixed, wide } = scratch;
        let (count, d, strips) = (task.count, self.d, self.d.div_ceil(COLUMNS));
        let seen = task.start + count;
        let padded = seen.next_multiple_of(COLUMNS);
        scores.resize(scores.len().max(count * padded), 0.0);
        mixed.resize(mixed.len().max(count * strips * COLUMNS), 0.0);
        // SAFETY: the caller's; the buffers are large enough.
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

    /// q · kᵀ for all keys up to the last query's own. Scores beyond a query's own position are meaningless.
    ///
    /// # Safety
    /// As for [`AttentionBatch::attend`]; the output has a row for each query.
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
                    let panels = [panel(at), panel(at + usize::from(two))];
                    tile(output.part(i, at * COLUMNS), rows, q.part(i, 0), two, panels, false);
                }
            }
            at += 1 + usize::from(two);
        }
    }

    /// weights · v: of several queries together as far as the first of them sees, then of each alone what it sees beyond. The
    /// strips of the values are `apart` lines from each other.
    ///
    /// # Safety
    /// As for [`AttentionBatch::attend`]; the weights have a row for each query.
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
                    let output = output.part(i, at * COLUMNS);
                    let seen =
                        |keys: Range<usize>| [at, at + usize::from(two)].map(|at| strip(at, keys.clone()));
                    tile(output, rows, x, two, seen(0..common), false);
                    for row in 1..rows {
                        let panels = seen(common..common + row);
                        tile(output.part(row, 0), 1, x.part(row, common), two, panels, true);
                    }
                }
            }
            at += 1 + usize::from(two);
        }
    }
}

/// Rows times one panel, or `two`; or what they add to chains that the output holds.
///
/// # Safety
/// As for [`Tile`].
unsafe fn tile(
    output: Output,
    rows: usize,
    a: TileRows,
    two: bool,
    panels: [&[PanelLine]; 2],
    continues: bool,
) {
    let columns = if two { 2 * COLUMNS } else { COLUMNS };
    let panels = panels.map(Panel::from);
    // SAFETY: the caller's.
    unsafe {
        rows_times_panels(Tile { output, rows, columns, scale: 1.0, continues, streams: false, a, panels });
    }
}

#[cfg(test)]
mod tests {
    use super::super::key_values::{KeyValues, Store};
    use super::super::{AttentionMask, attention_composed, split_heads};
    use super::*;
    use crate::testing::{random, relative_difference};
    use candle_core::{DType, Device, Tensor};
    use half::f16;
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
            Store::F32(KeyValuePanels { keys, values }) if dirty => {
                keys.iter_mut().chain(values).for_each(|line| *line = [f32::NAN; COLUMNS]);
            }
            Store::F16(KeyValuePanels { keys, values }) if dirty => {
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
        fn a_query_does_not_depend_on_its_batch_and_is_near_the_definition(
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
    fn keys_and_values_that_f16_holds_exactly_give_the_bits_of_f32() {
        let text = random(&[45, 3 * 40], 1);
        let rounded = text.to_dtype(DType::F16).unwrap().to_dtype(DType::F32).unwrap();
        let of = |dtype| bits(&read(std::slice::from_ref(&rounded), &[7, 1, 30], 2, dtype, true)[0]);
        assert_eq!(of(DType::F16), of(DType::F32));
    }
}
