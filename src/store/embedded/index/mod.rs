//! Keys of documents, and the tables that hold them: encoding, entries, numbers of entries, ranges. Imports `catalog`.

pub(super) mod bounds;
pub(super) mod counts;
pub(super) mod entries;
pub(super) mod gathered;
pub mod key;
pub(super) mod keys;
pub(super) mod number;
pub(super) mod packed;
pub(super) mod range_counts;
pub(super) mod ranges;
pub(super) mod row_cache;
pub(super) mod table;
pub(super) mod tables;
