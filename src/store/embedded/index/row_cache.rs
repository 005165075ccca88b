//! A cache of the rows of list pages and of look-ups, as of one commit.
//!
//! To find a page, the reader walks an index from its beginning, past the keys of all earlier pages. It looks up
//! references key by key. People request the same few pages repeatedly, so the found rows are cached: eight bytes each,
//! no document.
//!
//! The cache belongs to the tables of a published snapshot, which never change, and vanishes with them: the next commit
//! begins with an empty one. So it cannot be stale and needs no invalidation. A transaction that sees its own changes
//! has no cache.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::store::embedded::index::ranges::IndexScan;

/// How many pages of a collection are cached; the oldest is dropped first.
const PAGES: usize = 64;
/// A page with more rows is not cached, so all pages together take at most some 130 KiB.
const MOST_ROWS: usize = 128;
/// A page with longer keys of its ranges is not cached either.
const MOST_KEY_BYTES: usize = 1024;

/// What was found in one collection since the last commit.
#[derive(Debug, Default)]
pub(crate) struct Places {
    pages: Mutex<VecDeque<Known>>,
    rows: Mutex<VecDeque<LookedUp>>,
}

/// Keys of a unique index, and the rows that have them.
#[derive(Debug)]
struct LookedUp {
    /// The position of the index.
    index: usize,
    keys: Vec<Vec<u8>>,
    rows: Arc<[u64]>,
}

/// A page of an index scan.
#[derive(Debug, Clone)]
pub(crate) struct CachedPage {
    /// Its rows, in order.
    pub(crate) rows: Arc<[u64]>,
    /// How many entries were skipped before it.
    pub(crate) passed: u64,
    /// How many keys were read to find it.
    pub(crate) keys: u64,
}

/// A page, and everything that decides its place.
#[derive(Debug)]
struct Known {
    scan: IndexScan,
    skip: u64,
    limit: u64,
    place: CachedPage,
}

impl Places {
    /// The page after the first `skip` entries of the scan, if it is cached.
    pub(crate) fn find(&self, scan: &IndexScan, skip: u64, limit: u64) -> Option<CachedPage> {
        let known = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|known| known.is_of(scan, skip, limit)).map(|known| known.place.clone())
    }

    /// Remembers a page that was found.
    pub(crate) fn note(&self, scan: &IndexScan, skip: u64, limit: u64, place: &CachedPage) {
        let key_bytes: usize = scan.ranges.iter().map(|range| range.start.len() + range.end.len()).sum();
        if place.rows.len() > MOST_ROWS || key_bytes > MOST_KEY_BYTES {
            return;
        }
        // What the ranges come from is not needed any more.
        let scan = IndexScan { bounds: Vec::new(), ranges: scan.ranges.clone(), ..*scan };
        remember(&self.pages, Known { scan, skip, limit, place: place.clone() });
    }

    /// The rows of these keys, in this order, if they are cached.
    pub(crate) fn rows_of(&self, index: usize, keys: &[Vec<u8>]) -> Option<Arc<[u64]>> {
        let known = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|known| known.index == index && known.keys == keys).map(|known| Arc::clone(&known.rows))
    }

    /// Remembers rows that were looked up.
    pub(crate) fn note_rows(&self, index: usize, keys: &[Vec<u8>], rows: &Arc<[u64]>) {
        if keys.iter().map(Vec::len).sum::<usize>() <= MOST_KEY_BYTES {
            remember(&self.rows, LookedUp { index, keys: keys.to_vec(), rows: Arc::clone(rows) });
        }
    }
}

fn remember<T>(known: &Mutex<VecDeque<T>>, new: T) {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() >= PAGES {
        known.pop_front();
    }
    known.push_back(new);
}

impl Known {
    fn is_of(&self, scan: &IndexScan, skip: u64, limit: u64) -> bool {
        (self.skip, self.limit, self.scan.index, self.scan.order) == (skip, limit, scan.index, scan.order)
            && self.scan.ranges == scan.ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::embedded::index::ranges::KeyRange;
    use crate::store::embedded::index::ranges::Order;

    fn scan(index: usize, order: Order, start: &[u8]) -> IndexScan {
        let ranges = vec![KeyRange::beginning_with(start.to_vec())];
        IndexScan { index, ranges, order, exact: true, points: false, bounds: Vec::new() }
    }

    fn page(rows: &[u64]) -> CachedPage {
        CachedPage { rows: rows.into(), passed: 20, keys: 20 + rows.len() as u64 }
    }

    #[test]
    fn a_page_is_found_by_all_that_decides_where_it_lies() {
        let places = Places::default();
        let of = scan(1, Order::Forward, b"a");
        places.note(&of, 20, 10, &page(&[3, 4, 5]));
        assert_eq!(places.find(&of, 20, 10).map(|place| place.rows.to_vec()), Some(vec![3, 4, 5]));
        for (other, skip, limit) in [
            (scan(2, Order::Forward, b"a"), 20, 10),
            (scan(1, Order::Backward, b"a"), 20, 10),
            (scan(1, Order::Forward, b"b"), 20, 10),
            (of.clone(), 10, 10),
            (of.clone(), 20, 11),
        ] {
            assert!(places.find(&other, skip, limit).is_none(), "{other:?} {skip} {limit}");
        }
    }

    #[test]
    fn so_many_pages_are_remembered_and_none_that_is_large() {
        let places = Places::default();
        let of = scan(1, Order::Forward, b"a");
        for number in 0..1000 {
            places.note(&of, number, 10, &page(&[number]));
        }
        let remembered: Vec<u64> = (0..1000).filter(|number| places.find(&of, *number, 10).is_some()).collect();
        assert_eq!(remembered, (1000 - PAGES as u64..1000).collect::<Vec<_>>());
        places.note(&of, 5000, 0, &page(&vec![7; MOST_ROWS + 1]));
        assert!(places.find(&of, 5000, 0).is_none());
        let long = scan(1, Order::Forward, &vec![7; MOST_KEY_BYTES]);
        places.note(&long, 0, 10, &page(&[1]));
        assert!(places.find(&long, 0, 10).is_none());
    }

    #[test]
    fn rows_are_found_by_the_index_and_all_keys_in_their_order() {
        let (places, keys) = (Places::default(), [vec![1], vec![2]]);
        places.note_rows(1, &keys, &Arc::from([7, 3]));
        assert_eq!(places.rows_of(1, &keys).as_deref(), Some([7, 3].as_slice()));
        assert!(places.rows_of(2, &keys).is_none());
        assert!(places.rows_of(1, &keys[..1]).is_none());
        assert!(places.rows_of(1, &[vec![2], vec![1]]).is_none());
    }
}
