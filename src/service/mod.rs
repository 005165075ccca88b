//! The use cases: reads and changes of the inventory, with their rights and rules.
//!
//! A use case takes the caller and typed input, uses the store, and returns stored documents. `http` turns them into
//! answers. [`resource`] has the parts that all resources share.

pub mod accounts;
pub mod advice;
pub mod aggregate;
pub mod api_tokens;
pub mod bulk;
pub mod categories;
pub mod companions;
pub mod credentials;
pub mod dangling;
mod delegation;
pub mod directory;
mod error;
mod error_code;
pub mod export;
pub mod field_names;
pub mod first_start;
pub mod groups;
pub mod history;
pub mod identities;
pub mod import;
pub mod keys;
pub mod kinds;
mod late_types;
pub mod lease;
mod list_query;
pub mod migrations;
pub mod objects;
pub mod once;
pub mod precondition;
pub mod quota;
pub mod references;
pub mod regional;
pub mod rendering;
pub mod resource;
mod revocation;
pub mod rights;
mod services;
pub mod sign_on;
pub mod stored;
mod targets;
pub mod token_lookup;
pub mod tools;
pub mod type_catalog;
pub mod type_warnings;
pub mod types;
pub mod user_settings;
pub mod users;
mod views;
pub mod visible;
pub mod webhooks;

pub use self::directory::Caller;
pub use self::error::ServiceError;
pub use self::error_code::ErrorCode;
pub use self::list_query::{ListQuery, Stages};
pub use self::services::Services;
