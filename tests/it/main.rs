//! The tests, in one binary.

mod api;
mod contract;
mod mongo;
mod support;
