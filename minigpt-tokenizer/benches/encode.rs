//! How fast text becomes ids.
//!
//! `MINIGPT_BENCH_DATA` names a folder with `shakespeare.txt` and `zh_qa.jsonl`, so that figures can be compared with
//! those of other programs on the same text; without it, made-up words stand in.

use divan::Bencher;
use divan::counter::BytesCount;
use minigpt_tokenizer::{BpeTrainer, CharTokenizer, Result, Tokenizer};
use std::path::PathBuf;

const ENGLISH: &str = "shakespeare.txt";
const CHINESE: &str = "zh_qa.jsonl";

fn main() {
    divan::main();
}

/// A file of the folder, or words from the characters of its language.
fn text(name: &str) -> String {
    let folder = std::env::var_os("MINIGPT_BENCH_DATA").map(PathBuf::from);
    folder.and_then(|folder| std::fs::read_to_string(folder.join(name)).ok()).unwrap_or_else(|| made_up(name))
}

/// A megabyte of words whose letters come from a small linear generator.
fn made_up(name: &str) -> String {
    let (first, letters, longest) = if name == CHINESE { ('一', 3000, 12) } else { ('a', 26, 9) };
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut text = String::new();
    while text.len() < 1 << 20 {
        for _ in 0..=random(longest) {
            // The smaller of two is drawn more often than a large one, as letters are.
            let letter = random(letters).min(random(letters));
            text.extend(char::from_u32(first as u32 + letter as u32));
        }
        text.push_str([" ", " ", " ", ", ", ".\n", "，"][random(6) as usize]);
    }
    text
}

#[divan::bench(args = [ENGLISH, CHINESE])]
fn gpt2(bencher: Bencher, name: &str) {
    let (tokenizer, text) = (Tokenizer::gpt2(), text(name));
    bencher.counter(BytesCount::of_str(&text)).bench_local(|| tokenizer.encode(&text));
}

#[divan::bench(args = [ENGLISH, CHINESE])]
fn gpt2_streamed(bencher: Bencher, name: &str) {
    let (tokenizer, text) = (Tokenizer::gpt2(), text(name));
    let characters: Vec<char> = text.chars().collect();
    let parts: Vec<String> = characters.chunks(1000).map(|part| part.iter().collect()).collect();
    bencher.counter(BytesCount::of_str(&text)).bench_local(|| -> Result<Vec<u32>> {
        let mut encoder = tokenizer.encoder();
        let mut ids = Vec::new();
        for part in &parts {
            encoder.push(part, &mut ids)?;
        }
        encoder.finish(&mut ids)?;
        Ok(ids)
    });
}

#[divan::bench]
fn gpt2_one_long_word(bencher: Bencher) {
    let (tokenizer, text) = (Tokenizer::gpt2(), text(ENGLISH).replace(|c: char| !c.is_alphabetic(), ""));
    bencher.counter(BytesCount::of_str(&text)).bench_local(|| tokenizer.encode(&text));
}

#[divan::bench(args = [ENGLISH, CHINESE])]
fn characters(bencher: Bencher, name: &str) {
    let text = text(name);
    let tokenizer = CharTokenizer::from_text(&[], text.chars()).map(Tokenizer::Char);
    if let Ok(tokenizer) = tokenizer {
        bencher.counter(BytesCount::of_str(&text)).bench_local(|| tokenizer.encode(&text));
    }
}

#[divan::bench(args = [ENGLISH, CHINESE])]
fn decode_gpt2(bencher: Bencher, name: &str) {
    let (tokenizer, text) = (Tokenizer::gpt2(), text(name));
    if let Ok(ids) = tokenizer.encode(&text) {
        bencher.counter(BytesCount::of_str(&text)).bench_local(|| tokenizer.decode(&ids));
    }
}

#[divan::bench(args = [ENGLISH, CHINESE], sample_count = 5)]
fn train_bpe(bencher: Bencher, name: &str) {
    let text = text(name);
    bencher.counter(BytesCount::of_str(&text)).bench_local(|| {
        let mut trainer = BpeTrainer::new(8000, &[])?;
        trainer.push(&text);
        trainer.train(|_| {})
    });
}
