//! All integration tests, in one binary.

#[macro_use]
mod contract;

mod corpus;
mod crash;
mod embedded;
