//! The cache: however the tokens are fed, the logits are the same.

use crate::support;
use candle_core::{DType, Tensor};
use minigpt_model::{Cache, Error, Gpt, TokenChunk};
use proptest::prelude::*;

const BLOCK_SIZE: usize = 40;

fn models() -> Vec<Gpt> {
    support::models(BLOCK_SIZE)
}

fn tokens(n: usize, seed: u32) -> Vec<u32> {
    (0..n as u32).map(|i| (i * 7 + seed * 11 + i * i) % 29).collect()
}

/// The logits that follow new tokens of every row.
fn next_logits(gpt: &Gpt, rows: &[impl AsRef<[u32]>], cache: &mut Cache) -> minigpt_model::Result<Tensor> {
    let chunk = |(row, ids)| TokenChunk { row, ids, logits: 1 };
    let chunks: Vec<TokenChunk> = rows.iter().map(AsRef::as_ref).enumerate().map(chunk).collect();
    gpt.step(&chunks, cache)
}

fn assert_close(got: &Tensor, want: &Tensor) {
    assert_within(2e-5, got, want);
}

fn assert_within(tolerance: f32, got: &Tensor, want: &Tensor) {
    let [got, want] = [got, want].map(|x| x.flatten_all().unwrap().to_vec1::<f32>().unwrap());
    assert_eq!(got.len(), want.len());
    let scale = want.iter().fold(0f32, |m, x| m.max(x.abs()));
    for (got, want) in got.iter().zip(&want) {
        assert!((got - want).abs() <= tolerance * scale, "{got} is not {want}");
    }
}

/// The uncached logits behind the last token.
fn uncached(gpt: &Gpt, tokens: &[u32]) -> Tensor {
    let logits = gpt.logits(&gpt.ids(&[tokens]).unwrap()).unwrap();
    logits.get(0).unwrap().get(tokens.len() - 1).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn any_chunking_equals_one_pass(n in 1usize..=BLOCK_SIZE, cuts in prop::collection::vec(1usize..9, 1..40), seed in 0u32..99) {
        let tokens = tokens(n, seed);
        for gpt in models() {
            let mut cache = gpt.cache(1).unwrap();
            let (mut at, mut cuts) = (0, cuts.iter().cycle());
            while at < n {
                let end = (at + cuts.next().unwrap()).min(n);
                let logits = next_logits(&gpt, &[&tokens[at..end]], &mut cache).unwrap();
                assert_close(&logits, &uncached(&gpt, &tokens[..end]).unsqueeze(0).unwrap());
                at = end;
            }
        }
    }

    #[test]
    fn a_batch_of_unequal_rows_equals_one_by_one(lengths in prop::collection::vec(1usize..=18, 2..5), seed in 0u32..99) {
        for gpt in models() {
            let mut cache = gpt.cache(lengths.len()).unwrap();
            let mut rows: Vec<Vec<u32>> = lengths.iter().enumerate().map(|(i, &n)| tokens(n, seed + i as u32)).collect();
            let mut new = rows.clone();
            for step in 0..3 {
                let logits = next_logits(&gpt, &new, &mut cache).unwrap();
                for (i, row) in rows.iter().enumerate() {
                    assert_close(&logits.get(i).unwrap(), &uncached(&gpt, row));
                }
                // Then one, two and three tokens more in the rows.
                new = (0..rows.len()).map(|i| tokens(1 + (i + step) % 3, 50 + seed + i as u32)).collect();
                rows.iter_mut().zip(&new).for_each(|(row, new)| row.extend(new));
            }
        }
    }
}

#[test]
fn in_f16_it_takes_half_the_memory_and_is_nearly_as_exact() {
    for gpt in models() {
        let bytes = gpt.cache(3).unwrap().bytes();
        let gpt = gpt.with_cache_dtype(DType::F16).cropped(BLOCK_SIZE).unwrap();
        let mut cache = gpt.cache(3).unwrap();
        assert_eq!(2 * cache.bytes(), bytes);
        let rows = [tokens(7, 1), tokens(30, 2), tokens(1, 3)];
        let logits = next_logits(&gpt, &rows, &mut cache).unwrap();
        for (i, row) in rows.iter().enumerate() {
            assert_within(5e-3, &logits.get(i).unwrap(), &uncached(&gpt, row));
        }
    }
}

#[test]
fn a_row_may_pause_and_go_back() {
    for gpt in models() {
        let mut cache = gpt.cache(2).unwrap();
        next_logits(&gpt, &[tokens(5, 1), tokens(9, 2)], &mut cache).unwrap();
        // Row 1 reads nothing, row 0 three tokens.
        gpt.step(&[TokenChunk { row: 0, ids: &[1, 2, 3], logits: 0 }], &mut cache).unwrap();
        assert_eq!(cache.lengths(), [8, 9]);
        // Row 0 forgets its last two tokens.
        cache.truncate(0, 6);
        let logits = next_logits(&gpt, &[[4], [5]], &mut cache).unwrap();
        let want = [[&tokens(5, 1)[..], &[1, 4]].concat(), [&tokens(9, 2)[..], &[5]].concat()];
        for (i, want) in want.iter().enumerate() {
            assert_close(&logits.get(i).unwrap(), &uncached(&gpt, want));
        }
    }
}

#[test]
fn rows_can_be_copied_whole_or_in_part() {
    for gpt in models() {
        let rows = [tokens(5, 1), tokens(23, 2), tokens(1, 3)];
        let mut cache = gpt.cache(rows.len()).unwrap();
        next_logits(&gpt, &rows, &mut cache).unwrap();
        cache.copy(1, 0, 23).unwrap();
        cache.copy(1, 2, 17).unwrap();
        cache.copy(1, 1, 20).unwrap();
        assert_eq!(cache.lengths(), [23, 20, 17]);
        // Copies of a row go on in different ways.
        let new: Vec<Vec<u32>> = (0..3).map(|i| tokens(1 + i % 2, 40 + i as u32)).collect();
        let logits = next_logits(&gpt, &new, &mut cache).unwrap();
        assert_eq!(logits.dims(), [3, 29]);
        for (i, length) in [23, 20, 17].into_iter().enumerate() {
            let whole = [&rows[1][..length], &new[i][..]].concat();
            assert_close(&logits.get(i).unwrap(), &uncached(&gpt, &whole));
        }
    }
}

#[test]
fn a_step_gives_the_logits_that_are_asked_for() {
    for gpt in models() {
        let mut cache = gpt.cache(3).unwrap();
        let texts = [tokens(9, 1), tokens(4, 2), tokens(6, 3)];
        let chunk = |row: usize, logits| TokenChunk { row, ids: &texts[row], logits };
        let logits = gpt.step(&[chunk(2, 3), chunk(0, 0), chunk(1, 1)], &mut cache).unwrap();
        let want = [&texts[2][..4], &texts[2][..5], &texts[2][..], &texts[1][..]];
        assert_eq!(logits.dims(), [4, 29]);
        for (i, want) in want.iter().enumerate() {
            assert_close(&logits.get(i).unwrap(), &uncached(&gpt, want));
        }
        let none = gpt.step(&[TokenChunk { row: 1, ids: &[1, 2], logits: 0 }], &mut cache).unwrap();
        assert_eq!(none.dims(), [0, 29]);
        assert_eq!(cache.lengths(), [9, 6, 6]);
        let twice = [chunk(0, 1), chunk(0, 1)];
        assert_eq!(gpt.step(&twice, &mut cache).unwrap_err().to_string(), "row 0 appears twice");
        let error = gpt.step(&[TokenChunk { row: 3, ids: &[1], logits: 1 }], &mut cache).unwrap_err();
        assert_eq!(error.to_string(), "the cache has 3 rows, but no row 3");
    }
}

#[test]
fn a_full_context_is_an_error_not_a_panic() {
    let gpt = &models()[0];
    let mut cache = gpt.cache(1).unwrap();
    next_logits(gpt, &[tokens(BLOCK_SIZE, 1)], &mut cache).unwrap();
    let error = next_logits(gpt, &[[1u32]], &mut cache).unwrap_err();
    assert_eq!(error.to_string(), "row 0 has 40 tokens; 1 more do not fit a context of 40");
    assert!(matches!(gpt.logits(&gpt.ids(&[tokens(41, 1)]).unwrap()), Err(Error::Ids(_))));
}

#[test]
fn ids_that_do_not_exist_are_named() {
    let gpt = &models()[0];
    let refused = |rows: &[Vec<u32>]| gpt.logits(&gpt.ids(rows).unwrap()).unwrap_err().to_string();
    assert_eq!(refused(&[vec![1, 29]]), "id 29 at position 1 is outside the vocabulary of 29 tokens");
    assert!(refused(&[vec![1, 2], vec![u32::MAX, 0]]).contains("position 0 of row 1"));
    assert_eq!(refused(&[vec![]]), "no tokens");
    assert!(gpt.ids(&[vec![1], vec![]]).is_err());
}
