//! Webhooks: events of the stream of changes, sent to the URLs that users name. docs/api.md, Webhooks.
//!
//! | collection | what it holds of a webhook |
//! |---|---|
//! | `service.webhooks` | what clients see of it |
//! | `service.webhooks.cursors` | its secret, its cursor, and when it is tried again |
//! | `service.webhooks.deliveries` | its last attempts |
//!
//! There is no queue. A turn ([`turn`]) reads the next event after the cursor, sends it, and stores the next cursor with
//! a record of the attempt. Each webhook has turns of its own, so a slow receiver delays no other. Their number has a
//! bound. On MongoDB the instance with the lease takes all turns ([`worker`]).
//!
//! *Invariant:* an event is sent only if the author of the webhook may see it at that moment. The last user to change a
//! webhook is its author.

mod documents;
pub mod manage;
pub mod parts;
mod question;
mod signature;
mod turn;
pub mod worker;
