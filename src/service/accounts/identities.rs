//! Who the bearers of tokens of the issuer of OpenID Connect are here: a cache, valid as long as nothing changes.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;

use super::credentials::{self, Credential};
use crate::auth::oidc::Bearer;
use crate::domain::document::integer;
use crate::oidc::Issuer;
use crate::query::Filter;
use crate::service::remembered::Remembered;
use crate::store::collections::{CREDENTIALS, GROUPS};
use crate::store::{FindQuery, Store, StoreError};

/// How many identities are remembered.
const REMEMBERED: u64 = 10_000;

/// Looks up credentials by identity, and groups by name.
pub struct Identities {
    issuer: Arc<Issuer>,
    store: Arc<dyn Store>,
    max_time: Duration,
    /// With the revision that they were read at.
    links: Cache<String, (u64, Arc<Credential>)>,
    groups: Remembered<String, Option<i64>>,
}

impl Identities {
    /// Of this issuer, in this store, with this time budget for each query.
    pub fn new(issuer: Arc<Issuer>, store: Arc<dyn Store>, max_time: Duration) -> Self {
        Self { issuer, store, max_time, links: Cache::new(REMEMBERED), groups: Remembered::of(GROUPS) }
    }

    /// The issuer.
    pub fn issuer(&self) -> &Arc<Issuer> {
        &self.issuer
    }

    /// The permanent identity of a caller. A program that signs in for itself is kept apart from people: at some issuers,
    /// who registers a program chooses its `sub`.
    pub fn identity(&self, bearer: &Bearer) -> String {
        let kind = if bearer.is_client { "client" } else { "user" };
        format!("{} {kind} {}", self.issuer.rules().issuer, bearer.subject)
    }

    /// The credential of the user with this identity.
    ///
    /// # Errors
    /// As [`Store::find`].
    pub async fn link(&self, identity: &str) -> Result<Option<Arc<Credential>>, StoreError> {
        let revision = self.store.revision(CREDENTIALS);
        if let Some((_, known)) = self.links.get(identity).filter(|(read_at, _)| *read_at == revision) {
            return Ok(Some(known));
        }
        let found = credentials::of_identity(&*self.store, identity, self.max_time).await?.map(Arc::new);
        // That there is none is not remembered: another instance may just have made the user.
        if let Some(found) = &found {
            self.links.insert(identity.to_owned(), (revision, Arc::clone(found)));
        }
        Ok(found)
    }

    /// The id of the group with this name.
    ///
    /// # Errors
    /// As [`Store::find`].
    pub async fn group_id(&self, name: &str) -> Result<Option<i64>, StoreError> {
        let query = FindQuery::new(Filter::equals("name", name), self.max_time);
        let read = async { Ok(self.store.first(GROUPS, query).await?.and_then(|group| integer(&group, "public_id"))) };
        self.groups.get(&*self.store, name.to_owned(), read).await
    }
}
