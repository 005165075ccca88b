//! What must hold whatever bytes come: the fuzz targets and `tests/it/fuzz_seeds.rs` run the same functions.
//!
//! Each takes any bytes and panics when a law does not hold.

pub mod filter;
pub mod json;
pub mod keys;
mod values;
