//! Models in GGUF files that llama.cpp quantized (see oracle/gguf_fixtures.py): the logits that follow from their
//! numbers, and errors for what is malformed or hostile.

use crate::support::{Fixture, assert_close};
use candle_core::Device;
use minigpt_formats::gguf::{self, Contents, Meta, Value};
use minigpt_formats::{FileFormat, OnDisk, hugging_face, load};
use minigpt_kernels::ElementType;
use minigpt_model::{Config, Gpt, TokenChunk};
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};

const FILES: [(&str, &[&str]); 3] =
    [("q8_0", &["q8_0", "f32"]), ("q4_k_m", &["q6_k", "q4_k", "f32"]), ("f16", &["f16", "f32"])];

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files/gguf").join(format!("{name}.gguf"))
}

fn error(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    fs::write(&path, bytes).unwrap();
    OnDisk::open(&path).unwrap().model().err().unwrap().to_string()
}

#[test]
fn quantized_models_compute_what_follows_from_their_numbers() {
    for (name, types) in FILES {
        let expected = Fixture::open_at(&file(name).with_extension("gguf.safetensors"));
        let files = OnDisk::open(&file(name)).unwrap();
        assert_eq!(files.format(), FileFormat::Gguf);
        let model = files.model().unwrap();
        assert_eq!(
            (model.element_types(), model.is_quantized()),
            (types.iter().map(|n| (*n).to_owned()).collect(), name != "f16")
        );
        let ids = expected.ids("ids");
        let row = model.view().logits(&ids.to_vec2().unwrap()[0]).unwrap();
        let gpt = model.load(&Device::Cpu).unwrap().gpt;
        let logits = gpt.logits(&ids).unwrap();
        assert_close(name, &logits, expected.need("logits"), 2e-5, 2e-6);
        assert_close("layer by layer", &row, &logits.get(0).unwrap(), 1e-5, 1e-6);
        let trainable = gpt.into_trainable().unwrap();
        assert_close("expanded", &trainable.logits(&ids).unwrap(), expected.need("logits"), 2e-5, 2e-6);
    }
}

#[test]
fn a_quantized_model_generates_with_its_cache_as_without() {
    for (name, _) in FILES {
        let gpt = load(&file(name), &Device::Cpu).unwrap().gpt;
        let mut cache = gpt.cache(2).unwrap();
        let rows = [vec![5u32, 9, 200, 3], vec![17]];
        let chunk = |(row, ids)| TokenChunk { row, ids, logits: 1 };
        let chunks: Vec<TokenChunk> = rows.iter().map(Vec::as_slice).enumerate().map(chunk).collect();
        let next = gpt.step(&chunks, &mut cache).unwrap();
        for (row, ids) in rows.iter().enumerate() {
            let alone = gpt.logits(&gpt.ids(&[ids]).unwrap()).unwrap();
            let last = alone.get(0).unwrap().get(ids.len() - 1).unwrap();
            assert_close(name, &next.get(row).unwrap(), &last, 1e-5, 1e-6);
        }
    }
}

#[test]
fn what_was_written_is_read_again() {
    let config =
        Config { n_layer: 2, n_head: 2, n_embd: 32, block_size: 8, vocab_size: 20, ..Config::default() };
    for tie_word_embeddings in [true, false] {
        let config = Config { tie_word_embeddings, n_inner: Some(96), ..config.clone() };
        let gpt = Gpt::new(config.clone(), 3, &Device::Cpu).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.gguf");
        let end = ("tokenizer.ggml.eos_token_id".to_owned(), Meta::U32(7));
        gguf::save(gpt.view(), vec![end], gguf::FileType::F32, &path, &mut |_, _| {}).unwrap();
        let loaded = load(&path, &Device::Cpu).unwrap();
        assert_eq!(loaded.gpt.config(), &config);
        assert_eq!(loaded.extra["eos_token_id"], 7);
        let ids = gpt.ids(&[[1, 2, 3]]).unwrap();
        let flat = |gpt: &Gpt| gpt.logits(&ids).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
        // Without vector instructions, weights of a file are added up in another order.
        for (again, gpt) in flat(&loaded.gpt).into_iter().zip(flat(&gpt)) {
            assert!((again - gpt).abs() <= 1e-6, "{again} is not {gpt}");
        }
    }
}

#[test]
fn the_metadata_says_what_the_file_says() {
    let bytes = fs::read(file("q8_0")).unwrap();
    let contents = Contents::read(&bytes).unwrap();
    assert_eq!(contents.text("general.architecture"), Some("gpt2"));
    assert_eq!(contents.value("gpt2.block_count"), Some(&Value::Int(2)));
    assert!(
        matches!(contents.value("tokenizer.ggml.tokens"), Some(Value::Strs(tokens)) if tokens.len() == 260)
    );
    assert_eq!((contents.id("tokenizer.ggml.eos_token_id"), contents.text("nothing")), (Some(259), None));
    let (config, extra) = contents.config().unwrap();
    assert_eq!((config.n_embd, config.block_size, config.layer_norm_epsilon), (32, 16, 1e-5));
    assert_eq!(extra["eos_token_id"], 259);
}

/// A file that begins right and goes on like this.
fn hostile(version: u32, tensors: u64, pairs: u64, rest: &[u8]) -> Vec<u8> {
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend([tensors, pairs].map(u64::to_le_bytes).concat());
    bytes.extend(rest);
    bytes
}

#[test]
fn absurd_counts_are_errors_at_once() {
    let text = |length: u64, text: &[u8]| [&length.to_le_bytes()[..], text].concat();
    assert!(error(&hostile(3, u64::MAX, 0, b"")).contains("count is larger"));
    assert!(error(&hostile(3, 0, u64::MAX, b"")).contains("count is larger"));
    assert!(error(&hostile(9, 0, 0, b"")).contains("version 9 is not supported"));
    assert!(error(&hostile(3, 0, 1, &text(u64::MAX, &[0; 40]))).contains("count is larger"));
    assert!(error(&hostile(3, 0, 1, &text(1, b"a\x63\0\0\0"))).contains("unknown type 99"));
    // A list of lists, as deep as one likes.
    let deep = [text(1, b"a"), 9u32.to_le_bytes().repeat(100)].concat();
    assert!(error(&hostile(3, 0, 1, &deep)).contains("list has the unknown type 9"));
    let list =
        [text(1, b"a"), [9u32, 8].map(u32::to_le_bytes).concat(), u64::MAX.to_le_bytes().to_vec()].concat();
    assert!(error(&hostile(3, 0, 1, &list)).contains("count is larger"));
    assert!(error(&hostile(3, 0, 0, &[0; 64])).contains("general.architecture is missing"));
}

#[test]
fn tensors_beyond_the_file_or_out_of_place_are_refused() {
    let bytes = fs::read(file("q8_0")).unwrap();
    let name = b"blk.1.ffn_down.weight";
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap() + name.len();
    let mutated = |offset: usize, value: &[u8]| {
        let mut mutated = bytes.clone();
        mutated[at + offset..][..value.len()].copy_from_slice(value);
        error(&mutated)
    };
    // The number of dimensions, two sizes, the type, and where the numbers are.
    assert!(mutated(0, &7u32.to_le_bytes()).contains("7 dimensions"));
    assert!(mutated(4, &u64::MAX.to_le_bytes()).contains("reaches beyond"));
    assert!(mutated(4, &8u64.to_le_bytes()).contains("does not fit its type"));
    assert!(mutated(20, &77u32.to_le_bytes()).contains("unknown element type 77"));
    assert!(mutated(24, &u64::MAX.to_le_bytes()).contains("multiple of 32"));
    assert!(mutated(24, &(u64::MAX - 31).to_le_bytes()).contains("reaches beyond"));
    assert!(mutated(24, &1u64.to_le_bytes()).contains("multiple of 32"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_mutated_file_is_more_than_an_error(
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12), cut in any::<prop::sample::Index>()
    ) {
        let mut bytes = fs::read(file("q8_0")).unwrap();
        for (index, byte) in mutations {
            // The header ends before 8,000.
            bytes[index.index(8000)] = byte;
        }
        if let Ok(contents) = Contents::read(&bytes) {
            let config = contents.config().map_or_else(|_| Config::default(), |(config, _)| config);
            for (_, tensor) in contents.tensors(&config) {
                let _ = tensor.weight(&Device::Cpu);
            }
        }
        let _ = Contents::read(&bytes[..cut.index(bytes.len())]);
    }
}

#[test]
fn a_model_in_fewer_bits_is_nearly_the_same_model() {
    let config =
        Config { n_layer: 2, n_head: 2, n_embd: 64, block_size: 8, vocab_size: 50, ..Config::default() };
    let gpt = Gpt::new(config, 3, &Device::Cpu).unwrap();
    let ids = gpt.ids(&[[1, 2, 3, 4, 5]]).unwrap();
    let want = gpt.logits(&ids).unwrap();
    let folder = tempfile::tempdir().unwrap();
    hugging_face::save(&gpt, folder.path()).unwrap();
    for (element_type, tolerance) in
        [(ElementType::F16, 1e-3), (ElementType::Bf16, 1e-2), (ElementType::Q8_0, 2e-2)]
    {
        let quantized = gpt.clone().quantized(element_type).unwrap();
        assert_close(element_type.name(), &quantized.logits(&ids).unwrap(), &want, tolerance, 0.0);
        let files = OnDisk::open(folder.path()).unwrap();
        let loaded = files.model().unwrap().load_as(&Device::Cpu, Some(element_type)).unwrap().gpt;
        assert_close("loaded", &loaded.logits(&ids).unwrap(), &quantized.logits(&ids).unwrap(), 1e-6, 0.0);
    }
}
