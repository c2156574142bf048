//! The library as a program uses it, and its examples.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../examples/attention.rs"]
mod attention;
#[path = "../../examples/fine_tune.rs"]
mod fine_tune;
#[path = "../../examples/look_inside.rs"]
mod look_inside;
#[path = "../../examples/stream_tokens.rs"]
mod stream_tokens;
#[path = "../../examples/structured_output.rs"]
mod structured_output;
#[path = "../../examples/train_in_memory.rs"]
mod train_in_memory;
#[path = "../../examples/train_on_text.rs"]
mod train_on_text;

mod training;
mod writing;

#[test]
fn every_example_runs() {
    attention::main().unwrap();
    fine_tune::main().unwrap();
    look_inside::main().unwrap();
    stream_tokens::main().unwrap();
    structured_output::main().unwrap();
    train_on_text::main().unwrap();
    train_in_memory::main().unwrap();
}

/// It had GPT-2's 12 layers and width 768.
#[test]
fn a_file_that_names_its_data_alone_trains_a_small_model() {
    let folder = tempfile::tempdir().unwrap();
    let [text, file, out] = ["book.txt", "run.toml", "run"].map(|name| folder.path().join(name));
    std::fs::write(&text, "the cat sat on the mat. ".repeat(100)).unwrap();
    std::fs::write(&file, format!("[data]\npath = {text:?}\n[train]\nmax_iters = 1\n")).unwrap();
    let report = minigpt::train(&file, &out).unwrap();
    let model = minigpt::formats::load_config(&report.model).unwrap();
    assert!(model.n_embd <= 128, "{model:?}");
}

/// An example that nobody runs rots.
#[test]
fn every_example_is_among_them() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let main = include_str!("main.rs");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.strip_suffix(".rs").unwrap();
        assert!(main.contains(&format!("    {module}::main()")), "{name} is not run");
    }
}
