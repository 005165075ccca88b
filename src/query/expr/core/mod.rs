//! The core of expressions: the tree, its parser, its evaluation, and what is computed ahead.
//!
//! The files of this folder refer to each other.
//!
//! This recursion is real: an operator is parsed and evaluated by its operands, which are expressions again. The families of
//! operators need the core, so the core is given their table, and names none of them.

pub(super) mod call;
pub(super) mod evaluate;
pub(super) mod fold;
pub(super) mod parse;
pub(super) mod regex;
pub(super) mod variables;
