//! The names of the files in the directory of a store.

/// The file in the directory of a store.
pub const FILE: &str = "inventory.redb";
/// A new file that will replace [`FILE`].
pub(crate) const NEW_FILE: &str = "inventory.redb.new";
/// Older versions created it when a sync of [`FILE`] had failed. Each opening now repairs that case.
pub(crate) const UNSYNCED: &str = "inventory.redb.unsynced";
/// See [`acknowledged`](crate::store::embedded::file::acknowledged).
pub(crate) const ACKNOWLEDGED: &str = "inventory.redb.acknowledged";
