//! A cache of users and of the rights of their groups, valid as long as nothing changes.
//!
//! *Invariant:* nothing is served from memory after the store's revision of its collection has moved. So the next
//! request sees that a user was locked or moved to another group.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bson::raw::{RawDocument, RawDocumentBuf};
use moka::sync::Cache;

use super::credentials;
use crate::auth::Rights;
use crate::domain::document::{flag, integer, text};
use crate::domain::{group, user};
use crate::metrics::Tally;
use crate::query::Filter;
use crate::store::collections::{CREDENTIALS, GROUPS, USERS};
use crate::store::{FindQuery, Store, StoreError};

/// How many accounts and how many names are kept in memory; some 200 bytes each.
const REMEMBERED: u64 = 50_000;

/// The `user_id` of the operator on the command line; no stored user has it.
pub const OPERATOR: i64 = 0;

/// A signed-in user, as the services see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The user's `public_id`.
    pub user_id: i64,
    /// The user's group.
    pub group_id: i64,
    /// The user's login name.
    pub user_name: String,
    /// What the user's group may do.
    pub rights: Arc<Rights>,
    /// Whether the caller is a machine token: it may not do what users may do to themselves.
    pub is_machine: bool,
}

impl Caller {
    /// The operator, whose settings and commands may do everything.
    pub fn operator() -> Self {
        let rights = Arc::new(Rights::new(["base.*"]));
        Self { user_id: OPERATOR, group_id: 0, user_name: "operator".to_owned(), rights, is_machine: false }
    }

    /// Whether the caller is this user. A machine token is not its user: it may not do what users may do to themselves.
    pub fn is(&self, user_id: i64) -> bool {
        self.user_id == user_id && !self.is_machine
    }

    /// Whether the caller is the operator, who can open the store and so may do everything.
    pub fn is_operator(&self) -> bool {
        self.user_id == OPERATOR
    }
}

/// A user with everything that decides whether the user's tokens are valid.
#[derive(Debug, Clone)]
pub struct Account {
    /// The user.
    pub caller: Arc<Caller>,
    /// Whether the user may sign in. A stored user without the member is not active.
    pub active: bool,
    /// Identifies the present sessions: a token of an earlier epoch is invalid. `None`: the user has no credential.
    pub epoch: Option<i64>,
}

/// Looks up users and groups.
pub struct Directory {
    store: Arc<dyn Store>,
    max_time: Duration,
    accounts: Cache<i64, Remembered<Option<Arc<Account>>>>,
    names: Cache<i64, Remembered<Option<Arc<str>>>>,
    lookups: Tally,
    name_lookups: Tally,
}

/// A value that was read at these revisions of users, groups and credentials.
#[derive(Clone)]
struct Remembered<T> {
    revisions: [u64; 3],
    value: T,
}

impl Directory {
    /// Reads from `store`, with this time budget for each query.
    pub fn new(store: Arc<dyn Store>, max_time: Duration) -> Self {
        Self {
            store,
            max_time,
            accounts: Cache::new(REMEMBERED),
            names: Cache::new(REMEMBERED),
            lookups: Tally::default(),
            name_lookups: Tally::default(),
        }
    }

    /// The user with this id as a caller; `None` if the user does not exist or is not active.
    ///
    /// # Errors
    /// As [`Store::find`].
    pub async fn caller(&self, user_id: i64) -> Result<Option<Arc<Caller>>, StoreError> {
        let account = self.account(user_id).await?;
        Ok(account.filter(|account| account.active).map(|account| Arc::clone(&account.caller)))
    }

    /// The user with this id, active or not.
    ///
    /// # Errors
    /// As [`Store::find`].
    pub async fn account(&self, user_id: i64) -> Result<Option<Arc<Account>>, StoreError> {
        let revisions = self.revisions();
        let known = self.accounts.get(&user_id).filter(|known| known.revisions == revisions);
        self.lookups.note(known.is_some());
        if let Some(known) = known {
            return Ok(known.value);
        }
        let value = self.read_account(user_id).await?.map(Arc::new);
        self.accounts.insert(user_id, Remembered { revisions, value: value.clone() });
        Ok(value)
    }

    /// Whether there is a user with this id, active or not.
    ///
    /// # Errors
    /// As [`Store::find`].
    pub async fn user_exists(&self, user_id: i64) -> Result<bool, StoreError> {
        Ok(self.account(user_id).await?.is_some())
    }

    /// The existing ones of these users, active or not, by one query.
    ///
    /// # Errors
    /// As [`Store::find`].
    pub async fn existing(&self, user_ids: &BTreeSet<i64>) -> Result<BTreeSet<i64>, StoreError> {
        if let Some(user_id) = user_ids.first().filter(|_| user_ids.len() == 1) {
            return Ok(self.user_exists(*user_id).await?.then_some(*user_id).into_iter().collect());
        }
        let users = self
            .store
            .find(USERS, &FindQuery::new(Filter::one_of("public_id", user_ids.iter().copied()), self.max_time))
            .await?;
        Ok(users.iter().filter_map(|user| integer(user, "public_id")).collect())
    }

    /// The names of these users, without users that do not exist.
    ///
    /// One store call reads all names that are not cached. If all are cached, there is no call.
    ///
    /// # Errors
    /// As [`Store::find`].
    pub async fn user_names(&self, user_ids: &[i64]) -> Result<HashMap<i64, Arc<str>>, StoreError> {
        let revisions = self.revisions();
        let mut names = HashMap::with_capacity(user_ids.len());
        let mut unknown: Vec<i64> = Vec::new();
        for &user_id in user_ids {
            let known = self.names.get(&user_id).filter(|known| known.revisions[0] == revisions[0]);
            self.name_lookups.note(known.is_some());
            match known {
                Some(known) => names.extend(known.value.map(|name| (user_id, name))),
                None => unknown.push(user_id),
            }
        }
        if !unknown.is_empty() {
            unknown.sort_unstable();
            unknown.dedup();
            let read = self.read_names(&unknown).await?;
            for user_id in unknown {
                let value = read.get(&user_id).cloned();
                names.extend(value.clone().map(|name| (user_id, name)));
                self.names.insert(user_id, Remembered { revisions, value });
            }
        }
        Ok(names)
    }

    /// How often users were remembered.
    pub fn lookups(&self) -> &Tally {
        &self.lookups
    }

    /// How often names of users were remembered.
    pub fn name_lookups(&self) -> &Tally {
        &self.name_lookups
    }

    async fn read_account(&self, user_id: i64) -> Result<Option<Account>, StoreError> {
        let Some(user) = self.find_one(USERS, user_id).await? else { return Ok(None) };
        let group_id = integer(&user, "group_id").unwrap_or_default();
        let group = self.find_one(GROUPS, group_id).await?;
        let credential = credentials::of_user(&*self.store, user_id, self.max_time).await?;
        let rights = group.map(|group| Rights::new(group::right_names(&group))).unwrap_or_default();
        Ok(Some(Account {
            caller: Arc::new(Caller {
                user_id,
                group_id,
                user_name: text(&user, "user_name").unwrap_or_default().to_owned(),
                rights: Arc::new(rights),
                is_machine: false,
            }),
            active: flag(&user, "active").unwrap_or(false),
            epoch: credential.map(|credential| credential.epoch),
        }))
    }

    async fn read_names(&self, user_ids: &[i64]) -> Result<HashMap<i64, Arc<str>>, StoreError> {
        let query = FindQuery::new(Filter::one_of("public_id", user_ids.iter().copied()), self.max_time);
        let users = self.store.find(USERS, &query).await?;
        Ok(users.iter().filter_map(id_and_name).collect())
    }

    async fn find_one(&self, collection: &str, id: i64) -> Result<Option<RawDocumentBuf>, StoreError> {
        self.store.first(collection, FindQuery::new(Filter::equals("public_id", id), self.max_time)).await
    }

    /// Taken before reading: a concurrent change then makes the noted revision outdated.
    fn revisions(&self) -> [u64; 3] {
        [USERS, GROUPS, CREDENTIALS].map(|collection| self.store.revision(collection))
    }
}

fn id_and_name(user: &RawDocument) -> Option<(i64, Arc<str>)> {
    Some((integer(user, "public_id")?, user::display_name(user)?.into()))
}
