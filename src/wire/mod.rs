//! The listener for MongoDB tools: reads of the embedded store over MongoDB's wire protocol.
//!
//! The life of a command:
//!
//! 1. [`server`] accepts the connection, within a bound on their number, and uses TLS where a certificate is configured.
//! 2. [`connection`] reads a frame within its deadlines and its memory. [`codec`] checks and unpacks it.
//! 3. [`session`] knows who signed in. The token is looked up again for each command.
//! 4. [`commands`] finds the command in one table, and reads its options. An option is honoured or refused.
//! 5. `service::tools` reads the store, with the rights and access lists of REST.
//! 6. [`cursors`] keeps the rest of a long answer for the next commands of the client.
//!
//! *Invariants:*
//! - Nothing here writes.
//! - Nothing here reads the store except through `service::tools`.

pub mod codec;
mod commands;
mod connection;
mod cursors;
mod error;
mod server;
mod session;
mod shared;
mod stream;

pub use self::server::serve;
pub use self::shared::WireParts;
