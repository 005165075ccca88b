//! The tests, in one binary.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::disallowed_types, reason = "tests play the part of other tools")]

#[macro_use]
mod contract;

mod accounts;
mod api;
mod check_command;
mod compat;
mod container;
mod corpus;
mod crash;
mod demo;
mod description;
mod differential;
mod edge;
mod embedded;
mod embedded_indexes;
mod filters;
mod filters_page;
#[expect(unreachable_pub, reason = "the package of the fuzz targets uses the same files")]
#[path = "../../fuzz/laws/mod.rs"]
mod fuzz_laws;
mod fuzz_seeds;
mod group_crash;
mod hidden;
mod history;
mod hostile;
mod import_crash;
mod logs;
mod metrics;
mod mongo;
mod moving;
mod page;
mod programs;
mod projections;
mod render;
mod searching;
mod settings;
mod sign_on;
mod store_commands;
mod support;
mod tidy;
mod user_command;
mod webhooks;
mod wire;
