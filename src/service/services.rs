//! What use cases work with.

use std::sync::Arc;
use std::time::Duration;

use bson::DateTime;

use super::accounts::Accounts;
use super::accounts::directory::Directory;
use super::accounts::identities::Identities;
use super::error::ServiceError;
use super::history::as_of::{AccessLists, AsOf, Known};
use super::history::feed::Feed;
use super::history::past::{Moment, TOO_MUCH};
use super::objects::companions::Companions;
use super::remembered::Remembered;
use super::search::state::Searched;
use super::types::catalog::{TypeCatalog, Types};
use super::webhooks::parts::Parts;
use crate::admission::{self, Admission};
use crate::clock::Clock;
use crate::query::Filter;
use crate::store::collections::{OBJECTS, TYPES};
use crate::store::{Documents, FindQuery, Store, StoreError};

/// Documents of more bytes are not held together by one request.
const MOST_HELD: usize = 32 * 1024 * 1024;

/// Everything that a use case may need; one for the whole process.
#[derive(Clone)]
pub struct Services {
    /// Where the documents are.
    pub store: Arc<dyn Store>,
    /// The changes as they happen.
    pub feed: Arc<Feed>,
    /// The compiled types.
    pub types: Arc<TypeCatalog>,
    /// What search lacks.
    pub searched: Arc<Searched>,
    /// How many objects each type has.
    pub counts: Arc<Remembered<i64, u64>>,
    /// Which objects are needed together.
    pub companions: Arc<Companions>,
    /// Users and groups, as far as requests need them.
    pub directory: Arc<Directory>,
    /// Signing in.
    pub accounts: Arc<Accounts>,
    /// Callers with tokens of another issuer, if there is one.
    pub identities: Option<Arc<Identities>>,
    /// What webhooks need.
    pub webhooks: Arc<Parts>,
    /// What requests may take together.
    pub admission: Arc<Admission>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// The time budget of one query.
    pub max_time: Duration,
    /// How many objects may change together with their type.
    pub most_together: usize,
}

/// The present: what changes later changes nothing of it.
pub struct Present {
    /// The documents.
    pub store: Arc<dyn Store>,
    /// The types, of a moment before.
    types: Arc<Types>,
    /// Their revision; nothing if they changed while they were read.
    revision: Option<u64>,
}

impl Services {
    /// The present, as questions of the past start from it.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn present(&self) -> Result<Present, ServiceError> {
        // The types before the store is frozen: what changes in between has an entry in it.
        let revision = self.store.revision(TYPES);
        let types = self.current_types().await?;
        let revision = Some(revision).filter(|revision| *revision == self.store.revision(TYPES));
        Ok(Present { revision, types, store: self.store.frozen(self.max_time).await? })
    }

    /// The same services as of an earlier moment.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn as_of(&self, moment: Moment, access: AccessLists) -> Result<Self, ServiceError> {
        self.before(self.present().await?, (moment, None), access).await
    }

    /// The same with a present that was read already, and what is known of the moment.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn before(
        &self,
        Present { revision, types: present, store }: Present,
        moment: (Moment, Option<Known>),
        access: AccessLists,
    ) -> Result<Self, ServiceError> {
        let at = moment.0;
        let store = AsOf::over(store, moment, access, self.max_time);
        let is_known = revision.is_some_and(|revision| self.feed.has_types_since(at, revision));
        let is_today = is_known || store.has_types_of_today().await?;
        if let Some(revision) = revision.filter(|_| is_today && !is_known) {
            self.feed.note_types_since(at, revision);
        }
        let former = self.feed.former_types().await?;
        let types = if is_today && !former.has_unnoticed() {
            TypeCatalog::of(present)
        } else {
            TypeCatalog::before(present, former)
        };
        // Counts are those of the present; nobody counts the past.
        Ok(Self { store, types: Arc::new(types), ..self.clone() })
    }

    /// The documents of a query that a request holds together. They count as its memory.
    ///
    /// # Errors
    /// [`StoreError::Query`] when they are more than a request may hold; errors of the store.
    pub(super) async fn held(&self, collection: &str, query: FindQuery) -> Result<Documents, StoreError> {
        match self.store.find(collection, &query.within(MOST_HELD)).await {
            Err(StoreError::TooLarge) => {
                let what = "the documents for it have more than 32 MiB together; ask for fewer at a time";
                Err(StoreError::Query { code: TOO_MUCH, message: what.to_owned() })
            }
            found => {
                let found = found?;
                admission::current().hold(found.bytes())?;
                Ok(found)
            }
        }
    }

    /// The number of objects of a type. An access list hides all objects of a type or none, so only types that the caller
    /// may read are counted.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn count_of(&self, type_id: i64) -> Result<u64, StoreError> {
        let filter = Filter::equals("type_id", type_id);
        let count = self.store.count(OBJECTS, &filter, self.max_time);
        self.counts.get(&*self.store, type_id, count).await
    }

    /// The present moment as it is stored: whole milliseconds.
    pub fn now(&self) -> DateTime {
        DateTime::from_chrono(self.clock.now())
    }
}
