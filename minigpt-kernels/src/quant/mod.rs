//! Matrices in 2 to 16 bits, and matrices of f32 that stay in their file.

mod activations;
pub mod block_format;
mod block_panels;
pub mod driver;
pub mod element_type;
pub mod mapped_matrix;
mod micro;
pub mod quantized_matrix;
