//! What `torch.save` writes: nanoGPT's checkpoint, and `pytorch_model.bin`.
#![no_main]

mod place;

use minigpt_formats::torch::TorchArchive;
use minigpt_model::Device;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(checkpoint) = TorchArchive::open(bytes) {
        let inside = checkpoint.root.get("model").unwrap_or(&checkpoint.root);
        for (_, tensor) in checkpoint.tensors(inside).unwrap_or_default() {
            let _ = tensor.weight(&Device::Cpu);
        }
    }
    let folder = place::folder();
    std::fs::write(folder.join("ckpt.pt"), bytes).expect("room for a file");
    place::open(&folder.join("ckpt.pt"));
});
