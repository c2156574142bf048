//! Matrices in 2 to 16 bits, and matrices of f32 that stay in their file.
//!
//! `quantized_matrix` is the entry: a matrix in any of llama.cpp's formats, dequantised or multiplied as integers. The latter is
//! `driver` (rows and threads) over `block_panels` (the weight, sixteen rows side by side), `activations` (the other factor in
//! 8 bits) and `micro` (the innermost loops); `block_format` describes each format as data.

mod activations;
mod block_format;
mod block_panels;
mod driver;
pub mod element_type;
pub mod mapped_matrix;
pub mod micro;
pub mod quantized_matrix;
