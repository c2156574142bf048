//! What changes the logits before a token is chosen: one small function each, in the order and with the results of
//! Hugging Face's logits processors, and OpenAI's two penalties. A token that may not come has −∞.

use crate::config::GenerationConfig;
use std::cmp::Ordering;
use std::collections::HashMap;

/// All that the settings ask for, in order: penalties, bad words, minimum length, suppressed tokens; then,
/// where tokens are drawn, temperature, top-k, top-p, min-p. `history` is the whole text, prompt included, of which
/// the last `new_tokens` were written.
pub fn process(logits: &mut [f32], history: &[u32], new_tokens: usize, config: &GenerationConfig) {
    penalties(logits, history, new_tokens, config);
    bad_words(logits, history, &config.bad_words_ids, &config.eos_token_id);
    if new_tokens < config.min_new_tokens {
        suppress(logits, &config.eos_token_id);
    }
    suppress(logits, &config.suppress_tokens);
    if !config.is_greedy() {
        temperature(logits, config.temperature);
        top_k(logits, config.top_k);
        top_p(logits, config.top_p);
        min_p(logits, config.min_p);
    }
}

/// The repetition penalty, then the frequency and presence penalties, each over the tokens that it looks at.
pub fn penalties(logits: &mut [f32], history: &[u32], new_tokens: usize, config: &GenerationConfig) {
    let last = |n: usize| &history[history.len().saturating_sub(n)..];
    let (text, written) = match config.repeat_last_n {
        Some(n) => (last(n), last(n)),
        None => (history, last(new_tokens)),
    };
    repetition_penalty(logits, text, config.repetition_penalty);
    count_penalties(logits, written, config.frequency_penalty, config.presence_penalty);
}

/// Subtracts from the logit of each token of the text `frequency` times its count, and `presence` once.
pub fn count_penalties(logits: &mut [f32], text: &[u32], frequency: f64, presence: f64) {
    if frequency == 0.0 && presence == 0.0 {
        return;
    }
    let mut counts: HashMap<u32, u32> = HashMap::new();
    text.iter().for_each(|&id| *counts.entry(id).or_default() += 1);
    for (id, count) in counts {
        if let Some(logit) = logits.get_mut(id as usize) {
            *logit -= (f64::from(count) * frequency + presence) as f32;
        }
    }
}

/// Makes tokens of the history less likely, each once: positive logits are divided by the penalty, others multiplied.
pub fn repetition_penalty(logits: &mut [f32], history: &[u32], penalty: f64) {
    if penalty == 1.0 {
        return;
    }
    let penalty = penalty as f32;
    let penalised = |x: f32| if x < 0.0 { x * penalty } else { x / penalty };
    let found = history.iter().filter_map(|&id| Some((id as usize, *logits.get(id as usize)?)));
    let changed: Vec<(usize, f32)> = found.map(|(id, x)| (id, penalised(x))).collect();
    changed.into_iter().for_each(|(id, x)| logits[id] = x);
}

/// Forbids the token that would complete one of the words. A word that is a stop token alone is passed over.
pub fn bad_words(logits: &mut [f32], history: &[u32], words: &[Vec<u32>], eos_token_id: &[u32]) {
    for word in words {
        match word.split_last() {
            Some((last, [])) if eos_token_id.contains(last) => (),
            Some((last, beginning)) if history.ends_with(beginning) => suppress(logits, &[*last]),
            _ => (),
        }
    }
}

/// Forbids tokens.
pub fn suppress(logits: &mut [f32], ids: &[u32]) {
    for &id in ids {
        if let Some(x) = logits.get_mut(id as usize) {
            *x = f32::NEG_INFINITY;
        }
    }
}

/// Divides the logits by a temperature above 0.
pub fn temperature(logits: &mut [f32], temperature: f64) {
    if temperature != 1.0 {
        logits.iter_mut().for_each(|x| *x /= temperature as f32);
    }
}

/// Leaves the `k` likeliest tokens, and those that are as likely as the last of them. 0 leaves all.
pub fn top_k(logits: &mut [f32], k: usize) {
    if k == 0 || k >= logits.len() {
        return;
    }
    let mut values = logits.to_vec();
    let (_, &mut kth, _) = values.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a));
    forbid(logits, |x| x < kth);
}

/// Leaves the smallest set of tokens whose probability reaches `p`, one at least. Of equals those with lower ids stay.
pub fn top_p(logits: &mut [f32], p: f64) {
    if p >= 1.0 {
        return;
    }
    let weights = weights(logits);
    let goal = p * weights.iter().sum::<f64>();
    let mut order: Vec<usize> = (0..logits.len()).filter(|&id| weights[id] > 0.0).collect();
    let likelier = |a: &usize, b: &usize| weights[*b].total_cmp(&weights[*a]).then(a.cmp(b));
    let kept = reach(&mut order, likelier, |id| weights[id], goal);
    order[kept..].iter().for_each(|&id| logits[id] = f32::NEG_INFINITY);
}

/// Brings the first items, by `order`, to the front until their weights reach the goal; how many those are. Sorts
/// only as many as that takes, in growing batches: most often a small part of the vocabulary.
fn reach(
    items: &mut [usize],
    order: impl Fn(&usize, &usize) -> Ordering,
    weight: impl Fn(usize) -> f64,
    goal: f64,
) -> usize {
    let (mut sorted, mut sum) = (0, 0.0);
    while sorted < items.len() {
        let rest = &mut items[sorted..];
        let chunk = (3 * sorted).clamp(64, usize::MAX).min(rest.len());
        if chunk < rest.len() {
            rest.select_nth_unstable_by(chunk, &order);
        }
        rest[..chunk].sort_unstable_by(&order);
        for (i, &item) in rest[..chunk].iter().enumerate() {
            sum += weight(item);
            if sum >= goal {
                return sorted + i + 1;
            }
        }
        sorted += chunk;
    }
    items.len()
}

/// Leaves tokens that have at least `p` times the likeliest one's probability.
pub fn min_p(logits: &mut [f32], p: f64) {
    if p == 0.0 {
        return;
    }
    let max = maximum(logits);
    forbid(logits, |x| (f64::from(x) - max).exp() < p);
}

/// Probabilities, but for a common factor: the likeliest token has 1.
pub(crate) fn weights(logits: &[f32]) -> Vec<f64> {
    let max = maximum(logits);
    if max == f64::NEG_INFINITY {
        return vec![0.0; logits.len()];
    }
    logits.iter().map(|&x| (f64::from(x) - max).exp()).collect()
}

fn maximum(logits: &[f32]) -> f64 {
    f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max))
}

fn forbid(logits: &mut [f32], forbidden: impl Fn(f32) -> bool) {
    logits.iter_mut().filter(|x| forbidden(**x)).for_each(|x| *x = f32::NEG_INFINITY);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NEVER: f32 = f32::NEG_INFINITY;

    fn after(logits: &[f32], change: impl FnOnce(&mut [f32])) -> Vec<f32> {
        let mut logits = logits.to_vec();
        change(&mut logits);
        logits
    }

    #[test]
    fn a_repeated_token_is_penalised_once_and_unknown_ids_are_passed_over() {
        let got = after(&[2.0, -2.0, 1.0], |l| repetition_penalty(l, &[0, 1, 1, 0, 0, 99], 2.0));
        assert_eq!(got, [1.0, -4.0, 1.0]);
    }

    #[test]
    fn a_token_pays_for_each_time_that_it_was_written_and_once_for_being_there() {
        let got = after(&[1.0, 2.0, -3.0, 4.0], |l| count_penalties(l, &[1, 2, 1, 1, 99], 0.5, 0.25));
        assert_eq!(got, [1.0, 0.25, -3.75, 4.0]);
        let more = after(&[1.0, 2.0], |l| count_penalties(l, &[1, 1], -0.5, 0.0));
        assert_eq!(more, [1.0, 3.0]);
    }

    #[test]
    fn counted_penalties_look_at_what_was_written_or_at_the_last_tokens_of_all() {
        let base = GenerationConfig { frequency_penalty: 1.0, ..GenerationConfig::default() };
        let with = |repeat_last_n, repetition_penalty| {
            let config = GenerationConfig { repeat_last_n, repetition_penalty, ..base.clone() };
            // The prompt is 0 0 1; 1 2 were written.
            after(&[8.0; 4], |l| penalties(l, &[0, 0, 1, 1, 2], 2, &config))
        };
        assert_eq!(with(None, 1.0), [8.0, 7.0, 7.0, 8.0]);
        assert_eq!(with(None, 2.0), [4.0, 3.0, 3.0, 8.0], "repetition_penalty sees the prompt");
        assert_eq!(with(Some(4), 1.0), [7.0, 6.0, 7.0, 8.0]);
        assert_eq!(with(Some(1), 2.0), [8.0, 8.0, 3.0, 8.0]);
        assert_eq!(with(Some(0), 2.0), [8.0; 4]);
        assert_eq!(with(Some(99), 1.0), [6.0, 6.0, 7.0, 8.0]);
    }

    #[test]
    fn a_bad_word_is_forbidden_at_its_last_token_only() {
        let words = [vec![0, 1, 2], vec![3], vec![4]];
        let forbidden = |history: &[u32]| {
            let got = after(&[0.0; 5], |l| bad_words(l, history, &words, &[4]));
            (0..5).filter(|&id| got[id] == NEVER).collect::<Vec<_>>()
        };
        assert_eq!(forbidden(&[9, 0, 1]), [2, 3]);
        assert_eq!(forbidden(&[0, 1, 9]), [3]);
        assert_eq!(forbidden(&[1]), [3]);
    }

    #[test]
    fn top_k_keeps_what_is_as_likely_as_the_last() {
        assert_eq!(after(&[1.0, 3.0, 2.0, 2.0], |l| top_k(l, 2)), [NEVER, 3.0, 2.0, 2.0]);
        assert_eq!(after(&[1.0, 3.0], |l| top_k(l, 0)), [1.0, 3.0]);
        assert_eq!(after(&[1.0, 3.0], |l| top_k(l, 9)), [1.0, 3.0]);
    }

    #[test]
    fn top_p_keeps_the_smallest_set_that_reaches_p() {
        let logits = [0.1f32, 0.5, 0.15, 0.25].map(f32::ln);
        let kept = |p| after(&logits, |l| top_p(l, p)).iter().filter(|x| x.is_finite()).count();
        assert_eq!([1e-9, 0.49, 0.6, 0.76, 0.95, 1.0].map(kept), [1, 1, 2, 3, 4, 4]);
    }

    #[test]
    fn filters_leave_nothing_alone_when_nothing_is_left() {
        let nothing = [NEVER; 3];
        assert_eq!(after(&nothing, |l| top_p(l, 0.5)), nothing);
        assert_eq!(after(&nothing, |l| top_k(l, 1)), nothing);
        assert_eq!(after(&nothing, |l| min_p(l, 0.5)), nothing);
        assert!(after(&[], |l| top_p(l, 0.5)).is_empty());
    }

    proptest! {
        #[test]
        fn top_p_equals_a_sort_of_everything(
            logits in prop::collection::vec(prop_oneof![4 => -9f32..9.0, 1 => Just(1.5), 1 => Just(NEVER)], 1..700),
            p in 0.01f64..1.0,
        ) {
            prop_assume!(logits.iter().any(|x| x.is_finite()));
            let weights = weights(&logits);
            let mut order: Vec<usize> = (0..logits.len()).collect();
            order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]).then(a.cmp(&b)));
            let (goal, mut above) = (p * weights.iter().sum::<f64>(), 0.0);
            let mut want = vec![NEVER; logits.len()];
            for id in order {
                if above < goal {
                    want[id] = logits[id];
                }
                above += weights[id];
            }
            prop_assert_eq!(after(&logits, |l| top_p(l, p)), want);
        }

        #[test]
        fn every_filter_leaves_a_token(logits in prop::collection::vec(-50f32..50.0, 1..60), p in 0.001f64..1.0, k in 1usize..60) {
            for filtered in [
                after(&logits, |l| top_p(l, p)),
                after(&logits, |l| min_p(l, p)),
                after(&logits, |l| top_k(l, k)),
            ] {
                prop_assert!(filtered.iter().any(|x| x.is_finite()));
            }
        }
    }
}
