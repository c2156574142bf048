//! Attention by itself, without a model: `cargo run --release -p minigpt --example attention`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use minigpt::model::attention::{Attend, MultiHeadAttention};
use minigpt::model::{Device, Tensor};
use std::error::Error;

/// One sentence looks at itself; then a question looks at a text.
pub fn main() -> Result<(), Box<dyn Error>> {
    // Vectors of 16 numbers, seen by 2 heads of 8 each. The weights are random: they are what training would find.
    let attention = MultiHeadAttention::new(16, 2, true)?;

    // Self-attention: one row (B = 1) of 4 tokens looks at itself, each token at those before it only.
    let text = Tensor::rand(-1f32, 1.0, (1, 4, 16), &Device::Cpu)?; // (B, T, C)
    let causal = Attend { causal: true, weights: true, ..Attend::default() };
    let (output, weights) = attention.forward(&text, &text, &text, &causal)?;
    println!("output {:?}", output.dims()); // (B, T, C) again

    // Who looked at whom: (B, H, T, T). Every row adds up to 1, and the future has none of it.
    let first_head: Vec<Vec<f32>> = weights.ok_or("weights were asked for")?.get(0)?.get(0)?.to_vec2()?;
    for (token, row) in first_head.iter().enumerate() {
        println!("token {token} looks at {row:.2?}");
        let (past, future) = row.split_at(token + 1);
        assert!((past.iter().sum::<f32>() - 1.0).abs() < 1e-5 && future.iter().all(|&weight| weight == 0.0));
    }

    // Cross-attention: 2 tokens of a question look at the 4 of the text, of which the last is padding.
    let question = Tensor::rand(-1f32, 1.0, (1, 2, 16), &Device::Cpu)?;
    let is_text = Tensor::new(&[[1u8, 1, 1, 0]], &Device::Cpu)?; // (B, Tk)
    let cross = Attend { key_padding: Some(&is_text), ..Attend::default() };
    let (answer, _) = attention.forward(&question, &text, &text, &cross)?;
    println!("answer {:?}", answer.dims());
    Ok(())
}
