//! `config.json`, whatever model it describes.
#![no_main]

mod place;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let folder = place::folder();
    std::fs::write(folder.join("config.json"), bytes).expect("room for a file");
    let _ = std::fs::rename(folder.join("part.safetensors"), folder.join("model.safetensors"));
    place::open(&folder);
});
