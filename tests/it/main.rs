//! The tests, in one binary.

mod api;
mod support;
