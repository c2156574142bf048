//! `model.safetensors.index.json`, whatever files it names.
#![no_main]

mod place;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let folder = place::folder();
    std::fs::write(folder.join("model.safetensors.index.json"), bytes).expect("room for a file");
    place::open(&folder);
});
