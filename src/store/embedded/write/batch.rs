//! Units applied inside one write transaction, each as a whole or not at all, each seeing the ones before it.
//!
//! Every change is checked completely before it is made. A unit of several changes keeps notes of the rows it wrote. If
//! a later change is refused, the notes are written back. So the unit leaves no trace, and its neighbours in the
//! transaction are not disturbed. A unit with more notes than the bound gets a separate transaction, which is aborted
//! as a whole. So memory does not grow with the number of rows.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use redb::WriteTransaction;

use crate::query::{Filter, Sort};
use crate::store::collections::HISTORY;
use crate::store::copying::COUNTERS;
use crate::store::embedded::catalog::collections::{Catalog, Component, Index};
use crate::store::embedded::failure;
use crate::store::embedded::file::pages::Use;
use crate::store::embedded::index::counts::Changes;
use crate::store::embedded::index::gathered::CHUNK;
use crate::store::embedded::index::keys::keys_of;
use crate::store::embedded::index::range_counts::Moved;
use crate::store::embedded::index::table::Working;
use crate::store::embedded::index::tables::Tables;
use crate::store::embedded::options::Options;
use crate::store::embedded::plan::planner::Wanted;
use crate::store::embedded::plan::point::Point;
use crate::store::embedded::read::execute::{CollectionReader, Deadline};
use crate::store::embedded::write::record::{RecordEntry, Writing};
use crate::store::embedded::write::room::{self, Room};
use crate::store::embedded::write::validate;
use crate::store::{Change, Condition, Documents, Numbered, SCOPES, StoreError, Unit, fresh_revision};

/// The bound on the notes of a unit, in bytes; small in tests of this crate, so that small units exceed it.
const MOST_NOTED: usize = if cfg!(test) { 16 * 1024 } else { 8 * 1024 * 1024 };
/// The bytes of a row's note in addition to document and keys.
const NOTE_BYTES: usize = 200;
/// MongoDB's number for a change of `_id`.
const IMMUTABLE_FIELD: i32 = 66;

/// How a unit that is refused halfway is undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undo {
    /// It is written back from notes.
    Notes,
    /// It is alone in its transaction, which is aborted.
    Transaction,
}

/// What the units of a batch may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchLimits {
    /// See [`Options::filter_budget`].
    pub(crate) filter_budget: Duration,
}

impl BatchLimits {
    /// Those of a store that is opened so.
    pub(crate) fn of(options: &Options) -> Self {
        Self { filter_budget: options.filter_budget }
    }
}

/// What a batch leaves, see [`Batch::into_parts`].
pub(crate) struct Parts {
    pub(crate) catalog: Catalog,
    /// The numbers of the changed collections.
    pub(crate) touched: BTreeSet<u32>,
    /// What makes the batch durable without its pages, if anything does.
    pub(crate) record: Option<Vec<u8>>,
    pub(crate) moved: Moved,
}

/// A write transaction with what belongs to it.
pub(crate) struct Batch<'t> {
    transaction: &'t WriteTransaction,
    /// As it is after the units so far.
    catalog: Catalog,
    /// By the number of the collection.
    tables: HashMap<u32, Tables<Working<'t>>>,
    /// Collections with changes.
    touched: BTreeSet<u32>,
    undo: Undo,
    /// The notes of the current unit, oldest first.
    written: Vec<UndoRow>,
    /// About how many bytes that takes.
    noted: usize,
    /// Added and removed entries that are not counted yet, by collection and position of the index.
    uncounted: HashMap<(u32, usize), Changes>,
    /// Those that are counted.
    moved: Moved,
    limits: BatchLimits,
    /// What the units so far wrote.
    writing: Writing,
    /// How long the filters of this unit have searched for documents.
    spent: Duration,
    /// The log that reserves room.
    room: &'t Room,
    /// Whether the current unit leaves fewer bytes of documents than there were.
    is_removal: bool,
    /// How many bytes such a unit adds; what it removes pays for them first.
    owed: usize,
    /// Whether only a part of the gathered entries is in the tables: then notes cannot be written back.
    is_unsettled: bool,
}

/// If the first array makes a group pack an index of more keys than this, the group ends with a table commit.
const MOST_PACKED: u64 = 1024;

/// A written row, with everything needed to undo it.
struct UndoRow {
    collection: u32,
    row: u64,
    before: Option<RawDocumentBuf>,
    keys: Vec<KeyChange>,
}

impl UndoRow {
    /// About how much memory this takes.
    fn bytes(&self) -> usize {
        let before = self.before.as_ref().map_or(0, |before| before.as_bytes().len());
        let keys = self.keys.iter().flat_map(|change| change.add.iter().chain(&change.remove));
        NOTE_BYTES + before + keys.map(|key| NOTE_BYTES / 4 + key.len()).sum::<usize>()
    }
}

/// How the keys of a row in one index change.
#[derive(Default)]
struct KeyChange {
    add: Vec<Vec<u8>>,
    remove: Vec<Vec<u8>>,
    /// See [`Component::arrays`](crate::store::embedded::catalog::collections::Component::arrays).
    arrays: Vec<u64>,
    /// See [`Component::documents`](crate::store::embedded::catalog::collections::Component::documents).
    documents: Vec<u64>,
    cut: bool,
}

impl<'t> Batch<'t> {
    pub(crate) fn new(
        transaction: &'t WriteTransaction,
        catalog: Catalog,
        limits: BatchLimits,
        undo: Undo,
        room: &'t Room,
    ) -> Self {
        let writing = if undo == Undo::Notes { Writing::default() } else { Writing::off() };
        Self {
            writing,
            transaction,
            catalog,
            tables: HashMap::new(),
            touched: BTreeSet::new(),
            undo,
            written: Vec::new(),
            noted: 0,
            uncounted: HashMap::new(),
            moved: Moved::default(),
            limits,
            spent: Duration::ZERO,
            room,
            is_removal: false,
            owed: 0,
            is_unsettled: false,
        }
    }

    /// Applies a unit; returns how many documents each change touched.
    ///
    /// # Errors
    /// After [`Refusal::Unit`] and [`Refusal::TooLarge`] the batch is as before, unless aborting the transaction undoes
    /// the unit. After [`Refusal::Batch`] it must be aborted.
    pub(crate) fn apply(&mut self, unit: &Unit) -> Result<Vec<u64>, Refusal> {
        self.spent = Duration::ZERO;
        let added = added_by_removal(unit);
        (self.is_removal, self.owed) = (added.is_some(), added.unwrap_or_default());
        let catalog = may_need_undo(unit).then(|| self.catalog.clone());
        match self.run(unit) {
            Ok(counts) => {
                self.keep_written();
                Ok(counts)
            }
            Err(Halt::Refused(error)) if is_fatal(&error) || self.is_unsettled => Err(Refusal::Batch(error)),
            Err(halt) => {
                if self.undo == Undo::Transaction {
                    return Err(halt.into());
                }
                self.write_back().map_err(Refusal::Batch)?;
                self.writing.forget();
                // Without a saved catalog nothing changed: a single change is refused before it is made. New
                // collections stay, because their tables are open. They are empty.
                if let Some(mut before) = catalog {
                    for made in self.catalog.iter().skip(before.len()) {
                        before.number_of(&made.name);
                    }
                    self.catalog = before;
                }
                Err(halt.into())
            }
        }
    }

    /// Replays an entry of a record; see [`journal`](crate::store::embedded::write::journal).
    ///
    /// # Errors
    /// The storage failed, or the entry does not fit the tables. The batch must then be aborted.
    pub(crate) fn redo(&mut self, entry: RecordEntry<'_>) -> Result<(), StoreError> {
        let number = match entry {
            RecordEntry::Row { collection, .. } | RecordEntry::LastId { collection, .. } => collection,
        };
        if number as usize >= self.catalog.len() {
            return Err(StoreError::Corrupt { what: "a write in the log, to no collection".to_owned() });
        }
        self.open_tables(number)?;
        self.touched.insert(number);
        match entry {
            RecordEntry::LastId { id, .. } => self.catalog.at(number).note_id(id),
            RecordEntry::Row { row, document, .. } => {
                let before = self.reader(number).document(row, ToOwned::to_owned)?;
                self.write(number, row, before, document).map_err(Halt::into_error)?;
                self.keep_written();
            }
        }
        Ok(())
    }

    /// Stores new documents, or takes counters over; see [`Copying::append`](crate::store::Copying::append).
    ///
    /// # Errors
    /// The error of a document. The batch must then be aborted, so it has [`Undo::Transaction`].
    pub(crate) fn append(&mut self, collection: &str, documents: &Documents) -> Result<(), StoreError> {
        if collection == COUNTERS {
            return documents.iter().try_for_each(|counter| self.take_counter(counter));
        }
        let number = self.open(collection)?;
        self.touched.insert(number);
        for document in documents.iter() {
            validate::document(document)?;
            self.insert(number, document).map_err(Halt::into_error)?;
        }
        self.keep_written();
        Ok(())
    }

    fn take_counter(&mut self, counter: &RawDocument) -> Result<(), StoreError> {
        let (Ok(collection), Ok(value)) = (counter.get_str("_id"), counter.get_i64("value")) else {
            return Err(StoreError::Corrupt { what: format!("a counter of {COUNTERS}") });
        };
        let number = self.open(collection)?;
        self.touched.insert(number);
        self.catalog.at(number).note_id(value);
        Ok(())
    }

    /// Updates the count blocks, merges gathered entries into their tables and closes the tables.
    ///
    /// # Errors
    /// The storage failed.
    pub(crate) fn into_parts(mut self) -> Result<Parts, StoreError> {
        self.count()?;
        self.settle()?;
        for number in &self.touched {
            let own = self.catalog.at_mut(*number);
            let tables = self.tables.get_mut(number).map_or([].as_mut_slice(), |tables| &mut tables.indexes);
            for (index, table) in own.indexes.iter_mut().zip(tables) {
                let pages = if index.is_multikey() { table.pages_to_pack().map_err(failure::of_storage)? } else { 0 };
                // Without room it is left for the next time.
                if pages > 0
                    && self.room.allows(pages)?
                    && table.pack(self.transaction, *number, index.number).map_err(failure::of_table)? > MOST_PACKED
                {
                    // Replaying this needs more than the rows of a record.
                    self.writing.give_up();
                }
                index.packed = table.packed_entries();
            }
        }
        for number in &self.touched {
            self.writing.add(RecordEntry::LastId { collection: *number, id: self.catalog.at(*number).last_id() });
        }
        let (record, moved) = (self.writing.into_record(), self.moved);
        Ok(Parts { catalog: self.catalog, touched: self.touched, record, moved })
    }

    /// Merges the gathered entries into the tables of their indexes. Units have room promised for them. But a promise
    /// covers only pages that redb keeps in memory. Of many entries redb writes some pages early, which need more room.
    fn settle(&mut self) -> Result<(), StoreError> {
        self.settle_where(|_| true)
    }

    /// The same for some collections. A reader of one collection leaves the others: their entries are merged once for all
    /// units of the group.
    fn settle_where(&mut self, is_meant: impl Fn(u32) -> bool) -> Result<(), StoreError> {
        let (room, mut unasked) = (self.room, 0);
        let mut ask = |entries: usize| {
            unasked += entries;
            if unasked <= CHUNK {
                return Ok(());
            }
            let pages = room::of_sorted_entries(std::mem::take(&mut unasked));
            room.promise(pages, Use::Removing(0), || "entries of indexes".to_owned())
        };
        let mut tables = self.tables.iter_mut().filter(|(number, _)| is_meant(**number));
        let settled = tables.try_for_each(|(_, tables)| tables.settle(&mut ask));
        self.is_unsettled |= settled.is_err();
        settled
    }

    /// The writes so far will not be undone.
    fn keep_written(&mut self) {
        self.note_entries();
        for number in self.written.iter().map(|written| written.collection).collect::<BTreeSet<_>>() {
            self.touched.insert(number);
            self.catalog.at_mut(number).revision = fresh_revision();
        }
        self.written.clear();
        self.noted = 0;
        self.writing.keep();
    }

    /// Counts the entries added and removed since the last call.
    fn count(&mut self) -> Result<(), StoreError> {
        for ((number, position), changes) in std::mem::take(&mut self.uncounted) {
            let collection = self.catalog.at(number);
            let tables = self.tables.get_mut(&number).expect("written collections are open");
            // An index may have met its first array meanwhile: then it is no longer counted.
            if collection.is_counted(position)
                && let Some(mut blocks) = tables.blocks_mut(collection, position)
            {
                blocks.apply(&changes)?;
                self.moved.add(number, collection.indexes[position].number, changes);
            }
        }
        Ok(())
    }

    /// Notes the entries that the unit added and removed.
    fn note_entries(&mut self) {
        for written in &self.written {
            let collection = self.catalog.at(written.collection);
            let tables = &self.tables[&written.collection];
            for (position, change) in written.keys.iter().enumerate() {
                if !collection.is_counted(position) || (change.add.is_empty() && change.remove.is_empty()) {
                    continue;
                }
                let changes = self.uncounted.entry((written.collection, position)).or_default();
                for (keys, number) in [(&change.add, 1), (&change.remove, -1)] {
                    for key in keys {
                        *changes.entry(tables.indexes[position].entry_of(key, written.row)).or_default() += number;
                    }
                }
            }
        }
    }

    fn run(&mut self, unit: &Unit) -> Result<Vec<u64>, Halt> {
        for (index, condition) in unit.conditions.iter().enumerate() {
            if !self.holds(condition)? {
                return Err(StoreError::Condition { index }.into());
            }
        }
        for condition in &unit.conditions {
            if let Condition::Unchanged { scope, at } = condition {
                self.move_scope(scope, *at)?;
            }
        }
        unit.changes.iter().map(|change| self.change(change)).collect()
    }

    fn holds(&mut self, condition: &Condition) -> Result<bool, StoreError> {
        match condition {
            Condition::Exists { collection, filter } => self.any(collection, filter),
            Condition::None { collection, filter } => Ok(!self.any(collection, filter)?),
            Condition::Unchanged { scope, at } => Ok(self.scope(scope)?.map_or(0, |(_, _, now)| now) == *at),
        }
    }

    fn any(&mut self, collection: &str, filter: &Filter) -> Result<bool, StoreError> {
        Ok(!self.rows(collection, filter, true)?.is_empty())
    }

    /// The rows of matching documents, in insertion order; with `is_any` only one of them.
    ///
    /// # Errors
    /// [`StoreError::Timeout`] when the search takes too long, because all other writes wait.
    fn rows(&mut self, collection: &str, filter: &Filter, is_any: bool) -> Result<Vec<u64>, StoreError> {
        validate::runs_here(filter)?;
        let number = self.open(collection)?;
        let collection = self.catalog.at(number);
        if let Some(point) = Point::of(collection, filter.tree()) {
            return Ok(point.row(&self.tables[&number])?.into_iter().collect());
        }
        let started = Instant::now();
        let deadline = Deadline::after(self.limits.filter_budget.saturating_sub(self.spent));
        self.settle_where(|other| other == number)?;
        let collection = self.catalog.at(number);
        let mut reader = CollectionReader::new(collection, &self.tables[&number], deadline);
        let wanted = Wanted { first: is_any.then_some(1), total: false, any_order: false };
        let choice = reader.plan(filter.tree(), &Sort::default(), wanted)?;
        if is_any {
            reader = reader.in_any_order();
        }
        let mut rows = Vec::new();
        reader.each(&choice.plan, filter, &mut |row, _| {
            rows.push(row);
            Ok(if is_any { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        self.spent += started.elapsed();
        Ok(rows)
    }

    /// The row of a scope's counter, its document and its number.
    fn scope(&mut self, scope: &str) -> Result<Option<(u64, RawDocumentBuf, i64)>, StoreError> {
        let number = self.open(SCOPES)?;
        let Some(row) = self.row_of_id(number, RawBsonRef::String(scope))? else { return Ok(None) };
        let stored = self.document(number, row)?;
        let now = stored
            .get_i64("at")
            .map_err(|_| StoreError::Corrupt { what: format!("the counter of the scope {scope}") })?;
        Ok(Some((row, stored, now)))
    }

    fn move_scope(&mut self, scope: &str, at: i64) -> Result<(), Halt> {
        let number = self.open(SCOPES)?;
        let mut after = RawDocumentBuf::new();
        after.append(bson::raw::cstr!("_id"), scope);
        after.append(bson::raw::cstr!("at"), at.wrapping_add(1));
        match self.scope(scope)? {
            Some((row, before, _)) => self.write(number, row, Some(before), Some(&after)),
            None => self.insert(number, &after),
        }
    }

    fn change(&mut self, change: &Change) -> Result<u64, Halt> {
        match change {
            Change::Insert { collection, document } => {
                validate::document(document)?;
                let number = self.open(collection)?;
                self.insert(number, document)?;
                Ok(1)
            }
            Change::Replace { collection, before, after } => {
                validate::document(after)?;
                if id_of(before)? != id_of(after)? {
                    let message = "_id cannot be changed".to_owned();
                    return Err(StoreError::Query { code: IMMUTABLE_FIELD, message }.into());
                }
                let number = self.open(collection)?;
                let row = self.unchanged_row(number, before)?;
                self.write(number, row, Some(before.clone()), Some(after))?;
                Ok(1)
            }
            Change::Delete { collection, before } => {
                let number = self.open(collection)?;
                let row = self.unchanged_row(number, before)?;
                self.write(number, row, Some(before.clone()), None)?;
                Ok(1)
            }
            Change::DeleteMany { collection, filter } => {
                let rows = self.rows(collection, filter, false)?;
                let number = self.open(collection)?;
                for row in &rows {
                    let before = self.document(number, *row)?;
                    self.write(number, *row, Some(before), None)?;
                }
                Ok(rows.len() as u64)
            }
            Change::UpdateMany { collection, filter, update } => {
                let rows = self.rows(collection, filter, false)?;
                let number = self.open(collection)?;
                for row in &rows {
                    let before = self.document(number, *row)?;
                    let mut document =
                        bson::Document::try_from(before.clone()).map_err(|_| failure::damaged(collection, *row))?;
                    if update.apply(&mut document) {
                        let after =
                            RawDocumentBuf::try_from(document).map_err(|_| failure::damaged(collection, *row))?;
                        validate::document(&after)?;
                        self.write(number, *row, Some(before), Some(&after))?;
                    }
                }
                Ok(rows.len() as u64)
            }
            Change::Append(numbered) => self.append_numbered(numbered),
        }
    }

    /// Stores documents with the next numbers. Numbers that a refused unit took stay missing.
    fn append_numbered(&mut self, numbered: &Numbered) -> Result<u64, Halt> {
        let order = self.open(HISTORY)?;
        let last = self.catalog.at(order).last_id().max(numbered.floor);
        self.catalog.at(order).note_id(last.saturating_add(i64::from(numbered.count)));
        let documents = (numbered.documents)(last.saturating_add(1));
        let number = self.open(numbered.collection)?;
        for document in &documents {
            validate::document(document)?;
            self.insert(number, document)?;
        }
        Ok(documents.len() as u64)
    }

    fn insert(&mut self, collection: u32, document: &RawDocument) -> Result<(), Halt> {
        let row = self.catalog.at(collection).next_row;
        self.write(collection, row, None, Some(document))
    }

    /// The row of a document that has not changed since it was read.
    fn unchanged_row(&mut self, collection: u32, before: &RawDocument) -> Result<u64, StoreError> {
        let row = self.row_of_id(collection, id_of(before)?)?.ok_or(StoreError::Stale)?;
        let same = self.reader(collection).document(row, |stored| stored.as_bytes() == before.as_bytes())?;
        if same == Some(true) { Ok(row) } else { Err(StoreError::Stale) }
    }

    fn reader(&self, collection: u32) -> CollectionReader<'_, Working<'t>> {
        CollectionReader::new(self.catalog.at(collection), &self.tables[&collection], Deadline::none())
    }

    fn row_of_id(&self, collection: u32, id: RawBsonRef<'_>) -> Result<Option<u64>, StoreError> {
        self.reader(collection).row_of_id(id)
    }

    fn document(&self, collection: u32, row: u64) -> Result<RawDocumentBuf, StoreError> {
        let reader = self.reader(collection);
        reader.document(row, ToOwned::to_owned)?.ok_or_else(|| failure::damaged(&self.catalog.at(collection).name, row))
    }

    /// Opens the tables of a collection, which is created if it does not exist.
    fn open(&mut self, name: &str) -> Result<u32, StoreError> {
        let known = self.catalog.len();
        let number = self.catalog.number_of(name);
        if self.catalog.len() > known {
            self.touched.insert(number);
            // A record names collections by number, and this collection gets its number only with this transaction.
            self.writing.give_up();
        }
        self.open_tables(number)?;
        Ok(number)
    }

    fn open_tables(&mut self, number: u32) -> Result<(), StoreError> {
        if let std::collections::hash_map::Entry::Vacant(slot) = self.tables.entry(number) {
            let collection = self.catalog.at(number);
            let use_ = if self.is_removal { Use::Removing(0) } else { Use::Changing };
            self.room.promise(room::of_tables(collection.indexes.len()), use_, || collection.name.clone())?;
            let tables = Tables::<Working<'t>>::open(self.transaction, collection);
            slot.insert(tables.map_err(failure::of_table)?);
        }
        Ok(())
    }

    /// Writes a row after checking that all unique indexes allow it.
    fn write(
        &mut self,
        collection: u32,
        row: u64,
        before: Option<RawDocumentBuf>,
        after: Option<&RawDocument>,
    ) -> Result<(), Halt> {
        if self.noted > MOST_NOTED {
            if self.undo == Undo::Notes {
                return Err(Halt::TooLarge);
            }
            self.keep_written();
            self.count()?;
            self.settle()?;
        }
        let keys = self.key_changes(collection, before.as_deref(), after)?;
        self.check_unique(collection, row, &keys)?;
        self.ask_for_room(collection, before.as_deref(), after, &keys)?;
        self.put(collection, row, after, &keys)?;
        self.note(collection, row, after, &keys);
        self.writing.add(RecordEntry::Row { collection, row, document: after });
        let written = UndoRow { collection, row, before, keys };
        self.noted += written.bytes();
        self.written.push(written);
        Ok(())
    }

    fn key_changes(
        &self,
        collection: u32,
        before: Option<&RawDocument>,
        after: Option<&RawDocument>,
    ) -> Result<Vec<KeyChange>, StoreError> {
        let indexes = self.catalog.at(collection).indexes.iter();
        indexes
            .map(|index| {
                let old = before.map(|document| keys_of(index, document)).transpose()?.unwrap_or_default();
                let new = after.map(|document| keys_of(index, document)).transpose()?.unwrap_or_default();
                Ok(KeyChange {
                    add: new.distinct.iter().filter(|key| old.distinct.binary_search(key).is_err()).cloned().collect(),
                    remove: old.distinct.into_iter().filter(|key| new.distinct.binary_search(key).is_err()).collect(),
                    arrays: new.arrays,
                    documents: new.documents,
                    cut: new.cut,
                })
            })
            .collect()
    }

    /// Reserves room for the pages that writing a row changes.
    fn ask_for_room(
        &mut self,
        collection: u32,
        before: Option<&RawDocument>,
        after: Option<&RawDocument>,
        keys: &[KeyChange],
    ) -> Result<(), StoreError> {
        let length = |document: Option<&RawDocument>| document.map_or(0, |document| document.as_bytes().len());
        let (before, after) = (length(before), length(after));
        let mut pages = room::of_document(before.max(after));
        let (mut added, mut removed) = (after, before);
        for (table, change) in self.tables[&collection].indexes.iter().zip(keys) {
            added += change.add.iter().map(Vec::len).sum::<usize>();
            removed += change.remove.iter().map(Vec::len).sum::<usize>();
            let lengths = change.add.iter().chain(&change.remove).map(Vec::len);
            pages += room::of_keys(lengths, table.packed_entries().is_some());
        }
        let use_ = match added.saturating_sub(removed) as u64 {
            _ if self.is_removal => {
                let paid = removed.min(self.owed);
                self.owed -= paid;
                Use::Removing((removed - paid) as u64)
            }
            0 => Use::Changing,
            more => Use::Adding(more),
        };
        self.room.promise(pages, use_, || format!("a document of {}", self.catalog.at(collection).name))
    }

    fn check_unique(&self, collection: u32, row: u64, keys: &[KeyChange]) -> Result<(), StoreError> {
        let own = self.catalog.at(collection);
        for ((index, table), change) in own.indexes.iter().zip(&self.tables[&collection].indexes).zip(keys) {
            for key in &change.add {
                if table.row_of(key).map_err(failure::of_storage)?.is_some_and(|other| other != row) {
                    return Err(StoreError::Duplicate { collection: own.name.clone(), key: index.name.clone() });
                }
            }
        }
        Ok(())
    }

    fn put(
        &mut self,
        collection: u32,
        row: u64,
        after: Option<&RawDocument>,
        keys: &[KeyChange],
    ) -> Result<(), StoreError> {
        let tables = self.tables.get_mut(&collection).expect("written collections are open");
        match after {
            Some(document) => tables.data.insert(row, document.as_bytes()).map(drop),
            None => tables.data.remove(row).map(drop),
        }
        .map_err(failure::of_storage)?;
        for (table, change) in tables.indexes.iter_mut().zip(keys) {
            for key in &change.remove {
                table.remove(key, row).map_err(failure::of_storage)?;
            }
            for key in &change.add {
                table.add(key, row).map_err(failure::of_storage)?;
            }
        }
        Ok(())
    }

    /// Keeps the catalog in step with a row that was written.
    fn note(&mut self, collection: u32, row: u64, after: Option<&RawDocument>, keys: &[KeyChange]) {
        let Some(document) = after else { return };
        let known = self.catalog.at(collection);
        if let Some(id) = public_id(document) {
            known.note_id(id);
        }
        let is_news = |(index, change): (&Index, &KeyChange)| {
            let seen = change.arrays.iter().zip(&change.documents);
            let is_new = |(part, (arrays, documents)): (&Component, (&u64, &u64))| {
                part.arrays | arrays != part.arrays || part.documents | documents != part.documents
            };
            index.components.iter().zip(seen).any(is_new) || (change.cut && !index.has_cut_keys)
        };
        if row < known.next_row && !known.indexes.iter().zip(keys).any(is_news) {
            return;
        }
        let own = self.catalog.at_mut(collection);
        own.next_row = own.next_row.max(row + 1);
        for (index, change) in own.indexes.iter_mut().zip(keys) {
            index.has_cut_keys |= change.cut;
            for (component, (arrays, documents)) in
                index.components.iter_mut().zip(change.arrays.iter().zip(&change.documents))
            {
                component.arrays |= arrays;
                component.documents |= documents;
            }
        }
    }

    /// Undoes the writes of the unit, latest first.
    fn write_back(&mut self) -> Result<(), StoreError> {
        self.noted = 0;
        while let Some(written) = self.written.pop() {
            let turned =
                written.keys.into_iter().map(|change| KeyChange { add: change.remove, remove: change.add, ..change });
            let keys: Vec<KeyChange> = turned.collect();
            self.put(written.collection, written.row, written.before.as_deref(), &keys)?;
        }
        Ok(())
    }
}

/// Why a unit was not applied.
pub(crate) enum Refusal {
    /// The unit was refused, and left no trace.
    Unit(StoreError),
    /// The unit must be alone in its transaction, see [`Undo::Transaction`]. It left no trace here.
    TooLarge,
    /// The storage failed: the transaction is lost.
    Batch(StoreError),
}

/// Why applying a unit ended half way.
enum Halt {
    Refused(StoreError),
    /// See [`Refusal::TooLarge`].
    TooLarge,
}

impl Halt {
    /// The error of a transaction that is aborted as a whole, so that no unit is too large for its notes.
    fn into_error(self) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::TooLarge => StoreError::backend("the transaction was to be given up"),
        }
    }
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<Halt> for Refusal {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Refused(error) => Self::Unit(error),
            Halt::TooLarge => Self::TooLarge,
        }
    }
}

/// Whether the writes of the unit so far are unknown. A unit that reads damaged pages is tried again alone.
fn is_fatal(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable { .. } | StoreError::Backend { .. } | StoreError::Corrupt { .. })
}

/// How many bytes a unit adds that removes documents with at least as many. Its entries of the history are such additions.
fn added_by_removal(unit: &Unit) -> Option<usize> {
    if unit.conditions.iter().any(|condition| matches!(condition, Condition::Unchanged { .. })) {
        return None;
    }
    let (mut removed, mut added) = (None, 0);
    for change in &unit.changes {
        match change {
            Change::Delete { before, .. } => *removed.get_or_insert(0) += before.as_bytes().len(),
            Change::DeleteMany { .. } => drop(removed.get_or_insert(0)),
            Change::Insert { document, .. } => added += document.as_bytes().len(),
            Change::Append(numbered) => added += numbered.bytes,
            Change::Replace { .. } | Change::UpdateMany { .. } => return None,
        }
    }
    removed.filter(|removed| added <= *removed).map(|_| added)
}

/// Whether part of the unit may have been applied when another part is refused.
fn may_need_undo(unit: &Unit) -> bool {
    let is_many =
        |change: &Change| matches!(change, Change::DeleteMany { .. } | Change::UpdateMany { .. } | Change::Append(_));
    let moves_scope = |condition: &Condition| matches!(condition, Condition::Unchanged { .. });
    unit.changes.len() > 1 || unit.changes.iter().any(is_many) || unit.conditions.iter().any(moves_scope)
}

fn id_of(document: &RawDocument) -> Result<RawBsonRef<'_>, StoreError> {
    document.get("_id").ok().flatten().ok_or_else(|| StoreError::Corrupt { what: "a document without _id".to_owned() })
}

/// The `public_id` of a document, if it is a whole number.
pub(crate) fn public_id(document: &RawDocument) -> Option<i64> {
    let key = document.get("public_id").ok()??;
    crate::query::compare::number(crate::query::raw::View::from(key))
        .and_then(crate::query::number::Number::as_exact_int)
}
