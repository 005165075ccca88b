//! The listener for MongoDB tools: what a tool sees, by MongoDB's own driver and byte by byte.

mod bounds;
mod commands;
mod hostile;
mod people;
mod pymongo;
mod questions;
mod reading;
mod support;
mod tables;
mod tls;
