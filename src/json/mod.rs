//! JSON: Extended JSON in, JSON out, and the walk over raw BSON that the way out is made of.

pub mod raw;
pub mod read;
pub mod write;
