//! What can keep data from being moved, each with the place and the remedy.

use std::io;
use std::path::{Path, PathBuf};

use crate::store::StoreError;

/// Why data was not moved.
#[derive(Debug, thiserror::Error)]
pub enum MovingError {
    /// A file or directory cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// There is something at the place that was named.
    #[error("{} is there already; say --force to put the new one in its place", .0.display())]
    Exists(PathBuf),
    /// There is something else than a package.
    #[error("{} is no package of this service: {reason}", path.display())]
    NoPackage {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file is not what the manifest says.
    #[error("{} is not what the manifest says: {reason}; nothing was imported", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What differs.
        reason: String,
    },
    /// Lines of the package cannot be accepted; each of them was reported.
    #[error("{lines} lines cannot be imported, see above; nothing was changed")]
    Refused {
        /// How many.
        lines: u64,
    },
    /// Writing failed on the way.
    #[error("importing {file} stopped: {}; what was written stays, the same command goes on from there", .source.in_full())]
    Stopped {
        /// The file of the package.
        file: &'static str,
        /// Why.
        source: StoreError,
    },
    /// The store failed before anything was changed.
    #[error("the store failed: {}", .0.in_full())]
    Store(#[from] StoreError),
}

impl MovingError {
    /// For `map_err` on work with a file.
    pub(super) fn at(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}
