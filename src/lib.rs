//! The inventory service.
