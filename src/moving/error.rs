//! Errors of moving data, each with the place and the remedy.

use std::io;
use std::path::{Path, PathBuf};

use crate::plural::counted;
use crate::service::ServiceError;
use crate::store::StoreError;

/// Why data was not moved.
#[derive(Debug, thiserror::Error)]
pub enum MovingError {
    /// A file or directory cannot be read or written.
    #[error("{}: {source}{}", path.display(), making_room(source))]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The target already exists.
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
    #[error("{} cannot be imported, see above; nothing was changed{}", counted(lines, "line"), accepting(*.lines, *.unclean))]
    Refused {
        /// How many.
        lines: u64,
        /// How many of them are unclean and nothing worse.
        unclean: u64,
    },
    /// A table could not be written.
    #[error("a table could not be written: {0}")]
    Table(#[source] ServiceError),
    /// The target of a migration holds something else.
    #[error(
        "the target holds other data: {0}; nothing was changed; name an empty one, or say --force to let that give way"
    )]
    NotEmpty(String),
    /// Source and target are one.
    #[error("--from and --to name the same store, in two ways; nothing was changed; name another one")]
    SameStore,
    /// The source itself is incomplete.
    #[error("the source was being filled from {0}, which did not end; repeat that migration first")]
    SourceIncomplete(String),
    /// A newer version used the source.
    #[error("the source was migrated by a newer version of this service (migration {0}); use that version")]
    Newer(i64),
    /// Another tool stored documents in the source that no store of the service takes.
    #[error(
        "two documents of {collection} in the source have the same {key}; inventory-service check names them there: change \
         or delete one of each, then repeat the command"
    )]
    Clash {
        /// The collection.
        collection: String,
        /// The unique index that refused one of them.
        key: String,
    },
    /// The target is not what the source is.
    #[error(
        "{collection} is not the same in both stores, somebody else wrote to one of them; the target stays marked as incomplete, repeat the command"
    )]
    Differs {
        /// The collection.
        collection: String,
    },
    /// Writing failed on the way.
    #[error("importing {file} stopped: {source}; what was written stays, the same command goes on from there")]
    Stopped {
        /// The file of the package.
        file: &'static str,
        /// Why.
        source: StoreError,
    },
    /// The store failed before anything was changed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The remedy for a file that does not fit.
fn making_room(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "; make room there, or name a place on another disk"
        }
        _ => "",
    }
}

/// The remedy for unclean lines.
fn accepting(lines: u64, unclean: u64) -> String {
    match unclean {
        0 => String::new(),
        all if all == lines => "; --accept-unclean takes them as they are".to_owned(),
        some => format!("; --accept-unclean takes {some} of them as they are"),
    }
}

impl MovingError {
    /// For `map_err` on work with a file.
    pub(super) fn at(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}
