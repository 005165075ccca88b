//! Damage: bytes of a real store's file are changed at random places. Each query then gets a correct answer or an
//! error, or the deep check has reported the file before. Nothing makes the damage worse.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bson::doc;
use bson::raw::RawDocumentBuf;
use redb::ReadableDatabase as _;

use super::memory::Memory;
use super::{Random, directory, one_of, options, rounds, start, store_files, up};
use crate::query::{Filter, Limits, Sort};
use crate::store::embedded::index::table::{DataDefinition, data_name};
use crate::store::embedded::open::recovery::{self, Unreplayed};
use crate::store::embedded::upkeep::repair::{self, RepairError};
use crate::store::embedded::upkeep::space;
use crate::store::embedded::{EmbeddedStore, OpenError, failure};
use crate::store::{Change, CollectionSpec, FindQuery, IndexSpec, Store, StoreError, Unit};

/// How many files are damaged.
const ROUNDS: &str = "INVENTORY_DAMAGE_ROUNDS";
const THINGS: &str = "things";
const DOCUMENTS: i64 = 600;
const SLOT: usize = 4096;

const COLLECTIONS: &[CollectionSpec] = &[CollectionSpec {
    name: THINGS,
    indexes: &[
        IndexSpec::unique("public_id", &[up("public_id")]),
        IndexSpec::plain("kind", &[up("kind"), up("public_id")]),
        IndexSpec::plain("tags", &[up("tags")]),
    ],
}];

fn document(id: i64) -> RawDocumentBuf {
    let length = one_of([30, 400, 1_200, 3_000], id);
    let text = format!("{id}-").repeat(length / 4);
    let document = doc! { "_id": id, "public_id": id, "kind": id % 7, "tags": [id, id % 11, "x"], "text": text };
    RawDocumentBuf::try_from(document).expect("it is BSON")
}

fn insertion(id: i64) -> Change {
    Change::Insert { collection: THINGS, document: document(id) }
}

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A store that was used, and closed or not. Most pages of the file are in use.
async fn used_store(closed: bool) -> Files {
    let memory = Memory::of(Files::new());
    let store = start(&memory, &options());
    store.prepare(COLLECTIONS).await.expect("it can be prepared");
    for ids in (1..=DOCUMENTS).collect::<Vec<_>>().chunks(50) {
        let unit = Unit { conditions: Vec::new(), changes: ids.iter().copied().map(insertion).collect() };
        store.commit(unit).await.expect("ids are free");
    }
    drop(store);
    space::compact(&store_files(&memory)).expect("it is sound");
    let store = start(&memory, &options());
    for id in [3, 70, 71, 555] {
        let unit = Unit::of(Change::Delete { collection: THINGS, before: document(id) }).and(insertion(id + DOCUMENTS));
        store.commit(unit).await.expect("it is there");
    }
    if closed {
        drop(store);
        return memory.contents();
    }
    memory.contents()
}

fn questions() -> Vec<FindQuery> {
    let budget = Duration::from_mins(1);
    let filter = |filter| FindQuery::new(Filter::parse(&filter, &Limits::default()).expect("a filter"), budget);
    let mut questions: Vec<FindQuery> =
        (0..40).map(|number| FindQuery::new(Filter::equals("public_id", number * 17), budget)).collect();
    questions.push(FindQuery::new(Filter::all(), budget));
    questions.push(filter(doc! { "kind": 3 }).sorted(Sort::by("public_id", true)));
    questions.push(filter(doc! { "tags": { "$gt": 100, "$lt": 140 } }));
    questions.push(filter(doc! { "tags": { "$in": [5, "x"] }, "kind": { "$ne": 1 } }));
    questions.push(filter(doc! { "text": { "$regex": "^4" } }));
    questions
}

type Answers = Vec<Result<Vec<Vec<u8>>, StoreError>>;

async fn ask(store: &EmbeddedStore) -> Answers {
    let mut answers = Vec::new();
    for question in questions() {
        let found = store.find(THINGS, &question).await;
        answers.push(found.map(|found| found.iter().map(|document| document.as_bytes().to_vec()).collect()));
    }
    answers
}

/// Does something to the file.
fn damage(bytes: &mut Vec<u8>, kind: usize, random: &mut Random) -> &'static str {
    // Where something was ever written.
    let is_used = |at: usize| bytes[at / SLOT * SLOT..].iter().take(SLOT).any(|byte| *byte != 0);
    let at = std::iter::repeat_with(|| random.below(bytes.len())).find(|at| is_used(*at)).expect("it is not empty");
    let other = |byte: &mut u8, random: &mut Random| *byte ^= 1 + u8::try_from(random.below(255)).expect("a byte");
    match kind {
        0..6 => {
            other(&mut bytes[at], random);
            "one byte"
        }
        6 | 7 => {
            bytes.iter_mut().skip(at).take(16).for_each(|byte| other(byte, random));
            "16 bytes"
        }
        8 => {
            bytes.iter_mut().skip(at / 512 * 512).take(512).for_each(|byte| *byte = 0);
            "a sector of zeros"
        }
        _ => {
            bytes.truncate(at);
            "cut off"
        }
    }
}

/// Every document that can be read somehow.
fn readable(memory: &Arc<Memory>) -> BTreeMap<u64, Vec<u8>> {
    let Ok(found) = recovery::open_overlay(&store_files(memory)) else { return BTreeMap::new() };
    let catalog =
        failure::caught(|| recovery::bring_up_to_date(&store_files(memory), &found)).ok().and_then(Result::ok);
    let Unreplayed { database, catalog, .. } =
        Unreplayed { catalog: catalog.unwrap_or(found.catalog.clone()), ..found };
    let Some(collection) = catalog.get(THINGS) else { return BTreeMap::new() };
    let name = data_name(collection.number);
    let read = |row: u64| {
        let read = failure::caught(|| -> Result<_, redb::Error> {
            let table = database.begin_read()?.open_table(DataDefinition::new(&name))?;
            Ok(table.get(row)?.map(|stored| stored.value().to_vec()))
        });
        Some((row, read.ok()?.ok()??))
    };
    // The counter itself may be damaged.
    (0..collection.next_row.min(2 * DOCUMENTS as u64)).filter_map(read).collect()
}

/// The outcome for one damaged file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Outcome {
    damage: &'static str,
    check: &'static str,
    answers: &'static str,
    writes: &'static str,
    repair: &'static str,
}

async fn round(files: &Files, right: &Answers, kind: usize, random: &mut Random) -> Outcome {
    let name = directory().join("inventory.redb");
    let mut damaged = files.clone();
    let kind = damage(damaged.get_mut(&name).expect("the file"), kind, random);
    let memory = Memory::of(damaged.clone());

    let findings = repair::check_at(&store_files(&memory)).expect("damage is a finding");
    assert!(memory.contents() == damaged, "checking changed the file");
    let check = if findings.is_sound() { "sound" } else { "not sound" };

    let before = readable(&memory);
    assert!(memory.contents() == damaged, "looking changed the file");
    let repair = repair(&damaged, right).await;
    let opened = EmbeddedStore::start(store_files(&memory), &options());
    let (answers, writes) = match opened {
        // Damage to the catalog shows only after the storage has opened the file; closing then writes to the file.
        Err(
            OpenError::Damaged { .. }
            | OpenError::UnknownFormat(_)
            | OpenError::NewerFormat { .. }
            | OpenError::NewerPages { .. }
            | OpenError::OlderStorage { .. },
        ) => {
            assert_nothing_lost(&before, &memory);
            ("refused", "refused")
        }
        Err(other) => panic!("{kind}: {other}"),
        Ok(store) => {
            drop(store);
            assert_nothing_lost(&before, &memory);
            let store = start(&memory, &options());
            (compare(&ask(&store).await, right), write(&store).await)
        }
    };
    if findings.is_sound() {
        assert_eq!((answers, writes), ("right", "done"), "the check called it sound, {kind}");
    }
    Outcome { damage: kind, check, answers, writes, repair }
}

/// Opening and closing the file has made nothing worse.
fn assert_nothing_lost(before: &BTreeMap<u64, Vec<u8>>, memory: &Arc<Memory>) {
    let after = readable(memory);
    for (row, bytes) in before {
        assert!(after.get(row) == Some(bytes), "opening the file lost row {row}");
    }
}

fn compare(answers: &Answers, right: &Answers) -> &'static str {
    let mut said = "right";
    for (answer, right) in answers.iter().zip(right) {
        match (answer, right) {
            (Ok(answer), Ok(right)) if answer == right => {}
            (Ok(_), _) => return "some wrong",
            (Err(StoreError::Corrupt { .. } | StoreError::Unavailable { .. } | StoreError::Query { .. }), _) => {
                said = "some errors";
            }
            (Err(other), _) => panic!("{other:?}"),
        }
    }
    said
}

async fn write(store: &EmbeddedStore) -> &'static str {
    let mut said = "done";
    let mut units = vec![Unit::of(insertion(5_000))];
    units.extend((100..110).map(|id| Unit::of(Change::Delete { collection: THINGS, before: document(id) })));
    let filter = Filter::equals("kind", 2);
    units.push(Unit::of(Change::UpdateMany {
        collection: THINGS,
        filter,
        update: crate::query::Update::set("kind", 70),
    }));
    for unit in units {
        match store.commit(unit).await {
            Ok(_) => {}
            Err(StoreError::Backend { cause }) => panic!("{cause}"),
            Err(_) => said = "some errors",
        }
    }
    said
}

/// A repair makes everything right, or says that it cannot and changes nothing.
async fn repair(damaged: &Files, right: &Answers) -> &'static str {
    let memory = Memory::of(damaged.clone());
    match repair::repair_at(&store_files(&memory)) {
        Ok(repaired) => {
            assert!(repaired.after.is_sound(), "{:?}", repaired.after.problems);
            assert_eq!(repaired.kept.is_some(), !repaired.before.is_sound());
            if let Some(kept) = &repaired.kept {
                assert!(memory.contents()[kept] == damaged[&directory().join("inventory.redb")]);
            }
            let store = start(&memory, &options());
            assert_eq!(compare(&ask(&store).await, right), "right", "a repair passed on what was damaged");
            if repaired.kept.is_some() { "repaired" } else { "nothing to do" }
        }
        Err(RepairError::Documents(_) | RepairError::Open(_)) => {
            assert!(memory.contents() == *damaged, "a repair that was not possible changed something");
            "refused"
        }
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_is_found_and_never_made_worse() {
    try_damage(used_store(true).await, 11).await;
}

/// Here the storage recovers. Recovery verifies all pages, and may find that the last commit is incomplete.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_to_the_file_of_a_killed_process_is_found_and_loses_no_acknowledged_write() {
    try_damage(used_store(false).await, 12).await;
}

async fn try_damage(files: Files, seed: u64) {
    let right = ask(&start(&Memory::of(files.clone()), &options())).await;
    assert!(right.iter().all(Result::is_ok));
    let rounds = rounds(ROUNDS, 40);
    let mut random = Random(seed);
    let mut table: BTreeMap<Outcome, usize> = BTreeMap::new();
    for round_number in 0..rounds {
        let outcome = round(&files, &right, round_number % 10, &mut random).await;
        *table.entry(outcome).or_default() += 1;
    }
    eprintln!("{rounds} damaged files of {} KiB:", files.values().map(Vec::len).sum::<usize>() / 1024);
    for (Outcome { damage, check, answers, writes, repair }, count) in &table {
        eprintln!(
            "{count:5}  {damage:18} check: {check:10} answers: {answers:12} writes: {writes:12} repair: {repair}"
        );
    }
    assert!(table.keys().any(|outcome| outcome.check == "not sound"), "no damage was found");
}
