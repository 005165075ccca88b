//! JSON: Extended JSON in, JSON out.

pub mod merge;
pub mod read;
pub mod shell;
mod spelling;
pub mod write;
