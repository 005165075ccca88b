//! The use cases: what the service does, whoever asks and wherever the documents live.

pub mod accounts;
pub mod credentials;
pub mod directory;
pub mod first_start;
pub mod keys;
