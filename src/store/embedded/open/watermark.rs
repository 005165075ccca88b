//! The watermark of a store: recovery compares it with what it has found, and the writer moves it on. See
//! [`acknowledged`] for the file.

use crate::store::embedded::catalog::collections::Catalog;
use crate::store::embedded::file::acknowledged::{self, Acknowledged};
use crate::store::embedded::open::files::{Access, StoreFiles};
use crate::store::embedded::open::refusal::OpenError;

/// An acknowledged commit was on disk. If the last commit that was found is older, something has taken it away since.
///
/// # Errors
/// [`OpenError::Damaged`] then.
pub(super) fn check(files: &StoreFiles, last: u64) -> Result<(), OpenError> {
    let watermark = files.paths().acknowledged();
    let acknowledged = acknowledged::read(files.storage(), watermark);
    if acknowledged <= last {
        return Ok(());
    }
    Err(files.paths().damaged(&format!(
        "write {acknowledged} was acknowledged, and the last one that it holds is {last}: it is an older copy or \
         backup, or its end is not whole any more (to go on without the writes between, remove {})",
        watermark.display()
    )))
}

/// Opens the watermark, and moves it to the commit of the catalog.
pub(crate) fn open(files: &StoreFiles, catalog: &Catalog) -> Acknowledged {
    if files.access() == Access::Overlay {
        return Acknowledged::nowhere();
    }
    let mut watermark = Acknowledged::open(files.storage(), files.paths().acknowledged());
    // It may be out of date, or new.
    watermark.note(catalog.commit);
    watermark
}
