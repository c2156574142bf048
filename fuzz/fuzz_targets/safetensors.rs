//! `model.safetensors`, whatever its header claims.
#![no_main]

mod place;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let folder = place::folder();
    std::fs::write(folder.join("model.safetensors"), bytes).expect("room for a file");
    place::open(&folder);
});
