//! Sorted byte strings in little room.
//!
//! Keys of an index that are neighbours mostly begin alike. So some dozens or hundreds of them make a *block*: its first
//! string as it is, and of each other one what the one before it does not have. The blocks are rows of a [`table`].

mod block;
pub(crate) mod table;

pub(crate) use self::block::HeldString;
