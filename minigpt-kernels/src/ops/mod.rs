//! Operations with a forward and a backward pass, one per file. Each file starts with the definition, composed from plain candle
//! operations, then has the fused forward and backward for the CPU, and tests against the definition.

pub mod activation;
pub mod cross_entropy;
pub mod dropout;
pub mod embedding;
pub mod layer_norm;
pub mod linear;
pub mod linear_cross_entropy;
pub mod rope;
