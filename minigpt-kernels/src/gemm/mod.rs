//! Matrix products. Start with `product.rs`, which chooses a kernel for every product.

pub mod matrix;
pub mod micro;
#[cfg(target_arch = "x86_64")]
pub mod packing;
pub mod panel_format;
pub mod panel_tile;
pub mod panels;
pub mod product;
pub mod small_batch;
#[cfg(target_arch = "x86_64")]
pub mod tile_kernel;
#[cfg(target_arch = "x86_64")]
pub mod tiles;
