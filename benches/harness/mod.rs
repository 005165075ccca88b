//! What the measuring programs share: timing in turns, medians, bounds, and the report of it all.

pub(crate) mod process;
pub(crate) mod report;
pub(crate) mod timing;
