//! Looks at what a model computes on its way, and changes it: `cargo run --release -p minigpt --example look_inside`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use minigpt::generate::candidates;
use minigpt::model::{BlockSite, Config, Device, Gpt, Pass, Recording, Site};
use std::error::Error;

/// What enters and leaves every block, what its heads looked at, and what the model expects next.
pub fn main() -> Result<(), Box<dyn Error>> {
    // A model that has learned nothing; `ModelFolder::open("runs/demo")?.gpt` is one that has.
    let shape =
        Config { n_layer: 3, n_head: 2, n_embd: 16, block_size: 8, vocab_size: 20, ..Config::default() };
    let gpt = Gpt::new(shape, 1, &Device::Cpu)?;
    let ids = gpt.ids(&[[3, 1, 4, 1, 5]])?; // (B, T)

    // Every step of a forward pass has a name. A recording keeps those that are asked for.
    let residual = |layer| Site::Block(layer, BlockSite::ResidPost);
    let patterns = Site::Block(2, BlockSite::Pattern);
    let mut seen = Recording::of([Site::Embed, residual(0), residual(1), residual(2), patterns]);
    let logits = gpt.forward(&ids, &Pass::new().with_hook(&mut seen))?; // (B, T, V)

    // The residual stream grows from block to block: each adds what it found.
    for site in [Site::Embed, residual(0), residual(1), residual(2)] {
        let tensor = seen.get(site).ok_or("it was asked for")?; // (B, T, C)
        let length = tensor.sqr()?.mean_all()?.sqrt()?.to_scalar::<f32>()?;
        println!("{site}: {:?}, root mean square {length:.3}", tensor.dims());
    }

    // What the first head of the last block looked at: a row a token.
    let pattern = seen.get(patterns).ok_or("it was asked for")?; // (B, H, T, T)
    for row in pattern.get(0)?.get(0)?.to_vec2::<f32>()? {
        println!("{row:.2?}");
    }

    // What the model expects behind the last token.
    let last: Vec<f32> = logits.get(0)?.get(4)?.to_vec1()?;
    for candidate in candidates(&last, 3) {
        println!("token {}: {:.1} %", candidate.id, 100.0 * candidate.probability);
    }
    Ok(())
}
