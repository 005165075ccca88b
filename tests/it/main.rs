//! The tests, in one binary.

#[macro_use]
mod contract;

mod api;
mod corpus;
mod crash;
mod embedded;
mod embedded_crash;
mod embedded_indexes;
mod mongo;
mod render;
mod support;
