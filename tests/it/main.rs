//! All integration tests, in one binary.

#[macro_use]
mod contract;

mod crash;
mod embedded;
