//! redb's errors, and its panics, as the store's errors.

use std::any::Any;
use std::cell::Cell;
use std::io;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::path::Path;
use std::sync::Once;
use std::thread;

use redb::{StorageError, TableError};

use crate::query::EvalError;
use crate::store::StoreError;

thread_local! {
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// An error of reading or writing.
pub(crate) fn of_storage(error: StorageError) -> StoreError {
    match error {
        StorageError::Corrupted(what) => StoreError::Corrupt { what },
        StorageError::Io(ref error) if is_cut_off(error) => StoreError::Corrupt { what: error.to_string() },
        StorageError::Io(_) | StorageError::PreviousIo | StorageError::DatabaseClosed => unavailable(&error),
        other => StoreError::backend(other),
    }
}

/// An error of opening a table.
pub(crate) fn of_table(error: TableError) -> StoreError {
    match error {
        TableError::Storage(error) => of_storage(error),
        other => StoreError::Corrupt { what: other.to_string() },
    }
}

/// Any error of work on a whole file. An error of the operating system stays an [`std::io::Error`].
pub(crate) fn of_engine(error: redb::Error) -> StoreError {
    match error {
        redb::Error::Io(error) if is_cut_off(&error) => StoreError::Corrupt { what: error.to_string() },
        redb::Error::Io(error) => StoreError::backend(error),
        redb::Error::Corrupted(what) => StoreError::Corrupt { what },
        redb::Error::PreviousIo | redb::Error::DatabaseClosed => unavailable(&error),
        other => StoreError::Corrupt { what: other.to_string() },
    }
}

/// Whether a page refers to a page beyond the end of the file.
fn is_cut_off(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof
}

/// A query that failed on a document.
pub(crate) fn of_evaluation(error: EvalError) -> StoreError {
    error.into()
}

/// The storage cannot be used for now.
pub(crate) fn unavailable(error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Unavailable { reason: error.to_string() }
}

/// A stored document that is not BSON.
pub(crate) fn damaged(collection: &str, row: u64) -> StoreError {
    StoreError::Corrupt { what: format!("row {row} of {collection}") }
}

/// An index names a row that does not exist.
pub(crate) fn lost(collection: &str, row: u64) -> StoreError {
    StoreError::Corrupt { what: format!("an index of {collection} leads to row {row}, which is not there") }
}

/// The message about a panic. Its own words are for developers, and are in the log.
const FAILED: &str = "reading it failed, most likely on a damaged page";

/// Runs work that reads or writes pages; a panic becomes an error with a sentence for the operator.
///
/// redb does not compare checksums on each read, and asserts the content of its own pages. On a damaged file such an
/// assertion can fail. The query or write that met it then gets an error, and the service keeps running. Nothing stays half
/// done: readers only read, and the writer aborts the transaction.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, &'static str> {
    /// Whether a panic of this thread becomes an error.
    struct Caught(bool);
    impl Drop for Caught {
        fn drop(&mut self) {
            IS_CAUGHT.set(self.0);
        }
    }
    static SPEAKS_UP: Once = Once::new();
    // The hook cannot be changed in the middle of a panic.
    if !thread::panicking() {
        SPEAKS_UP.call_once(|| {
            let usual = panic::take_hook();
            panic::set_hook(Box::new(move |panic| if IS_CAUGHT.get() { log_caught(panic) } else { usual(panic) }));
        });
    }
    let _caught = Caught(IS_CAUGHT.replace(true));
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|_| FAILED)
}

/// A line of the log, instead of the backtrace of a defect.
fn log_caught(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(|place| {
        let file = Path::new(place.file()).file_name().unwrap_or_default();
        format!("{}:{}", file.display(), place.line())
    });
    let (place, words) = (place.unwrap_or_default(), words(panic.payload()));
    log::error!("the store: {FAILED}; for developers: {place}: {words}");
}

/// Like [`caught`], for work that has an error of its own.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    caught(work).unwrap_or_else(|panic| Err(StoreError::Corrupt { what: panic.to_owned() }))
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let said = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    said.unwrap_or("no reason given")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_library_is_told_in_words_for_operators() {
        let told = guarded(|| -> Result<(), StoreError> { unreachable!() }).expect_err("a panic").to_string();
        assert!(told.contains("damaged page; look at it with inventory-service check --deep"), "{told}");
        assert!(!told.contains("unreachable"), "{told}");
    }
}
