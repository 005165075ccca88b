//! The tests, in one binary.

#[macro_use]
mod contract;

mod api;
mod crash;
mod embedded;
mod filters;
mod mongo;
mod projections;
mod render;
mod support;
