//! The names and the paths of a store's files. Touches no disk.

use std::path::{Path, PathBuf};

/// The paths of the files in the directory of a store.
#[derive(Debug, Clone)]
pub(crate) struct StorePaths {
    directory: PathBuf,
    file: PathBuf,
    acknowledged: PathBuf,
}

impl StorePaths {
    /// Those of the store in a directory.
    pub(super) fn of(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), file: directory.join(FILE), acknowledged: directory.join(ACKNOWLEDGED) }
    }

    /// The same, with the file that is to replace the store's in its place. The watermark is about the store's, so this one has none.
    pub(super) fn replacement(&self) -> Self {
        let acknowledged = self.directory.join(format!("{NEW_FILE}.acknowledged"));
        Self { directory: self.directory.clone(), file: self.new_file(), acknowledged }
    }

    /// The directory of the store.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The file of the store.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// The file that is to replace the store's.
    pub(super) fn new_file(&self) -> PathBuf {
        self.directory.join(NEW_FILE)
    }

    /// The file with the number of the last acknowledged commit.
    pub(super) fn acknowledged(&self) -> &Path {
        &self.acknowledged
    }

    /// A second name for a damaged file.
    pub(super) fn damaged_copy(&self, number: u32) -> PathBuf {
        self.directory.join(format!("{FILE}.damaged-{number}"))
    }

    /// What a killed process or an older version may have left. Nothing reads these files.
    pub(super) fn leftovers(&self) -> [PathBuf; 2] {
        [self.new_file(), self.directory.join(UNSYNCED)]
    }
}

/// The file in the directory of a store.
pub const FILE: &str = "inventory.redb";
/// A new file that will replace [`FILE`].
pub(crate) const NEW_FILE: &str = "inventory.redb.new";
/// Older versions created it when a sync of [`FILE`] had failed. Each opening now repairs that case.
pub(crate) const UNSYNCED: &str = "inventory.redb.unsynced";
/// See [`acknowledged`](crate::store::embedded::file::acknowledged).
pub(crate) const ACKNOWLEDGED: &str = "inventory.redb.acknowledged";
