//! Sorted byte strings in little room.
//!
//! Keys of an index that are neighbours mostly begin alike. So some dozens or hundreds of them make a *block*: its first
//! string as it is, and of each other one what the one before it does not have. In memory the blocks are a [`PackedSet`], in
//! the file they are rows of a [`table`].

mod block;
mod set;
pub(super) mod table;

pub(super) use self::block::Held;
pub(super) use self::set::{InOrder, Met, PackedSet};
