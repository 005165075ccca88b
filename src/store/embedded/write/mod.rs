//! Applies units to the tables, and writes their record to the log. Imports `read`, because filters choose the
//! documents to change.

pub(super) mod batch;
pub(super) mod copy;
pub(super) mod journal;
pub(super) mod prepare;
pub(super) mod record;
pub(super) mod replay;
pub(super) mod room;
pub(super) mod validate;
