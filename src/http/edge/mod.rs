//! The layer between the network and the routes: connections, TLS, limits, compression, CORS, headers of every answer.

pub mod coding;
pub mod compress;
pub mod cors;
pub mod forwarded;
pub mod gate;
mod guard;
pub mod headers;
pub mod panics;
pub mod rate_limit;
mod refusal;
pub mod server;
pub mod tls;
mod validity;
