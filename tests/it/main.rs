//! The tests, in one binary.

#[macro_use]
mod contract;

mod api;
mod embedded;
mod mongo;
mod render;
mod support;
