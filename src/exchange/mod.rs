//! The forms in which objects leave and come: tables (CSV, xlsx) and lines of JSON.
//!
//! Laws: nothing here knows of stores or requests. What a cell is written as reads back as the same value, and no cell
//! is a formula to whatever opens the table.

pub mod cell;
pub mod columns;
pub mod csv;
pub mod encoding;
pub mod ndjson;
pub mod sheet;
pub mod xlsx;

/// What keeps objects from being written in a form.
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
    /// The form has a limit that the objects go beyond.
    #[error("{0}")]
    TooLarge(String),
    /// The file on its way to the client could not be written.
    #[error("the temporary file of an export: {0}")]
    Io(String),
}
