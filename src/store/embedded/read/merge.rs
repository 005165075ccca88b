//! Reads several ranges of an index at the same time, so that their entries come in one order.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use redb::StorageError;

use crate::store::embedded::index::entries::Entries;
use crate::store::embedded::index::ranges::{IndexScan, KeyRange, Order};
use crate::store::embedded::index::table::{IndexTable, TableAccess};

/// The rows of an index scan, in the order of the bytes after the lead of each range. Rows with equal keys ascend.
pub(crate) struct Merge<'t, A: TableAccess> {
    table: &'t IndexTable<A>,
    sources: Vec<Source<'t>>,
    /// The next entry of each range that has one.
    heads: BinaryHeap<NextEntry>,
    backward: bool,
}

/// What is left of a range.
struct Source<'t> {
    lead: usize,
    rest: RangeRest<'t>,
}

enum RangeRest<'t> {
    Forward(Box<Entries<'t>>),
    /// Keys are read backwards, and the rows of each key forwards.
    Backward {
        start: Vec<u8>,
        end: Vec<u8>,
        key: Vec<u8>,
        rows: VecDeque<u64>,
    },
}

/// An entry that is the next one of its range.
#[derive(PartialEq, Eq)]
struct NextEntry {
    key: Vec<u8>,
    row: u64,
    source: usize,
    backward: bool,
}

impl Ord for NextEntry {
    /// The next entry is the greatest, because the heap returns the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        let keys = self.key.cmp(&other.key);
        let keys = if self.backward { keys } else { keys.reverse() };
        keys.then(other.row.cmp(&self.row)).then(other.source.cmp(&self.source))
    }
}

impl PartialOrd for NextEntry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<'t, A: TableAccess> Merge<'t, A> {
    pub(crate) fn new(table: &'t IndexTable<A>, scan: &IndexScan) -> Result<Self, StorageError> {
        let backward = scan.order == Order::Backward;
        let mut merge = Self { table, sources: Vec::new(), heads: BinaryHeap::new(), backward };
        for (source, range) in scan.ranges.iter().enumerate() {
            let rest = if backward {
                let (start, end) = (range.start.clone(), range.end.clone());
                RangeRest::Backward { start, end, key: Vec::new(), rows: VecDeque::new() }
            } else {
                RangeRest::Forward(Box::new(table.entries(&range.start, &range.end)?))
            };
            merge.sources.push(Source { lead: range.lead, rest });
            merge.read(source)?;
        }
        Ok(merge)
    }

    /// The next row.
    pub(crate) fn next(&mut self) -> Result<Option<u64>, StorageError> {
        let Some(head) = self.heads.pop() else { return Ok(None) };
        self.read(head.source)?;
        Ok(Some(head.row))
    }

    /// Reads the next entry of a range.
    fn read(&mut self, number: usize) -> Result<(), StorageError> {
        let source = &mut self.sources[number];
        let (key, row) = match &mut source.rest {
            RangeRest::Forward(entries) => {
                let Some(entry) = entries.next().transpose()? else { return Ok(()) };
                (entry.key()[source.lead..].to_vec(), entry.row)
            }
            RangeRest::Backward { start, end, key, rows } => {
                if rows.is_empty() {
                    let last = self.table.entries(start, end)?.next_back().transpose()?;
                    let Some(last) = last else { return Ok(()) };
                    let group = KeyRange::beginning_with(last.key().to_vec());
                    *key = last.key()[source.lead..].to_vec();
                    for entry in self.table.entries(&group.start, &group.end)? {
                        rows.push_back(entry?.row);
                    }
                    *end = group.start;
                }
                let Some(row) = rows.pop_front() else { return Ok(()) };
                (key.clone(), row)
            }
        };
        self.heads.push(NextEntry { key, row, source: number, backward: self.backward });
        Ok(())
    }
}
