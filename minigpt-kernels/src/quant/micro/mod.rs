//! The micro-kernels of products with 8-bit activations.

pub mod scales;
pub mod tile;
