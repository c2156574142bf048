//! Training on data in memory, and what was asked for one by one.

use minigpt::model::Device;
use minigpt::{Place, Run, RunConfig, Training};

/// A model of one block.
fn small(training: Training) -> Training {
    training.set("model.n_layer", 1).set("model.n_head", 1).set("model.n_embd", 16).set("train.batch_size", 4)
}

#[test]
fn several_texts_are_trained_on_and_the_run_is_kept_and_trained_further() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    let texts = ["the cat sat on the mat. ".repeat(40), "the dog lay on the rug. ".repeat(40)];
    let trained = small(Training::on_texts(&texts)).minutes(0.02).out(&first).train().unwrap();
    assert!(trained.report.model.starts_with(&first), "{:?}", trained.report.model);
    let written = std::fs::read_to_string(first.join("input.txt")).unwrap();
    assert_eq!(written, texts.join("\n\n"));
    // Minutes are steps, as many as fit: a configuration without them makes thousands.
    let steps = trained.report.step;
    assert!((1..100_000).contains(&steps), "{steps}");
    let further = Training::on_text(&texts[1]).from(&first).out(&second).steps(2).train().unwrap();
    assert_eq!((further.report.step, further.model.gpt.config().n_embd), (2, 16));
    assert!(Training::on_text("ab").minutes(1e308).train().is_err());
    let again = Training::on_text(&texts[0]).out(&first).steps(1).train();
    assert!(again.err().unwrap().to_string().contains("this folder already holds a run"));
}

#[test]
fn what_was_asked_for_one_by_one_is_known_to_the_configuration_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let [base, out] = ["base", "out"].map(|name| folder.path().join(name));
    let text = "the cat sat on the mat. ".repeat(40);
    small(Training::on_text(text.clone())).steps(1).out(&base).train().unwrap();
    let data = folder.path().join("more.txt");
    std::fs::write(&data, text).unwrap();
    let path = format!("data.path={}", serde_json::Value::from(data.to_str().unwrap()));
    let settings = "[model]\nn_layer = 3\nn_head = 1\n[train]\nmax_iters = 1\nbatch_size = 2\n";
    let start = |change: &[&str]| {
        let changes: Vec<String> = [&path[..]].iter().chain(change).map(|&it| it.to_owned()).collect();
        let config = RunConfig::parse(settings, &changes).unwrap();
        assert_eq!(config.asked.len(), changes.len());
        Run::start(config, Place { out: &out, from: Some(&base), input: None }, &Device::Cpu)
    };
    // A file's shape gives way to the model's; one that was asked for by name does not.
    let refused = start(&["n_layer=2"]).err().unwrap().to_string();
    assert!(refused.contains("model.n_layer is 2, but the model"), "{refused}");
    assert_eq!(start(&[]).unwrap().config.model.n_layer, 1);
}
