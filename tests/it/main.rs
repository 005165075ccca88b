//! The tests, in one binary.

mod mongo;
mod support;
