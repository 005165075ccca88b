//! Each operation on storage fails once, alone or with all later ones. Then acknowledged writes are there, and refused
//! ones are there as a whole or not at all. A disk that works again takes writes again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bson::doc;
use bson::raw::RawDocumentBuf;
use redb::TableDefinition;

use super::faults::{Failure, Faults, Operation, Plan};
use super::memory::{Fate, Memory, PowerDisk};
use super::{Random, options, rounds, start, store_files, up};
use crate::query::{Filter, Update};
use crate::store::embedded::EmbeddedStore;
use crate::store::embedded::file::storage::Storage;
use crate::store::embedded::open::files::StoreFiles;
use crate::store::embedded::open::opening::{self, IfMissing};
use crate::store::embedded::open::refusal::OpenError;
use crate::store::embedded::upkeep::repair::{self, RepairError};
use crate::store::embedded::upkeep::space;
use crate::store::{Change, CollectionSpec, Copying, Documents, FindQuery, IndexSpec, Store, StoreError, Unit};

/// One of this number of operations is tried; 1 tries all.
const EVERY: &str = "INVENTORY_FAULTS_EVERY";
const THINGS: &str = "things";
const PARTS: &str = "parts";
const BUDGET: Duration = Duration::from_secs(10);
/// A table that belongs to nothing.
const NOBODYS: &str = "nobody's";
/// More than a record may hold.
const LARGE: usize = 20_000;

const COLLECTIONS: &[CollectionSpec] = &[
    CollectionSpec {
        name: THINGS,
        indexes: &[IndexSpec::unique("public_id", &[up("public_id")]), IndexSpec::plain("tags", &[up("tags")])],
    },
    CollectionSpec { name: PARTS, indexes: &[] },
];

/// The documents: collection and id, and the version.
type State = BTreeMap<(&'static str, i64), i64>;

fn document(id: i64, version: i64) -> RawDocumentBuf {
    let length = if id % 5 == 0 { LARGE } else { 100 };
    let document = doc! {
        "_id": id, "public_id": id, "version": version, "tags": [id, id % 3], "text": "x".repeat(length),
    };
    RawDocumentBuf::try_from(document).expect("it is BSON")
}

async fn read(store: &EmbeddedStore) -> Result<State, StoreError> {
    let mut state = State::new();
    for name in [THINGS, PARTS] {
        for found in store.find(name, &FindQuery::new(Filter::all(), BUDGET)).await?.iter() {
            let number = |member: &str| found.get_i64(member).expect("a number");
            let (id, version) = (number("public_id"), number("version"));
            assert_eq!(found.as_bytes(), document(id, version).as_bytes(), "{id} is not what was written");
            state.insert((name, id), version);
        }
    }
    Ok(state)
}

fn changed(mut state: State, change: impl Fn(&mut State)) -> State {
    change(&mut state);
    state
}

/// A client that writes and reads, and what may be stored as far as was answered.
struct Client {
    possible: BTreeSet<State>,
    /// The same as far as writes were answered, whatever was read.
    answered: BTreeSet<State>,
    /// The number of refused writes in a row, and the maximum of it.
    refused: u32,
    most_refused: u32,
}

impl Client {
    fn new() -> Self {
        Self::knowing(&BTreeSet::from([State::new()]))
    }

    fn knowing(possible: &BTreeSet<State>) -> Self {
        Self { possible: possible.clone(), answered: possible.clone(), refused: 0, most_refused: 0 }
    }

    /// Records the outcome of a change.
    fn told(&mut self, answer: Result<(), StoreError>, change: impl Fn(&mut State)) {
        for possible in [&mut self.possible, &mut self.answered] {
            let after: BTreeSet<State> = possible.iter().cloned().map(|state| changed(state, &change)).collect();
            match &answer {
                Ok(()) => *possible = after,
                Err(StoreError::Unavailable { .. }) => possible.extend(after),
                // Nothing was written.
                Err(StoreError::NoRoom { .. }) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        self.refused = if answer.is_ok() { 0 } else { self.refused + 1 };
        self.most_refused = self.most_refused.max(self.refused);
    }

    async fn commit(&mut self, store: &EmbeddedStore, unit: Unit, change: impl Fn(&mut State)) {
        let answer = store.commit(unit).await.map(drop);
        self.told(answer, change);
        self.look(store).await;
    }

    async fn prepare(&mut self, store: &EmbeddedStore) {
        for _ in 0..3 {
            match store.prepare(COLLECTIONS).await {
                Ok(()) => return self.told(Ok(()), |_| ()),
                refused => self.told(refused, |_| ()),
            }
        }
    }

    async fn insert(&mut self, store: &EmbeddedStore, keys: &[(&'static str, i64)]) {
        let insert = |(collection, id): &(&'static str, i64)| Change::Insert { collection, document: document(*id, 0) };
        let unit = Unit { conditions: Vec::new(), changes: keys.iter().map(insert).collect() };
        self.commit(store, unit, |state| state.extend(keys.iter().map(|key| (*key, 0)))).await;
    }

    /// Rewrites a document.
    async fn replace(&mut self, store: &EmbeddedStore, id: i64) {
        let (filter, update) = (Filter::equals("_id", id), Update::set("version", 1_i64));
        let change = Change::UpdateMany { collection: THINGS, filter, update };
        self.commit(store, Unit::of(change), |state| {
            state.entry((THINGS, id)).and_modify(|version| *version = 1);
        })
        .await;
    }

    /// Deletes a thing and stores a part instead.
    async fn delete(&mut self, store: &EmbeddedStore, id: i64) {
        let gone = Change::DeleteMany { collection: THINGS, filter: Filter::equals("_id", id) };
        let unit = Unit::of(gone).and(Change::Insert { collection: PARTS, document: document(id + 50, 0) });
        self.commit(store, unit, |state| {
            state.remove(&(THINGS, id));
            state.insert((PARTS, id + 50), 0);
        })
        .await;
    }

    async fn clear(&mut self, store: &EmbeddedStore) {
        let answer = store.clear(PARTS).await;
        self.told(answer, |state| state.retain(|(name, _), _| *name != PARTS));
        self.look(store).await;
    }

    async fn append(&mut self, store: &EmbeddedStore, ids: &[i64]) {
        let mut documents = Documents::new();
        for id in ids {
            documents.push(&document(*id, 0));
        }
        let answer = store.append(PARTS, documents).await;
        self.told(answer, |state| state.extend(ids.iter().map(|id| ((PARTS, *id), 0))));
        self.look(store).await;
    }

    async fn look(&mut self, store: &EmbeddedStore) {
        match read(store).await {
            Ok(found) => {
                assert!(self.possible.contains(&found), "found {found:?}, possible {:?}", self.possible);
                self.possible = BTreeSet::from([found]);
            }
            Err(StoreError::Unavailable { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// The processes of the workload, one after the other.
struct Work {
    faults: Arc<Faults>,
    disk: Arc<dyn Storage>,
    memory: Arc<Memory>,
    client: Client,
}

impl Work {
    /// Whether the disk does nothing any more.
    fn is_over(&self) -> bool {
        let plan = self.faults.plan();
        plan.lasts && !plan.failed.is_empty()
    }

    /// Repeats an action until it succeeds, at most twice if one operation fails.
    fn twice<T>(&self, what: impl Fn() -> Result<T, OpenError>) -> Option<T> {
        let mut done = what();
        if let Err(error) = &done {
            assert_is_of_the_storage(error);
            assert!(!self.faults.plan().failed.is_empty(), "{error}");
            done = if self.is_over() { return None } else { what() };
        }
        Some(done.unwrap_or_else(|error| panic!("it was refused again: {error}")))
    }

    fn start(&self) -> Option<EmbeddedStore> {
        self.twice(|| EmbeddedStore::start(store_files_on(&self.disk), &options()))
    }

    /// Has a client work with an open store.
    async fn with_store(&mut self, work: impl AsyncFnOnce(&mut Client, &EmbeddedStore)) -> Option<()> {
        let store = self.start()?;
        work(&mut self.client, &store).await;
        assert!(self.is_over() || self.client.most_refused < 2, "a second write was refused");
        drop(store);
        (!self.is_over()).then_some(())
    }

    /// Does it all; `None` when the disk does nothing any more.
    async fn all(&mut self) -> Option<()> {
        self.with_store(async |client, store| {
            client.prepare(store).await;
            for id in [1, 3, 6, 8] {
                client.insert(store, &[(THINGS, id), (PARTS, id + 1)]).await;
            }
            client.insert(store, &[(THINGS, 10), (THINGS, 11), (THINGS, 15)]).await;
            client.replace(store, 8).await;
            client.delete(store, 3).await;
        })
        .await?;
        self.twice(|| space::compact(&store_files_on(&self.disk)))?;
        self.with_store(async |client, store| {
            client.look(store).await;
            client.insert(store, &[(THINGS, 21), (PARTS, 22)]).await;
            client.delete(store, 10).await;
            client.clear(store).await;
            client.append(store, &[41, 42, 45]).await;
        })
        .await?;
        self.damage();
        self.twice(|| match repair::repair_at(&store_files_on(&self.disk)) {
            Err(RepairError::Open(error)) => Err(error),
            repaired => Ok(repaired.expect("documents are sound")),
        })?;
        self.with_store(async |client, store| {
            client.look(store).await;
            client.insert(store, &[(THINGS, 31), (PARTS, 31)]).await;
            client.replace(store, 31).await;
        })
        .await?;
        let findings = self.twice(|| repair::check_at(&store_files_on(&self.disk)))?;
        assert!(findings.is_sound(), "{:?}", findings.problems);
        Some(())
    }

    /// Leaves a table that belongs to nothing, as a faulty process might. The disk works meanwhile.
    fn damage(&self) {
        let ready = opening::open(&store_files(&self.memory), IfMissing::Create).expect("it is sound");
        let transaction = ready.database.begin_write().expect("it works");
        let stranger: TableDefinition<'_, u64, u64> = TableDefinition::new(NOBODYS);
        transaction.open_table(stranger).expect("a new table").insert(1, 1).expect("it works");
        transaction.commit().expect("it works");
    }
}

fn store_files_on(disk: &Arc<dyn Storage>) -> StoreFiles {
    StoreFiles::on(Arc::clone(disk), &super::directory(), &options()).expect("a directory")
}

/// The error about a disk that fails does not say that the file is damaged, or not a store.
fn assert_is_of_the_storage(error: &OpenError) {
    assert!(matches!(error, OpenError::Io { .. } | OpenError::NoRoom { .. }), "{error:?}");
}

/// On a disk that works again: everything is there, nothing is half there, and new writes with these ids succeed.
async fn verify(memory: &Arc<Memory>, possible: &BTreeSet<State>, ids: [i64; 2]) -> Client {
    match repair::check_at(&store_files(memory)) {
        Ok(findings) if findings.problems.iter().any(|problem| problem.what.contains(NOBODYS)) => {
            // The repair had failed.
            let repaired = repair::repair_at(&store_files(memory)).expect("documents are sound");
            assert!(repaired.after.is_sound(), "{:?}", repaired.after.problems);
        }
        Ok(findings) => assert!(findings.is_sound(), "{:?}", findings.problems),
        Err(OpenError::NoStore(_)) => assert!(possible.contains(&State::new()), "the store is gone"),
        Err(error) => panic!("{error}"),
    }
    let mut client = Client::knowing(possible);
    for id in ids {
        let store = start(memory, &options());
        client.look(&store).await;
        client.prepare(&store).await;
        client.insert(&store, &[(THINGS, id), (PARTS, id)]).await;
        assert_eq!(client.most_refused, 0);
        assert_eq!(store.check().await.expect("it can be read"), Vec::<String>::new());
    }
    let findings = repair::check_at(&store_files(memory)).expect("it is sound");
    assert!(findings.is_sound(), "{:?}", findings.problems);
    client
}

/// What is on disk when the power goes.
fn without_power(memory: &Memory) -> Arc<Memory> {
    let mut disk = PowerDisk::default();
    memory.events().iter().for_each(|event| disk.follow(event));
    Memory::of(disk.cut(Fate::Lost, &mut Random(1)))
}

/// Says in which round a test panicked.
struct Told(String);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}

/// Runs the whole workload with one plan; returns the failures that the plan caused.
async fn round(plan: Plan) -> Plan {
    let _told = Told(format!("{:?} after {:?}, with all later ones: {}", plan.failure, plan.after, plan.lasts));
    let memory = Memory::recording();
    let (faults, disk) = Faults::planned(&memory);
    *faults.plan() = plan;
    let mut work = Work { faults, disk, memory, client: Client::new() };
    let _ = work.all().await;
    let plan = std::mem::take(&mut *work.faults.plan());
    let (memory, mut client) = (work.memory, work.client);
    let cut = without_power(&memory);
    let restarted = verify(&memory, &client.possible, [61, 62]).await;
    if [Operation::Sync, Operation::Create].iter().all(|operation| plan.failed.contains(operation)) {
        // No mark of the failed sync could be made. The bytes that were read may have been only in memory, and no other
        // process can know that.
        client.possible = client.answered;
    } else {
        verify(&without_power(&memory), &restarted.possible, [63, 64]).await;
    }
    verify(&cut, &client.possible, [63, 64]).await;
    plan
}

async fn try_all(failure: Failure) {
    let all = round(Plan { failure, after: Some(u64::MAX), ..Plan::default() }).await;
    let operations: u64 = all.seen.values().sum();
    let every = rounds(EVERY, 19);
    let (mut tried, mut failed) = (0, BTreeMap::<Operation, u64>::new());
    for after in (0..operations).step_by(every) {
        for lasts in [false, true] {
            let plan = round(Plan { failure, after: Some(after), lasts, ..Plan::default() }).await;
            tried += 1;
            plan.failed.into_iter().for_each(|operation| *failed.entry(operation).or_default() += 1);
        }
    }
    eprintln!("{failure:?}: {operations} operations, {:?}", all.seen);
    eprintln!("{tried} rounds, failed: {failed:?}");
    assert!(!failed.is_empty(), "nothing failed");
}

#[tokio::test]
async fn an_operation_that_fails_loses_nothing() {
    try_all(Failure::Error).await;
}

#[tokio::test]
async fn an_operation_without_room_loses_nothing() {
    try_all(Failure::NoRoom).await;
}

#[tokio::test]
async fn a_write_of_which_half_is_done_loses_nothing() {
    try_all(Failure::Short).await;
}
