//! Reads sets of rows from keys, and the page of their documents in order.

use std::ops::ControlFlow;

use bson::raw::RawDocument;

use crate::admission::Share;
use crate::query::{Filter, Regex};
use crate::store::embedded::failure;
use crate::store::embedded::index::ranges::{IndexScan, KeyRange};
use crate::store::embedded::index::table::TableAccess;
use crate::store::embedded::plan::key_sets::{KeySet, KeySets, around};
use crate::store::embedded::plan::planner::{FETCH, KEYS_OF_A_DOCUMENT, prefers_scan};
use crate::store::embedded::read::execute::CollectionReader;
use crate::store::embedded::read::find::Rows;
use crate::store::embedded::read::row_set::RowSet;
use crate::store::{Best, FindQuery, StoreError};

/// The clock is read at most once for this many keys.
const KEYS_PER_LOOK: u64 = 256;

/// Rows that the plain conditions leave.
enum Mask {
    All,
    Only(RowSet),
    Except(RowSet),
}

impl Mask {
    fn has(&self, row: u64) -> bool {
        match self {
            Self::All => true,
            Self::Only(rows) => rows.contains(row),
            Self::Except(rows) => !rows.contains(row),
        }
    }
}

impl<A: TableAccess> CollectionReader<'_, A> {
    /// The rows of the documents that the filter of these sets matches.
    pub(crate) fn rows_in_all(
        &mut self,
        sets: &KeySets,
        filter: &Filter,
        share: &mut Share,
    ) -> Result<RowSet, StoreError> {
        share.cover(RowSet::bytes_for(self.next_row()).saturating_mul(1 + sets.elements.len().min(2)))?;
        let mask = self.mask(sets.plain.as_ref())?;
        let mut found: Option<RowSet> = None;
        for set in &sets.elements {
            self.look()?;
            let mut rows = RowSet::below(self.next_row());
            match &set.test {
                None => self.each_key(&set.scan, |_, _, _, row| {
                    rows.insert(row);
                    Ok(())
                })?,
                // Nothing of a document that the other conditions exclude is tested.
                Some(regex) => self.each_key(&set.scan, |reader, key, lead, row| {
                    let is_left = mask.has(row) && found.as_ref().is_none_or(|found| found.contains(row));
                    if is_left && !rows.contains(row) && reader.passes(regex, (key, lead, row), filter)? {
                        rows.insert(row);
                    }
                    Ok(())
                })?,
            }
            match &mut found {
                Some(found) => found.keep(&rows, false),
                None => {
                    match &mask {
                        Mask::All => {}
                        Mask::Only(only) => rows.keep(only, false),
                        Mask::Except(out) => rows.keep(out, true),
                    }
                    found = Some(rows);
                }
            }
        }
        Ok(found.unwrap_or_else(|| RowSet::below(0)))
    }

    /// Whether the value in a key matches. Of a key that does not say it, the document is asked.
    fn passes(
        &mut self,
        regex: &Regex,
        (key, lead, row): (&[u8], usize, u64),
        filter: &Filter,
    ) -> Result<bool, StoreError> {
        if !regex.is_literal() {
            self.look()?;
        }
        if let Some(text) = KeySet::text(key, lead) {
            return regex.finds(&text).map_err(failure::of_evaluation);
        }
        let budget = self.budget();
        let mut matched = false;
        let _ = self.visit_row(row, &mut |_, document| {
            matched = filter.matches_within(document, &budget).map_err(failure::of_evaluation)?;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(matched)
    }

    /// What the plain conditions leave: the rows that they find, or the others if these are fewer.
    fn mask(&mut self, plain: Option<&IndexScan>) -> Result<Mask, StoreError> {
        let Some(scan) = plain else { return Ok(Mask::All) };
        let (found, all) = (self.count_keys(scan)?, self.len()?);
        let is_whole = self.has_all(scan.index);
        if found == all && is_whole {
            return Ok(Mask::All);
        }
        let mut rows = RowSet::below(self.next_row());
        let is_except = is_whole && all - found < found;
        let others = is_except.then(|| IndexScan { ranges: around(&scan.ranges), ..scan.clone() });
        self.each_key(others.as_ref().unwrap_or(scan), |_, _, _, row| {
            rows.insert(row);
            Ok(())
        })?;
        Ok(if is_except { Mask::Except(rows) } else { Mask::Only(rows) })
    }

    /// Shows each key of a scan with the length of its lead and its row.
    fn each_key(
        &mut self,
        scan: &IndexScan,
        mut visit: impl FnMut(&mut Self, &[u8], usize, u64) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let table = self.table(scan.index);
        let mut unnoted = 0;
        for KeyRange { start, end, lead } in &scan.ranges {
            table.each((start, end), &mut |key, row| {
                unnoted += 1;
                if unnoted == KEYS_PER_LOOK {
                    self.note_keys(unnoted)?;
                    unnoted = 0;
                }
                visit(self, key, *lead, row)?;
                Ok(ControlFlow::Continue(()))
            })?;
        }
        self.note_keys(unnoted)
    }

    /// The rows of a page of these sets, in the order of the query, and how many there are in all.
    pub(crate) fn page_of_sets(&mut self, sets: &KeySets, query: &FindQuery) -> Result<Rows, StoreError> {
        let mut share = self.share();
        let found = self.rows_in_all(sets, &query.filter, &mut share)?;
        let matched = found.len();
        let wanted = if query.limit == 0 { u64::MAX } else { query.limit };
        let (skip, limit) = (usize::try_from(query.skip).unwrap_or(usize::MAX), usize::try_from(wanted));
        let limit = limit.unwrap_or(usize::MAX);
        let last = query.skip.saturating_add(wanted).min(matched);
        let list: Vec<u64> = match &sets.order {
            _ if query.sort.is_empty() && query.sort.is_reversed() => {
                found.iter_back().skip(skip).take(limit).collect()
            }
            _ if query.sort.is_empty() => found.iter().skip(skip).take(limit).collect(),
            Some(order) if self.is_walk_shorter(last, matched)? => {
                let (mut passed, mut list) = (0, Vec::new());
                self.walk(order, &mut |row| {
                    if found.contains(row) {
                        passed += 1;
                        if passed > query.skip {
                            list.push(row);
                        }
                    }
                    passed >= last
                })?;
                list
            }
            _ => self.sorted(&found, query)?,
        };
        Ok(Rows { list, matched, work: self.work })
    }

    /// The page of these rows, after a look at each document.
    fn sorted(&mut self, found: &RowSet, query: &FindQuery) -> Result<Vec<u64>, StoreError> {
        let mut best = Best::new(query, self.share());
        let mut offer = |row: u64, document: &RawDocument| {
            best.offer(query.sort.key_of(document).map_err(failure::of_evaluation)?, row)?;
            Ok(ControlFlow::Continue(()))
        };
        if prefers_scan(found.len(), self.len()?) {
            self.scan(&mut |row, document| {
                if found.contains(row) { offer(row, document) } else { Ok(ControlFlow::Continue(())) }
            })?;
        } else {
            for row in found.iter() {
                let _ = self.visit_row(row, &mut offer)?;
            }
        }
        Ok(best.into_page().collect())
    }

    /// Whether walking along the order to the last wanted row is less work than reading all documents of the set.
    fn is_walk_shorter(&self, last: u64, matched: u64) -> Result<bool, StoreError> {
        let keys = u128::from(self.len()?) * u128::from(last) / u128::from(matched.max(1));
        Ok(keys <= u128::from(matched) * u128::from(FETCH * KEYS_OF_A_DOCUMENT))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bson::raw::RawDocumentBuf;
    use bson::{Bson, Document, Regex as Pattern, doc};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::query::{Limits, Sort};
    use crate::store::embedded::EmbeddedStore;
    use crate::store::embedded::options::Options;
    use crate::store::embedded::read::execute::Deadline;
    use crate::store::{Change, CollectionSpec, IndexKey, IndexSpec, Store, Unit};

    const THINGS: &str = "things";
    const BUDGET: Duration = Duration::from_secs(20);
    /// Longer than keys may be.
    const LONG: usize = 1200;

    const fn up(path: &'static str) -> IndexKey {
        IndexKey { path, descending: false }
    }

    const COLLECTIONS: &[CollectionSpec] = &[CollectionSpec {
        name: THINGS,
        indexes: &[
            IndexSpec::unique("public_id", &[up("public_id")]),
            IndexSpec::plain("type_id", &[up("type_id"), up("public_id")]),
            IndexSpec::plain("fields", &[up("fields.name"), up("fields.value")]),
        ],
    }];

    fn values() -> Vec<Bson> {
        let text = |text: &str| Bson::String(text.to_owned());
        let pattern = Pattern { pattern: bson::raw::cstr!("web").into(), options: bson::raw::cstr!("").into() };
        vec![
            text("web-1"),
            text("the web"),
            text("w\0eb"),
            text("db"),
            text(""),
            text(&format!("{}web", "x".repeat(LONG))),
            text(&"x".repeat(LONG)),
            Bson::Symbol("web".to_owned()),
            Bson::RegularExpression(pattern),
            Bson::Int32(3),
            Bson::Int64(3),
            Bson::Double(3.0),
            Bson::Double(f64::NAN),
            Bson::Decimal128("3.0".parse().expect("a decimal")),
            Bson::Boolean(true),
            Bson::Null,
            Bson::Undefined,
            Bson::Array(vec![]),
            vec![text("web-1"), text("db")].into(),
            vec![Bson::Array(vec![text("web-1")]), Bson::Int32(3)].into(),
            doc! { "a": 3 }.into(),
        ]
    }

    fn element() -> impl Strategy<Value = Bson> {
        let named =
            (select(vec!["a", "b"]), select(values())).prop_map(|(name, value)| doc! {"name": name, "value": value});
        prop_oneof![
            12 => named.prop_map(Bson::Document),
            1 => select(values()).prop_map(|name| doc! { "name": name }.into()),
            1 => Just(doc! { "name": ["a", "b"], "value": 3 }.into()),
            1 => Just(vec![Bson::from(doc! { "name": "a", "value": 3 })].into()),
            1 => select(values()),
        ]
    }

    fn fields(with_documents: bool) -> impl Strategy<Value = Option<Bson>> {
        prop_oneof![
            16 => vec(element(), 0..4).prop_map(|elements| Some(elements.into())),
            1 => Just(None),
            1 => Just(Some(Bson::Int32(3))),
            u32::from(with_documents) => select(values()).prop_map(|value| Some(doc! { "name": "a", "value": value }.into())),
        ]
    }

    fn documents() -> impl Strategy<Value = (bool, Vec<Document>)> {
        any::<bool>().prop_flat_map(|with_documents| {
            let one = (fields(with_documents), 1..4_i32, any::<bool>());
            let all = vec(one, 1..40).prop_shuffle().prop_map(|all| {
                let number = i32::try_from(all.len()).expect("few");
                let build = |(id, (fields, kind, is_first)): (i32, (Option<Bson>, i32, bool))| {
                    let id = if is_first { id } else { number * 2 - id };
                    let mut document = doc! { "_id": id, "public_id": id, "type_id": kind, "turned": -id };
                    document.extend(fields.map(|fields| ("fields".to_owned(), fields)));
                    document
                };
                // The first array makes the index one of arrays.
                let arrays = doc! { "_id": -1, "public_id": -1, "type_id": 0, "fields": [{ "name": "z" }] };
                [arrays].into_iter().chain((0..).zip(all).map(build)).collect()
            });
            (Just(with_documents), all)
        })
    }

    fn condition() -> impl Strategy<Value = Document> {
        let with = |operators: Vec<&'static str>| {
            (select(operators), select(values())).prop_map(|(operator, value)| Bson::from(doc! { operator: value }))
        };
        let several = vec(select(values()), 0..3).prop_map(|values| Bson::from(doc! { "$in": values }));
        let patterns = select(vec!["web", "^web", "b$", "W", "^$", "(x)\\1"]);
        let said = prop_oneof![
            4 => with(vec!["$eq", "$gt", "$gte", "$lt", "$lte", "$ne"])
                .prop_filter("no operand", |said| !matches!(said, Bson::Document(said) if said.values().any(|value| matches!(value, Bson::RegularExpression(_))))),
            2 => several,
            4 => patterns.prop_map(|pattern| doc! { "$regex": pattern }.into()),
            1 => Just(doc! { "$exists": true }.into()),
            1 => Just(doc! { "$gt": 1, "$lt": 5 }.into()),
        ];
        (select(vec!["a", "b"]), said).prop_map(|(name, said)| {
            doc! { "fields": { "$elemMatch": { "name": name, "value": said } } }
        })
    }

    fn filter() -> impl Strategy<Value = Document> {
        let kinds = select(vec![
            doc! {},
            doc! { "type_id": 1 },
            doc! { "type_id": { "$in": [1, 2] } },
            doc! { "type_id": { "$nin": [1] } },
            doc! { "type_id": 2, "public_id": { "$gt": 9 } },
            doc! { "public_id": { "$lte": 30 } },
        ]);
        (kinds, vec(condition(), 1..3)).prop_map(|(kind, conditions)| {
            let parts: Vec<Document> = [kind].into_iter().filter(|kind| !kind.is_empty()).chain(conditions).collect();
            doc! { "$and": parts }
        })
    }

    /// What reading each document gives: how many match, and the ids of the page.
    fn scanned(all: &[Document], query: &FindQuery) -> (u64, Vec<i32>) {
        let matches = |document: &&Document| {
            let document = RawDocumentBuf::try_from(*document).expect("documents of tests are BSON");
            query.filter.matches(&document).expect("nothing fails")
        };
        let id = |document: &Document| document.get_i32("public_id").expect("an id");
        let mut found: Vec<i32> = all.iter().filter(matches).map(id).collect();
        match query.sort.keys() {
            [] if query.sort.is_reversed() => found.reverse(),
            [] => {}
            [key, ..] if key.descending || key.path.as_str() == "turned" => found.sort_by_key(|id| -id),
            _ => found.sort_unstable(),
        }
        let matched = found.len() as u64;
        let limit = if query.limit == 0 { usize::MAX } else { usize::try_from(query.limit).expect("few") };
        (matched, found.into_iter().skip(usize::try_from(query.skip).expect("few")).take(limit).collect())
    }

    fn with_documents(all: &[Document], test: impl FnOnce(&EmbeddedStore)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let directory = tempfile::tempdir().expect("a directory for the test");
            let store = EmbeddedStore::open(directory.path(), &Options::default()).expect("a new store");
            store.prepare(COLLECTIONS).await.expect("it is declared");
            let insert = |document: &Document| {
                let document = RawDocumentBuf::try_from(document).expect("documents of tests are BSON");
                Change::Insert { collection: THINGS, document }
            };
            store.commit(all.iter().map(insert).fold(Unit::default(), Unit::and)).await.expect("they can be stored");
            test(&store);
        });
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]

        #[test]
        fn keys_find_what_reading_each_document_finds(
            (has_odd, all) in documents(),
            filters in vec((filter(), 0..5_usize, 0..3_u64, 0..6_u64), 12),
        ) {
            with_documents(&all, |store| {
                let snapshot = store.snapshot().expect("the store is open");
                let collection = snapshot.collection(THINGS).expect("it is declared");
                for (filter, sort, skip, limit) in filters {
                    let sorts = [doc! {}, doc! { "public_id": 1 }, doc! { "public_id": -1 }, doc! { "$natural": -1 }, doc! { "turned": 1 }];
                    let sort = Sort::parse(&sorts[sort]).expect("sorts of tests are right");
                    let Ok(parsed) = Filter::parse(&filter, &Limits::NONE) else { continue };
                    let query = FindQuery { skip, ..FindQuery::new(parsed, BUDGET).sorted(sort).limited(limit) };
                    let Some(sets) = KeySets::of(collection, query.filter.tree(), &query.sort) else {
                        continue;
                    };
                    let tables = snapshot.tables(collection).expect("tables");
                    let mut reader = CollectionReader::new(collection, tables, Deadline::after(BUDGET));
                    let found = reader.page_of_sets(&sets, &query).expect("readable");
                    let id = |row: &u64| {
                        let id = reader.document(*row, |document| document.get_i32("public_id"));
                        id.expect("readable").expect("a document").expect("an id")
                    };
                    let page: Vec<i32> = found.list.iter().map(id).collect();
                    assert_eq!((found.matched, page), scanned(&all, &query), "{filter} {sets:?} {has_odd}");
                }
            });
        }
    }

    #[test]
    fn keys_decide_where_they_are_exact() {
        let object = |id: i32, fields: Bson| doc! { "_id": id, "public_id": id, "type_id": 1, "fields": fields };
        let array = object(1, vec![Bson::from(doc! { "name": "a", "value": "x" })].into());
        let of = |all: &[Document], said: Bson| {
            let mut is_decided = false;
            with_documents(all, |store| {
                let snapshot = store.snapshot().expect("the store is open");
                let collection = snapshot.collection(THINGS).expect("it is declared");
                let filter = doc! { "type_id": 1, "fields": { "$elemMatch": { "name": "a", "value": said } } };
                let filter = Filter::parse(&filter, &Limits::NONE).expect("filters of tests are right");
                is_decided = KeySets::of(collection, filter.tree(), &Sort::default()).is_some();
            });
            is_decided
        };
        for said in [Bson::from("x"), 3.into(), doc! { "$gt": 3 }.into(), doc! { "$regex": "x" }.into()] {
            assert!(of(std::slice::from_ref(&array), said.clone()), "{said}");
        }
        for said in [
            Bson::Null,
            vec![3].into(),
            doc! { "$in": [3, Bson::Null] }.into(),
            doc! { "$ne": 3 }.into(),
            doc! { "$exists": true }.into(),
            doc! { "$gt": 1, "$lt": 3 }.into(),
        ] {
            assert!(!of(std::slice::from_ref(&array), said.clone()), "{said}");
        }
        // A document has the same keys as an array of it.
        let document = object(2, doc! { "name": "a", "value": "x" }.into());
        assert!(!of(&[array, document], "x".into()));
    }
}
