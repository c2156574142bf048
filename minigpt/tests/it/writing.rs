//! Opening a model and letting it write.

use minigpt::formats::hugging_face;
use minigpt::generate::{GenerationConfig, IgnoredSetting};
use minigpt::model::{Config, Device, Gpt};
use minigpt::tokenizer::{CharTokenizer, Tokenizer};
use minigpt::{ModelFolder, ModelPlace};
use std::path::Path;

/// Writes a model of a few characters, which knows questions if there are special tokens.
fn model(folder: &Path, special: &[&str]) {
    let tokenizer = Tokenizer::Char(CharTokenizer::from_text(special, "abcdef你好 ".chars()).unwrap());
    let shape = Config {
        n_layer: 1,
        n_head: 1,
        n_embd: 8,
        block_size: 12,
        vocab_size: tokenizer.vocab_size(),
        initializer_range: 0.5,
        ..Config::default()
    };
    hugging_face::save(&Gpt::new(shape, 1, &Device::Cpu).unwrap(), folder).unwrap();
    tokenizer.save(folder).unwrap();
}

#[test]
fn a_text_is_the_same_in_one_piece_and_in_many() {
    let folder = tempfile::tempdir().unwrap();
    model(folder.path(), &[]);
    let model = ModelFolder::open(folder.path()).unwrap();
    let text = model.generate("abc").unwrap();
    assert_eq!(text.chars().count(), 256);
    let pieces: Vec<String> = model.stream("abc").unwrap().map(Result::unwrap).collect();
    assert_eq!((pieces.concat(), pieces.len()), (text, 256));
    let short = GenerationConfig { max_new_tokens: 3, ..GenerationConfig::default() };
    assert_eq!(model.generate_with("abc", &short).unwrap().text.chars().count(), 3);
    // Whoever has seen enough leaves.
    assert_eq!(model.stream("你").unwrap().take(2).count(), 2);
}

#[test]
fn a_question_is_asked_in_the_models_format_and_its_answer_ends() {
    let folder = tempfile::tempdir().unwrap();
    model(folder.path(), &["<pad>", "<unk>", "<sep>"]);
    let model = ModelFolder::open(folder.path()).unwrap();
    assert_eq!(model.prompt("ab").unwrap(), model.encode("ab<sep>").unwrap());
    assert_eq!(model.stop_ids(), [2]);
    let config = GenerationConfig { max_new_tokens: 40, ..GenerationConfig::default() };
    assert_eq!(model.generate_with("ab", &config).unwrap(), model.generate_with("ab<sep>", &config).unwrap());
}

#[test]
fn settings_that_change_nothing_are_named_beside_the_text() {
    let folder = tempfile::tempdir().unwrap();
    model(folder.path(), &[]);
    let model = ModelFolder::open(folder.path()).unwrap();
    let few = GenerationConfig { max_new_tokens: 2, ..GenerationConfig::default() };
    let cold = GenerationConfig { temperature: 0.7, ..few.clone() };
    let said = ["temperature is 0.7, but do_sample is false: the likeliest token is always chosen"];
    let text = |warnings: &[IgnoredSetting]| warnings.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(text(&model.generate_with("abc", &cold).unwrap().warnings), said);
    assert_eq!(text(model.stream_with("abc", &cold).unwrap().warnings()), said);
    assert!(model.generate_with("abc", &few).unwrap().warnings.is_empty());
    let drawn = GenerationConfig { do_sample: true, ..cold };
    assert!(model.stream_with("abc", &drawn).unwrap().warnings().is_empty());
}

#[test]
fn a_run_is_a_model() {
    let run = tempfile::tempdir().unwrap();
    model(&run.path().join("last"), &[]);
    assert_eq!(ModelFolder::open(run.path()).unwrap().path, run.path().join("last"));
    model(&run.path().join("best"), &[]);
    let opened = ModelFolder::open(run.path()).unwrap();
    assert_eq!(opened.path, run.path().join("best"));
    assert_eq!(ModelPlace::find(run.path()).unwrap().part.as_deref(), Some("best"));
    let error = ModelFolder::open(run.path().join("worst")).unwrap_err().to_string();
    assert!(error.contains("models in the same folder: best, last"), "{error}");
}
