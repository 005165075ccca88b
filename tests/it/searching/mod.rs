//! `GET /search/`: what it finds and shows, compared with a naive search of all values, and how it stays in step.

mod examples;
mod indexed;
mod killed;
mod naive;
mod step;
pub(crate) mod support;
