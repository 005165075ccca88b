//! The commands of an operator: check, repair, compact, backup. Imports `open`.

pub(super) mod backup;
pub(super) mod check;
pub(super) mod repair;
pub(super) mod space;
