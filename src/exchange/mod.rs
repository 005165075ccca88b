//! File formats of export and import: tables (CSV, xlsx), lines of JSON, hosts for other tools, and graphs.
//!
//! Laws: nothing here knows stores or requests. A written cell reads back as the same value, and no cell is a formula
//! in any spreadsheet.

mod book;
pub mod cell;
pub mod columns;
pub mod csv;
pub mod discovery;
pub mod encoding;
pub mod graph;
pub mod locale;
pub mod ndjson;
pub mod proposal;
pub mod report;
pub mod sheet;
pub mod xlsx;

/// Why objects cannot be written in a format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// A stored object is damaged.
    #[error("a stored object: {0}")]
    Corrupt(#[from] crate::raw::CorruptBson),
    /// The encoding lacks a character.
    #[error("{encoding} has no character {character:?}; export as utf-8")]
    Encoding {
        /// The name of the encoding.
        encoding: &'static str,
        /// The first character that it lacks.
        character: char,
    },
    /// The objects exceed a limit of the format.
    #[error("{0}")]
    TooLarge(String),
    /// The file on its way to the client could not be written.
    #[error("the temporary file of an export: {0}")]
    Io(String),
}
