//! The tests, in one binary.

#[macro_use]
mod contract;

mod accounts;
mod api;
mod crash;
mod embedded;
mod mongo;
mod render;
mod support;
mod user_command;
