//! Copies everything from one store into another one, byte for byte: documents of all collections, including
//! credentials and those of other tools, and the counters of ids.
//!
//! The target has a mark until it was read again completely and found equal. Until then no service starts on it.
//! Repeating skips equal collections and copies the others again.

use std::collections::BTreeSet;
use std::time::Duration;

use bson::doc;
use bson::raw::RawDocument;
use futures::StreamExt;
use xxhash_rust::xxh3::xxh3_128;

use crate::domain::document::{integer, raw};
use crate::progress::{Progress, Silent};
use crate::query::{Filter, Sort};
use crate::service::upkeep::migrations::{self, INCOMPLETE, MigrationState};
use crate::store::collections::{self, MIGRATIONS};
use crate::store::copying::COUNTERS;
use crate::store::{Change, Copying, Documents, Dump, SCOPES, StoreError, Unit};

use super::MovingError;
use super::ids::given_ids;

const MAX_TIME: Duration = Duration::from_mins(1);
/// How much is stored at once.
const BATCH_BYTES: usize = 8 * 1024 * 1024;
const BATCH_DOCUMENTS: usize = 10_000;

/// The outcome of a migration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Migrated {
    /// Each collection with the number of its documents, all of them verified in the target.
    pub collections: Vec<(String, u64)>,
    /// How many documents this attempt wrote.
    pub written: u64,
    /// Whether the source was read as of one moment.
    pub of_one_moment: bool,
}

/// What a collection holds, whatever its order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct MigrationTally {
    documents: u64,
    /// The sum of the checksums of all documents.
    sum: u128,
}

impl MigrationTally {
    fn add(&mut self, document: &RawDocument) {
        self.documents += 1;
        self.sum = self.sum.wrapping_add(xxh3_128(document.as_bytes()));
    }
}

/// Copies `from` into `to`, and compares both afterwards. `name` describes the source, without secrets.
///
/// With `force` it replaces the content of `to`. Nobody else may use `to`.
///
/// # Errors
/// [`MovingError`]; the target is then marked as incomplete, unless the refusal came before any change.
pub async fn migrate(
    from: &dyn Copying,
    to: &dyn Copying,
    name: &str,
    force: bool,
    progress: &dyn Progress,
) -> Result<Migrated, MovingError> {
    match migrations::state(from, migrations::ALL, MAX_TIME).await? {
        MigrationState::Newer(number) => return Err(MovingError::Newer(number)),
        MigrationState::Incomplete(source) => return Err(MovingError::SourceIncomplete(source)),
        MigrationState::Done | MigrationState::Pending(_) => {}
    }
    if from.is_remote() && to.is_remote() && is_one(from, to).await? {
        return Err(MovingError::SameStore);
    }
    let mut source = from.dump().await?;
    let of_one_moment = source.is_of_one_moment();
    let is_marked = match migrations::state(to, migrations::ALL, MAX_TIME).await? {
        MigrationState::Incomplete(begun) if begun == name => {
            log::info!("going on with what was begun before");
            true
        }
        _ => {
            let held = holdings(to).await?;
            if !held.is_empty() && !force {
                return match compare(&mut *source, to).await? {
                    Ok(collections) => Ok(Migrated { collections, written: 0, of_one_moment }),
                    Err(_) => Err(MovingError::NotEmpty(held.join(", "))),
                };
            }
            false
        }
    };
    // The long, reading part comes first: stopping it leaves the target unchanged.
    let pending = pending(&mut *source, to).await?;
    if !is_marked {
        to.prepare(collections::ALL).await?;
        mark(to, name).await?;
    }
    let written = copy(from, &mut *source, to, pending, progress).await?;
    let verified = compare(&mut *source, to).await?;
    let collections = verified.map_err(|collection| MovingError::Differs { collection })?;
    let unmark = Change::DeleteMany { collection: MIGRATIONS, filter: Filter::equals("_id", INCOMPLETE) };
    to.commit(Unit::of(unmark)).await?;
    Ok(Migrated { collections, written, of_one_moment })
}

/// Whether both are the same store, under two names: what is written into the one is read from the other.
async fn is_one(from: &dyn Copying, to: &dyn Copying) -> Result<bool, StoreError> {
    // Every store that a service has started on has this collection.
    if !names(&*to.live_dump().await?).contains(SCOPES) {
        return Ok(false);
    }
    let probe = format!("migrate {:032x}", rand::random::<u128>());
    let own = Filter::equals("_id", probe.as_str());
    let insert = Change::Insert { collection: SCOPES, document: raw(&doc! { "_id": &probe }) };
    to.commit(Unit::of(insert)).await?;
    let found = from.count(SCOPES, &own, MAX_TIME).await;
    to.commit(Unit::of(Change::DeleteMany { collection: SCOPES, filter: own })).await?;
    Ok(found? > 0)
}

/// What the store holds, for people: collections with numbers of documents.
async fn holdings(store: &dyn Copying) -> Result<Vec<String>, StoreError> {
    let mut held = Vec::new();
    for name in names(&*store.dump().await?) {
        let count = store.count(&name, &Filter::all(), MAX_TIME).await?;
        if count > 0 && name != COUNTERS {
            held.push(format!("{name} ({count})"));
        }
    }
    Ok(held)
}

fn names(dump: &dyn Dump) -> BTreeSet<String> {
    dump.collections().iter().cloned().collect()
}

/// Marks the target as incomplete.
async fn mark(to: &dyn Copying, name: &str) -> Result<(), StoreError> {
    let clear = Change::DeleteMany { collection: MIGRATIONS, filter: Filter::equals("_id", INCOMPLETE) };
    let document = raw(&doc! {"_id": INCOMPLETE, "from": name});
    let unit = Unit::of(clear).and(Change::Insert { collection: MIGRATIONS, document });
    to.commit(unit).await.map(drop)
}

/// The collections that are not equal in both.
async fn pending(source: &mut dyn Dump, to: &dyn Copying) -> Result<Vec<String>, MovingError> {
    let (ours, mut theirs) = (names(source), to.dump().await?);
    let all: BTreeSet<String> = ours.union(&names(&*theirs)).cloned().collect();
    let mut pending = Vec::new();
    for name in all.into_iter().filter(|name| name != MIGRATIONS && name != COUNTERS) {
        let there = tally(&mut *theirs, &name).await?;
        if there.documents == 0 && !ours.contains(&name) {
            continue;
        }
        if there.documents == 0 || tally(source, &name).await? != there {
            pending.push(name);
        }
    }
    Ok(pending)
}

/// Copies these collections; returns how many documents were written.
async fn copy(
    from: &dyn Copying,
    source: &mut dyn Dump,
    to: &dyn Copying,
    pending: Vec<String>,
    progress: &dyn Progress,
) -> Result<u64, MovingError> {
    for name in &pending {
        to.clear(name).await?;
    }
    to.prepare(collections::ALL).await?;
    let mut total = 0;
    for name in &pending {
        total += expected(from, name).await;
    }
    progress.begin("documents", total);
    let mut written = 0;
    for name in pending {
        written += copy_collection(source, to, &name, progress).await?;
    }
    let others = Filter::none_of("_id", [INCOMPLETE]);
    to.commit(Unit::of(Change::DeleteMany { collection: MIGRATIONS, filter: others })).await?;
    written += copy_collection(source, to, MIGRATIONS, &Silent).await?;
    to.clear(COUNTERS).await?;
    copy_collection(source, to, COUNTERS, &Silent).await?;
    progress.end();
    Ok(written)
}

/// The approximate number of documents, only for the progress.
async fn expected(from: &dyn Copying, name: &str) -> u64 {
    from.count(name, &Filter::all(), MAX_TIME).await.unwrap_or_default()
}

/// While a chunk is stored, the next one is read.
async fn copy_collection(
    source: &mut dyn Dump,
    to: &dyn Copying,
    name: &str,
    progress: &dyn Progress,
) -> Result<u64, MovingError> {
    if !source.collections().iter().any(|known| known == name) {
        return Ok(0);
    }
    let mut chunks = source.documents(name, &Sort::default()).await?;
    let (mut written, mut batch, mut is_over) = (0, Documents::new(), false);
    let mut ready: Option<Documents> = None;
    while !is_over || ready.is_some() {
        let store = async {
            match ready.take() {
                Some(documents) => {
                    let count = documents.len() as u64;
                    to.append(name, documents).await.map(|()| count)
                }
                None => Ok(0),
            }
        };
        let read = async {
            while !is_over && batch.len() < BATCH_DOCUMENTS && batch.bytes() < BATCH_BYTES {
                match chunks.next().await {
                    None => is_over = true,
                    Some(chunk) => {
                        let chunk = chunk?;
                        chunk
                            .iter()
                            .filter(|document| !is_of_the_store(name, document))
                            .for_each(|one| batch.push(one));
                    }
                }
            }
            Ok::<(), StoreError>(())
        };
        let (stored, read) = tokio::join!(store, read);
        let stored = stored.map_err(|error| match error {
            StoreError::Duplicate { collection, key } => MovingError::Clash { collection, key },
            error => error.into(),
        })?;
        read?;
        written += stored;
        if stored > 0 {
            progress.advance(stored, name);
        }
        ready = Some(std::mem::take(&mut batch)).filter(|documents| !documents.is_empty());
    }
    Ok(written)
}

/// Leases and marks belong to one store, and are not migrated.
fn is_of_the_store(collection: &str, document: &RawDocument) -> bool {
    collection == MIGRATIONS && integer(document, "_id").is_none()
}

async fn tally(dump: &mut dyn Dump, name: &str) -> Result<MigrationTally, StoreError> {
    let mut tally = MigrationTally::default();
    if !dump.collections().iter().any(|known| known == name) {
        return Ok(tally);
    }
    let mut chunks = dump.documents(name, &Sort::default()).await?;
    while let Some(chunk) = chunks.next().await {
        chunk?.iter().filter(|document| !is_of_the_store(name, document)).for_each(|document| tally.add(document));
    }
    Ok(tally)
}

/// Every collection with its number of documents if both stores are equal, else the first different one.
async fn compare(source: &mut dyn Dump, to: &dyn Copying) -> Result<Result<Vec<(String, u64)>, String>, MovingError> {
    let mut target = to.dump().await?;
    let all: BTreeSet<String> = names(source).union(&names(&*target)).cloned().collect();
    let mut collections = Vec::new();
    for name in all {
        if name == COUNTERS {
            let (ours, theirs) = (given_ids(source).await?, given_ids(&mut *target).await?);
            if ours.iter().any(|(of, value)| theirs.get(of).copied().unwrap_or_default() < *value) {
                return Ok(Err(name));
            }
            continue;
        }
        let (ours, theirs) = tokio::join!(tally(source, &name), tally(&mut *target, &name));
        let ours = ours?;
        if ours != theirs? {
            return Ok(Err(name));
        }
        if ours.documents > 0 {
            collections.push((name, ours.documents));
        }
    }
    Ok(Ok(collections))
}
