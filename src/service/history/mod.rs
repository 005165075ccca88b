//! History: an entry for each change of an object, a type or a category, written in the unit of the change.
//!
//! [`Recorder`] stands between the use cases and the store, so no change can forget its entry. [`author`] says who makes
//! the changes of a request. [`crate::history`] says what an entry is.

mod as_of;
pub mod author;
pub mod changes;
mod diff;
mod entries;
mod feed;
mod flights;
mod heads;
mod kept;
mod past;
mod recorder;
mod revert;
mod verify;

pub use self::as_of::{AccessLists, AsOf};
pub use self::diff::{FieldChange, ObjectDiff, diff_object};
pub use self::entries::{KNOWN, Logs, history_of, list_entries};
pub use self::feed::{Event, Feed, Kind, Position, Seat, Subscription};
pub use self::kept::{begin, moment};
pub use self::past::Moment;
pub use self::recorder::Recorder;
pub use self::revert::{Revert, restore_object, revert_category, revert_object, revert_type};
pub use self::verify::{Broken, Verified, verify};

use crate::store::StoreError;
use crate::store::collections::{CATEGORIES, OBJECTS, TYPES};

/// The collections with a history, and the names of their resources in entries.
const RESOURCES: [(&str, &str); 3] = [(OBJECTS, "objects"), (TYPES, "types"), (CATEGORIES, "categories")];

/// The name of the resource whose documents are in this collection, if they have a history.
pub(super) fn resource_of(collection: &str) -> Option<&'static str> {
    RESOURCES.iter().find(|(name, _)| *name == collection).map(|(_, resource)| *resource)
}

/// Something in the history cannot be read.
fn unreadable(error: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt { what: format!("the history: {error}") }
}
