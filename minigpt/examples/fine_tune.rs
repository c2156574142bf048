//! Trains a model, then trains it further on something else, and watches: `cargo run --release -p minigpt --example fine_tune`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use minigpt::model::Device;
use minigpt::train::{Event, Observer};
use minigpt::{ModelFolder, Place, Run, RunConfig};
use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// The same settings for both runs. The second takes its shape and its vocabulary from the model that it begins with.
const SETTINGS: &str = r#"
    [data]
    path = "set below"

    [model]
    n_layer = 2
    n_head = 2
    n_embd = 32
    block_size = 32
    dropout = 0.0

    [train]
    max_iters = 40
    batch_size = 8
    optimizer = "muon"
    learning_rate = 5e-3
    log_interval = 20
"#;

/// From a text about cats to a model about dogs.
pub fn main() -> Result<(), Box<dyn Error>> {
    let place = tempfile::tempdir()?;
    let (cats, dogs) = (place.path().join("cats"), place.path().join("dogs"));
    run("The cat sat on the mat and did not move. ", &cats, None)?;
    // A whole run will do as a model: its best one is taken. So would "hf:openai-community/gpt2".
    run("The dog did not sit on the mat. ", &dogs, Some(&cats))?;

    for out in [&cats, &dogs] {
        println!("The{}", ModelFolder::open(out)?.generate("The")?.split('.').next().unwrap_or_default());
    }
    Ok(())
}

/// Trains in the folder `out` on a text, from new weights or from those of another model.
fn run(text: &str, out: &Path, from: Option<&Path>) -> Result<(), Box<dyn Error>> {
    let data = out.with_extension("txt");
    fs::write(&data, text.repeat(60))?;
    let changes = [format!("data.path={}", data.display())];
    let config = RunConfig::parse(SETTINGS, &changes)?;
    let mut run = Run::start(config, Place { out, from, input: None }, &Device::Cpu)?;
    // Whoever sets the flag, for example on Ctrl-C, stops the run; it can be resumed.
    let stop = AtomicBool::new(false);
    run.trainer.run(&mut Watch, &stop)?;
    Ok(())
}

/// The library never prints: it tells an observer what happens.
struct Watch;

impl Observer for Watch {
    fn event(&mut self, event: Event) {
        if let Event::Step { record, logged: true, .. } = event {
            println!("step {}: loss {:.3}", record.step, record.loss);
        }
    }
}
