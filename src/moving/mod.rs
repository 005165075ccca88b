//! Moving and keeping data: the package that `export` writes and `import` reads.
//!
//! A package is a directory: a file of canonical Extended JSON for each kind of thing, a document a line, and a
//! manifest with their lengths and checksums. Documents are in it as they are stored, so that an import restores them
//! exactly. Credentials are never in it. A migration copies everything from one store into another one. A backup is a
//! copy of the file of an embedded store.

pub mod control;
mod error;
pub mod export;
mod ids;
pub mod import;
pub mod migrate;
pub mod package;

pub use self::error::MovingError;
