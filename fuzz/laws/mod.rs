//! What must hold whatever bytes come: the fuzz targets and `tests/it/fuzz_seeds.rs` run the same functions.
//!
//! Each takes any bytes and panics when a law does not hold.

pub mod bodies;
pub mod commands;
pub mod filter;
pub mod frames;
pub mod heads;
pub mod json;
pub mod keys;
pub mod packages;
pub mod parameters;
pub mod tables;
pub mod texts;
mod values;
