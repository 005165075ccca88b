//! History: an entry for each change of an object, a type or a category, written in the unit of the change.
//!
//! [`recorder`] is between the use cases and the store, so no change can forget its entry. [`author`] says who makes
//! the changes of a request. [`crate::history`] says what an entry is.
//!
//! Below the use cases are [`recorder`], [`feed`], [`as_of`] and what they need. Above them are [`entries`], [`moments`],
//! [`diff`], [`revert`], [`undo`], [`changes`] and [`events`], which know callers, rights and rules. [`plain`] says which values
//! they may show.

pub mod as_of;
pub mod author;
pub mod changes;
mod channels;
mod clocks;
pub mod diff;
pub mod entries;
pub mod events;
pub mod feed;
pub mod forget;
pub mod former;
mod heads;
pub mod kept;
pub mod logged;
pub mod moments;
pub mod outside;
pub mod past;
mod plain;
pub mod prune;
pub mod recorder;
mod rehearsal;
mod resources;
pub mod revert;
pub mod undo;
pub mod verify;
