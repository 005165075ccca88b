//! Extended JSON, the text form of BSON.

pub mod read;
