//! The use cases: what can be asked of the inventory, for whom, and what must hold when it changes.
//!
//! A use case takes the caller and typed input, asks the store, and gives stored documents back; `http` knows
//! how they look on the wire. What is the same for every resource stands once, in [`resource`].

pub mod accounts;
pub mod api_tokens;
pub mod bulk;
pub mod categories;
pub mod companions;
pub mod credentials;
pub mod directory;
mod error;
pub mod export;
pub mod first_start;
pub mod groups;
pub mod import;
pub mod keys;
pub mod lease;
pub mod migrations;
pub mod objects;
pub mod once;
pub mod precondition;
mod promotion;
pub mod quota;
mod reach;
pub mod references;
pub mod rendering;
pub mod resource;
pub mod rights;
pub mod shown;
mod targets;
pub mod type_catalog;
pub mod types;
pub mod user_settings;
pub mod users;

use std::sync::Arc;
use std::time::Duration;

use bson::DateTime;

use crate::admission::Admission;
use crate::clock::Clock;
use crate::store::Store;

pub use self::directory::Caller;
pub use self::error::ServiceError;

/// Everything that a use case may need; one for the whole process.
pub struct Services {
    /// Where the documents are.
    pub store: Arc<dyn Store>,
    /// The compiled types.
    pub types: type_catalog::TypeCatalog,
    /// Which objects are needed together.
    pub companions: companions::Companions,
    /// Users and groups, as far as requests need them.
    pub directory: Arc<directory::Directory>,
    /// Signing in.
    pub accounts: accounts::Accounts,
    /// What requests may take together.
    pub admission: Arc<Admission>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// The time budget of one query.
    pub max_time: Duration,
}

impl Services {
    /// The present moment as it is stored: whole milliseconds.
    pub fn now(&self) -> DateTime {
        DateTime::from_chrono(self.clock.now())
    }
}
