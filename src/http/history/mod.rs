//! The history over REST. [`author`] says who makes the changes of a request, [`at`] looks at the past, [`entries`] has
//! the routes of log entries.

pub(super) mod at;
pub(super) mod author;
pub(super) mod entries;
