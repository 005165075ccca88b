//! Sorted byte strings in little room.
//!
//! Neighbouring keys of an index mostly begin alike. So some dozens or hundreds of them make a *block*. It has its
//! first string whole, and each other one without the prefix that it shares with the one before. The blocks are rows of
//! a [`table`].

mod block;
pub(crate) mod table;

pub(crate) use self::block::HeldString;
