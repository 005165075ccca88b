//! JSON: Extended JSON in, JSON out.

pub mod merge;
pub mod read;
mod spelling;
pub mod write;
