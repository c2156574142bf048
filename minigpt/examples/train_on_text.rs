//! Trains a small model on a text and lets it write: `cargo run --release -p minigpt --example train_on_text`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use minigpt::ModelFolder;
use std::error::Error;
use std::fs;

/// From a text to a model that writes like it.
pub fn main() -> Result<(), Box<dyn Error>> {
    // A text to learn from. Take a file of your own instead, and a folder such as "runs/book" to keep the run in.
    let place = tempfile::tempdir()?;
    let text = place.path().join("book.txt");
    fs::write(&text, "The cat sat on the mat. The dog sat on the log. ".repeat(100))?;

    // What is trained, and how. Everything that is not said has a default; `minigpt train` reads the same files.
    let config = place.path().join("book.toml");
    let settings = format!(
        r#"
        [data]
        path = {text:?}

        [model]
        n_layer = 2      # blocks, one after the other
        n_head = 2       # attention heads in each
        n_embd = 32      # how many numbers stand for a token
        block_size = 32  # how many tokens it sees at once
        dropout = 0.0    # it is too small to learn too well

        [train]
        max_iters = 60
        batch_size = 8
        optimizer = "muon"
        learning_rate = 5e-3
        "#
    );
    fs::write(&config, settings)?;

    let report = minigpt::train(&config, place.path().join("run"))?;
    let loss = report.last.as_ref().map_or(f64::NAN, |step| step.loss);
    println!("{} steps in {:.1} s, loss {loss:.2}", report.step, report.seconds);

    // The model is a folder: weights, vocabulary and settings.
    let model = ModelFolder::open(&report.model)?;
    println!("The cat{}", model.generate("The cat")?);
    Ok(())
}
