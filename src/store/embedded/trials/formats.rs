//! Files of older versions: they are brought up when they are opened, and say so.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bson::{Document, doc};
use redb::Database;

use super::memory::Memory;
use super::space::filled;
use super::{directory, location, options, start};
use crate::query::{Filter, Limits};
use crate::store::Store;
use crate::store::embedded::format::FORMAT;
use crate::store::embedded::packed::table as packed;
use crate::store::embedded::pages::{Opened, Pages};
use crate::store::embedded::storage::{Storage, Watched};
use crate::store::embedded::tables::{
    META, META_COLLECTION, META_FORMAT, META_IDENTITY, PlainDefinition, UniqueDefinition, counts_name, index_name,
    packed_name,
};
use crate::store::embedded::{maintenance, space};

fn opened(memory: &Arc<Memory>) -> Database {
    let storage = Arc::clone(memory) as Arc<dyn Storage>;
    let (file, mark) = (directory().join("inventory.redb"), directory().join("mark"));
    let file = Watched::open(&storage, &file, mark).expect("it is there");
    match Pages::open(Box::new(file)).expect("it is sound") {
        Opened::Log(pages) => Database::builder().create_with_backend(pages),
        Opened::Plain(_) => panic!("it is a log"),
    }
    .expect("it is sound")
}

/// Changes the tables of a closed store.
pub(super) fn tamper(memory: &Arc<Memory>, change: impl FnOnce(&redb::WriteTransaction)) {
    let database = opened(memory);
    let transaction = database.begin_write().expect("a transaction");
    change(&transaction);
    transaction.commit().expect("it can be written");
}

/// Has the file say that it is of another format.
pub(super) fn set_format(memory: &Arc<Memory>, version: i64) {
    tamper(memory, |transaction| {
        let format = doc! { "version": version }.to_vec().expect("a number is BSON");
        let mut meta = transaction.open_table(META).expect("it is there");
        meta.insert(META_FORMAT, format.as_slice()).expect("it can be written");
    });
}

/// A closed store of 300 documents as a build of format 1 may have left it: with counts that nobody kept right.
async fn of_format_1() -> Arc<Memory> {
    let memory = Memory::of(BTreeMap::new());
    let store = start(&memory, &options());
    filled(&store, 300).await;
    drop(store);
    set_format(&memory, 1);
    tamper(&memory, |transaction| {
        transaction.open_table(META).expect("it is there").remove(META_IDENTITY).expect("it can be written");
        let name = counts_name(0);
        let mut counts = transaction.open_table(UniqueDefinition::new(&name)).expect("it is there");
        let wrong: Vec<(Vec<u8>, u64)> = redb::ReadableTable::iter(&counts)
            .expect("readable")
            .map(|entry| entry.map(|(block, count)| (block.value().to_vec(), count.value())).expect("readable"))
            .collect();
        // The sums stay what they were, so that nothing else shows it.
        let moved = |position: usize, count: u64| if position.is_multiple_of(2) { count + 2 } else { count - 2 };
        let blocks: Vec<_> = wrong.iter().filter(|(block, _)| block[4] == 1).take(2).enumerate().collect();
        for (position, (block, count)) in blocks {
            counts.insert(block.as_slice(), moved(position, *count)).expect("it can be written");
        }
    });
    memory
}

/// Makes the tables those of a build of format 3, in which each entry of an index with arrays has a row of its own.
pub(super) fn set_format_3(memory: &Arc<Memory>) {
    tamper(memory, |transaction| {
        let mut meta = transaction.open_table(META).expect("it is there");
        let stored: Vec<(String, Document)> = redb::ReadableTable::iter(&meta)
            .expect("readable")
            .map(|entry| entry.expect("readable"))
            .filter(|(name, _)| name.value().starts_with(META_COLLECTION))
            .map(|(name, stored)| (name.value().to_owned(), Document::from_reader(stored.value()).expect("it is BSON")))
            .collect();
        let mut unpacked = 0;
        for (name, mut collection) in stored {
            let number = u32::try_from(collection.get_i64("number").expect("it has one")).expect("it is small");
            for index in collection.get_array_mut("indexes").expect("it has some") {
                let index = index.as_document_mut().expect("it is one");
                let Ok(recent) = index.get_document_mut("recent") else { continue };
                recent.remove("stored");
                let of_index = u32::try_from(index.get_i64("number").expect("it has one")).expect("it is small");
                let (packed_name, plain_name) = (packed_name(number, of_index), index_name(number, of_index));
                let packed_table = transaction.open_table(packed::Definition::new(&packed_name)).expect("it is there");
                let mut plain = transaction.open_table(PlainDefinition::new(&plain_name)).expect("it can be made");
                let all = (Bound::Unbounded, Bound::Unbounded);
                for entry in packed::range(&packed_table, all).expect("readable") {
                    plain.insert(&*entry.expect("readable"), ()).expect("it can be written");
                    unpacked += 1;
                }
                drop(packed_table);
                transaction.delete_table(packed::Definition::new(&packed_name)).expect("it is there");
            }
            let stored = collection.to_vec().expect("it is BSON");
            meta.insert(name.as_str(), stored.as_slice()).expect("it can be written");
        }
        assert!(unpacked > 0, "no index has arrays");
        let format = doc! { "version": 3_i64 }.to_vec().expect("a number is BSON");
        meta.insert(META_FORMAT, format.as_slice()).expect("it can be written");
    });
}

/// The format that a closed file says it has.
pub(super) fn version(memory: &Arc<Memory>) -> i64 {
    let database = opened(memory);
    let transaction = redb::ReadableDatabase::begin_read(&database).expect("a transaction");
    let meta = transaction.open_table(META).expect("it is there");
    let format = redb::ReadableTable::get(&meta, META_FORMAT).expect("readable").expect("it is there");
    Document::from_reader(format.value()).expect("it is BSON").get_i64("version").expect("a number")
}

async fn count_below(store: &dyn Store, bound: i64) -> u64 {
    let filter = Filter::parse(&doc! { "public_id": { "$lt": bound } }, &Limits::default()).expect("a filter");
    store.count("things", &filter, Duration::from_mins(1)).await.expect("an answer")
}

#[tokio::test]
async fn a_file_of_format_1_is_counted_anew_when_it_is_opened() {
    let memory = of_format_1().await;
    assert_eq!(version(&memory), 1);
    let store = start(&memory, &options());
    for bound in [1, 5, 100, 299, 300] {
        assert_eq!(count_below(&store, bound).await, bound.unsigned_abs(), "below {bound}");
    }
    assert_eq!(store.check().await.expect("it can be read"), Vec::<String>::new());
    drop(store);
    assert_eq!(version(&memory), FORMAT);
}

#[tokio::test]
async fn counts_of_format_1_that_cannot_be_read_are_repaired() {
    let memory = of_format_1().await;
    tamper(&memory, |transaction| {
        let name = counts_name(0);
        transaction.delete_table(UniqueDefinition::new(&name)).expect("it is there");
        let table: redb::TableDefinition<'_, &'static str, &'static str> = redb::TableDefinition::new(&name);
        transaction.open_table(table).expect("it can be made").insert("no", "counts").expect("it can be written");
    });
    assert!(!maintenance::check_at(&location(&memory)).expect("it can be looked at").is_sound());
    let repaired = maintenance::repair_at(&location(&memory)).expect("the documents are whole");
    assert!(repaired.after.is_sound());
    assert_eq!(count_below(&start(&memory, &options()), 200).await, 200);
}

#[tokio::test]
async fn looking_at_a_file_of_format_1_does_not_change_it_and_compacting_brings_it_up() {
    let memory = of_format_1().await;
    let before = memory.contents();
    assert_eq!(maintenance::check_at(&location(&memory)).expect("it can be opened").problems, []);
    assert!(memory.contents() == before, "checking changed the file");
    space::compact(&location(&memory)).expect("it is sound");
    assert_eq!(version(&memory), FORMAT);
    assert_eq!(count_below(&start(&memory, &options()), 200).await, 200);
}
