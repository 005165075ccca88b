//! What a unit does to the tables, and the record of it in the log. Knows `read`, as filters choose what is changed.

pub(super) mod batch;
pub(super) mod copy;
pub(super) mod journal;
pub(super) mod prepare;
pub(super) mod record;
pub(super) mod replay;
pub(super) mod room;
pub(super) mod validate;
