//! The history over REST. [`author`] says who makes the changes of a request, and [`at`] looks at the past. [`entries`],
//! [`diff`], [`restoring`] and [`changes`] have routes.

pub(super) mod at;
pub(super) mod author;
pub(super) mod changes;
pub(super) mod diff;
pub(super) mod entries;
pub(super) mod restoring;
