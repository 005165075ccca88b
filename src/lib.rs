//! The inventory service: types of things, the things themselves, and categories of types, over REST.
//!
//! The life of a request:
//!
//! 1. `http::outermost` gives it an id and turns singular paths into plural ones; actix finds the route.
//! 2. `http::caller` recognises the caller by the token and checks the right that the route needs.
//! 3. A handler reads parameters, path and body; every refusal of a filter happens here, in [`query`].
//! 4. A function of [`service`] does the work: it asks the [`store`] port, and joins conditions of its own
//!    (access lists, the active flag) with those of the client.
//! 5. An adapter answers: [`store::embedded`] or [`store::mongo`], alike.
//! 6. For rendered views [`render`] joins objects, types and references; it is pure.
//! 7. `http::envelope` writes the answer, stored bytes straight to JSON; `http::error` writes what went wrong.

pub mod address;
pub mod admission;
pub mod app;
pub mod auth;
pub mod cli;
pub mod clock;
pub mod demo;
pub mod domain;
pub mod exchange;
pub mod history;
pub mod http;
pub mod json;
pub mod logging;
pub mod metrics;
pub mod moving;
pub mod oidc;
pub mod outgoing;
pub mod page;
pub mod plural;
pub mod pointer;
pub mod progress;
pub mod query;
pub mod rate_limits;
pub mod raw;
pub mod render;
pub mod service;
pub mod settings;
pub mod store;
pub mod suggest;
pub mod wire;
