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
#[path = "../../examples/train_on_text.rs"]
mod train_on_text;

mod writing;

#[test]
fn every_example_runs() {
    attention::main().unwrap();
    fine_tune::main().unwrap();
    look_inside::main().unwrap();
    stream_tokens::main().unwrap();
    train_on_text::main().unwrap();
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
