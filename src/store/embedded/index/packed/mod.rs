//! Sorted byte strings, compressed by shared prefixes.
//!
//! Neighbouring keys of an index mostly have the same beginning. So dozens or hundreds of them form a *block*. The block
//! stores its first string completely. It stores each other string without the prefix that it shares with the string
//! before. The blocks are rows of a [`table`].

mod block;
pub(crate) mod table;

pub(crate) use self::block::HeldString;
