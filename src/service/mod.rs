//! The use cases: reads and changes of the inventory, with their rights and rules.
//!
//! A use case takes the caller and typed input, uses the store, and returns stored documents. `http` turns them into
//! answers. [`resource`] has the parts that all resources share.
//!
//! | room | what is in it |
//! |---|---|
//! | [`accounts`] | users, groups, rights, tokens, settings of users, sign-in |
//! | [`types`] | types, categories, and the types in memory |
//! | [`objects`] | objects, their references, the rendered view, edits of many |
//! | [`queries`] | parameters of lists, and hints about filters |
//! | [`claims`] | values that are unique |
//! | [`search`] | objects by their words |
//! | [`history`] | entries, earlier moments, events of changes |
//! | [`exchange`] | import and export |
//! | [`webhooks`] | changes that the service sends to other programs |
//! | [`upkeep`] | migrations, leases, the deep check |

pub mod accounts;
pub mod claims;
mod error;
mod error_code;
pub mod exchange;
pub mod history;
pub mod objects;
pub mod once;
pub mod precondition;
pub mod queries;
pub mod quota;
pub mod regional;
pub mod remembered;
pub mod resource;
pub mod search;
mod services;
pub mod types;
pub mod upkeep;
pub mod webhooks;

pub use self::accounts::directory::Caller;
pub use self::error::{ChangedSince, Conflict, ServiceError};
pub use self::error_code::ErrorCode;
pub use self::queries::list_query::{ListQuery, Stages, Through};
pub use self::services::Services;
