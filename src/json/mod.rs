//! JSON: Extended JSON in, JSON out.

pub mod exact;
pub mod merge;
pub mod read;
pub mod shell;
mod spelling;
pub mod write;
