//! Numbers and pictures as people read them.

mod number;

pub use number::{bytes, count, counted, metric};
