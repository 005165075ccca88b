//! A full disk: writes that do not fit are refused, and nothing else happens. Reading and deleting still work.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bson::doc;
use bson::raw::RawDocumentBuf;

use super::assert_whole;
use super::memory::Memory;
use super::{Random, directory, options, rounds, start, store_files, stored_number, up};
use crate::query::{Filter, Limits};
use crate::store::collections::{self, LOGS, OBJECTS};
use crate::store::embedded::EmbeddedStore;
use crate::store::embedded::file::storage::Storage;
use crate::store::embedded::open::paths::FILE;
use crate::store::embedded::open::recovery;
use crate::store::embedded::open::refusal::OpenError;
use crate::store::{Change, CollectionSpec, Copying, Documents, FindQuery, IndexSpec, Store, StoreError, Unit};

/// How many things are done in the random trial.
const ROUNDS: &str = "INVENTORY_ROOM_ROUNDS";
const THINGS: &str = "things";
const BUDGET: Duration = Duration::from_secs(20);
const MIB: u64 = 1024 * 1024;

const BY_ID: IndexSpec = IndexSpec::unique("public_id", &[up("public_id")]);
const BY_TEXT: IndexSpec = IndexSpec::plain("text", &[up("text")]);
const BY_TAGS: IndexSpec = IndexSpec::plain("tags", &[up("tags")]);
const BY_RANK: IndexSpec = IndexSpec::plain("rank", &[up("rank"), up("public_id")]);
const COLLECTIONS: &[CollectionSpec] = &[CollectionSpec { name: THINGS, indexes: &[BY_ID, BY_TEXT, BY_TAGS] }];
const OTHER_INDEXES: &[CollectionSpec] = &[CollectionSpec { name: THINGS, indexes: &[BY_ID, BY_RANK, BY_TAGS] }];

/// Documents of this size have many more keys than one chunk merges.
const WIDE: usize = 900;

/// The document of an id in a version, of about this number of bytes.
fn document(id: i64, version: i64, bytes: usize) -> RawDocumentBuf {
    let tags: Vec<i64> = match bytes {
        WIDE => (0..200).map(|tag| (id * 7919 + version * 31 + tag * 997) % 100_003).collect(),
        _ => (0..id % 4).map(|tag| (id * 7 + version + tag) % 50).collect(),
    };
    let text = format!("{}{}", (id * 7919 + version) % 1000, "x".repeat(bytes.saturating_sub(100)));
    let rank = (id * 31 + version) % 97;
    let document = doc! { "_id": id, "public_id": id, "version": version, "rank": rank, "tags": tags, "text": text };
    RawDocumentBuf::try_from(document).expect("it is BSON")
}

fn insertion(id: i64, bytes: usize) -> Change {
    Change::Insert { collection: THINGS, document: document(id, 0, bytes) }
}

async fn insert(store: &EmbeddedStore, id: i64, bytes: usize) -> Result<Vec<u64>, StoreError> {
    store.commit(Unit::of(insertion(id, bytes))).await
}

async fn delete(store: &EmbeddedStore, id: i64) -> Result<Vec<u64>, StoreError> {
    let filter = Filter::equals("public_id", id);
    store.commit(Unit::of(Change::DeleteMany { collection: THINGS, filter })).await
}

/// The ids of all documents.
async fn ids(store: &EmbeddedStore) -> BTreeSet<i64> {
    let found = store.find(THINGS, &FindQuery::new(Filter::all(), BUDGET)).await.expect("reading goes on");
    found.iter().map(|document| document.get_i64("_id").expect("a number")).collect()
}

/// Leaves no more room than the file takes.
fn fill_up(memory: &Memory) -> u64 {
    let length = memory.len(&directory().join(FILE)).expect("in memory").expect("it is there");
    memory.set_room(length);
    length
}

/// A store on a disk that is full, with the ids that it has.
async fn full(bytes: usize) -> (Arc<Memory>, EmbeddedStore, BTreeSet<i64>) {
    let memory = Memory::of(BTreeMap::new());
    let store = start(&memory, &options());
    store.prepare(COLLECTIONS).await.expect("it can be declared");
    for id in 1..=200 {
        insert(&store, id, bytes).await.expect("there is room");
    }
    fill_up(&memory);
    let mut last = 200;
    while insert(&store, last + 1, bytes).await.is_ok() {
        last += 1;
    }
    (memory, store, (1..=last).collect())
}

#[tokio::test]
async fn a_document_with_very_many_keys_takes_room_for_the_pages_that_they_fill() {
    let memory = Memory::of(BTreeMap::new());
    let store = start(&memory, &options());
    store.prepare(COLLECTIONS).await.expect("it can be declared");
    insert(&store, 3, 200).await.expect("there is room");
    let length = || memory.len(&directory().join(FILE)).expect("in memory").expect("it is there");
    let before = length();
    let tags = |id: i64| -> Vec<i64> { (0..20_000).map(|tag| (tag * 7_919 + id) % 1_000_003).collect() };
    for id in 4..8 {
        let document = doc! { "_id": id, "public_id": id, "text": "wide", "tags": tags(id) };
        let document = RawDocumentBuf::try_from(&document).expect("it is BSON");
        store.commit(Unit::of(Change::Insert { collection: THINGS, document })).await.expect("there is room");
    }
    let grown = (length() - before) / MIB;
    assert!(grown < 64, "the file grew by {grown} MiB");
    assert_whole(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_goes_on_while_clients_try_again_and_again_to_write_to_a_full_disk() {
    let (memory, store, mut there) = full(600).await;
    let store = Arc::new(store);
    let opened = memory.opened();
    let (is_over, refused) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut writers = tokio::task::JoinSet::new();
    for client in 0..2 {
        let (store, is_over, refused) = (Arc::clone(&store), Arc::clone(&is_over), Arc::clone(&refused));
        writers.spawn(async move {
            let mut stored = Vec::new();
            for number in 0.. {
                let id = 1_000_000 * (client + 1) + number;
                match insert(&store, id, 20_000).await {
                    Ok(_) => stored.push(id),
                    Err(StoreError::NoRoom { .. }) => drop(refused.fetch_add(1, Ordering::SeqCst)),
                    Err(other) => panic!("{other:?}"),
                }
                if is_over.load(Ordering::SeqCst) {
                    break;
                }
            }
            stored
        });
    }
    for round in 0..400 {
        let id = *there.iter().nth(round % there.len()).expect("there are some");
        let found = store.count(THINGS, &Filter::equals("_id", id), BUDGET).await.expect("reading goes on");
        assert_eq!(found, 1, "{id}");
    }
    for id in there.clone().into_iter().filter(|id| id % 3 > 0) {
        delete(&store, id).await.unwrap_or_else(|error| panic!("{id} can be removed: {error}"));
        there.remove(&id);
        store.count(THINGS, &Filter::equals("_id", id), BUDGET).await.expect("reading goes on");
    }
    is_over.store(true, Ordering::SeqCst);
    there.extend(writers.join_all().await.concat());
    assert!(refused.load(Ordering::SeqCst) > 10, "the clients were hardly refused");
    assert_eq!(memory.opened(), opened, "nothing was opened again");
    assert_eq!(ids(&store).await, there);
    assert_whole(&store).await;
}

#[tokio::test]
async fn a_disk_that_has_room_again_is_not_full_before_the_next_write() {
    let (memory, store, _) = full(600).await;
    let is_full = async || store.health().await.expect("it answers").is_full;
    assert!(is_full().await);
    let length = fill_up(&memory);
    memory.set_room(length + MIB);
    assert!(is_full().await, "a little more is no room");
    memory.set_room(length + 100 * MIB);
    assert!(!is_full().await);
}

#[tokio::test]
async fn what_was_deleted_on_a_full_disk_makes_room() {
    for bytes in [300, 600, 3_000, 20_000] {
        let (memory, store, mut there) = full(bytes).await;
        let opened = memory.opened();
        for round in 0..3 {
            let last: Vec<i64> = there.iter().rev().take(there.len() / 3).copied().collect();
            for id in last {
                delete(&store, id).await.unwrap_or_else(|error| panic!("{id} can be removed: {error}"));
                there.remove(&id);
            }
            let mut stored = 0;
            for id in (round + 1) * 1_000_000.. {
                match insert(&store, id, bytes).await {
                    Ok(_) => there.insert(id),
                    Err(StoreError::NoRoom { .. }) => break,
                    Err(other) => panic!("{other:?}"),
                };
                stored += 1;
            }
            assert!(stored > 3, "{stored} documents of {bytes} bytes in round {round}");
        }
        assert_eq!(memory.opened(), opened, "nothing was opened again");
        memory.set_room(u64::MAX);
        insert(&store, -1, 100_000).await.expect("there is room again");
        there.insert(-1);
        assert_eq!(ids(&store).await, there);
        assert_whole(&store).await;
    }
}

/// An object of the service with a text of this number of bytes, which do not repeat.
fn object(id: i64, bytes: usize) -> RawDocumentBuf {
    let mut random = Random(u64::try_from(id).expect("ids are positive"));
    let text: String =
        (0..bytes).map(|_| char::from(b'a' + u8::try_from(random.below(26)).expect("a letter"))).collect();
    let fields = vec![doc! { "name": "text", "value": text }];
    let object = doc! { "_id": id, "public_id": id, "type_id": 1_i64, "version": "1.0.0", "author_id": 1_i64, "active": true, "fields": fields };
    RawDocumentBuf::try_from(object).expect("it is BSON")
}

/// An entry of the history.
fn entry(sequence: i64, id: i64, number: i32) -> Change {
    let names = doc! { "user_id": 1_i64, "user_name": "admin", "request_id": format!("{sequence:032}"), "hash": "h".repeat(32) };
    let mut entry = doc! {
        "_id": sequence, "sequence": sequence, "time": bson::DateTime::from_millis(sequence), "resource": "objects",
        "public_id": id, "type_id": 1_i64, "number": number, "version": "1.0.0", "action": "CREATE", "changes": { "created": true },
    };
    entry.extend(names);
    Change::Insert { collection: LOGS, document: RawDocumentBuf::try_from(entry).expect("it is BSON") }
}

/// As the service does it: each object and each deletion has an entry of the history.
#[tokio::test]
async fn what_is_deleted_with_entries_of_the_history_makes_room_too() {
    for bytes in [400, 1_600, 20_000] {
        let memory = Memory::of(BTreeMap::new());
        let store = start(&memory, &options());
        store.prepare(collections::ALL).await.expect("they can be declared");
        memory.set_room(16 * MIB);
        let mut sequence = 0;
        let mut made = async |id: i64| {
            sequence += 1;
            let unit = Unit::of(Change::Insert { collection: OBJECTS, document: object(id, bytes) });
            store.commit(unit.and(entry(sequence, id, 1))).await.is_ok()
        };
        let mut last = 0;
        while made(last + 1).await {
            last += 1;
        }
        for id in 1..=last {
            let unit = Unit::of(Change::Delete { collection: OBJECTS, before: object(id, bytes) });
            let done = store.commit(unit.and(entry(10_000_000 + id, id, 2))).await;
            done.unwrap_or_else(|error| panic!("{id} of {last}: {error}"));
        }
        let mut stored = 0;
        while made(20_000_000 + stored).await {
            stored += 1;
        }
        eprintln!("{bytes}: {last} objects, {stored} after");
        assert!(stored > last / 10, "{stored} objects of {bytes} bytes after {last}");
        assert_whole(&store).await;
    }
}

/// Many entries go into pages all over an index: redb cannot keep all these pages in memory until the commit.
#[tokio::test]
async fn many_documents_at_once_fit_as_a_whole_or_are_refused() {
    let memory = Memory::of(BTreeMap::new());
    let store = start(&memory, &options());
    store.prepare(COLLECTIONS).await.expect("it can be declared");
    let documents = |from: i64| -> Documents {
        let scattered = |number: i64| (number * 7919).rem_euclid(1_000_003);
        let document = |id: i64| {
            let tags: Vec<i64> = (0..20).map(|tag| scattered(id * 20 + tag)).collect();
            let document = doc! { "_id": id, "public_id": id, "tags": tags, "text": format!("{id:>200}") };
            RawDocumentBuf::try_from(document).expect("it is BSON")
        };
        let all: Vec<RawDocumentBuf> = (from..from + 1_000).map(document).collect();
        all.iter().map(AsRef::as_ref).collect()
    };
    for chunk in 0..4 {
        store.append(THINGS, documents(chunk * 1_000)).await.expect("there is room");
    }
    let opened = memory.opened();
    let (mut there, mut refused, mut stored) = (4_000, 0, 0);
    fill_up(&memory);
    while refused < 4 || stored < 2 {
        match store.append(THINGS, documents(there)).await {
            Ok(()) => (there, stored) = (there + 1_000, stored + 1),
            Err(StoreError::NoRoom { .. }) => {
                refused += 1;
                memory.set_room(fill_up(&memory) + MIB);
            }
            Err(other) => panic!("{other:?}"),
        }
        assert!(refused + stored < 100, "{refused} refused, {stored} stored");
        assert_eq!(memory.opened(), opened, "nothing was opened again");
        let count = store.count(THINGS, &Filter::all(), BUDGET).await.expect("reading goes on");
        assert_eq!(count, there.cast_unsigned());
    }
    assert_whole(&store).await;
}

#[tokio::test]
async fn a_unit_that_does_not_fit_leaves_its_neighbours_alone() {
    let (memory, store, there) = full(600).await;
    let opened = memory.opened();
    assert!(store.is_full(), "the last one found no room");
    // Room for small ones.
    memory.set_room(fill_up(&memory) + 2 * MIB);
    let sizes = [600, 600, 600, 600, 4_000_000, 600, 600, 600, 600, 600];
    let units = sizes.iter().zip(5_000..).map(|(bytes, id)| {
        // Together with a large one it leaves no trace either.
        let unit = Unit::of(insertion(id, 600)).and(insertion(id + 100, *bytes));
        store.commit(unit)
    });
    let answers = futures::future::join_all(units).await;
    for (number, (answer, bytes)) in answers.iter().zip(sizes).enumerate() {
        match answer {
            Ok(_) => assert_eq!(bytes, 600, "{number}"),
            Err(StoreError::NoRoom { what }) => {
                assert_eq!((bytes, what.as_str()), (4_000_000, "a document of things"), "{number}");
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    let stored = (5_000..5_010).filter(|id| *id != 5_004).flat_map(|id| [id, id + 100]);
    assert_eq!(ids(&store).await, there.into_iter().chain(stored).collect());
    delete(&store, 5_000).await.expect("deleting goes on");
    insert(&store, 5_000, 600).await.expect("there is room");
    assert!(!store.is_full());
    assert_eq!(memory.opened(), opened, "nothing was opened again");
    assert_whole(&store).await;
}

#[tokio::test]
async fn a_store_that_was_killed_on_a_full_disk_is_opened_there_with_all_that_was_acknowledged() {
    let (memory, store, mut there) = full(600).await;
    memory.set_room(fill_up(&memory) + 3 * MIB);
    for id in 5_000.. {
        if insert(&store, id, 600).await.is_err() {
            break;
        }
        there.insert(id);
        // As each unit may be the last one before the kill.
        if id % 10 > 0 {
            continue;
        }
        let killed = Memory::of(memory.contents());
        fill_up(&killed);
        let store = start(&killed, &options());
        assert_eq!(ids(&store).await, there, "{id}");
        for id in there.iter().take(3) {
            delete(&store, *id).await.expect("deleting goes on");
        }
        assert_whole(&store).await;
    }
    assert!(there.len() > 300, "{}", there.len());
    drop(store);
    for _ in 0..5 {
        let store = start(&memory, &options());
        assert_eq!(ids(&store).await, there);
        delete(&store, there.pop_first().expect("there are some")).await.expect("deleting goes on");
    }
}

#[tokio::test]
async fn a_start_without_any_room_says_how_much_is_missing() {
    let memory = Memory::of(BTreeMap::new());
    let store = start(&memory, &options());
    store.prepare(COLLECTIONS).await.expect("it can be declared");
    for id in 1..=5 {
        insert(&store, id, 600).await.expect("there is room");
    }
    // As a kill leaves it, before the tables have caught up, in a copy with holes.
    let killed = Memory::of(memory.contents());
    assert!(!recovery::open_overlay(&store_files(&killed)).expect("it is sound").records.is_empty());
    killed.set_room(0);
    for _ in 0..3 {
        match EmbeddedStore::start(store_files(&killed), &options()) {
            Err(refused @ OpenError::NoRoom { needed, .. }) => {
                assert!((MIB..64 * MIB).contains(&needed), "{needed}");
                assert!(refused.to_string().contains(&format!("make room for {needed} bytes")), "{refused}");
            }
            other => panic!("{:?}", other.err()),
        }
    }
    killed.set_room(u64::MAX);
    assert_eq!(ids(&start(&killed, &options())).await, (1..=5).collect());
}

/// What is stored: the version and the size of each document.
type Model = BTreeMap<i64, (i64, usize)>;

struct Session {
    memory: Arc<Memory>,
    store: EmbeddedStore,
    random: Random,
    model: Model,
    next: i64,
    refused: usize,
}

impl Session {
    fn size(&mut self) -> usize {
        let usual = [100, 300, WIDE, 3_000, 9_000, 40_000];
        if self.random.below(60) == 0 { 900_000 } else { usual[self.random.below(usual.len())] }
    }

    fn one(&mut self) -> Option<i64> {
        let number = self.random.below(self.model.len().max(1));
        self.model.keys().nth(number).copied()
    }

    /// Settles the outcome of a change of the model.
    fn settle(&mut self, answer: Result<(), StoreError>, after: Model) {
        match answer {
            Ok(()) => self.model = after,
            Err(StoreError::NoRoom { .. }) => self.refused += 1,
            Err(other) => panic!("{other:?}"),
        }
    }

    /// A unit of a few changes, and what it leaves.
    fn unit(&mut self) -> (Unit, Model) {
        let (mut unit, mut after) = (Unit::default(), self.model.clone());
        for _ in 0..=self.random.below(3) {
            let (size, kind) = (self.size(), self.random.below(4));
            match self.one().filter(|id| after.get(id) == self.model.get(id)) {
                Some(id) if kind > 1 => {
                    let (version, before) = after[&id];
                    let before = document(id, version, before);
                    if kind == 2 {
                        let (collection, changed) = (THINGS, document(id, version + 1, size));
                        unit = unit.and(Change::Replace { collection, before, after: changed });
                        after.insert(id, (version + 1, size));
                    } else {
                        unit = unit.and(Change::Delete { collection: THINGS, before });
                        after.remove(&id);
                    }
                }
                _ => {
                    self.next += 1;
                    unit = unit.and(insertion(self.next, size));
                    after.insert(self.next, (0, size));
                }
            }
        }
        (unit, after)
    }

    async fn step(&mut self) {
        let kind = self.random.below(40);
        match kind {
            0 => self.set_room(),
            1 => self.kill(),
            2 => {
                let declared = [COLLECTIONS, OTHER_INDEXES][self.random.below(2)];
                let answer = self.store.prepare(declared).await;
                self.settle(answer, self.model.clone());
            }
            3 => {
                let mut after = self.model.clone();
                let mut documents = Vec::new();
                for _ in 0..self.random.below(40) {
                    self.next += 1;
                    let size = self.size().min(9_000);
                    documents.push(document(self.next, 0, size));
                    after.insert(self.next, (0, size));
                }
                let documents = documents.iter().map(AsRef::as_ref).collect::<Documents>();
                let answer = self.store.append(THINGS, documents).await;
                self.settle(answer, after);
            }
            4 if self.random.below(3) == 0 => {
                let (from, count) = (self.one().unwrap_or_default(), stored_number(1 + self.random.below(20)));
                let filter = doc! { "_id": { "$gte": from, "$lt": from + count } };
                let filter = Filter::parse(&filter, &Limits::default()).expect("a filter");
                let mut after = self.model.clone();
                after.retain(|id, _| !(from..from + count).contains(id));
                let unit = Unit::of(Change::DeleteMany { collection: THINGS, filter });
                let answer = self.store.commit(unit).await.map(drop);
                self.settle(answer, after);
            }
            5 if self.random.below(20) == 0 => {
                let answer = self.store.clear(THINGS).await;
                self.settle(answer, Model::new());
            }
            6 if self.random.below(3) == 0 => self.fill().await,
            7..=12 => {
                if let Some(id) = self.one() {
                    let mut after = self.model.clone();
                    after.remove(&id);
                    let answer = delete(&self.store, id).await.map(drop);
                    self.settle(answer, after);
                }
            }
            _ => {
                let (unit, after) = self.unit();
                let answer = self.store.commit(unit).await.map(drop);
                self.settle(answer, after);
            }
        }
    }

    /// Adds documents until no more fit.
    async fn fill(&mut self) {
        let refused = self.refused;
        for _ in 0..40 {
            self.next += 1;
            let mut after = self.model.clone();
            after.insert(self.next, (0, 300_000));
            let answer = insert(&self.store, self.next, 300_000).await.map(drop);
            self.settle(answer, after);
            if self.refused > refused {
                break;
            }
        }
    }

    fn set_room(&mut self) {
        let length = fill_up(&self.memory);
        match self.random.below(6) {
            0 => self.memory.set_room(u64::MAX),
            1..4 => self.memory.set_room(length + self.random.next() % (3 * MIB)),
            _ => {}
        }
    }

    fn kill(&mut self) {
        let killed = Memory::of(self.memory.contents());
        // The disk did not become larger.
        let is_full = self.random.below(3) > 0;
        if is_full {
            fill_up(&killed);
        }
        self.store = start(&killed, &options());
        self.memory = killed;
    }

    async fn compare(&self) {
        let found = self.store.find(THINGS, &FindQuery::new(Filter::all(), BUDGET)).await.expect("reading goes on");
        let found: BTreeMap<i64, RawDocumentBuf> =
            found.iter().map(|found| (found.get_i64("_id").expect("a number"), found.to_owned())).collect();
        let known = self.model.iter().map(|(id, (version, bytes))| (*id, document(*id, *version, *bytes)));
        assert!(found == known.collect(), "{:?}, {:?}", found.keys(), self.model);
        assert_whole(&self.store).await;
    }
}

#[tokio::test]
async fn whatever_is_done_while_room_comes_and_goes_nothing_is_lost_and_no_read_refused() {
    let mut refused = 0;
    for seed in 0..3 {
        let memory = Memory::of(BTreeMap::new());
        let store = start(&memory, &options());
        store.prepare(COLLECTIONS).await.expect("it can be declared");
        let random = Random(seed);
        let mut session = Session { memory, store, random, model: Model::new(), next: 0, refused: 0 };
        let mut opened = session.memory.opened();
        for round in 0..rounds(ROUNDS, 1_000) {
            let memory = Arc::clone(&session.memory);
            session.step().await;
            if !Arc::ptr_eq(&memory, &session.memory) {
                opened = session.memory.opened();
            }
            assert_eq!(session.memory.opened(), opened, "seed {seed}, round {round}: it was opened again");
            let count = session.store.count(THINGS, &Filter::all(), BUDGET).await.expect("reading goes on");
            assert_eq!(count, session.model.len() as u64, "seed {seed}, round {round}");
            if round % 25 == 0 {
                session.compare().await;
            }
        }
        session.compare().await;
        let bytes: usize = session.model.values().map(|(_, bytes)| bytes).sum();
        eprintln!("seed {seed}: {} documents, {bytes} bytes, {} refusals", session.model.len(), session.refused);
        refused += session.refused;
    }
    assert!(refused > 20, "the disks were hardly full");
}
