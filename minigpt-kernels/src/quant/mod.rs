//! Matrices in 2 to 16 bits, and matrices of f32 that stay in their file.

pub mod eight_bit;
pub mod element_type;
pub mod mapped_matrix;
pub mod quantized;
