//! Writing token by token: the same texts however they are computed, and an end for each in its own time.

use minigpt_generate::{
    BeamSearch, Completion, ContextRule, Error, FinishReason, GenerationConfig, Generator, Sampler, Token,
    generate, generate_explained,
};
use minigpt_model::{Config, Device, Gpt, PositionEmbedding, Tensor};
use minigpt_tokenizer::{CharTokenizer, Tokenizer};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const VOCABULARY: usize = 23;
const BLOCK_SIZE: usize = 16;

fn gpt_with(change: impl FnOnce(&mut Config)) -> Gpt {
    let mut config = Config {
        vocab_size: VOCABULARY,
        block_size: BLOCK_SIZE,
        n_layer: 2,
        n_head: 2,
        n_embd: 12,
        initializer_range: 0.4,
        ..Config::default()
    };
    change(&mut config);
    Gpt::new(config, 3, &Device::Cpu).unwrap()
}

fn gpt() -> Gpt {
    gpt_with(|_| ())
}

/// One token a letter, a to w.
fn letters() -> Tokenizer {
    Tokenizer::Char(CharTokenizer::from_text(&[], 'a'..='w').unwrap())
}

fn greedy(max_new_tokens: usize) -> GenerationConfig {
    GenerationConfig { max_new_tokens, ..GenerationConfig::default() }
}

fn sampling(max_new_tokens: usize, seed: u64) -> GenerationConfig {
    GenerationConfig { do_sample: true, top_k: 0, seed, ..greedy(max_new_tokens) }
}

fn texts(completions: &[Completion]) -> Vec<Vec<u32>> {
    completions.iter().map(|completion| completion.ids.clone()).collect()
}

fn steps(generator: &mut Generator) -> Vec<Vec<Token>> {
    generator.collect::<Result<_, _>>().unwrap()
}

fn logits_behind(gpt: &Gpt, view: &[u32]) -> Vec<f32> {
    let logits = gpt.logits(&gpt.ids(&[view]).unwrap()).unwrap();
    logits.get(0).unwrap().get(view.len() - 1).unwrap().to_vec1().unwrap()
}

/// Fails unless each token of a text is the likeliest one, by the definition of the sliding window and without a cache.
fn assert_greedy(gpt: &Gpt, prompt: &[u32], written: &[u32]) {
    let block_size = gpt.config().block_size;
    let text = [prompt, written].concat();
    let mut start = prompt.len().saturating_sub(block_size);
    for n in prompt.len()..text.len() {
        if n - start > block_size {
            start = n - block_size / 2;
        }
        let logits = logits_behind(gpt, &text[start..n]);
        let (best, chosen) = (logits.iter().fold(f32::MIN, |m, &x| m.max(x)), logits[text[n] as usize]);
        // Rounding may decide between equals.
        assert!(chosen >= best - 1e-4, "token {n}: {chosen} is not the best, {best}");
    }
}

fn prompts() -> impl Strategy<Value = Vec<Vec<u32>>> {
    prop::collection::vec(prop::collection::vec(0..VOCABULARY as u32, 1..BLOCK_SIZE + 6), 1..5)
}

proptest! {
    // The same cases each time: a draw that falls on a border is up to rounding.
    #![proptest_config(ProptestConfig { cases: 12, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn cached_batches_equal_uncached_decoding_one_by_one(prompts in prompts(), n in 1usize..30) {
        for position_embedding in [PositionEmbedding::Learned, PositionEmbedding::Rope] {
            let gpt = gpt_with(|config| config.position_embedding = position_embedding);
            let completions = generate(&gpt, &prompts, &greedy(n), None).unwrap();
            for (prompt, completion) in prompts.iter().zip(completions) {
                prop_assert_eq!(completion.ids.len(), n);
                assert_greedy(&gpt, prompt, &completion.ids);
            }
        }
    }

    #[test]
    fn a_sampled_text_does_not_depend_on_the_others(prompts in prompts(), others in prompts(), eos in 0..VOCABULARY as u32) {
        let gpt = gpt();
        // The others end at other times.
        let config = GenerationConfig { eos_token_id: vec![eos], ..sampling(20, 5) };
        let all = texts(&generate(&gpt, &prompts, &config, None).unwrap());
        let mixed: Vec<Vec<u32>> = others.iter().cycle().take(prompts.len() - 1).chain(prompts.last()).cloned().collect();
        let mixed = texts(&generate(&gpt, &mixed, &config, None).unwrap());
        prop_assert_eq!(mixed.last(), all.last());
    }
}

#[test]
fn a_seed_gives_the_same_texts_and_another_seed_others() {
    let gpt = gpt();
    let config = |seed| GenerationConfig { num_return_sequences: 3, ..sampling(12, seed) };
    let run = |seed| texts(&generate(&gpt, &[vec![1, 2], vec![3]], &config(seed), None).unwrap());
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    let run = run(1);
    assert!((0..6).all(|i| run.iter().skip(i + 1).all(|text| *text != run[i])), "{run:?}");
}

#[test]
fn samples_of_a_prompt_follow_each_other_and_begin_as_if_alone() {
    let gpt = gpt();
    let config = GenerationConfig { num_return_sequences: 2, ..sampling(6, 9) };
    let completions = generate(&gpt, &[vec![1, 2, 3], vec![7]], &config, None).unwrap();
    assert_eq!(completions.iter().map(|c| c.prompt).collect::<Vec<_>>(), [0, 0, 1, 1]);
    let alone = generate(&gpt, &[vec![1, 2, 3]], &sampling(6, 9), None).unwrap();
    assert_eq!(completions[0], alone[0]);
}

#[test]
fn tokens_come_as_often_as_the_model_and_the_filters_say() {
    let gpt = gpt();
    let n = 6000;
    let config = GenerationConfig { num_return_sequences: n, temperature: 1.5, top_k: 6, ..sampling(1, 4) };
    let mut counts = [0usize; VOCABULARY];
    for completion in generate(&gpt, &[vec![4, 2]], &config, None).unwrap() {
        counts[completion.ids[0] as usize] += 1;
    }
    let logits = logits_behind(&gpt, &[4, 2]);
    let mut ranked: Vec<usize> = (0..VOCABULARY).collect();
    ranked.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    let weight = |id: &usize| (f64::from(logits[*id]) / 1.5).exp();
    let total: f64 = ranked[..6].iter().map(weight).sum();
    assert!(ranked[6..].iter().all(|&id| counts[id] == 0), "{counts:?}");
    let expected = |id| n as f64 * weight(id) / total;
    let chi_square: f64 =
        ranked[..6].iter().map(|id| (counts[*id] as f64 - expected(id)).powi(2) / expected(id)).sum();
    // With 5 degrees of freedom above 35.9 once in a million times.
    assert!(chi_square < 35.9, "{chi_square}");
}

#[test]
fn each_row_stops_at_its_own_stop_token() {
    let gpt = gpt();
    let prompts = [vec![1], vec![5, 6, 7], vec![2, 9]];
    let free = texts(&generate(&gpt, &prompts, &greedy(12), None).unwrap());
    // What the second row writes in fourth place ends it, and whoever else writes it.
    let eos = free[1][3];
    let config = GenerationConfig { eos_token_id: vec![eos, 1000], ..greedy(12) };
    let stopped = generate(&gpt, &prompts, &config, None).unwrap();
    for (free, got) in free.iter().zip(&stopped) {
        let end = free.iter().position(|&id| id == eos);
        assert_eq!(got.ids, free[..end.map_or(12, |end| end + 1)]);
        assert_eq!(
            got.finish_reason,
            Some(if end.is_some() { FinishReason::Stop } else { FinishReason::Length })
        );
    }
    assert!(stopped.iter().any(|c| c.ids.len() < 12));
}

#[test]
fn done_rows_are_no_longer_in_the_steps() {
    let gpt = gpt();
    let prompts = [vec![1], vec![5, 6, 7], vec![2, 9]];
    let eos = generate(&gpt, &prompts, &greedy(4), None).unwrap()[1].ids[3];
    let config = GenerationConfig { eos_token_id: vec![eos], ..greedy(12) };
    let mut generator = Generator::new(&gpt, &prompts, &config, None).unwrap();
    let steps = steps(&mut generator);
    let completions = generator.into_completions();
    for (row, completion) in completions.iter().enumerate() {
        let tokens: Vec<&Token> = steps.iter().flatten().filter(|token| token.row == row).collect();
        assert_eq!(tokens.iter().map(|token| token.id).collect::<Vec<_>>(), completion.ids);
        let reasons: Vec<_> = tokens.iter().filter_map(|token| token.finish_reason).collect();
        assert_eq!(reasons, [completion.finish_reason.unwrap()]);
        assert!(tokens.last().unwrap().finish_reason.is_some());
    }
}

#[test]
fn a_caller_may_leave_at_any_point() {
    let (gpt, tokenizer) = (gpt(), letters());
    let whole = generate(&gpt, &[vec![3]], &greedy(9), Some(&tokenizer)).unwrap().remove(0);
    let mut generator = Generator::new(&gpt, &[vec![3]], &greedy(9), Some(&tokenizer)).unwrap();
    generator.by_ref().take(4).for_each(|step| assert_eq!(step.unwrap().len(), 1));
    let part = generator.into_completions().remove(0);
    assert_eq!(part.ids, whole.ids[..4]);
    assert_eq!((part.text.unwrap(), part.finish_reason), (whole.text.unwrap()[..4].to_owned(), None));
}

#[test]
fn a_stop_string_ends_the_text_and_is_not_in_it() {
    let (gpt, tokenizer) = (gpt(), letters());
    let free = generate(&gpt, &[vec![3]], &greedy(12), Some(&tokenizer)).unwrap().remove(0);
    let text = free.text.unwrap();
    // Three letters of it, three tokens: the first place where they are.
    let stop = &text[4..7];
    let end = text.find(stop).unwrap();
    let config = GenerationConfig { stop_strings: vec!["never".to_owned(), stop.to_owned()], ..greedy(12) };
    let mut generator = Generator::new(&gpt, &[vec![3]], &config, Some(&tokenizer)).unwrap();
    let shown: String = steps(&mut generator).iter().flatten().map(|token| token.text.as_str()).collect();
    let got = generator.into_completions().remove(0);
    assert_eq!(shown, text[..end]);
    assert_eq!(got.text.as_deref(), Some(&text[..end]));
    assert_eq!((got.finish_reason, &got.ids[..]), (Some(FinishReason::Stop), &free.ids[..end + 3]));
}

#[test]
fn text_that_was_held_back_is_shown_at_the_end() {
    let (gpt, tokenizer) = (gpt(), letters());
    let text = generate(&gpt, &[vec![3]], &greedy(5), Some(&tokenizer)).unwrap().remove(0).text.unwrap();
    // The last letter begins a stop string that does not come.
    let config = GenerationConfig { stop_strings: vec![format!("{}!", &text[4..])], ..greedy(5) };
    let mut generator = Generator::new(&gpt, &[vec![3]], &config, Some(&tokenizer)).unwrap();
    let shown: String = steps(&mut generator).iter().flatten().map(|token| token.text.as_str()).collect();
    assert_eq!(shown, text);
}

#[test]
fn a_stop_token_is_not_shown() {
    let (gpt, tokenizer) = (gpt(), letters());
    let free = generate(&gpt, &[vec![3]], &greedy(5), Some(&tokenizer)).unwrap().remove(0);
    let eos = free.ids[4];
    let first = free.ids.iter().position(|&id| id == eos).unwrap();
    for num_beams in [1, 2] {
        let config = GenerationConfig { eos_token_id: vec![eos], num_beams, ..greedy(5) };
        let got = generate(&gpt, &[vec![3]], &config, Some(&tokenizer)).unwrap().remove(0);
        let ends = usize::from(got.finish_reason == Some(FinishReason::Stop));
        assert_eq!(got.text.unwrap().len(), got.ids.len() - ends);
        assert!(num_beams > 1 || got.ids == free.ids[..=first]);
    }
}

#[test]
fn a_full_context_stops_with_length_where_that_is_asked_for() {
    let gpt = gpt();
    let config = GenerationConfig { context: ContextRule::Stop, ..greedy(99) };
    let prompts = [vec![1; 5], vec![2; BLOCK_SIZE - 1], vec![3; 1]];
    let completions = generate(&gpt, &prompts, &config, None).unwrap();
    for (completion, prompt) in completions.iter().zip(&prompts) {
        assert_eq!(prompt.len() + completion.ids.len(), BLOCK_SIZE, "prompt and answer fill the context");
        assert_eq!(completion.finish_reason, Some(FinishReason::Length));
        assert_greedy(&gpt, prompt, &completion.ids);
        let beams = GenerationConfig { num_beams: 3, ..config.clone() };
        let beam = BeamSearch::new(&gpt, prompt, &beams, None).unwrap().run().unwrap().remove(0);
        assert_eq!((beam.ids.len(), beam.finish_reason), (completion.ids.len(), Some(FinishReason::Length)));
    }
}

/// nanoGPT's `generate`: no cache, and at each step the last `block_size` tokens.
fn nanogpt(gpt: &Gpt, prompt: &[u32], n: usize, sampler: Option<Sampler>) -> Vec<u32> {
    let (mut text, mut sampler) = (prompt.to_vec(), sampler);
    for _ in 0..n {
        let view = &text[text.len().saturating_sub(BLOCK_SIZE)..];
        let logits = logits_behind(gpt, view);
        let likeliest =
            || (0..VOCABULARY).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).map(|id| id as u32);
        let next = sampler.as_mut().map_or_else(likeliest, |sampler| sampler.draw(&logits));
        text.push(next.unwrap());
    }
    text.split_off(prompt.len())
}

#[test]
fn a_cropped_context_gives_nanogpts_texts() {
    // With a head of its own the model does not merely repeat its last token.
    let gpt = gpt_with(|config| config.tie_word_embeddings = false);
    let prompts = [vec![1, 2], vec![3; BLOCK_SIZE + 4], vec![5, 6, 7, 8, 9]];
    let n = 3 * BLOCK_SIZE;
    for base in [greedy(n), sampling(n, 11)] {
        let cropped = GenerationConfig { context: ContextRule::Crop, ..base.clone() };
        let got = texts(&generate(&gpt, &prompts, &cropped, None).unwrap());
        for (row, (prompt, got)) in prompts.iter().zip(&got).enumerate() {
            let sampler = base.do_sample.then(|| Sampler::new(11, row as u64));
            assert_eq!(*got, nanogpt(&gpt, prompt, n, sampler));
        }
        // Sliding is another rule: a test that can't tell them apart is none.
        assert_ne!(texts(&generate(&gpt, &prompts, &base, None).unwrap()), got);
    }
}

#[test]
fn many_prompts_go_in_groups_that_nobody_notices() {
    let gpt = gpt();
    let prompts: Vec<Vec<u32>> = (0..71).map(|i| vec![i % 23, i % 7]).collect();
    let config = GenerationConfig { num_return_sequences: 2, ..sampling(5, 8) };
    let mut at_once = Generator::new(&gpt, &prompts, &config, None).unwrap();
    steps(&mut at_once);
    let (grouped, at_once) = (generate(&gpt, &prompts, &config, None).unwrap(), at_once.into_completions());
    assert_eq!(texts(&grouped), texts(&at_once));
    assert!(grouped.iter().enumerate().all(|(row, completion)| completion.prompt == row / 2));
    // The last is looked at before the first is computed.
    let wrong = [prompts, vec![vec![99]]].concat();
    let error = generate(&gpt, &wrong, &config, None).unwrap_err().to_string();
    assert!(error.starts_with("prompt 72 of 72 has id 99"), "{error}");
}

#[test]
fn texts_can_say_how_each_token_was_chosen() {
    let gpt = gpt();
    let config = GenerationConfig { top_k: 2, temperature: 0.5, ..sampling(4, 8) };
    let completions = generate_explained(&gpt, &[vec![1], vec![2, 3]], &config, None, 3).unwrap();
    assert_eq!(texts(&completions), texts(&generate(&gpt, &[vec![1], vec![2, 3]], &config, None).unwrap()));
    for completion in &completions {
        assert_eq!(completion.explanations.len(), 4);
        let steps = completion.ids.iter().zip(&completion.logprobs).zip(&completion.explanations);
        for ((&id, &logprob), explanation) in steps {
            let chosen = explanation.alternatives.iter().find(|a| a.chosen).unwrap();
            assert!(chosen.id == id && (chosen.model_probability.ln() - logprob).abs() < 1e-9);
            assert!(chosen.probability > 0.0);
            assert_eq!(explanation.alternatives[2].probability, 0.0, "the filter leaves two");
        }
    }
}

#[test]
fn beams_slide_too() {
    let gpt = gpt();
    let beams = GenerationConfig { num_beams: 3, num_return_sequences: 3, ..greedy(40) };
    let completions = generate(&gpt, &[vec![1, 2], vec![3; BLOCK_SIZE + 4]], &beams, None).unwrap();
    assert_eq!(completions.len(), 6);
    assert!(completions.iter().all(|completion| completion.ids.len() == 40));
}

#[test]
fn one_beam_of_a_search_is_greedy() {
    let gpt = gpt();
    // The second text slides beyond the context.
    for n in [9, 3 * BLOCK_SIZE] {
        let want = texts(&generate(&gpt, &[vec![1, 2]], &greedy(n), None).unwrap());
        assert_eq!(want[0].len(), n);
        assert_eq!(texts(&BeamSearch::new(&gpt, &[1, 2], &greedy(n), None).unwrap().run().unwrap()), want);
    }
}

#[test]
fn beams_end_at_a_stop_string_and_leave_it_out() {
    let (gpt, tokenizer) = (gpt(), letters());
    let beams = GenerationConfig { num_beams: 3, ..greedy(10) };
    let free = generate(&gpt, &[vec![3]], &beams, Some(&tokenizer)).unwrap().remove(0).text.unwrap();
    let stop = free[2..4].to_owned();
    let config = GenerationConfig { stop_strings: vec![stop.clone()], num_return_sequences: 3, ..beams };
    let completions = generate(&gpt, &[vec![3]], &config, Some(&tokenizer)).unwrap();
    assert!(completions.iter().any(|c| c.finish_reason == Some(FinishReason::Stop)));
    for completion in completions {
        let (text, whole) = (completion.text.unwrap(), tokenizer.decode(&completion.ids).unwrap());
        assert!(!text.contains(&stop));
        assert_eq!(completion.finish_reason == Some(FinishReason::Stop), whole.ends_with(&stop), "{whole}");
    }
}

#[test]
fn a_search_left_early_has_its_running_beams() {
    let gpt = gpt();
    let config = GenerationConfig { num_beams: 3, num_return_sequences: 2, ..greedy(10) };
    let mut search = BeamSearch::new(&gpt, &[1], &config, None).unwrap();
    assert!(search.step().unwrap() && search.step().unwrap());
    let completions = search.into_completions();
    assert_eq!(
        completions.iter().map(|c| (c.ids.len(), c.finish_reason)).collect::<Vec<_>>(),
        [(2, None); 2]
    );
}

#[test]
fn log_probabilities_are_the_models_own_and_sum_to_the_loss() {
    let gpt = gpt();
    let config = GenerationConfig { temperature: 0.3, top_k: 4, repetition_penalty: 1.5, ..sampling(6, 1) };
    let beams = GenerationConfig { num_beams: 3, repetition_penalty: 1.5, ..greedy(6) };
    for config in [config, beams] {
        let completion = generate(&gpt, &[vec![4, 2]], &config, None).unwrap().remove(0);
        let text = [&[4, 2], &completion.ids[..]].concat();
        let want = (2..text.len()).map(|n| {
            let logits = logits_behind(&gpt, &text[..n]);
            let sum: f64 = logits.iter().map(|&x| f64::from(x).exp()).sum();
            f64::from(logits[text[n] as usize]) - sum.ln()
        });
        let want: f64 = want.sum();
        assert!((completion.logprob() - want).abs() < 1e-4, "{} is not {want}", completion.logprob());
    }
}

#[test]
fn each_token_says_how_it_was_chosen_if_asked() {
    let gpt = gpt();
    let config = GenerationConfig { top_k: 3, ..sampling(5, 2) };
    let mut generator = Generator::new(&gpt, &[vec![1]], &config, None).unwrap().with_alternatives(4);
    for token in steps(&mut generator).into_iter().flatten() {
        let explanation = token.explanation.unwrap();
        let chosen: Vec<_> = explanation.alternatives.iter().filter(|a| a.chosen).collect();
        assert_eq!((explanation.alternatives.len(), chosen.len(), chosen[0].id), (4, 1, token.id));
        assert!((chosen[0].model_probability.ln() - token.logprob).abs() < 1e-9);
        let total: f64 = explanation.alternatives.iter().map(|a| a.probability).sum();
        assert!((total - 1.0).abs() < 1e-9 && explanation.entropy <= 3f64.log2() + 1e-9);
    }
}

#[test]
fn a_model_that_computes_nan_is_an_error_that_says_so_and_the_end() {
    let gpt = gpt();
    let damaged = Tensor::full(f32::NAN, (1, 12), gpt.device()).unwrap();
    gpt.parameters()[0].tensor.slice_set(&damaged, 0, 9).unwrap();
    for num_beams in [1, 2] {
        let config = GenerationConfig { num_beams, ..greedy(3) };
        let error = generate(&gpt, &[vec![1]], &config, None).unwrap_err();
        assert!(error.to_string().contains("instead of a number"), "{error}");
    }
    let mut generator = Generator::new(&gpt, &[vec![1]], &greedy(3), None).unwrap();
    assert!(matches!(generator.next(), Some(Err(Error::NotFinite { id: 9, .. }))));
    assert!(generator.next().is_none());
}

#[test]
fn if_every_token_is_forbidden_that_is_an_error() {
    let gpt = gpt();
    let suppress_tokens: Vec<u32> = (0..VOCABULARY as u32).collect();
    for num_beams in [1, 2] {
        let config = GenerationConfig { suppress_tokens: suppress_tokens.clone(), num_beams, ..greedy(3) };
        let error = generate(&gpt, &[vec![1, 2]], &config, None).unwrap_err();
        assert!(error.to_string().starts_with("no token is left to choose after 2 tokens"), "{error}");
    }
}

#[test]
fn what_cannot_be_done_is_refused_before_anything_is_computed() {
    let gpt = gpt();
    let refused = |prompt: &[u32], config: &GenerationConfig| {
        let error = Generator::new(&gpt, &[prompt.to_vec()], config, None).unwrap_err();
        error.to_string()
    };
    let base = greedy(3);
    assert!(refused(&[], &base).starts_with("the prompt is empty"));
    assert!(refused(&[1, 23], &base).contains("id 23 at position 1"));
    let stop = GenerationConfig { context: ContextRule::Stop, ..base.clone() };
    assert!(refused(&[1; BLOCK_SIZE + 1], &stop).contains("more than the model's context of 16"));
    assert!(refused(&[1; BLOCK_SIZE], &stop).contains("no room for an answer"));
    let config = GenerationConfig { stop_strings: vec!["x".to_owned()], ..base.clone() };
    assert!(refused(&[1], &config).starts_with("stop_strings need a tokenizer"));
    assert!(refused(&[1], &GenerationConfig { top_p: 0.0, ..base.clone() }).starts_with("top_p must"));
    assert!(
        refused(&[1], &GenerationConfig { num_beams: 2, ..base.clone() }).starts_with("num_beams must be 1")
    );
    let beams = GenerationConfig { num_beams: VOCABULARY + 1, ..base };
    let error = generate(&gpt, &[vec![1]], &beams, None).unwrap_err().to_string();
    assert!(error.contains("num_beams must be at most the size of the vocabulary (23)"), "{error}");
}
