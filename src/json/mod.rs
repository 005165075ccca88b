//! JSON: Extended JSON in, JSON out.

pub mod read;
pub mod write;
