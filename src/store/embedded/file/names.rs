//! The names of the files in the directory of a store.

/// The file in the directory of a store.
pub const FILE: &str = "inventory.redb";
/// A file that is being written to take the place of [`FILE`].
pub(crate) const NEW_FILE: &str = "inventory.redb.new";
/// Was made by older versions when a sync of [`FILE`] had failed. What it warned of is made right at each opening.
pub(crate) const UNSYNCED: &str = "inventory.redb.unsynced";
/// See [`acknowledged`](crate::store::embedded::file::acknowledged).
pub(crate) const ACKNOWLEDGED: &str = "inventory.redb.acknowledged";
