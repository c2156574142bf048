//! The engine's promise: tokens and log-probabilities of a request are the same to the bit alone and beside others, whatever
//! the chunks, the slots, the order of arrival and the number of threads.

use minigpt_generate::{
    Completion, ContextRule, Engine, EngineConfig, EngineEvent, GenerationConfig, Request, RequestId,
};
use minigpt_kernels::{ElementType, QuantizedProduct};
use minigpt_model::{Config, DType, Device, Gpt, NormPosition, PositionEmbedding};
use minigpt_tokenizer::{CharTokenizer, Tokenizer};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

const VOCABULARY: usize = 26;
const BLOCK_SIZE: usize = 24;

/// Every way in which a weight is kept, and keys and values, in models of every kind: widths that are no multiple of a register or a panel, one
/// head, and one whose MLP is summed in several blocks.
fn models() -> &'static [Gpt] {
    static MODELS: OnceLock<Vec<Gpt>> = OnceLock::new();
    MODELS.get_or_init(|| {
        use ElementType::{Bf16, F16, F32, Q4_0, Q4K, Q5_1, Q6K, Q8_0};
        use NormPosition::{Post, Pre};
        use PositionEmbedding::{Learned, Rope, Sinusoidal};
        let kinds = [
            (Pre, Learned, 36, 3, None),
            (Pre, Learned, 20, 1, Some(F32)),
            (Post, Sinusoidal, 104, 2, Some(F32)),
            (Pre, Rope, 64, 4, Some(Q8_0)),
            (Post, Sinusoidal, 96, 1, Some(Q8_0)),
            (Pre, Rope, 28, 2, Some(Bf16)),
            (Pre, Learned, 40, 5, Some(F16)),
            (Post, Rope, 24, 2, None),
            (Pre, Learned, 32, 2, Some(Q4_0)),
            (Post, Rope, 96, 3, Some(Q5_1)),
            (Pre, Learned, 256, 4, Some(Q4K)),
            (Pre, Rope, 256, 2, Some(Q6K)),
        ];
        kinds
            .into_iter()
            .map(|(norm_position, position_embedding, n_embd, n_head, element_type)| {
                let config = Config {
                    vocab_size: VOCABULARY,
                    block_size: BLOCK_SIZE,
                    n_layer: 2,
                    n_head,
                    n_embd,
                    norm_position,
                    position_embedding,
                    tie_word_embeddings: n_embd != 36 && n_embd != 64,
                    initializer_range: 0.25,
                    ..Config::default()
                };
                let mut gpt = Gpt::new(config, 7, &Device::Cpu).unwrap();
                if matches!(n_embd, 24 | 40 | 96) {
                    gpt = gpt.with_cache_dtype(DType::F16);
                }
                let product = match element_type {
                    Some(Q4_0) => QuantizedProduct::Exact,
                    Some(Q8_0) if n_embd == 64 => QuantizedProduct::Exact,
                    _ => QuantizedProduct::EightBit,
                };
                match element_type {
                    Some(element_type) => {
                        gpt.quantized(element_type).unwrap().with_quantized_product(product).unwrap()
                    }
                    None => gpt,
                }
            })
            .collect()
    })
}

fn letters() -> Arc<Tokenizer> {
    Arc::new(Tokenizer::Char(CharTokenizer::from_text(&[], 'a'..='z').unwrap()))
}

/// A request, and when it comes and goes.
#[derive(Debug, Clone)]
struct Visitor {
    request: Request,
    arrives: usize,
    leaves: Option<usize>,
}

fn config() -> impl Strategy<Value = GenerationConfig> {
    let rule = prop_oneof![Just(ContextRule::Slide), Just(ContextRule::Crop), Just(ContextRule::Stop)];
    let filters = (0.3f64..2.0, 0usize..9, 0.3f64..=1.0, 0.0f64..0.2, prop_oneof![Just(1.0), 0.7f64..1.6]);
    let beams = prop_oneof![8 => Just(1usize), 1 => 2usize..4];
    let stops =
        (prop::collection::vec(0..VOCABULARY as u32, 0..2), prop::collection::vec("[a-z]{1,2}", 0..2));
    (any::<bool>(), filters, rule, 0usize..16, any::<u64>(), beams, stops).prop_map(
        |(draws, filters, context, max_new_tokens, seed, num_beams, (eos_token_id, stop_strings))| {
            let (temperature, top_k, top_p, min_p, repetition_penalty) = filters;
            GenerationConfig {
                do_sample: draws && num_beams == 1,
                max_new_tokens: max_new_tokens.max(usize::from(num_beams > 1)),
                num_return_sequences: num_beams,
                temperature,
                top_k,
                top_p,
                min_p,
                repetition_penalty,
                context,
                seed,
                num_beams,
                eos_token_id,
                stop_strings,
                ..GenerationConfig::default()
            }
        },
    )
}

/// Prompts that often begin alike, some of them longer than the context.
fn prompt() -> impl Strategy<Value = Vec<u32>> {
    let common: Vec<u32> = (0..40).map(|i| (i * i + 3 * i) % VOCABULARY as u32).collect();
    (0usize..32, prop::collection::vec(0..VOCABULARY as u32, 1..9))
        .prop_map(move |(begin, rest)| [&common[..begin], &rest].concat())
}

fn visitor() -> impl Strategy<Value = Visitor> {
    let asks = (any::<bool>(), any::<bool>(), prop::option::of(0usize..4), 0u64..3);
    (prompt(), config(), asks, 0usize..20, prop::option::weighted(0.2, 1usize..12)).prop_map(
        |(mut prompt, mut config, (keep_prefix, prompt_logprobs, top_logprobs, stream), arrives, leaves)| {
            let prompt_logprobs = prompt_logprobs && config.num_beams == 1;
            if prompt_logprobs || config.context == ContextRule::Stop {
                let answer = config.context == ContextRule::Stop && config.max_new_tokens > 0;
                prompt.truncate(BLOCK_SIZE - usize::from(answer));
            }
            if config.num_beams == 1 {
                config.num_return_sequences = 1;
            }
            let base = Request::new(prompt, config);
            let request = Request { stream, keep_prefix, prompt_logprobs, top_logprobs, ..base };
            Visitor { request, arrives, leaves }
        },
    )
}

/// All that is said about a request, with every number as bits.
fn said(event: &EngineEvent) -> String {
    let pairs = |top: &[(u32, f64)]| top.iter().map(|&(id, x)| (id, x.to_bits())).collect::<Vec<_>>();
    let completion = |text: &Completion| {
        let logprobs: Vec<u64> = text.logprobs.iter().map(|x| x.to_bits()).collect();
        let score = text.score.map(f64::to_bits);
        format!("{:?} {:?} {logprobs:?} {score:?} {:?}", text.ids, text.text, text.finish_reason)
    };
    match event {
        EngineEvent::Prompt { logprobs, .. } => {
            let tokens = logprobs.iter().map(|x| (x.id, x.logprob.map(f64::to_bits), pairs(&x.top)));
            format!("prompt {:?}", tokens.collect::<Vec<_>>())
        }
        EngineEvent::Token { id, logprob, top, text, .. } => {
            format!("token {id} {} {:?} {text:?}", logprob.to_bits(), pairs(top))
        }
        EngineEvent::Found(texts) => format!("found {:?}", texts.iter().map(completion).collect::<Vec<_>>()),
        EngineEvent::Done { reason, rest, usage, stop } => {
            let (prompt, written) = (usage.prompt_tokens, usage.completion_tokens);
            format!("done {reason:?} {rest:?} {prompt} {written} {stop:?}")
        }
        other => format!("{other:?}"),
    }
}

/// What is said about a request that is all alone, with its prompt read at once by one thread.
fn alone(gpt: &Gpt, request: &Request) -> Vec<String> {
    let config = EngineConfig {
        slots: request.config.num_beams,
        fixed_chunk: Some(usize::MAX),
        ..EngineConfig::default()
    };
    let mut engine = Engine::new(gpt.clone(), Some(letters()), &config).unwrap();
    engine.submit(request.clone()).unwrap();
    let mut all = Vec::new();
    on_threads(1, || {
        while !engine.is_idle() {
            all.extend(engine.step().iter().map(|(_, event)| said(event)));
        }
    });
    all
}

fn on_threads<R: Send>(threads: usize, f: impl FnOnce() -> R + Send) -> R {
    static POOLS: OnceLock<[rayon::ThreadPool; 3]> = OnceLock::new();
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    POOLS.get_or_init(|| [1, 2, 3].map(pool))[threads - 1].install(f)
}

/// What is said about each of several requests that come and go. `None` for those that left.
fn together(gpt: &Gpt, visitors: &[Visitor], slots: usize, chunk: Option<usize>) -> Vec<(Vec<String>, bool)> {
    let config = EngineConfig { slots, fixed_chunk: chunk, ..EngineConfig::default() };
    let mut engine = Engine::new(gpt.clone(), Some(letters()), &config).unwrap();
    let memory = engine.memory_bytes();
    let mut ids: HashMap<RequestId, usize> = HashMap::new();
    let mut heard: Vec<(Vec<String>, bool)> = vec![(Vec::new(), true); visitors.len()];
    let last = visitors.iter().map(|visitor| visitor.arrives).max().unwrap_or(0);
    let mut step = 0;
    while step <= last || !engine.is_idle() {
        for (i, visitor) in visitors.iter().enumerate() {
            if visitor.arrives == step {
                ids.insert(engine.submit(visitor.request.clone()).unwrap(), i);
            }
            if visitor.leaves.is_some_and(|after| visitor.arrives + after == step) {
                let id = ids.iter().find(|(_, place)| **place == i).map(|(id, _)| *id);
                if let Some(id) = id {
                    engine.cancel(id);
                    heard[i].1 = heard[i].0.last().is_some_and(|last| last.starts_with("done"));
                }
            }
        }
        for (id, event) in engine.step() {
            heard[ids[&id]].0.push(said(&event));
        }
        assert!(engine.status().slots.len() == slots && engine.memory_bytes() == memory);
        step += 1;
        assert!(step < 20_000, "it does not end");
    }
    heard
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_request_is_the_same_to_the_bit_alone_and_in_any_company(
        model in 0..models().len(), visitors in prop::collection::vec(visitor(), 1..9),
        slots in prop_oneof![3usize..5, 5usize..34], chunk in prop::option::weighted(0.9, 1usize..60), threads in 1usize..4,
    ) {
        let gpt = &models()[model];
        let heard = on_threads(threads, || together(gpt, &visitors, slots, chunk));
        for (visitor, (heard, stayed)) in visitors.iter().zip(heard) {
            let want = alone(gpt, &visitor.request);
            if stayed {
                prop_assert_eq!(&heard, &want, "{:?}", visitor.request);
            } else {
                prop_assert_eq!(&heard[..], &want[..heard.len()], "{:?}", visitor.request);
            }
        }
    }
}

/// The same text beside 1, 7, 8 and 31 others that are busy all the while.
#[test]
fn numbers_of_neighbours_that_change_the_kernels_change_nothing() {
    for gpt in models() {
        let request = |i: u32| {
            let prompt = (0..6 + i % 5).map(|j| (i * 7 + j * j) % VOCABULARY as u32).collect();
            let config =
                GenerationConfig { do_sample: true, seed: 3, max_new_tokens: 8, ..Default::default() };
            Request { top_logprobs: Some(3), ..Request::new(prompt, config) }
        };
        let want = alone(gpt, &request(0));
        for (others, chunks) in [(1, &[1, 5, 1000][..]), (7, &[64]), (8, &[5]), (31, &[40, 1000])] {
            for &chunk in chunks {
                let visitors: Vec<Visitor> =
                    (0..=others).map(|i| Visitor { request: request(i), arrives: 0, leaves: None }).collect();
                let heard = together(gpt, &visitors, others as usize + 1, Some(chunk));
                assert_eq!(heard[0].0, want, "{others} others, chunks of {chunk}");
            }
        }
    }
}
