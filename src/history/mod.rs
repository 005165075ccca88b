//! What is kept of a change: entries, the patches in them, and the chain that links them. Pure: no store, no clock.
//!
//! Knows BSON alone. `service::history` writes and reads entries.

pub mod entry;
pub mod patch;
