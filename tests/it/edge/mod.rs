//! Between the network and the routes, tested over real sockets. None of it asks which store there is.

mod compression;
mod cors;
mod headers;
mod limits;
mod panics;
mod rate_limit;
mod slow;
pub(crate) mod tls;
