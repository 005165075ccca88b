//! The planner: conditions, bounds, candidates, the choice. It is pure: it reads no file. Imports `index`.

pub(super) mod access_path;
pub(super) mod candidate;
pub(super) mod conditions;
pub(super) mod intervals;
pub(super) mod key_sets;
pub(super) mod planner;
pub(super) mod point;
