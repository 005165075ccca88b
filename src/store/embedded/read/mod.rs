//! Runs a plan on a snapshot: reads one document, a list page, a total, or everything. Imports `plan`.

pub(super) mod chunks;
pub(super) mod dump;
pub(super) mod execute;
pub(super) mod explain;
pub(super) mod find;
pub(super) mod merge;
pub(super) mod point;
pub(super) mod row_set;
pub(super) mod sets;
pub(super) mod skip;
pub(super) mod snapshot;
