//! Why a file is no log that can be opened.

use std::io;

/// Why a file could not be read as a log.
#[derive(Debug)]
pub(crate) enum Unopened {
    /// Another process has it open.
    InUse,
    /// Nothing can keep others from opening it.
    NoLocks,
    /// A newer version wrote it.
    Newer(u32),
    Damaged(String),
    Io(io::Error),
}
