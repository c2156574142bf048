//! Models in the files that other tools write (see oracle/file_fixtures.py): the same logits as the parity cases that
//! they were made from, and errors for what is malformed or hostile.

use crate::support::{Fixture, assert_close};
use candle_core::Device;
use minigpt_formats::load;
use minigpt_formats::torch::{self, TorchArchive, Value as Pickled};
use minigpt_model::Gpt;
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(name)
}

fn assert_is(gpt: &Gpt, case: &str) {
    let expected = Fixture::open(&format!("{case}/expected.safetensors"));
    let logits = gpt.logits(&expected.ids("ids")).unwrap();
    assert_close(case, &logits, expected.need("logits"), 1e-5, 1e-6);
}

#[test]
fn a_checkpoint_of_nanogpt_is_the_model_that_it_saved() {
    let gpt = load(&file("ckpt.pt"), &Device::Cpu).unwrap().gpt;
    assert_is(&gpt, "nanogpt-no-bias");
    assert!(!gpt.config().mlp_bias && gpt.config().tie_word_embeddings);
}

#[test]
fn a_state_dict_of_torch_is_a_model_like_safetensors() {
    assert_is(&load(&file("bin"), &Device::Cpu).unwrap().gpt, "gpt2-transformers");
}

#[test]
fn shards_are_one_model() {
    assert_is(&load(&file("shards"), &Device::Cpu).unwrap().gpt, "gpt2-transformers");
}

#[test]
fn an_index_may_only_name_files_beside_it() {
    for name in ["../secret.safetensors", "/etc/passwd", "a/b.safetensors", "..", ""] {
        let folder = tempfile::tempdir().unwrap();
        fs::copy(file("shards/config.json"), folder.path().join("config.json")).unwrap();
        let index = serde_json::json!({ "weight_map": { "wte.weight": name } });
        fs::write(folder.path().join("model.safetensors.index.json"), index.to_string()).unwrap();
        let error = load(folder.path(), &Device::Cpu).unwrap_err().to_string();
        assert!(error.contains("not beside it"), "{error}");
    }
}

#[test]
fn a_shard_that_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(file("shards")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    fs::remove_file(folder.path().join("model-00002-of-00004.safetensors")).unwrap();
    let error = load(folder.path(), &Device::Cpu).unwrap_err().to_string();
    assert!(error.contains("model-00002-of-00004.safetensors"), "{error}");
}

#[test]
fn the_vocabulary_of_nanogpt_is_read_as_data() {
    let meta = torch::read(&fs::read(file("meta.pkl")).unwrap()).unwrap();
    assert_eq!(meta.get("vocab_size").and_then(Pickled::as_size), Some(37));
    assert_eq!(meta.get("stoi").unwrap().get("你").and_then(Pickled::as_size), Some(34));
}

#[test]
fn a_checkpoint_that_would_run_a_program_is_refused_and_nothing_runs() {
    // The name of the function that makes a tensor, exchanged for another one of the same length.
    let mut bytes = fs::read(file("ckpt.pt")).unwrap();
    let (from, to) = (b"torch._utils\n_rebuild_tensor_v2", b"os_and_other\nsystem_and_mo_more");
    assert_eq!(from.len(), to.len());
    let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
    bytes[at..at + to.len()].copy_from_slice(to);
    let path = tempfile::tempdir().unwrap().keep().join("ckpt.pt");
    fs::write(&path, &bytes).unwrap();
    let error = load(&path, &Device::Cpu).unwrap_err().to_string();
    assert!(error.contains("calls os_and_other.system_and_mo_more") && error.contains("not run"), "{error}");
}

#[test]
fn no_cut_or_mutated_file_does_more_than_an_error() {
    let bytes = fs::read(file("ckpt.pt")).unwrap();
    for end in (0..bytes.len()).step_by(97) {
        assert!(TorchArchive::open(&bytes[..end]).is_err());
    }
    // The directory is at the end: each of its bytes, mutated in several ways.
    for at in bytes.len() - 600..bytes.len() {
        for mask in [0x01, 0x80, 0xff] {
            let mut mutated = bytes.clone();
            mutated[at] ^= mask;
            if let Ok(checkpoint) = TorchArchive::open(&mutated) {
                let _ = checkpoint.root.get("model").map(|model| checkpoint.tensors(model));
            }
        }
    }
    assert!(TorchArchive::open(b"").is_err());
    assert!(
        TorchArchive::open(b"\x80\x02}q\x00.").is_err_and(|e| e.to_string().contains("not a zip archive"))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_bytes_are_more_than_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = torch::read(&bytes);
        let _ = TorchArchive::open(&bytes);
    }

    #[test]
    fn no_mutated_checkpoint_is_more_than_an_error(
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20)
    ) {
        let mut bytes = fs::read(file("ckpt.pt")).unwrap();
        let length = bytes.len();
        // The pickle is at the beginning, the directory at the end: that is where it hurts.
        for (i, (index, byte)) in mutations.into_iter().enumerate() {
            let at = if i % 2 == 0 { index.index(4000) } else { length - 1 - index.index(3000) };
            bytes[at] = byte;
        }
        if let Ok(checkpoint) = TorchArchive::open(&bytes) {
            let _ = checkpoint.root.get("model").map(|model| checkpoint.tensors(model));
        }
    }
}
