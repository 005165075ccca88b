//! Runs a plan: finds rows, checks their documents, and passes matching ones on.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use bson::raw::RawDocument;
use redb::{AccessGuard, ReadableTable, ReadableTableMetadata};

use crate::admission::{Means, Share};
use crate::query::{Budget, Filter, Node, Sort};
use crate::store::StoreError;
use crate::store::embedded::catalog::collections::{Collection, Index};
use crate::store::embedded::failure;
use crate::store::embedded::index::counts::Blocks;
use crate::store::embedded::index::key;
use crate::store::embedded::index::ranges::{IndexScan, KeyRange, Order};
use crate::store::embedded::index::row_cache::CachedPage;
use crate::store::embedded::index::table::{IndexTable, TableAccess};
use crate::store::embedded::index::tables::Tables;
use crate::store::embedded::plan::planner::{Choice, Numbers, Plan, TotalBy, Wanted, plan, prefers_scan};
use crate::store::embedded::read::merge::Merge;

/// How many steps there are between two reads of the clock.
const STEPS_PER_LOOK: usize = 1024;
/// How many bytes of a document make a step.
const BYTES_PER_STEP: usize = 1024;
/// A scan of more ranges is counted each time.
const REMEMBERED_RANGES: usize = 8;
/// Keys that are only counted make steps of this many.
const COUNTED_AT_ONCE: usize = 64;
/// How many ranges are counted to compare indexes; the others are assumed to be similar.
const COUNTED_RANGES: usize = 64;

/// The end of a query's time.
#[derive(Debug, Clone)]
pub(crate) struct Deadline {
    end: Option<Instant>,
    /// How many steps there are between two reads of the clock.
    interval: usize,
    steps: usize,
    means: Means,
}

impl Deadline {
    /// In `budget` from now on.
    pub(crate) fn after(budget: Duration) -> Self {
        Self { end: Instant::now().checked_add(budget), ..Self::none() }
    }

    /// Never.
    pub(crate) fn none() -> Self {
        Self { end: None, interval: STEPS_PER_LOOK, steps: 0, means: Means::default() }
    }

    /// The same; the clock is read at each step.
    pub(crate) fn exactly(self) -> Self {
        Self { interval: 1, ..self }
    }

    /// The same; it also ends when nobody waits for the work any more.
    pub(crate) fn within(self, means: &Means) -> Self {
        Self { means: means.clone(), ..self }
    }

    /// Memory for values that are kept during the search.
    pub(crate) fn share(&self) -> Share {
        self.means.share()
    }

    /// The budget of the query's expressions, with the same clock.
    pub(crate) fn budget(&self) -> Budget {
        Budget::until(self.end).within(&self.means)
    }

    /// Counts steps, and reads the clock at intervals.
    fn step(&mut self, count: usize) -> Result<(), StoreError> {
        self.steps += count;
        if self.steps < self.interval { Ok(()) } else { self.look() }
    }

    pub(crate) fn look(&mut self) -> Result<(), StoreError> {
        self.steps = 0;
        match self.end {
            _ if self.means.is_gone() => Err(StoreError::Timeout),
            Some(end) if Instant::now() >= end => Err(StoreError::Timeout),
            _ => Ok(()),
        }
    }
}

/// How much work a query was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) keys: u64,
    pub(crate) documents: u64,
    /// The keys led to too many documents, so a scan ran instead.
    pub(crate) gave_up: bool,
}

/// What the handler of a found document answers: stop or continue.
pub(crate) type Flow = Result<ControlFlow<()>, StoreError>;

/// The handler of a found row.
type OnRow<'v, 'a, A> = &'v mut dyn FnMut(&mut CollectionReader<'a, A>, u64) -> Flow;

/// Reads one collection.
pub(crate) struct CollectionReader<'a, A: TableAccess> {
    collection: &'a Collection,
    tables: &'a Tables<A>,
    deadline: Deadline,
    /// Whether one document may take long, so that the clock is read for each.
    is_costly: bool,
    /// Whether the order of the documents does not matter.
    in_any_order: bool,
    /// Whether documents without another order come last one first.
    backward: bool,
    pub(crate) work: Work,
}

impl<'a, A: TableAccess> CollectionReader<'a, A> {
    pub(crate) fn new(collection: &'a Collection, tables: &'a Tables<A>, deadline: Deadline) -> Self {
        Self {
            collection,
            tables,
            deadline,
            is_costly: false,
            in_any_order: false,
            backward: false,
            work: Work::default(),
        }
    }

    /// The same; documents may come in any order.
    pub(crate) fn in_any_order(self) -> Self {
        Self { in_any_order: true, ..self }
    }

    /// Plans with counts of keys.
    ///
    /// # Errors
    /// [`StoreError::Timeout`] when the time ended before a way was found.
    pub(crate) fn plan(&mut self, filter: &Node, sort: &Sort, wanted: Wanted) -> Result<Choice, StoreError> {
        let choice = plan(self.collection, filter, sort, wanted, self);
        self.deadline.look()?;
        Ok(choice)
    }

    /// From the last document to the first, if no index gives another order.
    pub(crate) fn set_backward(&mut self) {
        self.backward = true;
    }

    /// How many documents the collection has.
    pub(crate) fn len(&self) -> Result<u64, StoreError> {
        self.tables.data.len().map_err(failure::of_storage)
    }

    /// How many documents match.
    pub(crate) fn count(&mut self, choice: &Choice, filter: &Filter) -> Result<u64, StoreError> {
        match &choice.total {
            TotalBy::Collection => self.len(),
            TotalBy::Keys(scan) => self.count_keys(scan),
            TotalBy::Documents => {
                if let Plan::Sets(sets) = &choice.plan {
                    let mut share = self.share();
                    return Ok(self.rows_in_all(sets, filter, &mut share)?.len());
                }
                let mut count = 0;
                self.each(&choice.plan, filter, &mut |_, _| {
                    count += 1;
                    Ok(ControlFlow::Continue(()))
                })?;
                Ok(count)
            }
        }
    }

    pub(crate) fn count_keys(&mut self, scan: &IndexScan) -> Result<u64, StoreError> {
        if let Some(known) = self.known(scan) {
            return Ok(known);
        }
        let tables = self.tables;
        let blocks = self.blocks(scan.index)?;
        let is_remembered = scan.ranges.len() <= REMEMBERED_RANGES;
        let places = tables.counted.as_ref().filter(|_| is_remembered && blocks.is_some());
        let mut count = 0;
        for range in &scan.ranges {
            let place = places.map(|places| places.of(self.number_of(scan), range));
            let entries = match &blocks {
                Some(blocks) => blocks.count(&range.start, &range.end, &mut || self.note_key())?,
                None => {
                    let mut entries = 0;
                    for entry in
                        tables.indexes[scan.index].entries(&range.start, &range.end).map_err(failure::of_storage)?
                    {
                        entry.map_err(failure::of_storage)?;
                        self.note_key()?;
                        entries += 1;
                    }
                    entries
                }
            };
            if let Some(place) = place {
                place.note(entries);
            }
            count += entries;
        }
        Ok(count)
    }

    fn number_of(&self, scan: &IndexScan) -> u32 {
        self.collection.indexes[scan.index].number
    }

    /// The count blocks of an index, if it has them.
    pub(crate) fn blocks(&self, index: usize) -> Result<Option<Blocks<'a, A::Unique, A>>, StoreError> {
        let Some(blocks) = self.tables.blocks(self.collection, index) else { return Ok(None) };
        Ok(if blocks.are_complete()? { Some(blocks) } else { None })
    }

    /// Shows `visit` each document that matches, once, in the order of the plan.
    pub(crate) fn each(
        &mut self,
        plan: &Plan,
        filter: &Filter,
        visit: &mut dyn FnMut(u64, &RawDocument) -> Flow,
    ) -> Result<(), StoreError> {
        self.is_costly = filter.tree().is_costly();
        let budget = self.deadline.budget();
        let mut visit = |row: u64, document: &RawDocument, exact: bool| {
            if exact || filter.matches_within(document, &budget).map_err(failure::of_evaluation)? {
                visit(row, document)
            } else {
                Ok(ControlFlow::Continue(()))
            }
        };
        match plan {
            Plan::Nothing => Ok(()),
            Plan::Scan => self.scan(&mut |row, document| visit(row, document, false)),
            Plan::Index(scan) if self.in_any_order || (scan.comes_in_order() && !self.backward) => {
                let mut visit = |row: u64, document: &RawDocument| visit(row, document, scan.exact);
                self.index(scan, &mut |reader, row| reader.visit_row(row, &mut visit))
            }
            Plan::Index(scan) => {
                let mut rows = Vec::new();
                self.collect_rows(scan, &mut rows)?;
                self.visit_rows(rows, scan.exact, &mut visit)
            }
            Plan::Union(scans) if self.in_any_order => {
                let mut stopped = false;
                for scan in scans {
                    let mut visit = |row: u64, document: &RawDocument| {
                        let flow = visit(row, document, false)?;
                        stopped = flow.is_break();
                        Ok(flow)
                    };
                    self.index(scan, &mut |reader, row| reader.visit_row(row, &mut visit))?;
                    if stopped {
                        break;
                    }
                }
                Ok(())
            }
            Plan::Sets(sets) => {
                let mut share = self.share();
                let found = self.rows_in_all(sets, filter, &mut share)?;
                self.visit_rows(found.iter().collect(), true, &mut visit)
            }
            Plan::Union(scans) => {
                let mut rows = Vec::new();
                for scan in scans {
                    self.collect_rows(scan, &mut rows)?;
                }
                self.visit_rows(rows, false, &mut visit)
            }
        }
    }

    /// The document of a row, handed to `read`.
    pub(crate) fn document<T>(&self, row: u64, read: impl FnOnce(&RawDocument) -> T) -> Result<Option<T>, StoreError> {
        let Some(stored) = self.tables.data.get(row).map_err(failure::of_storage)? else { return Ok(None) };
        Ok(Some(read(self.whole(row, stored.value())?)))
    }

    fn whole<'d>(&self, row: u64, bytes: &'d [u8]) -> Result<&'d RawDocument, StoreError> {
        RawDocument::from_bytes(bytes).map_err(|_| failure::damaged(&self.collection.name, row))
    }

    pub(crate) fn scan(&mut self, visit: &mut impl FnMut(u64, &RawDocument) -> Flow) -> Result<(), StoreError> {
        let mut entries = self.tables.data.range(0..u64::MAX).map_err(failure::of_storage)?;
        while let Some(entry) = if self.backward { entries.next_back() } else { entries.next() } {
            let (row, stored) = entry.map_err(failure::of_storage)?;
            self.note_document(stored.value())?;
            if visit(row.value(), self.whole(row.value(), stored.value())?)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Shows `on_row` the row of each entry in the ranges, once.
    fn index(&mut self, scan: &IndexScan, on_row: OnRow<'_, 'a, A>) -> Result<(), StoreError> {
        match scan.order {
            _ if scan.is_merge() => self.merge(scan, on_row),
            Order::Unused | Order::Forward => self.forward(scan, on_row),
            Order::Backward => self.backward(scan, on_row),
        }
    }

    /// The rows in the ranges after the first `skip`, at most `limit` (0: all), and how many were skipped. Reads no
    /// document.
    pub(crate) fn page_of_rows(&mut self, scan: &IndexScan, skip: u64, limit: u64) -> Result<CachedPage, StoreError> {
        let places = self.tables.places.as_ref();
        if let Some(place) = places.and_then(|places| places.find(scan, skip, limit)) {
            self.work.keys += place.keys;
            return Ok(place);
        }
        let before = self.work.keys;
        let (rest, mut passed) = self.skip_whole_blocks(scan, skip)?;
        let mut rows = Vec::new();
        self.index(&rest, &mut |_, row| {
            if passed < skip {
                passed += 1;
            } else {
                rows.push(row);
            }
            let is_full = limit != 0 && rows.len() as u64 >= limit;
            Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        let place = CachedPage { rows: rows.into(), passed, keys: self.work.keys - before };
        if let Some(places) = places {
            places.note(scan, skip, limit, &place);
        }
        Ok(place)
    }

    /// All rows in order, by an index that has one entry for each document: it has far fewer pages than the documents.
    /// Nothing if there is no such index.
    pub(crate) fn all_rows(&mut self) -> Result<Option<Vec<u64>>, StoreError> {
        let has_one = |index: &Index| index.unique && index.partial.is_none() && !index.is_multikey();
        let Some(index) = self.collection.indexes.iter().position(has_one) else { return Ok(None) };
        let all = KeyRange::beginning_with(Vec::new());
        let entries = self.tables.indexes[index].entries(&all.start, &all.end).map_err(failure::of_storage)?;
        let mut rows = Vec::new();
        for entry in entries {
            rows.push(entry.map_err(failure::of_storage)?.row);
            self.note_key()?;
        }
        rows.sort_unstable();
        Ok((rows.len() as u64 == self.len()?).then_some(rows))
    }

    /// Shows `visit` the documents of these rows, in this order.
    pub(crate) fn each_of(
        &mut self,
        rows: &[u64],
        visit: &mut dyn FnMut(&RawDocument) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let collection = self.collection;
        self.each_stored(rows, &mut |row, document| {
            visit(document.ok_or_else(|| failure::lost(&collection.name, row))?)?;
            Ok(ControlFlow::Continue(()))
        })
    }

    /// The same until `visit` breaks; it gets nothing for a row that there is not.
    pub(crate) fn each_stored(
        &mut self,
        rows: &[u64],
        visit: &mut dyn FnMut(u64, Option<&RawDocument>) -> Flow,
    ) -> Result<(), StoreError> {
        let tables = self.tables;
        let Some((lowest, highest)) = stretch(rows) else {
            for &row in rows {
                let stored = tables.data.get(row).map_err(failure::of_storage)?;
                let stored = stored.as_ref().map(AccessGuard::value);
                if self.show(row, stored, visit)?.is_break() {
                    break;
                }
            }
            return Ok(());
        };
        // Neighbours are on the same pages: one walk along them costs less than a look-up from the root for each.
        let mut entries = tables.data.range(lowest..=highest).map_err(failure::of_storage)?;
        let descends = rows.first() == Some(&highest);
        let mut next = None;
        for &wanted in rows {
            // Rows that were not requested are skipped; the one after the wanted row waits for its turn.
            while next.as_ref().is_none_or(|(row, _)| if descends { *row > wanted } else { *row < wanted }) {
                let Some(entry) = (if descends { entries.next_back() } else { entries.next() }) else { break };
                let (row, stored) = entry.map_err(failure::of_storage)?;
                next = Some((row.value(), stored));
            }
            let stored = next.as_ref().filter(|(row, _)| *row == wanted).map(|(_, stored)| stored.value());
            if self.show(wanted, stored, visit)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn show(
        &mut self,
        row: u64,
        stored: Option<&[u8]>,
        visit: &mut dyn FnMut(u64, Option<&RawDocument>) -> Flow,
    ) -> Flow {
        let Some(stored) = stored else { return visit(row, None) };
        self.note_document(stored)?;
        visit(row, Some(self.whole(row, stored)?))
    }

    /// The rows of all ranges; a row with several keys in them occurs several times.
    fn collect_rows(&mut self, scan: &IndexScan, rows: &mut Vec<u64>) -> Result<(), StoreError> {
        for range in &scan.ranges {
            let entries = self.tables.indexes[scan.index].entries(&range.start, &range.end);
            for entry in entries.map_err(failure::of_storage)? {
                rows.push(entry.map_err(failure::of_storage)?.row);
                self.note_key()?;
            }
        }
        Ok(())
    }

    /// In insertion order or its reverse, each row once. If they are a large part of all rows, it scans instead.
    fn visit_rows(
        &mut self,
        mut rows: Vec<u64>,
        exact: bool,
        visit: &mut dyn FnMut(u64, &RawDocument, bool) -> Flow,
    ) -> Result<(), StoreError> {
        rows.sort_unstable();
        rows.dedup();
        if self.backward {
            rows.reverse();
        }
        if prefers_scan(rows.len() as u64, self.len()?) {
            self.work.gave_up = true;
            return self.scan(&mut |row, document| visit(row, document, false));
        }
        for row in rows {
            if self.visit_row(row, &mut |row, document| visit(row, document, exact))?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Shows `visit` the document of a row.
    pub(crate) fn visit_row(&mut self, row: u64, visit: &mut dyn FnMut(u64, &RawDocument) -> Flow) -> Flow {
        let stored = self.tables.data.get(row).map_err(failure::of_storage)?;
        let stored = stored.ok_or_else(|| failure::lost(&self.collection.name, row))?;
        self.note_document(stored.value())?;
        visit(row, self.whole(row, stored.value())?)
    }

    fn forward(&mut self, scan: &IndexScan, on_row: OnRow<'_, 'a, A>) -> Result<(), StoreError> {
        let mut seen = ShownRows::of(self.collection, scan);
        for range in &scan.ranges {
            if self.ascend(scan.index, range, &mut seen, on_row)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn merge(&mut self, scan: &IndexScan, on_row: OnRow<'_, 'a, A>) -> Result<(), StoreError> {
        let tables = self.tables;
        let mut seen = ShownRows::of(self.collection, scan);
        let mut rows = Merge::new(&tables.indexes[scan.index], scan).map_err(failure::of_storage)?;
        while let Some(row) = rows.next().map_err(failure::of_storage)? {
            self.note_key()?;
            if seen.is_new(row) && on_row(self, row)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn ascend(&mut self, index: usize, range: &KeyRange, seen: &mut ShownRows, on_row: OnRow<'_, 'a, A>) -> Flow {
        let tables = self.tables;
        for entry in tables.indexes[index].entries(&range.start, &range.end).map_err(failure::of_storage)? {
            let row = entry.map_err(failure::of_storage)?.row;
            self.note_key()?;
            if seen.is_new(row) && on_row(self, row)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// From the last key to the first. Documents with equal keys still come in insertion order: each key is found
    /// backwards, and its entries are read forwards.
    fn backward(&mut self, scan: &IndexScan, on_row: OnRow<'_, 'a, A>) -> Result<(), StoreError> {
        let tables = self.tables;
        let mut seen = ShownRows::of(self.collection, scan);
        for range in scan.ranges.iter().rev() {
            let flow = match &tables.indexes[scan.index] {
                table @ IndexTable::Unique(_) => self.descend(table, range, &mut seen, on_row)?,
                table @ (IndexTable::Plain(_) | IndexTable::Packed(..)) => {
                    self.descend_by_key(scan.index, table, range, &mut seen, on_row)?
                }
            };
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn descend(
        &mut self,
        table: &IndexTable<A>,
        range: &KeyRange,
        seen: &mut ShownRows,
        on_row: OnRow<'_, 'a, A>,
    ) -> Flow {
        let mut entries = table.entries(&range.start, &range.end).map_err(failure::of_storage)?;
        while let Some(entry) = entries.next_back() {
            let row = entry.map_err(failure::of_storage)?.row;
            self.note_key()?;
            if seen.is_new(row) && on_row(self, row)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn descend_by_key(
        &mut self,
        index: usize,
        table: &IndexTable<A>,
        range: &KeyRange,
        seen: &mut ShownRows,
        on_row: OnRow<'_, 'a, A>,
    ) -> Flow {
        let mut end = range.end.clone();
        loop {
            let last = table.entries(&range.start, &end).map_err(failure::of_storage)?.next_back();
            let Some(last) = last.transpose().map_err(failure::of_storage)? else { break };
            let group = KeyRange::beginning_with(last.key().to_vec());
            end.clone_from(&group.start);
            if self.ascend(index, &group, seen, on_row)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    pub(crate) fn share(&self) -> Share {
        self.deadline.share()
    }

    /// Reads the clock, before what may take long.
    pub(crate) fn look(&mut self) -> Result<(), StoreError> {
        self.deadline.look()
    }

    pub(crate) fn budget(&self) -> Budget {
        self.deadline.budget()
    }

    /// The row that the next document gets.
    pub(crate) fn next_row(&self) -> u64 {
        self.collection.next_row
    }

    pub(crate) fn table(&self, index: usize) -> &'a IndexTable<A> {
        &self.tables.indexes[index]
    }

    /// Whether an index has one key of each document.
    pub(crate) fn has_all(&self, index: usize) -> bool {
        let index = &self.collection.indexes[index];
        index.partial.is_none() && !index.is_multikey()
    }

    /// Shows `is_last` the rows of a scan in its order, until it holds.
    pub(crate) fn walk(&mut self, scan: &IndexScan, is_last: &mut dyn FnMut(u64) -> bool) -> Result<(), StoreError> {
        self.index(scan, &mut |_, row| {
            Ok(if is_last(row) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })
    }

    pub(crate) fn note_keys(&mut self, count: u64) -> Result<(), StoreError> {
        self.work.keys += count;
        self.deadline.step(usize::try_from(count).unwrap_or(usize::MAX))
    }

    pub(crate) fn note_key(&mut self) -> Result<(), StoreError> {
        self.work.keys += 1;
        self.deadline.step(1)
    }

    fn note_document(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.work.documents += 1;
        if self.is_costly { self.deadline.look() } else { self.deadline.step(1 + bytes.len() / BYTES_PER_STEP) }
    }
}

impl<A: TableAccess> CollectionReader<'_, A> {
    /// The row of the document with this `_id`.
    pub(crate) fn row_of_id(&self, id: bson::raw::RawBsonRef<'_>) -> Result<Option<u64>, StoreError> {
        let mut key = key::of_value(id).map_err(|_| StoreError::Corrupt { what: "an _id".to_owned() })?;
        key::cut(&mut key, true);
        self.tables.indexes[0].row_of(&key).map_err(failure::of_storage)
    }
}

impl<A: TableAccess> Numbers for CollectionReader<'_, A> {
    /// If counting fails, reading meets the same failure and reports it.
    fn documents(&self) -> u64 {
        self.len().unwrap_or_default()
    }

    fn known(&self, scan: &IndexScan) -> Option<u64> {
        // Numbers of an index that met an array are carried on no longer.
        let is_carried = scan.ranges.len() <= REMEMBERED_RANGES && self.collection.is_counted(scan.index);
        let counted = self.tables.counted.as_ref().filter(|_| is_carried)?;
        scan.ranges.iter().map(|range| counted.known(self.number_of(scan), range)).sum()
    }

    fn keys(&self, scan: &IndexScan, at_most: u64) -> u64 {
        if let Some(known) = self.known(scan) {
            return known;
        }
        let mut deadline = self.deadline.clone();
        let blocks = self.blocks(scan.index).ok().flatten();
        let (mut keys, mut ranges) = (0, 0);
        for range in scan.ranges.iter().take(COUNTED_RANGES) {
            let found = match &blocks {
                // Few entries are read for each range, but there may be many ranges.
                Some(blocks) => {
                    deadline.look().and_then(|()| blocks.count(&range.start, &range.end, &mut || deadline.step(1)))
                }
                None => self.count_up_to(scan.index, range, at_most - keys, &mut deadline),
            };
            // When the time is over, `plan` says so.
            let Ok(found) = found else { break };
            keys += found;
            ranges += 1;
            if keys >= at_most {
                break;
            }
        }
        keys.saturating_mul(scan.ranges.len() as u64) / ranges.max(1)
    }

    fn few_keys(&self, scan: &IndexScan, at_most: u64) -> Option<u64> {
        if let Some(known) = self.known(scan) {
            return Some(known).filter(|known| *known <= at_most);
        }
        let mut deadline = self.deadline.clone();
        let mut keys = 0;
        for range in &scan.ranges {
            keys += self.count_up_to(scan.index, range, at_most - keys + 1, &mut deadline).ok()?;
            if keys > at_most {
                return None;
            }
        }
        Some(keys)
    }
}

impl<A: TableAccess> CollectionReader<'_, A> {
    /// How many entries a range holds; counting ends at `at_most`.
    fn count_up_to(
        &self,
        index: usize,
        range: &KeyRange,
        at_most: u64,
        deadline: &mut Deadline,
    ) -> Result<u64, StoreError> {
        let mut count = 0;
        deadline.look()?;
        self.tables.indexes[index].each((&range.start, &range.end), &mut |_, _| {
            if count == at_most {
                return Ok(ControlFlow::Break(()));
            }
            count += 1;
            if count.is_multiple_of(COUNTED_AT_ONCE as u64) {
                deadline.step(COUNTED_AT_ONCE)?;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(count)
    }
}

/// The lowest and highest row, if the rows all ascend or all descend and are close together.
fn stretch(rows: &[u64]) -> Option<(u64, u64)> {
    let (first, last) = (*rows.first()?, *rows.last()?);
    let is_run = rows.is_sorted_by(|left, right| left < right) || rows.is_sorted_by(|left, right| left > right);
    let is_dense = first.abs_diff(last) < rows.len() as u64 * 4;
    (rows.len() >= 4 && is_run && is_dense).then_some((first.min(last), first.max(last)))
}

/// Rows that were already visited, if a row may have several keys.
struct ShownRows(Option<HashSet<u64>>);

impl ShownRows {
    fn of(collection: &Collection, scan: &IndexScan) -> Self {
        Self(collection.indexes[scan.index].is_multikey().then(HashSet::new))
    }

    fn is_new(&mut self, row: u64) -> bool {
        self.0.as_mut().is_none_or(|seen| seen.insert(row))
    }
}
