//! `tokenizer.json` and the vocabulary file, whatever they list.
#![no_main]

mod place;

use minigpt_tokenizer::Tokenizer;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let path = place::folder().join("tokenizer.json");
    std::fs::write(&path, bytes).expect("room for a file");
    if let Ok(tokenizer) = Tokenizer::open(&path) {
        let ids =
            tokenizer.encode_with_special("Hello, 世界! <|endoftext|> <sep> it's\n").unwrap_or_default();
        let _ = tokenizer.decode(&ids);
    }
});
