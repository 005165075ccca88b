//! The tests, in one binary.

mod api;
mod mongo;
mod support;
