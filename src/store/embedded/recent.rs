//! The newest entries of an index with arrays, in memory.
//!
//! The keys that one document has in such an index fall on pages all over it. Written one document at a time, each of them costs
//! a page to read and to write, and the more the larger the index is. So the entries of the newest rows stay in memory,
//! where they are found as if they were in the table, and are worked into the table in the order of their keys, a stretch with
//! each commit: then a page takes several of them at once. (In `InnoDB` such a thing is the change buffer.)
//!
//! Nothing is lost with the memory: each document says which keys it has, and the documents of the rows concerned are
//! read again when the store is opened. How many these may be is bounded by the memory that their entries take, and by their bytes.
//!
//! *Invariants:*
//! - An index without marks has all its entries in its table; marks once stored are never lost.
//! - Where an entry is follows from its row, its key and the three marks of [`Recent`], which are stored in the
//!   transaction that moves them. So each is in one place: in the table or here, in every version of the store.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use bson::raw::RawDocument;
use bson::spec::BinarySubtype;
use bson::{Binary, Document, doc};
use redb::{Database, ReadOnlyTable, ReadableDatabase, StorageError, Table};

use crate::store::StoreError;

use super::catalog::{Catalog, CatalogError, Collection};
use super::failure;
use super::index::keys_of;
use super::packed::{Met, PackedSet, table as packed};
use super::pages::reading_ahead;
use super::tables::{DataDefinition, data_name, row_behind, with_row};

/// The most that the entries of an index may take: reading their documents again is part of the start. Little in tests of this
/// crate, so that few entries are many rounds.
const MOST_BYTES: usize = if cfg!(test) { 2 * 1024 } else { 64 * 1024 * 1024 };
/// Which part of the cache is theirs.
const PART_OF_CACHE: usize = 4;
/// So many bytes of documents are read again at a start, and as many that came while a round went on.
const MOST_DOCUMENT_BYTES: usize = if cfg!(test) { 64 * 1024 } else { 48 * 1024 * 1024 };
/// So many threads read them.
const MOST_READERS: u64 = 4;
/// A thread for fewer rows is not worth its start.
const LEAST_ROWS: u64 = if cfg!(test) { 8 } else { 2048 };

/// How much of a cache of this size the recent entries of an index may take; the rest is for pages.
pub(super) fn limit(cache_bytes: usize) -> usize {
    MOST_BYTES.min(cache_bytes / PART_OF_CACHE)
}

/// The entries of an index that are not in its table yet, and which these are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Recent {
    /// All entries of rows below this are in the table.
    settled: u64,
    /// Rows from `settled` to below this are being worked in; of those from here on all entries are in memory.
    settling: u64,
    /// How far that has come: of these rows, entries below this are in the table.
    reached: Vec<u8>,
    /// How many entries the table has.
    pub(super) stored: u64,
    /// Keys with their rows, as they stand in the table. Versions of the store share what they have in common.
    entries: PackedSet,
    /// Came while a batch goes on, and are not among the others yet: together they take less time.
    pending: Gathered,
    /// How many came since entries were last worked in.
    grown: usize,
    /// The bytes of the documents of rows from `settled` to below `settling`, and of those from there on.
    documents: [usize; 2],
    /// Why the entries could not be found out: nothing can be said about this index then.
    lost: Option<Arc<str>>,
}

impl Recent {
    /// Entries of rows from this one on.
    pub(super) fn since(row: u64) -> Self {
        Self { settled: row, settling: row, ..Self::default() }
    }

    /// Whether an entry of this row is here, if it is anywhere.
    pub(super) fn holds(&self, entry: &[u8], row: u64) -> bool {
        row >= self.settling || (row >= self.settled && entry >= self.reached.as_slice())
    }

    /// The entries, in order.
    ///
    /// # Errors
    /// They are not known.
    pub(super) fn entries(&self) -> Result<&PackedSet, StorageError> {
        match &self.lost {
            None if self.pending.is_empty() => Ok(&self.entries),
            None => Err(StorageError::Corrupted("newest entries of an index were not put in order".to_owned())),
            Some(why) => Err(StorageError::Corrupted(format!("the newest entries of an index are not known: {why}"))),
        }
    }

    /// Adds an entry that belongs here. Where entries are not known it is not needed: the next opening finds it out.
    pub(super) fn add(&mut self, entry: &[u8]) {
        if self.lost.is_none() {
            self.pending.add(entry);
        }
    }

    /// Puts what was added among the others. Before that nobody can be told what is here.
    pub(super) fn gather(&mut self) {
        let mut pending = std::mem::take(&mut self.pending);
        pending.sort();
        self.grown += self.entries.insert_all(&pending.all().collect::<Vec<_>>());
        pending.clear();
        self.pending = pending;
    }

    /// Takes an entry away that belongs here.
    pub(super) fn remove(&mut self, entry: &[u8]) {
        self.gather();
        self.entries.remove(entry);
    }

    /// Takes note of a document that was stored, as it will have to be read again.
    pub(super) fn note_document(&mut self, row: u64, bytes: usize) {
        if row >= self.settled {
            self.documents[usize::from(row >= self.settling)] += bytes;
        }
    }

    /// Works a stretch of the entries into the table: a little more than what came since the last time, and what is too much.
    ///
    /// Rows that come while a round goes on are the next round's, so that each round meets every page of the table once.
    pub(super) fn settle(
        &mut self,
        table: &mut Table<'_, &'static [u8], &'static [u8]>,
        next_row: u64,
        limit: usize,
    ) -> Result<(), StorageError> {
        if self.lost.is_some() {
            return Ok(());
        }
        self.gather();
        let grown = std::mem::take(&mut self.grown);
        let is_late = self.documents[1] >= MOST_DOCUMENT_BYTES;
        let bytes = self.entries.bytes();
        if self.settled == self.settling {
            if bytes < limit && !is_late {
                return Ok(());
            }
            self.settling = next_row;
            self.documents = [self.documents[1], 0];
        }
        let of_late = if is_late { (self.entries.len() / 16).max(1) } else { 0 };
        // Part of all, by what they take.
        let too_many = self.entries.len() * bytes.saturating_sub(limit) / bytes.max(1);
        let wanted = (grown + grown / 8).max(too_many).max(of_late);
        if wanted == 0 {
            return Ok(());
        }
        let (stretch, is_last) = self.take_stretch(wanted);
        self.stored += packed::insert_all(table, &stretch)?;
        if is_last {
            self.settled = self.settling;
            self.reached.clear();
            self.documents[0] = 0;
        } else if let Some(last) = stretch.last() {
            // The least that comes behind it.
            self.reached = [last, [0].as_slice()].concat();
        }
        Ok(())
    }

    /// Takes the next entries of the round that goes on, and says whether no more are left of it.
    fn take_stretch(&mut self, wanted: usize) -> (Vec<Vec<u8>>, bool) {
        let (mut taken, settling) = (0, self.settling);
        self.entries.take(&self.reached, |entry| {
            if row_behind(entry) >= settling {
                Met::Leave
            } else if taken == wanted {
                Met::Stop
            } else {
                taken += 1;
                Met::Take
            }
        })
    }

    /// As stored with its index.
    pub(super) fn to_document(&self) -> Document {
        let reached = Binary { subtype: BinarySubtype::Generic, bytes: self.reached.clone() };
        doc! {
            "settled": self.settled.cast_signed(),
            "settling": self.settling.cast_signed(),
            "reached": reached,
            "stored": self.stored.cast_signed(),
        }
    }

    /// Reads what [`Recent::to_document`] made; the entries are not there yet, see [`read`].
    ///
    /// # Errors
    /// A member is missing or of another type.
    pub(super) fn from_document(stored: &Document) -> Result<Self, CatalogError> {
        Ok(Self {
            settled: stored.get_i64("settled")?.cast_unsigned(),
            settling: stored.get_i64("settling")?.cast_unsigned(),
            reached: stored.get_binary_generic("reached")?.clone(),
            // Stores made before the table had blocks do not say; they are brought up to this version first.
            stored: stored.get_i64("stored").unwrap_or_default().cast_unsigned(),
            ..Self::default()
        })
    }
}

/// Finds the entries out that were in memory when the store was last used.
///
/// # Errors
/// The storage failed. Damage is no error: it is met by whoever asks an index that it concerns.
pub(super) fn read(database: &Database, catalog: &mut Catalog) -> Result<(), StoreError> {
    let concerned: BTreeSet<u32> = catalog
        .iter()
        .filter(|collection| collection.indexes.iter().any(|index| index.recent.is_some()))
        .map(|collection| collection.number)
        .collect();
    for number in concerned {
        let collection = catalog.at_mut(number);
        match failure::guarded(|| read_collection(database, collection)) {
            Ok(found) => {
                for (index, recent) in collection.indexes.iter_mut().zip(found) {
                    index.recent = recent;
                }
            }
            Err(error @ (StoreError::Unavailable { .. } | StoreError::Backend { .. })) => return Err(error),
            Err(error) => {
                log::error!("{}: the newest documents cannot be read, nor all others found: {error}", collection.name);
                for recent in collection.indexes.iter_mut().filter_map(|index| index.recent.as_mut()) {
                    recent.lost = Some(error.to_string().into());
                }
            }
        }
    }
    Ok(())
}

/// What is in memory of each index.
fn read_collection(database: &Database, collection: &Collection) -> Result<Vec<Option<Recent>>, StoreError> {
    let marks: Vec<Option<Recent>> = collection.indexes.iter().map(|index| index.recent.clone()).collect();
    let first = marks.iter().flatten().map(|recent| recent.settled).min().unwrap_or_default();
    let rows = collection.next_row.saturating_sub(first);
    let cores = thread::available_parallelism().map_or(1, NonZero::get) as u64;
    let readers = cores.min(MOST_READERS).min(rows / LEAST_ROWS).max(1);
    let transaction = database.begin_read().map_err(|error| failure::of_engine(error.into()))?;
    let name = data_name(collection.number);
    let documents = &transaction.open_table(DataDefinition::new(&name)).map_err(failure::of_table)?;
    let begin = |reader: u64| first + rows * reader / readers;
    let parts = thread::scope(|scope| {
        // What lies behind the rows that are known is looked at, too: it would be a mistake of somebody else, and `check` tells it.
        let end = |reader: u64| if reader + 1 == readers { u64::MAX } else { begin(reader + 1) };
        let read = |reader: u64| (begin(reader)..end(reader), marks.clone());
        let others: Vec<_> = (1..readers)
            .map(&read)
            .map(|(rows, marks)| {
                scope
                    .spawn(move || failure::guarded(|| reading_ahead(|| read_rows(documents, collection, rows, marks))))
            })
            .collect();
        let (rows, own) = read(0);
        let own = reading_ahead(|| read_rows(documents, collection, rows, own));
        let others = others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        std::iter::once(own).chain(others).collect::<Result<Vec<_>, _>>()
    })?;
    let mut found = marks;
    for (position, recent) in found.iter_mut().enumerate() {
        let Some(recent) = recent else { continue };
        let parts: Vec<&Recent> = parts.iter().filter_map(|part| part[position].as_ref()).collect();
        for part in &parts {
            recent.documents = [0, 1].map(|which| recent.documents[which] + part.documents[which]);
        }
        let mut entries: Vec<&[u8]> = parts.iter().flat_map(|part| part.pending.all()).collect();
        // Each part is in order: that is found out, and they are merged.
        entries.sort();
        recent.entries = PackedSet::of_sorted(entries.into_iter());
    }
    Ok(found)
}

/// What is in memory of the documents of some rows: each index has it pending, in order.
fn read_rows(
    documents: &ReadOnlyTable<u64, &'static [u8]>,
    collection: &Collection,
    rows: Range<u64>,
    mut found: Vec<Option<Recent>>,
) -> Result<Vec<Option<Recent>>, StoreError> {
    for entry in documents.range(rows).map_err(failure::of_storage)? {
        let (row, stored) = entry.map_err(failure::of_storage)?;
        let (row, bytes) = (row.value(), stored.value());
        let document = RawDocument::from_bytes(bytes).map_err(|_| failure::damaged(&collection.name, row))?;
        for (index, recent) in collection.indexes.iter().zip(&mut found) {
            let Some(recent) = recent else { continue };
            recent.note_document(row, bytes.len());
            for key in keys_of(index, document)?.distinct {
                let entry = with_row(&key, row);
                if recent.holds(&entry, row) {
                    recent.pending.add(&entry);
                }
            }
        }
    }
    for recent in found.iter_mut().flatten() {
        recent.pending.sort();
    }
    Ok(found)
}

/// Entries in no order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Gathered {
    bytes: Vec<u8>,
    places: Vec<Range<usize>>,
}

impl Gathered {
    fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    fn add(&mut self, entry: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(entry);
        self.places.push(start..self.bytes.len());
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.places.sort_unstable_by(|left, right| bytes[left.clone()].cmp(&bytes[right.clone()]));
    }

    fn all(&self) -> impl Iterator<Item = &[u8]> {
        self.places.iter().map(|place| &self.bytes[place.clone()])
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bson::raw::RawDocumentBuf;

    use super::super::maintenance::check;
    use super::super::tables::{IndexTable, Published, Tables};
    use super::super::{EmbeddedStore, Options};
    use super::*;
    use crate::query::Filter;
    use crate::store::{Change, CollectionSpec, FindQuery, IndexKey, IndexSpec, Store, Unit};

    /// What an entry here takes at least, with its part of its block.
    const ENTRY_BYTES: usize = 16;
    const THINGS: &str = "things";
    const INDEXES: &[IndexSpec] = &[IndexSpec::plain("tags", &[IndexKey { path: "tags", descending: false }])];

    fn thing(id: i32, tags: &[i32]) -> RawDocumentBuf {
        RawDocumentBuf::try_from(doc! { "_id": id, "tags": tags }).expect("it is BSON")
    }

    fn insertion(id: i32, tags: &[i32]) -> Change {
        Change::Insert { collection: THINGS, document: thing(id, tags) }
    }

    async fn open(directory: &std::path::Path) -> EmbeddedStore {
        let store = EmbeddedStore::open(directory, &Options::default()).expect("a store");
        store.prepare(&[CollectionSpec { name: THINGS, indexes: INDEXES }]).await.expect("it is declared");
        store
    }

    fn tables(store: &EmbeddedStore, look: impl FnOnce(&Collection, &Tables<Published>)) {
        let snapshot = store.snapshot().expect("the store is open");
        let collection = snapshot.collection(THINGS).expect("it was written to");
        look(collection, snapshot.tables(collection).expect("the tables can be read"));
    }

    /// How many entries are in the table, and how many in memory.
    fn numbers(store: &EmbeddedStore) -> (u64, usize) {
        let mut numbers = (0, 0);
        tables(store, |_, tables| {
            let IndexTable::Packed(_, recent) = &tables.indexes[1] else { panic!("it has arrays") };
            numbers = (recent.stored, recent.entries.len());
        });
        numbers
    }

    async fn ids(store: &EmbeddedStore, tag: i32) -> Vec<i32> {
        let query = FindQuery::new(Filter::equals("tags", tag), std::time::Duration::from_secs(10));
        let found = store.find(THINGS, &query).await.expect("an answer");
        found.iter().map(|thing| thing.get_i32("_id").expect("it has one")).collect()
    }

    #[tokio::test]
    async fn entries_are_found_wherever_they_are_and_each_is_in_one_place() {
        let directory = tempfile::tempdir().expect("a directory for the test");
        let mut store = open(directory.path()).await;
        let mut known: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        let mut most = 0;
        for step in 0..400_i32 {
            let tags = [step % 7, 10 + step * 31 % 50, 100 + step];
            let mut unit = Unit::of(insertion(step, &tags));
            known.insert(step, tags.to_vec());
            let changed = step * 17 % (step + 1);
            if let Some(before) = known.get(&changed).filter(|_| changed != step && step % 3 == 0).cloned() {
                let tags = [step % 5, 10 + step * 13 % 50];
                let (before, after) = (thing(changed, &before), thing(changed, &tags));
                unit = unit.and(Change::Replace { collection: THINGS, before, after });
                known.insert(changed, tags.to_vec());
            }
            if let Some(before) = known.get(&(step / 2)).filter(|_| step % 4 == 1 && step / 2 != changed).cloned() {
                unit = unit.and(Change::Delete { collection: THINGS, before: thing(step / 2, &before) });
                known.remove(&(step / 2));
            }
            store.commit(unit).await.expect("everything is right");
            // What is refused leaves no trace.
            let refused = Unit::of(insertion(10_000 + step, &tags)).and(insertion(step, &tags));
            store.commit(refused).await.expect_err("there is one already");
            let (in_table, in_memory) = numbers(&store);
            assert_eq!(in_table + in_memory as u64, known.values().map(|tags| tags.len() as u64).sum::<u64>());
            most = most.max(in_memory);
            if step % 50 == 49 {
                drop(store);
                assert!(check(directory.path(), &Options::default()).expect("it can be read").is_sound());
                store = open(directory.path()).await;
                assert_eq!(numbers(&store), (in_table, in_memory));
            }
            for tag in [step % 7, 10 + step % 50, 100 + step / 2] {
                let expected: Vec<i32> =
                    known.iter().filter(|(_, tags)| tags.contains(&tag)).map(|(id, _)| *id).collect();
                assert_eq!(ids(&store, tag).await, expected, "{tag} after {step}");
            }
        }
        let (in_table, _) = numbers(&store);
        assert!(in_table > 500, "{in_table}");
        let bound = 2 * limit(Options::default().cache_bytes) / ENTRY_BYTES;
        assert!((1..bound).contains(&most), "{most}");
    }

    #[tokio::test]
    async fn a_unit_of_many_documents_does_not_keep_all_their_entries_in_memory() {
        let directory = tempfile::tempdir().expect("a directory for the test");
        let store = open(directory.path()).await;
        store.commit(Unit::of(insertion(-1, &[1, 2]))).await.expect("everything is right");
        let unit = (0..1000).fold(Unit::default(), |unit, id| unit.and(insertion(id, &[id % 7, id])));
        store.commit(unit).await.expect("everything is right");
        let (in_table, in_memory) = numbers(&store);
        assert!(in_memory < limit(usize::MAX) / ENTRY_BYTES, "{in_memory}");
        assert_eq!(ids(&store, 3).await, (0..1000).filter(|id| id % 7 == 3 || *id == 3).collect::<Vec<_>>());
        assert!(in_table > 1500, "{in_table}");
    }

    #[tokio::test]
    async fn of_large_documents_few_are_read_again() {
        let directory = tempfile::tempdir().expect("a directory for the test");
        let store = open(directory.path()).await;
        store.commit(Unit::of(insertion(-1, &[1, 2]))).await.expect("everything is right");
        for id in 0..40 {
            let document = doc! { "_id": id, "tags": [id], "text": "x".repeat(8 * 1024) };
            let document = RawDocumentBuf::try_from(document).expect("it is BSON");
            store.commit(Unit::of(Change::Insert { collection: THINGS, document })).await.expect("everything is right");
            let (_, in_memory) = numbers(&store);
            assert!(in_memory * 8 * 1024 <= 3 * MOST_DOCUMENT_BYTES, "{in_memory}");
        }
        assert!(numbers(&store).0 > 10);
        assert_eq!(ids(&store, 7).await, [7]);
    }

    #[tokio::test]
    async fn a_round_takes_the_rows_that_were_there_when_it_began() {
        let mut recent = Recent::since(5);
        let holds = |recent: &Recent, key: u8, row: u64| recent.holds(&with_row(&[key], row), row);
        assert!(!holds(&recent, 7, 4) && holds(&recent, 7, 5));
        recent = Recent { settling: 10, reached: with_row(&[3], 0), ..recent };
        assert!(!holds(&recent, 2, 9) && holds(&recent, 3, 9) && holds(&recent, 2, 10) && !holds(&recent, 3, 4));
        let stored = recent.to_document();
        assert_eq!(Recent::from_document(&stored).expect("it was stored"), recent);
    }
}
