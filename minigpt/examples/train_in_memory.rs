//! Trains a model on questions and answers in memory and asks it: `cargo run --release -p minigpt --example train_in_memory`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use minigpt::Training;
use std::error::Error;

const FACTS: [(&str, &str); 3] = [
    ("Where is the spare key?", "Under the blue pot."),
    ("Who has the ladder?", "Our neighbour."),
    ("When is the bin emptied?", "On Tuesday."),
];

/// From pairs to a model that answers them.
pub fn main() -> Result<(), Box<dyn Error>> {
    // So few questions are learned by heart: none is held out, and the best model is the one that answers most of them.
    let trained = Training::on_questions(FACTS).steps(150).train()?;
    if let Some(answers) = trained.report.best.and_then(|best| best.answers) {
        println!("answers {} of {} questions", answers.right, answers.asked);
    }
    for (question, _) in FACTS {
        println!("{question} {}", trained.model.generate(question)?);
    }
    Ok(())
}
