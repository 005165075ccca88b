//! Changes the objects of types whose migration is running, in groups, in the background. After a crash it continues where it was:
//! each group is one unit with the note of how far it is.
//!
//! On MongoDB one of several instances does it, the one with the lease.

use std::sync::Arc;
use std::time::Duration;

use bson::raw::RawDocument;
use bson::{Bson, Document, doc};
use tokio::sync::watch;

use super::catalog::{TypeEntry, compiled};
use super::moving::{Moved, Mover};
use super::running::{self, DONE, REFUSED};
use crate::domain::document::{flag, integer, text};
use crate::domain::migration_input::Asked;
use crate::domain::type_migration::Migration;
use crate::history::entry::{Action, Author};
use crate::plural::counted;
use crate::query::{Filter, Sort};
use crate::service::error::ServiceError;
use crate::service::history::author::{CausedBy, as_action, by, caused};
use crate::service::history::kept::last_of_type;
use crate::service::objects::bulk::GROUP_BYTES;
use crate::service::resource::{self, Objects, Resource, Types};
use crate::service::services::Services;
use crate::service::upkeep::lease::{Holder, Lease, LeaseTimes, Work};
use crate::store::collections::{LOGS, TYPE_MIGRATIONS};
use crate::store::{Change, Condition, Documents, FindQuery, StoreError, Unit, as_fits};

/// How often is looked whether a migration is running.
const TICK: Duration = Duration::from_millis(100);
/// The pause after a failure of the store.
const AFTER_FAILURE: Duration = Duration::from_secs(2);
/// One unit changes at most this many objects.
const GROUP: usize = 500;
/// Other instances know the new type after a second at the latest. No object is stored under it before.
const UNTIL_ALL_KNOW: Duration = Duration::from_millis(1500);
/// How often a group is tried again when others change its objects.
const ATTEMPTS: usize = 64;

/// Works until `stop` says so.
pub async fn run(services: Arc<Services>, mut stop: watch::Receiver<bool>) {
    let (mut revision, holder) = (None, Holder::new());
    while !*stop.borrow() {
        let now = services.store.revision(TYPE_MIGRATIONS);
        let mut pause = TICK;
        if revision != Some(now) {
            match turn(&services, &holder, &mut stop).await {
                Ok(()) => revision = Some(now),
                Err(error) => {
                    log::warn!("the migration of a type waits: {error}");
                    pause = AFTER_FAILURE;
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stop.changed() => {}
        }
    }
}

async fn turn(services: &Services, holder: &Holder, stop: &mut watch::Receiver<bool>) -> Result<(), ServiceError> {
    if running::all(&*services.store, services.max_time).await?.is_empty() {
        return Ok(());
    }
    let stopped = stop.clone();
    let work = async {
        let mut outcome = Ok(());
        for running in running::all(&*services.store, services.max_time).await? {
            if let Err(error) = carry_on(services, running.type_id, &stopped).await {
                outcome = Err(StoreError::backend(error));
            }
        }
        outcome
    };
    if !services.store.is_remote() {
        return Ok(work.await?);
    }
    let (kind, store) = ((Work::TypeMigrations, holder.clone()), &*services.store);
    let mut lease = tokio::select! {
        lease = Lease::acquire(kind, store, LeaseTimes::default(), services.max_time) => lease?,
        _ = stop.changed() => return Ok(()),
    };
    let outcome = lease.during(work).await;
    lease.release().await;
    Ok(outcome?)
}

/// A migration that is carried out.
struct Run<'s> {
    services: &'s Services,
    id: i64,
    migration: Arc<Migration>,
    /// The former state of the type, and the new one.
    was: Arc<TypeEntry>,
    is: Arc<TypeEntry>,
    user_id: i64,
    /// The sequence of the entry of the type.
    cause: i64,
    author: Author,
}

/// Carries out a running migration to its end, or until `stop` says so.
async fn carry_on(services: &Services, id: i64, stop: &watch::Receiver<bool>) -> Result<(), ServiceError> {
    let Some(note) = running::note(&*services.store, id, services.max_time).await? else { return Ok(()) };
    let run = Run::read(services, id, &note).await?;
    log::info!("the objects of type {id} are being migrated");
    if flag(&note, "checked") != Some(true) {
        if services.store.is_remote() {
            tokio::time::sleep(UNTIL_ALL_KNOW).await;
        }
        if !run.checked(&note).await? {
            return Ok(());
        }
    }
    while !*stop.borrow() {
        if run.group().await? {
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
    Ok(())
}

fn unreadable(what: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt { what: format!("{TYPE_MIGRATIONS}: {what}") }
}

impl<'s> Run<'s> {
    async fn read(services: &'s Services, id: i64, note: &RawDocument) -> Result<Self, ServiceError> {
        let former = note.get_document("former").map_err(unreadable)?;
        let steps = resource::decode(note)?.get("plan").cloned().unwrap_or(Bson::Null);
        let asked = Asked::split(doc! {"migration": steps}).map_err(|_| unreadable("steps that nobody knows"))?.1;
        let stored = resource::get::<Types>(services, id).await?;
        let (was, is) = (compiled(former).map_err(unreadable)?, compiled(&stored).map_err(unreadable)?);
        let migration = Migration::of(&asked.steps, &was.object_type, &is.object_type);
        let migration = migration.map_err(|_| unreadable("steps that do not fit the type"))?;
        let word = |name: &str| text(note, name).map(str::to_owned);
        let user_id = integer(note, "user_id").unwrap_or_default();
        let author = Author {
            user_id: Some(user_id),
            user_name: word("user_name"),
            comment: word("comment"),
            request_id: word("request_id"),
        };
        let cause = last_of_type(&*services.store, id, services.max_time).await?;
        let migration = Arc::new(migration);
        Ok(Self { services, id, migration, was, is, user_id, cause, author })
    }

    /// The objects after the steps, how many changed, and how often a step could not be made.
    async fn moved(&self, objects: &Documents) -> Result<(Moved, u64, u64), ServiceError> {
        let stamp = (self.user_id, self.services.now());
        let states = (&*self.was.object_type, &*self.is.object_type);
        let mut mover = Mover::new(&self.migration, states, None, stamp).0;
        let moved = mover.moved(self.services, objects.clone()).await?;
        let tally = mover.into_tally();
        let refused = tally.steps.iter().map(|(_, _, step)| step.refused).sum();
        Ok((moved, tally.objects, refused))
    }

    /// Looks at the objects that others changed between the plan and the change of the type. If one of them refuses a step, the type
    /// goes back, and it is false.
    async fn checked(&self, note: &RawDocument) -> Result<bool, ServiceError> {
        let since = integer(note, "since").unwrap_or_default();
        let late = Filter::ours(&doc! {"sequence": {"$gt": since}, "resource": "objects", "type_id": self.id});
        let entries = self.services.store.find(LOGS, &FindQuery::new(late, self.services.max_time)).await?;
        let ids = entries.iter().filter_map(|it| integer(it, "public_id"));
        let own = Filter::equals("type_id", self.id).and(Filter::one_of("public_id", ids));
        let objects =
            self.services.store.find(Objects::COLLECTION, &FindQuery::new(own, self.services.max_time)).await?;
        let (_, _, refused) = self.moved(&objects).await?;
        if refused == 0 {
            let change = running::noted(Some(note), &running::with(note, doc! {"checked": true})?);
            self.services.store.commit(Unit::of(change)).await?;
            return Ok(true);
        }
        log::warn!("type {} goes back: {} cannot make the steps", self.id, counted(refused, "object"));
        let ended = doc! {"state": REFUSED, "former": null, "plan": null, "ended": self.services.now(), "done": 0_i64};
        self.finish(note, &resource::decode(&self.was.document)?, ended).await?;
        Ok(false)
    }

    /// Changes the next objects; true if there are none.
    async fn group(&self) -> Result<bool, ServiceError> {
        let store = &*self.services.store;
        let most = GROUP.min(store.largest_unit() / 4).min(self.services.most_together).max(1);
        for attempt in 0..ATTEMPTS {
            let Some(note) = running::note(store, self.id, self.services.max_time).await? else { return Ok(true) };
            let upto = running::upto(&note);
            if upto == i64::MAX {
                return Ok(true);
            }
            let next = Filter::ours(&doc! {"type_id": self.id, "public_id": {"$gt": upto}});
            let query = FindQuery::new(next, self.services.max_time).sorted(Sort::by("public_id", false));
            let objects = as_fits(store, Objects::COLLECTION, query.limited(most as u64), GROUP_BYTES).await?;
            let Some(last) = objects.iter().filter_map(|object| integer(object, "public_id")).max() else {
                self.end(&note).await?;
                return Ok(true);
            };
            let (moved, changed, refused) = self.moved(&objects).await?;
            if refused > 0 {
                let values = counted(refused, "value");
                log::warn!(
                    "type {}: {values} stayed as they were, as what they refer to was deleted meanwhile",
                    self.id
                );
            }
            let done = integer(&note, "done").unwrap_or_default() + i64::try_from(changed).unwrap_or_default();
            let differing =
                objects.iter().zip(moved.documents.iter()).filter(|(one, other)| one.as_bytes() != other.as_bytes());
            let note = running::noted(Some(&note), &running::with(&note, doc! {"upto": last, "done": done})?);
            let changes = differing.map(|(before, after)| replaced(Objects::COLLECTION, before, after)).chain([note]);
            let conditions = moved.referred.iter().map(|id| Condition::exists(Objects::COLLECTION, *id)).collect();
            let unit = Unit { changes: changes.collect(), conditions };
            match self.committed(unit).await {
                Ok(()) => return Ok(false),
                Err(StoreError::Stale | StoreError::Condition { .. }) => {
                    tokio::time::sleep(Duration::from_millis(attempt as u64)).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(ServiceError::Contended(format!("type {}", self.id)))
    }

    async fn committed(&self, unit: Unit) -> Result<(), StoreError> {
        let commit = caused(CausedBy::Entry(self.cause), self.services.store.commit(unit));
        by(self.author.clone(), as_action(Action::Migrate, commit)).await.map(drop)
    }

    /// The type becomes what the change said, and the note says that all is done.
    async fn end(&self, note: &RawDocument) -> Result<(), ServiceError> {
        let stored = resource::get::<Types>(self.services, self.id).await?;
        let mut after = resource::decode(&stored)?;
        after.insert("active", flag(note, "active").unwrap_or(true));
        let ended = doc! {"state": DONE, "former": null, "plan": null, "ended": self.services.now()};
        self.finish(note, &after, ended).await?;
        log::info!("the objects of type {} are migrated", self.id);
        Ok(())
    }

    async fn finish(&self, note: &RawDocument, after: &Document, ended: Document) -> Result<(), ServiceError> {
        let before = resource::get::<Types>(self.services, self.id).await?;
        let mut after = after.clone();
        after.insert("last_edit_time", super::next_moment(self.services.now(), &resource::decode(&before)?));
        let unit = Unit::of(replaced(Types::COLLECTION, &before, &resource::encode(&after)?));
        Ok(self.committed(unit.and(running::noted(Some(note), &running::with(note, ended)?))).await?)
    }
}

fn replaced(collection: &'static str, before: &RawDocument, after: &RawDocument) -> Change {
    Change::Replace { collection, before: before.to_owned(), after: after.to_owned() }
}
