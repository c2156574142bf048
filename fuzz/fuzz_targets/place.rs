//! A folder in memory with a small model, in which one file is what the fuzzer made of it.

use minigpt_formats::OnDisk;
use minigpt_model::Device;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of this process.
pub fn folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let folder = place.join(format!("minigpt-fuzz-{}", std::process::id()));
    if !folder.exists() {
        fs::create_dir_all(&folder).expect("a folder to work in");
        let config = include_str!("../../minigpt-formats/tests/files/bin/config.json");
        fs::write(folder.join("config.json"), config).expect("a file to work with");
        let weights = include_bytes!("../../minigpt-model/tests/fixtures/gpt2/model.safetensors");
        fs::write(folder.join("part.safetensors"), weights).expect("a file to work with");
    }
    folder
}

/// Opens the folder as a model, reads every tensor, and runs it if all is well.
pub fn open(path: &Path) {
    let Ok(files) = OnDisk::open(path) else { return };
    let model = match files.assumed() {
        Ok(Some((config, _))) => files.model_as(config),
        _ => files.model(),
    };
    if let Ok(model) = model {
        let _ = model.view().logits(&[0]);
        let _ = model.load(&Device::Cpu);
    }
}
