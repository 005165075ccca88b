//! What an operator does with a store: check, repair, compact, backup. Knows `open`.

pub(super) mod backup;
pub(super) mod check;
pub(super) mod repair;
pub(super) mod space;
