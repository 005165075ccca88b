//! `$sort`: keeps the documents, or the first of them if a limit follows.

use std::cmp::Ordering;

use bson::raw::{RawDocument, RawDocumentBuf};

use super::held::Held;
use super::{Budget, EvalError, Sort};
use crate::query::sort::SortValue;

/// The documents of a `$sort` so far.
pub(super) struct Sorter<'p> {
    sort: &'p Sort,
    kept: Vec<Kept>,
    held: Held,
    /// How many are needed.
    wanted: usize,
    next: u64,
}

struct Kept {
    value: SortValue,
    /// Breaks ties: equal documents keep their order.
    number: u64,
    document: RawDocumentBuf,
}

impl Kept {
    fn size(&self) -> usize {
        self.value.size() + self.document.as_bytes().len() + size_of::<Self>()
    }
}

impl<'p> Sorter<'p> {
    pub(super) fn new(sort: &'p Sort, wanted: usize, budget: &Budget) -> Self {
        Self { sort, kept: Vec::new(), held: Held::new(budget), wanted, next: 0 }
    }

    pub(super) fn add(&mut self, document: &RawDocument) -> Result<(), EvalError> {
        let kept = Kept { value: self.sort.key_of(document)?, number: self.next, document: document.to_owned() };
        self.next += 1;
        let bytes = self.held.bytes() + kept.size();
        self.kept.push(kept);
        if self.kept.len() >= self.wanted.saturating_mul(2) {
            self.drop_worse();
            return self.held.set(self.kept.iter().map(Kept::size).sum());
        }
        self.held.set(bytes)
    }

    fn comparison(&self) -> impl Fn(&Kept, &Kept) -> Ordering + use<'p> {
        let sort = self.sort;
        move |left, right| sort.compare(&left.value, &right.value).then(left.number.cmp(&right.number))
    }

    fn drop_worse(&mut self) {
        if self.kept.len() > self.wanted && self.wanted > 0 {
            let compare = self.comparison();
            self.kept.select_nth_unstable_by(self.wanted - 1, compare);
            self.kept.truncate(self.wanted);
        }
    }

    /// The documents in their order.
    pub(super) fn into_sorted(mut self) -> impl Iterator<Item = RawDocumentBuf> {
        self.drop_worse();
        let compare = self.comparison();
        self.kept.sort_unstable_by(compare);
        let Self { kept, held, .. } = self;
        kept.into_iter().map(move |kept| {
            // The memory is held until the last document has gone.
            let _ = &held;
            kept.document
        })
    }
}
