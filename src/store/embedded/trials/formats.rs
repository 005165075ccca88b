//! Files of older versions: they are brought up when they are opened, and say so.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bson::raw::RawDocumentBuf;
use bson::spec::BinarySubtype;
use bson::{Binary, Document, doc};
use redb::Database;

use super::memory::Memory;
use super::space::filled;
use super::{directory, options, start, store_files};
use crate::query::{Filter, Limits};
use crate::store::embedded::catalog::meta::{FORMAT, META, META_COLLECTION, META_FORMAT};
use crate::store::embedded::file::pages::{Opened, Pages};
use crate::store::embedded::file::storage::Storage;
use crate::store::embedded::index::entries::row_behind;
use crate::store::embedded::index::packed::table as packed;
use crate::store::embedded::index::table::{PlainDefinition, UniqueDefinition, counts_name, index_name, packed_name};
use crate::store::embedded::upkeep::{repair, space};
use crate::store::{Change, CollectionSpec, FindQuery, IndexKey, IndexSpec, Store, Unit};

const TAGGED: &str = "tagged";
const TAGS: &[IndexSpec] = &[IndexSpec::plain("tags", &[IndexKey { path: "tags", descending: false }])];

fn opened(memory: &Arc<Memory>) -> Database {
    let file = memory.open(&directory().join("inventory.redb")).expect("it is there");
    match Pages::open(file).expect("it is sound") {
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

/// A closed store of 300 documents as a build of format 1 may have left it: with wrong counts.
async fn of_format_1() -> Arc<Memory> {
    let memory = Memory::of(BTreeMap::new());
    let store = start(&memory, &options());
    filled(&store, 300).await;
    drop(store);
    set_format(&memory, 1);
    tamper(&memory, |transaction| {
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

/// Converts the tables to format 3, in which each entry of an index with arrays has its own row in the table.
pub(super) fn set_format_3(memory: &Arc<Memory>) {
    set_format_with_marks(memory, 3);
}

/// Converts the tables to format 3 or 4: indexes with arrays lack the entries of the newest rows.
fn set_format_with_marks(memory: &Arc<Memory>, version: i64) {
    tamper(memory, |transaction| {
        let mut meta = transaction.open_table(META).expect("it is there");
        let stored: Vec<(String, Document)> = redb::ReadableTable::iter(&meta)
            .expect("readable")
            .map(|entry| entry.expect("readable"))
            .filter(|(name, _)| name.value().starts_with(META_COLLECTION))
            .map(|(name, stored)| (name.value().to_owned(), Document::from_reader(stored.value()).expect("it is BSON")))
            .collect();
        let (mut kept, mut lost) = (0, 0);
        for (name, mut collection) in stored {
            let number = u32::try_from(collection.get_i64("number").expect("it has one")).expect("it is small");
            let newest = collection.get_i64("next_row").expect("it has one") / 2;
            for index in collection.get_array_mut("indexes").expect("it has some") {
                let index = index.as_document_mut().expect("it is one");
                if index.remove("packed").is_none() {
                    continue;
                }
                let of_index = u32::try_from(index.get_i64("number").expect("it has one")).expect("it is small");
                let (packed_name, plain_name) = (packed_name(number, of_index), index_name(number, of_index));
                let mut packed_table =
                    transaction.open_table(packed::Definition::new(&packed_name)).expect("it is there");
                let all = (Bound::Unbounded, Bound::Unbounded);
                let entries: Vec<Vec<u8>> = packed::range(&packed_table, all)
                    .expect("readable")
                    .map(|entry| entry.expect("readable").to_vec())
                    .collect();
                let is_new = |entry: &Vec<u8>| row_behind(entry) >= newest.cast_unsigned();
                let (new, old): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_new);
                (kept, lost) = (kept + old.len(), lost + new.len());
                let reached = Binary { subtype: BinarySubtype::Generic, bytes: Vec::new() };
                let mut marks = doc! { "settled": newest, "settling": newest, "reached": reached };
                if version == 4 {
                    marks.insert("stored", i64::try_from(old.len()).expect("they are few"));
                    for entry in &new {
                        assert!(packed::remove(&mut packed_table, entry).expect("it can be written"));
                    }
                } else {
                    let mut plain = transaction.open_table(PlainDefinition::new(&plain_name)).expect("it can be made");
                    for entry in &old {
                        plain.insert(entry.as_slice(), ()).expect("it can be written");
                    }
                    drop(packed_table);
                    transaction.delete_table(packed::Definition::new(&packed_name)).expect("it is there");
                }
                index.insert("recent", marks);
            }
            let stored = collection.to_vec().expect("it is BSON");
            meta.insert(name.as_str(), stored.as_slice()).expect("it can be written");
        }
        assert!(kept > 0 && lost > 0, "no index has arrays");
        let format = doc! { "version": version }.to_vec().expect("a number is BSON");
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
    assert!(!repair::check_at(&store_files(&memory)).expect("it can be looked at").is_sound());
    let repaired = repair::repair_at(&store_files(&memory)).expect("the documents are whole");
    assert!(repaired.after.is_sound());
    assert_eq!(count_below(&start(&memory, &options()), 200).await, 200);
}

#[tokio::test]
async fn looking_at_a_file_of_format_1_does_not_change_it_and_compacting_brings_it_up() {
    let memory = of_format_1().await;
    let before = memory.contents();
    assert_eq!(repair::check_at(&store_files(&memory)).expect("it can be opened").problems, []);
    assert!(memory.contents() == before, "checking changed the file");
    space::compact(&store_files(&memory)).expect("it is sound");
    assert_eq!(version(&memory), FORMAT);
    assert_eq!(count_below(&start(&memory, &options()), 200).await, 200);
}

#[tokio::test]
async fn entries_that_older_formats_kept_in_memory_are_put_into_their_tables() {
    for version_then in [3, 4] {
        let memory = Memory::of(BTreeMap::new());
        let store = start(&memory, &options());
        store.prepare(&[CollectionSpec { name: TAGGED, indexes: TAGS }]).await.expect("it is declared");
        for id in 0..60 {
            let document =
                RawDocumentBuf::try_from(doc! { "_id": id, "tags": [id % 7, 100 + id] }).expect("it is BSON");
            let insert = Change::Insert { collection: TAGGED, document };
            store.commit(Unit::of(insert)).await.expect("everything is right");
        }
        drop(store);
        set_format_with_marks(&memory, version_then);
        let looked_at = repair::check_at(&store_files(&memory)).expect("it can be looked at");
        assert_eq!(looked_at.problems, [], "of format {version_then}");
        let store = start(&memory, &options());
        for (tag, expected) in [(3, 9), (101, 1), (159, 1), (160, 0)] {
            let query = FindQuery::new(Filter::equals("tags", tag), Duration::from_mins(1));
            assert_eq!(store.find(TAGGED, &query).await.expect("an answer").len(), expected, "of {tag}");
        }
        assert_eq!(store.check().await.expect("it can be read"), Vec::<String>::new());
        drop(store);
        assert_eq!(version(&memory), FORMAT);
    }
}
