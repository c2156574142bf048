//! A pickle, such as nanoGPT's `meta.pkl`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(value) = minigpt_formats::torch::read(bytes) {
        let _ = value.get("stoi").map(|stoi| stoi.get("a"));
    }
});
