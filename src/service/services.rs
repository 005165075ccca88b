//! What use cases work with.

use std::sync::Arc;
use std::time::Duration;

use bson::DateTime;

use super::accounts::Accounts;
use super::companions::Companions;
use super::directory::Directory;
use super::identities::Identities;
use super::type_catalog::TypeCatalog;
use crate::admission::Admission;
use crate::clock::Clock;
use crate::store::Store;

/// Everything that a use case may need; one for the whole process.
pub struct Services {
    /// Where the documents are.
    pub store: Arc<dyn Store>,
    /// The compiled types.
    pub types: TypeCatalog,
    /// Which objects are needed together.
    pub companions: Companions,
    /// Users and groups, as far as requests need them.
    pub directory: Arc<Directory>,
    /// Signing in.
    pub accounts: Accounts,
    /// Callers with tokens of another issuer, if there is one.
    pub identities: Option<Identities>,
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
