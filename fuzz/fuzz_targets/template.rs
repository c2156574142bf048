//! A chat template, whatever it computes.
#![no_main]

use minigpt::formats::{ChatTemplate, ExtraKeys};
use minigpt::model::{Config, Device, Gpt};
use minigpt::tokenizer::Tokenizer;
use minigpt::{Conversation, Format, ModelFolder, data::Role};
use std::sync::LazyLock;

static MODEL: LazyLock<ModelFolder> = LazyLock::new(|| {
    let tokenizer = Tokenizer::gpt2();
    let vocab_size = tokenizer.vocab_size();
    let shape = Config { n_layer: 1, n_head: 1, n_embd: 2, block_size: 64, vocab_size, ..Config::default() };
    let gpt = Gpt::new(shape, 1, &Device::Cpu).expect("a small model");
    ModelFolder::new("nowhere", gpt, ExtraKeys::new(), Some(tokenizer))
});

libfuzzer_sys::fuzz_target!(|source: &str| {
    let tokens = vec![("eos_token".to_owned(), "<|endoftext|>".to_owned())];
    let template = ChatTemplate { source: source.to_owned(), tokens };
    let mut talk = Conversation::new(Format::Template(template));
    talk.say(Role::System, "Be kind.");
    talk.say(Role::User, "Hi <|endoftext|> </think>\n");
    let _ = talk.prompt(&MODEL, 8);
});
