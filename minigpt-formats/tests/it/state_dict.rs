//! State dictionaries of models that people wrote in PyTorch (see oracle/own_models.py): the logits that those compute, and
//! errors that list what was understood and what was not.

use crate::support::{Fixture, assert_close};
use candle_core::Device;
use minigpt_formats::{Architecture, FileFormat, OnDisk};
use minigpt_model::{Activation, Config, Gpt, NormPosition, PositionEmbedding};
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files/own").join(name)
}

/// The model as it is assumed to be, and the notes about that.
fn open(name: &str) -> (Gpt, String) {
    let files = OnDisk::open(&file(name)).unwrap();
    let (config, notes) = files.assumed().unwrap().unwrap();
    (
        files.model_as(config).unwrap().load(&Device::Cpu).unwrap().gpt,
        notes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
    )
}

fn assert_computes(gpt: &Gpt, name: &str) {
    let expected = Fixture::open_at(&file(name));
    assert_close(name, &gpt.logits(&expected.ids("ids")).unwrap(), expected.need("logits"), 1e-5, 0.0);
}

/// What a changed file says, both when it is described and when it is opened.
fn refused(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.pth");
    fs::write(&path, bytes).unwrap();
    let files = OnDisk::open(&path).unwrap();
    match files.assumed() {
        Ok(None) => files.model().err().unwrap().to_string(),
        Ok(Some((config, _))) => files.model_as(config).err().unwrap().to_string(),
        Err(error) => error.to_string(),
    }
}

/// The file with a part of it replaced by another of the same length.
fn with(name: &str, old: &str, new: &str) -> Vec<u8> {
    assert_eq!(old.len(), new.len());
    let mut bytes = fs::read(file(name)).unwrap();
    let at = bytes.windows(old.len()).position(|window| window == old.as_bytes()).unwrap();
    bytes[at..at + new.len()].copy_from_slice(new.as_bytes());
    bytes
}

#[test]
fn the_question_answering_model_computes_what_pytorch_does() {
    let (gpt, notes) = open("best_model.pth");
    assert_computes(&gpt, "best_model.safetensors");
    let config = gpt.config();
    assert_eq!((config.n_layer, config.n_head, config.n_embd, config.block_size), (2, 8, 16, 12));
    assert!(config.tie_word_embeddings && config.qkv_bias && config.norm_bias);
    assert!(!config.attn_out_bias && !config.mlp_bias && config.n_inner.is_none());
    assert_eq!(config.activation_function, Activation::Gelu);
    assert_eq!(notes, "");
}

#[test]
fn the_textbooks_model_computes_what_pytorch_does_with_both_kinds_of_positions() {
    for (name, positions) in
        [("textbook", PositionEmbedding::Learned), ("textbook-sinusoidal", PositionEmbedding::Sinusoidal)]
    {
        let (gpt, notes) = open(&format!("{name}.pth"));
        assert_computes(&gpt, &format!("{name}.safetensors"));
        let config = gpt.config();
        assert_eq!(
            (config.position_embedding, config.block_size, config.n_head),
            (positions, 100, 4),
            "{name}"
        );
        assert_eq!(
            (config.norm_position, config.activation_function),
            (NormPosition::Post, Activation::Relu)
        );
        assert!(config.scale_embeddings && config.lm_head_bias && !config.tie_word_embeddings);
        assert_eq!(config.n_inner, Some(20));
        let told = notes.contains("sinusoidal positions");
        assert_eq!(told, positions == PositionEmbedding::Sinusoidal, "{notes}");
    }
}

#[test]
fn what_the_file_does_not_say_can_be_said() {
    let files = OnDisk::open(&file("best_model.pth")).unwrap();
    assert_eq!(files.format(), FileFormat::StateDict(Architecture::QuestionAnswering));
    let (config, _) = files.assumed().unwrap().unwrap();
    let fewer = files.model_as(Config { n_head: 2, ..config }).unwrap();
    assert_eq!(fewer.config().n_head, 2);
    let error = files.model_as(Config { n_head: 3, ..config }).err().unwrap().to_string();
    assert!(error.contains("n_embd 16 is not divisible by n_head 3"), "{error}");
    let error = files.model_as(Config { n_layer: 3, ..config }).err().unwrap().to_string();
    assert!(error.contains("missing: h.2.ln_1.weight"), "{error}");
    let error = files.model().err().unwrap().to_string();
    assert!(error.contains("number of heads") && error.contains("import it first"), "{error}");
    assert!(OnDisk::open(&file("../ckpt.pt")).unwrap().assumed().unwrap().is_none());
}

#[test]
fn the_vocabulary_beside_the_model_comes_along() {
    let files = OnDisk::open(&file("best_model.pth")).unwrap();
    let (config, _) = files.assumed().unwrap().unwrap();
    let (tokenizer, name) = files.tokenizer(None, &config).unwrap().unwrap();
    assert_eq!((tokenizer.vocab_size(), name.to_string().as_str()), (config.vocab_size, "vocab.json"));
}

#[test]
fn what_is_missing_and_what_is_not_understood_is_listed_in_the_files_own_names() {
    let error = refused(&with("best_model.pth", "blocks.1.mlp.c_fc.weight", "blocks.1.mlp.gated.weigh"));
    for part in [
        "looks like the state dictionary of the question answering model",
        "missing: transformer.blocks.1.mlp.c_fc.weight",
        "not understood: transformer.blocks.1.mlp.gated.weigh [64, 16]",
    ] {
        assert!(error.contains(part), "{part:?} is not in {error}");
    }
    let error =
        refused(&with("textbook.pth", "layers.0.attention.w_k.weight", "layers.0.attention.w_x.weight"));
    assert!(error.contains("missing: layers.0.attention.w_k.weight"), "{error}");
    assert!(error.contains("not understood: layers.0.attention.w_x.weight [8, 8]"), "{error}");
}

#[test]
fn what_is_no_known_model_is_told_with_what_it_holds() {
    let error = refused(&with("textbook.pth", "embedding.weight", "embeddink.weight"));
    for part in
        ["not a nanoGPT checkpoint", "the textbook's model (embedding.weight", "embeddink.weight [31, 8]"]
    {
        assert!(error.contains(part), "{part:?} is not in {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_mutated_state_dictionary_is_more_than_an_error(
        textbook in any::<bool>(),
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.pth");
        let mut bytes = fs::read(file(if textbook { "textbook.pth" } else { "best_model.pth" })).unwrap();
        for (index, byte) in mutations {
            bytes[index.index(4000)] = byte;
        }
        fs::write(&path, bytes).unwrap();
        if let Ok(files) = OnDisk::open(&path)
            && let Ok(Some((config, _))) = files.assumed()
            && let Ok(model) = files.model_as(config)
        {
            let _ = model.load(&Device::Cpu);
        }
    }
}
