//! The tests, in one binary.

#[macro_use]
mod contract;

mod api;
mod demo;
mod embedded;
mod mongo;
mod render;
mod support;
