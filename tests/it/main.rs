//! The tests, in one binary.

#[macro_use]
mod contract;

mod accounts;
mod api;
mod corpus;
mod crash;
mod demo;
mod embedded;
mod embedded_crash;
mod embedded_indexes;
mod filters;
mod mongo;
mod render;
mod support;
mod user_command;
