//! Migrations: conversions of stored documents, made once by the first start of the version that brings them.
//!
//! Completed migrations are in `service.migrations`: `{_id: number, name, done_at}`. One of several instances that
//! start together runs them, see [`lease`](crate::service::upkeep::lease). It may die halfway, so a migration must be idempotent. A
//! store is refused if a newer version migrated it, or if another store is being copied into it.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use bson::raw::RawDocument;
use bson::{DateTime, doc};
use futures::future::BoxFuture;

use crate::domain::document::{integer, raw, text};
use crate::query::Filter;
use crate::store::collections::{MIGRATIONS, USERS};
use crate::store::{Change, Documents, FindQuery, Store, StoreError, Unit};

use super::lease::{Holder, Lease, LeaseTimes, Work};
use crate::service::accounts::credentials;

/// The `_id` of the mark on a store that is being filled from another one: `{_id: "incomplete", from}`.
pub const INCOMPLETE: &str = "incomplete";

/// One change of how documents are stored.
#[derive(Clone, Copy)]
pub struct Migration {
    /// Ascending from 1, never given again.
    pub number: i64,
    /// What it does, in a few words for the log.
    pub name: &'static str,
    /// Does it, with this time budget for each query. May be run again after it was done.
    pub run: for<'a> fn(&'a dyn Store, Duration) -> BoxFuture<'a, Result<(), StoreError>>,
}

/// All migrations, in their order.
pub const ALL: &[Migration] = &[Migration {
    number: 1,
    name: "keeps user names apart that look alike",
    run: |store, max_time| Box::pin(keep_look_alikes_apart(store, max_time)),
}];

/// Adds the looks of their names to the credentials, lowest ids first.
///
/// Of users whose names already look alike, only the first one gets the unique mark. The others still sign in as
/// before, and only a rename must make them distinct. So no start locks anybody out.
async fn keep_look_alikes_apart(store: &dyn Store, max_time: Duration) -> Result<(), StoreError> {
    let users = store.find(USERS, &FindQuery::new(Filter::all(), max_time)).await?;
    let named = |user: &RawDocument| Some((integer(user, "public_id")?, text(user, "user_name")?.to_owned()));
    let names: HashMap<i64, String> = users.iter().filter_map(named).collect();
    for credential in credentials::all(store, max_time).await? {
        let name = names.get(&credential.user_id).map_or(credential.login(), String::as_str);
        let Some(change) = credential.made_distinct(name) else { continue };
        match store.commit(Unit::of(change)).await {
            Err(StoreError::Duplicate { .. }) => log::warn!(
                "the name of user {} looks like that of another user; both sign in as before, rename one of them",
                credential.user_id
            ),
            outcome => drop(outcome?),
        }
    }
    Ok(())
}

/// How far a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MigrationState {
    /// Everything is as this version needs it.
    Done,
    /// These are still to be made.
    Pending(Vec<i64>),
    /// A newer version ran this migration, which this version does not know.
    Newer(i64),
    /// Another store, which is named, is being copied into this one.
    Incomplete(String),
}

/// A migration that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// Its number.
    pub number: i64,
    /// What it does.
    pub name: String,
    /// When.
    pub at: DateTime,
}

/// Why a store could not be migrated.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// A newer version was at work.
    #[error(
        "the store was migrated by a newer version of this service (migration {0}); start that version, or restore a backup from before"
    )]
    Newer(i64),
    /// Another store was being copied into this one.
    #[error("the store was being filled from {0} by inventory-service migrate, which did not end; repeat that command")]
    Incomplete(String),
    /// Some migrations are missing, and a command that only reads runs none.
    #[error(
        "documents are stored as an older version did it (migration {0} was not made); start this version on the store once"
    )]
    Pending(i64),
    /// One of them failed.
    #[error("migration {number}, {name}, failed: {source}; the next start tries again")]
    Failed {
        /// Its number.
        number: i64,
        /// What it does.
        name: &'static str,
        /// Why.
        source: StoreError,
    },
    /// What was done could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How far the store is with these migrations.
///
/// # Errors
/// As [`Store::find`].
pub async fn state(
    store: &dyn Store,
    migrations: &[Migration],
    max_time: Duration,
) -> Result<MigrationState, StoreError> {
    let found = read(store, max_time).await?;
    if let Some(mark) = found.iter().find(|document| text(document, "_id") == Some(INCOMPLETE)) {
        return Ok(MigrationState::Incomplete(text(mark, "from").unwrap_or_default().to_owned()));
    }
    let done = done(&found)?;
    let known: BTreeSet<i64> = migrations.iter().map(|migration| migration.number).collect();
    if let Some(newer) = done.difference(&known).last() {
        return Ok(MigrationState::Newer(*newer));
    }
    let pending: Vec<i64> = known.difference(&done).copied().collect();
    Ok(if pending.is_empty() { MigrationState::Done } else { MigrationState::Pending(pending) })
}

/// Refuses a store that a newer version migrated, or that another one is being copied into. Changes nothing.
///
/// # Errors
/// [`MigrationError`].
pub async fn require_known(
    store: &dyn Store,
    migrations: &[Migration],
    max_time: Duration,
) -> Result<(), MigrationError> {
    pending(store, migrations, max_time).await.map(drop)
}

/// As [`require_known`], and refuses a store with migrations that were not made.
///
/// # Errors
/// [`MigrationError`].
pub async fn require_done(
    store: &dyn Store,
    migrations: &[Migration],
    max_time: Duration,
) -> Result<(), MigrationError> {
    match pending(store, migrations, max_time).await?.first() {
        None => Ok(()),
        Some(number) => Err(MigrationError::Pending(*number)),
    }
}

/// Makes those that were not made yet.
///
/// # Errors
/// [`MigrationError`]; what was made up to then stays.
pub async fn run(
    store: &dyn Store,
    migrations: &[Migration],
    now: DateTime,
    max_time: Duration,
) -> Result<(), MigrationError> {
    run_together(store, migrations, now, max_time, LeaseTimes::default()).await
}

/// As [`run`], with a lease of another kind.
///
/// # Errors
/// As [`run`].
pub async fn run_together(
    store: &dyn Store,
    migrations: &[Migration],
    now: DateTime,
    max_time: Duration,
    times: LeaseTimes,
) -> Result<(), MigrationError> {
    if pending(store, migrations, max_time).await?.is_empty() {
        return Ok(());
    }
    let mut lease = Lease::acquire((Work::Migrations, Holder::new()), store, times, max_time).await?;
    let outcome = run_alone(store, migrations, now, max_time, &mut lease).await;
    lease.release().await;
    outcome
}

async fn pending(store: &dyn Store, migrations: &[Migration], max_time: Duration) -> Result<Vec<i64>, MigrationError> {
    match state(store, migrations, max_time).await? {
        MigrationState::Done => Ok(Vec::new()),
        MigrationState::Newer(number) => Err(MigrationError::Newer(number)),
        MigrationState::Incomplete(from) => Err(MigrationError::Incomplete(from)),
        MigrationState::Pending(pending) => Ok(pending),
    }
}

async fn run_alone(
    store: &dyn Store,
    migrations: &[Migration],
    now: DateTime,
    max_time: Duration,
    lease: &mut Lease<'_>,
) -> Result<(), MigrationError> {
    // Another instance may have run them during the wait for the lease.
    let pending = pending(store, migrations, max_time).await?;
    for migration in migrations.iter().filter(|migration| pending.contains(&migration.number)) {
        let Migration { number, name, run } = *migration;
        log::info!("migration {number}: {name}");
        let failed = |source| MigrationError::Failed { number, name, source };
        lease.during(run(store, max_time)).await.map_err(failed)?;
        let document = raw(&doc! {"_id": number, "name": name, "done_at": now});
        match store.commit(Unit::of(Change::Insert { collection: MIGRATIONS, document })).await {
            // An instance that counted as dead was running it too.
            Ok(_) | Err(StoreError::Duplicate { .. }) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(())
}

/// What was made, in its order.
///
/// # Errors
/// As [`Store::find`].
pub async fn made(store: &dyn Store, max_time: Duration) -> Result<Vec<Made>, StoreError> {
    let made = |stored: &RawDocument| {
        let number = integer(stored, "_id")?;
        let at = stored.get_datetime("done_at").unwrap_or(DateTime::MIN);
        Some(Made { number, name: text(stored, "name").unwrap_or_default().to_owned(), at })
    };
    let mut all: Vec<Made> = read(store, max_time).await?.iter().filter_map(made).collect();
    all.sort_by_key(|made| made.number);
    Ok(all)
}

async fn read(store: &dyn Store, max_time: Duration) -> Result<Documents, StoreError> {
    store.find(MIGRATIONS, &FindQuery::new(Filter::all(), max_time)).await
}

/// The numbers of what was made; documents with a text for an `_id` are marks and leases.
fn done(found: &Documents) -> Result<BTreeSet<i64>, StoreError> {
    let number = |stored: &RawDocument| {
        integer(stored, "_id").ok_or_else(|| StoreError::Corrupt { what: format!("a document of {MIGRATIONS}") })
    };
    found.iter().filter(|stored| text(stored, "_id").is_none()).map(number).collect()
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::store::collections;
    use crate::store::embedded::{EmbeddedStore, Options};

    const MAX_TIME: Duration = Duration::from_secs(10);
    const NOW: DateTime = DateTime::from_millis(0);

    const FIRST: Migration = Migration { number: 1, name: "leaves a trace", run: |store, _| Box::pin(trace(store)) };
    const SECOND: Migration = Migration { number: 2, name: "does nothing", run: |_, _| Box::pin(async { Ok(()) }) };
    const FAILING: Migration =
        Migration { number: 3, name: "fails", run: |_, _| Box::pin(async { Err(StoreError::Stale) }) };

    async fn trace(store: &dyn Store) -> Result<(), StoreError> {
        let document = raw(&doc! {"_id": bson::oid::ObjectId::new()});
        store.commit(Unit::of(Change::Insert { collection: "trace", document })).await.map(drop)
    }

    async fn traces(store: &dyn Store) -> u64 {
        store.count("trace", &Filter::all(), MAX_TIME).await.expect("a number")
    }

    async fn new_store() -> (TempDir, EmbeddedStore) {
        let directory = TempDir::new().expect("a temporary directory");
        let store = EmbeddedStore::open(directory.path(), &Options::default()).expect("a store");
        store.prepare(collections::ALL).await.expect("collections");
        (directory, store)
    }

    #[tokio::test]
    async fn a_migration_is_made_once() {
        let (_directory, store) = new_store().await;
        assert_eq!(
            state(&store, &[FIRST, SECOND], MAX_TIME).await.expect("a state"),
            MigrationState::Pending(vec![1, 2])
        );
        run(&store, &[FIRST], NOW, MAX_TIME).await.expect("migrated");
        assert_eq!(state(&store, &[FIRST, SECOND], MAX_TIME).await.expect("a state"), MigrationState::Pending(vec![2]));
        run(&store, &[FIRST, SECOND], NOW, MAX_TIME).await.expect("migrated");
        assert_eq!(state(&store, &[FIRST, SECOND], MAX_TIME).await.expect("a state"), MigrationState::Done);
        assert_eq!(traces(&store).await, 1);
    }

    #[tokio::test]
    async fn a_failed_migration_is_tried_again_and_those_before_it_are_not() {
        let (_directory, store) = new_store().await;
        for _ in 0..2 {
            let error = run(&store, &[FIRST, FAILING], NOW, MAX_TIME).await.expect_err("a failure");
            assert!(error.to_string().starts_with("migration 3, fails, failed: "), "{error}");
        }
        assert_eq!(traces(&store).await, 1);
        assert_eq!(
            state(&store, &[FIRST, FAILING], MAX_TIME).await.expect("a state"),
            MigrationState::Pending(vec![3])
        );
    }

    #[tokio::test]
    async fn a_store_of_a_newer_version_is_left_alone() {
        let (_directory, store) = new_store().await;
        run(&store, &[FIRST, SECOND], NOW, MAX_TIME).await.expect("migrated");
        assert_eq!(state(&store, &[FIRST], MAX_TIME).await.expect("a state"), MigrationState::Newer(2));
        let error = run(&store, &[FIRST], NOW, MAX_TIME).await.expect_err("a refusal");
        assert!(matches!(error, MigrationError::Newer(2)), "{error}");
    }

    #[test]
    fn numbers_ascend() {
        assert!(ALL.windows(2).all(|pair| pair[0].number < pair[1].number));
    }
}
