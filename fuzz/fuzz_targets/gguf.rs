//! A GGUF file, whatever it counts.
#![no_main]

use minigpt_formats::gguf::Contents;
use minigpt_model::Device;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(contents) = Contents::read(bytes) {
        if let Ok((config, _)) = contents.config() {
            for (_, tensor) in contents.tensors(&config) {
                let _ = tensor.weight(&Device::Cpu);
            }
        }
    }
});
