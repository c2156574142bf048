//! Conversions as a whole: what is written computes the same, or nothing is written.

use candle_core::{Device, Tensor};
use minigpt_formats::gguf::FileType;
use minigpt_formats::{Conversion, Converted, OnDisk, Target, convert, hugging_face};
use minigpt_kernels::ElementType;
use minigpt_model::{Activation, Config, Gpt, Weight};
use minigpt_tokenizer::{BpeTrainer, CharTokenizer, Tokenizer};
use std::fs;
use std::path::{Path, PathBuf};

/// A folder for the outputs, beside a model folder.
struct Place(tempfile::TempDir);

impl Place {
    /// A small model in which the last element of `name` is `value`.
    fn new(name: &str, value: f32) -> Self {
        let config = Config {
            vocab_size: 300,
            block_size: 16,
            n_layer: 2,
            n_head: 2,
            n_embd: 32,
            ..Config::default()
        };
        let config = Config { activation_function: Activation::Gelu, ..config };
        let gpt = Gpt::new(config.clone(), 1, &Device::Cpu).unwrap();
        let weight = |parameter: minigpt_model::Parameter| {
            let mut values = parameter.tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            if parameter.name == name {
                *values.last_mut().unwrap() = value;
            }
            let tensor = Tensor::from_vec(values, parameter.tensor.dims(), &Device::Cpu).unwrap();
            (parameter.name, Weight::Plain(tensor))
        };
        let gpt = Gpt::from_tensors(config, gpt.parameters().into_iter().map(weight).collect()).unwrap();
        let place = Self(tempfile::tempdir().unwrap());
        hugging_face::save(&gpt, &place.path("model")).unwrap();
        fs::create_dir(place.path("out")).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn convert(&self, target: Target, out: &str, replace: bool) -> Result<Converted, String> {
        let files = OnDisk::open(&self.path("model")).unwrap();
        let (model, out) = (files.model().unwrap(), self.path(out));
        let conversion = Conversion { target, out: &out, replace, check: true, training: None };
        let tokenizer = if target == Target::NanoGpt { characters() } else { bpe() };
        convert(&files, &model, Some(&tokenizer), conversion, &mut |_, _| {}).map_err(|e| e.to_string())
    }
}

fn bpe() -> Tokenizer {
    let mut trainer = BpeTrainer::new(290, &["<|endoftext|>"]).unwrap();
    trainer.push("the cat sat on the mat");
    Tokenizer::Bpe(trainer.train(|_| {}).unwrap())
}

fn characters() -> Tokenizer {
    Tokenizer::Char(CharTokenizer::from_text(&[], "abc你好".chars()).unwrap())
}

fn names(folder: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(name).collect();
    names.sort();
    names
}

fn folder(element_type: ElementType) -> Target {
    Target::HuggingFace { element_type: Some(element_type), shard: None }
}

/// Regression: 1e6 is infinite in f16, every logit was NaN, and the largest difference 0.
#[test]
fn a_weight_that_overflows_fails_the_conversion_by_name_and_leaves_nothing() {
    let place = Place::new("h.1.mlp.c_fc.weight", 1e6);
    let (half, gguf) = (folder(ElementType::F16), Target::Gguf(FileType::F16));
    let (whole, whole_gguf) = (folder(ElementType::F32), Target::Gguf(FileType::F32));
    for (target, whole, out) in [(half, whole, "out/half"), (gguf, whole_gguf, "out/half.gguf")] {
        let error = place.convert(target, out, false).unwrap_err();
        assert!(error.contains("h.1.mlp.c_fc.weight overflows"), "{error}");
        assert!(names(&place.path("out")).is_empty(), "{out}");
        // In f32 it is a model like any other.
        assert!(place.convert(whole, "out/whole", false).is_ok());
        let _ = fs::remove_dir_all(place.path("out"));
        fs::create_dir(place.path("out")).unwrap();
    }
}

#[test]
fn a_model_that_is_broken_itself_is_not_converted() {
    let place = Place::new("h.0.attn.c_attn.weight", f32::NAN);
    let (whole, gguf) = (folder(ElementType::F32), Target::Gguf(FileType::F32));
    for (target, out) in [(whole, "out/x"), (gguf, "out/x.gguf"), (Target::NanoGpt, "out/ckpt.pt")] {
        let error = place.convert(target, out, false).unwrap_err();
        assert!(error.contains("h.0.attn.c_attn.weight of the model itself"), "{error}");
        assert!(names(&place.path("out")).is_empty(), "{out}");
    }
}

#[test]
fn a_conversion_that_fails_leaves_what_was_there() {
    let place = Place::new("h.1.mlp.c_fc.weight", 1e6);
    fs::write(place.path("out/half.gguf"), "the old one").unwrap();
    assert!(place.convert(Target::Gguf(FileType::F16), "out/half.gguf", true).is_err());
    assert_eq!(fs::read_to_string(place.path("out/half.gguf")).unwrap(), "the old one");
    assert_eq!(names(&place.path("out")), ["half.gguf"]);
}

#[test]
fn a_checkpoint_and_its_vocabulary_appear_together() {
    let place = Place::new("", 0.0);
    let written = place.convert(Target::NanoGpt, "out/ckpt.pt", false).unwrap();
    assert_eq!((written.largest_difference, written.notes.len()), (Some(0.0), 2));
    assert_eq!(names(&place.path("out")), ["ckpt.pt", "meta.pkl"]);
    // Neither is replaced unless asked, and without one the other is not written.
    fs::remove_file(place.path("out/ckpt.pt")).unwrap();
    assert!(place.convert(Target::NanoGpt, "out/ckpt.pt", false).is_err());
    assert_eq!(names(&place.path("out")), ["meta.pkl"]);
    assert!(place.convert(Target::NanoGpt, "out/ckpt.pt", true).is_ok());
    assert!(place.convert(Target::NanoGpt, "out", true).unwrap_err().contains("is a folder"));
}
