//! What happens around requests: migrations of stored documents at the start, leases, and the deep check.

pub mod lease;
pub mod migrations;
pub mod stored;
