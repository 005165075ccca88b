//! An index of the embedded store never changes an answer: random documents and questions, with and without indexes.
//!
//! `INVENTORY_INDEX_CASES` sets the number of cases; a failing one is shrunk and printed.

use std::cell::Cell;
use std::time::Duration;

use bson::raw::RawDocumentBuf;
use bson::{Bson, Document, doc};
use inventory_service::query::{Filter, Limits, Sort};
use inventory_service::store::collections::{down, up};
use inventory_service::store::embedded::{EmbeddedStore, Options};
use inventory_service::store::{
    Change, CollectionSpec, Documents, Equals, FindQuery, IndexSpec, Literal, Store, StoreError, Unit,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

const CASES: &str = "INVENTORY_INDEX_CASES";
const PLAIN: &str = "random.plain";
const INDEXED: &str = "random.indexed";
/// More than any question here takes.
const BUDGET: Duration = Duration::from_secs(30);
/// Two arrays in the keys of one document, as MongoDB numbers it.
const PARALLEL_ARRAYS: i32 = 171;

/// Paths with their directions, which the second of the two turns around.
macro_rules! indexes {
    ($way:ident, $other:ident) => {
        &[
            IndexSpec { name: "1", keys: &[$way("a")], unique: false, partial: &[] },
            IndexSpec { name: "2", keys: &[$other("b")], unique: false, partial: &[] },
            IndexSpec { name: "3", keys: &[$way("c"), $other("a")], unique: false, partial: &[] },
            IndexSpec { name: "4", keys: &[$way("b"), $way("c")], unique: false, partial: &[] },
            IndexSpec { name: "5", keys: &[$way("a.x")], unique: false, partial: &[] },
            IndexSpec { name: "6", keys: &[$way("a.x"), $way("a.y")], unique: false, partial: &[] },
            IndexSpec { name: "7", keys: &[$other("c"), $way("a.y"), $other("a.x")], unique: false, partial: &[] },
            IndexSpec { name: "8", keys: &[$way("b.x.y"), $way("b.x.x")], unique: false, partial: &[] },
            IndexSpec { name: "11", keys: &[$way("b.x.x"), $other("b.y"), $way("b.x.y")], unique: false, partial: &[] },
            IndexSpec::plain("9", &[$other("a"), $way("b")]).only(C_IS_TWO),
            IndexSpec::plain("10", &[$way("c")]).only(A_AND_B),
        ]
    };
}

const C_IS_TWO: &[Equals] = &[Equals { path: "c", value: Literal::Int(2) }];
const A_AND_B: &[Equals] =
    &[Equals { path: "a", value: Literal::Text("x") }, Equals { path: "b.x", value: Literal::Bool(true) }];

/// Declared in turns: an index that is declared otherwise is built again, and forgets the arrays it has seen.
const INDEXES: [&[IndexSpec]; 2] = [indexes!(up, down), indexes!(down, up)];

fn scalar() -> impl Strategy<Value = Bson> {
    prop_oneof![
        6 => (-1..4_i32).prop_map(Bson::Int32),
        1 => Just(Bson::Int64(2)),
        2 => proptest::sample::select(vec![0.5, 1.0, -0.0, f64::NAN, f64::INFINITY]).prop_map(Bson::Double),
        1 => Just(Bson::Decimal128("2.0".parse().expect("a decimal"))),
        2 => proptest::sample::select(vec!["", "x", "xy", "y"]).prop_map(Bson::from),
        1 => any::<bool>().prop_map(Bson::Boolean),
        2 => Just(Bson::Null),
        1 => proptest::sample::select(vec![Bson::Undefined, Bson::MinKey, Bson::MaxKey]),
    ]
}

fn value() -> impl Strategy<Value = Bson> {
    scalar().prop_recursive(3, 10, 3, |inner| {
        prop_oneof![
            3 => vec(inner.clone(), 0..4).prop_map(Bson::Array),
            2 => vec((proptest::sample::select(vec!["x", "y"]), inner), 0..3)
                .prop_map(|members| Bson::Document(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())),
        ]
    })
}

/// Single values, mostly, so that indexes without arrays are tested as well.
fn document() -> impl Strategy<Value = Document> {
    let member = || prop_oneof![1 => Just(None), 4 => scalar().prop_map(Some), 3 => value().prop_map(Some)];
    let deep = prop_oneof![3 => member(), 1 => entries().prop_map(Some)];
    (member(), deep, proptest::option::of(scalar())).prop_map(|(a, b, c)| {
        let members = [("a", a), ("b", b), ("c", c)];
        members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    })
}

/// Arrays within the elements of an array, of few numbers.
fn entries() -> impl Strategy<Value = Bson> {
    let number = || 0..3_i32;
    let inner = (number(), number()).prop_map(|(x, y)| Bson::from(doc! { "x": x, "y": y }));
    let outer = (vec(inner, 0..4), number()).prop_map(|(x, y)| Bson::from(doc! { "x": x, "y": y }));
    vec(outer, 0..3).prop_map(Bson::Array)
}

fn path() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec!["a", "b", "c", "a.x", "a.y", "b.x", "b.x.y", "b.x.x", "a.0", "a.x.0"])
}

fn test_of_value() -> impl Strategy<Value = Document> {
    let operand = || prop_oneof![3 => scalar(), 1 => value()];
    prop_oneof![
        3 => operand().prop_map(|value| doc! { "$eq": value }),
        4 => (proptest::sample::select(vec!["$gt", "$gte", "$lt", "$lte"]), operand()).prop_map(|(name, value)| doc! { name: value }),
        2 => (operand(), operand()).prop_map(|(low, high)| doc! { "$gte": low, "$lt": high }),
        2 => vec(operand(), 0..4).prop_map(|values| doc! { "$in": values }),
        1 => vec(operand(), 1..3).prop_map(|values| doc! { "$all": values }),
        1 => (proptest::sample::select(vec!["$ne", "$not"]), operand())
            .prop_map(|(name, value)| if name == "$ne" { doc! { name: value } } else { doc! { name: { "$gt": value } } }),
        1 => any::<bool>().prop_map(|exists| doc! { "$exists": exists }),
        1 => proptest::sample::select(vec!["^x", "^xy?", "y"]).prop_map(|pattern| doc! { "$regex": pattern }),
        2 => (operand(), operand()).prop_map(|(low, high)| doc! { "$elemMatch": { "$gt": low, "$lte": high } }),
    ]
}

fn filter() -> impl Strategy<Value = Document> {
    let test = (path(), test_of_value()).prop_map(|(path, test)| doc! { path: test });
    test.prop_recursive(3, 8, 3, |inner| {
        let name = || proptest::sample::select(vec!["a", "b", "b.x"]);
        // Two conditions on members of the element, or on members of what is in its `x`.
        let members_of = || proptest::sample::select(vec![("x", "y"), ("x.x", "x.y"), ("x.y", "y")]);
        let test = || proptest::option::of(test_of_value());
        let entry = (name(), members_of(), test(), test()).prop_map(|(path, (first, second), x, y)| {
            let members = [(first, x), (second, y)]
                .into_iter()
                .filter_map(|(name, test)| Some((name.to_owned(), Bson::from(test?))));
            doc! { path: { "$elemMatch": members.collect::<Document>() } }
        });
        prop_oneof![
            3 => entry,
            3 => vec(inner.clone(), 1..4).prop_map(|all| doc! { "$and": all }),
            2 => vec(inner.clone(), 1..4).prop_map(|any| doc! { "$or": any }),
            1 => vec(inner, 1..3).prop_map(|none| doc! { "$nor": none }),
        ]
    })
}

fn sort() -> impl Strategy<Value = Document> {
    let key = (proptest::sample::select(vec!["a", "b", "c", "_id", "a.x"]), proptest::sample::select(vec![1, -1]));
    vec(key, 0..4).prop_map(|keys| keys.into_iter().map(|(path, way)| (path.to_owned(), Bson::Int32(way))).collect())
}

/// A question: filter, sort, skip, limit.
type Question = (Document, Document, u64, u64);

fn question() -> impl Strategy<Value = Question> {
    let any = (prop_oneof![1 => Just(doc! {}), 9 => filter()], sort());
    let chosen = prop_oneof![6 => any, 1 => question_for_a_part(), 1 => question_for_a_merge()];
    (chosen, 0..3_u64, 0..4_u64).prop_map(|((filter, sort), skip, limit)| (filter, sort, skip, limit))
}

/// What a partial index can answer, and what it nearly can.
fn question_for_a_part() -> impl Strategy<Value = (Document, Document)> {
    let part = proptest::sample::select(vec![
        doc! { "c": 2 },
        doc! { "c": { "$eq": 2.0 } },
        doc! { "c": { "$in": [2, 3] } },
        doc! { "a": "x", "b.x": true },
        doc! { "b.x": { "$elemMatch": { "$eq": true } }, "a": "x" },
    ]);
    (part, prop_oneof![1 => Just(doc! {}), 2 => filter()], sort())
        .prop_map(|(part, filter, sort)| (doc! { "$and": [part, filter] }, sort))
}

/// Several values of a path before the one that is sorted by.
fn question_for_a_merge() -> impl Strategy<Value = (Document, Document)> {
    let paths = proptest::sample::select(vec![("c", "a"), ("b", "c"), ("a.x", "a.y"), ("a", "b")]);
    (paths, vec(scalar(), 2..5), proptest::option::of(test_of_value()), any::<bool>(), any::<bool>()).prop_map(
        |((bound, sorted), values, range, is_part, backwards)| {
            let mut filter = doc! { bound: { "$in": values } };
            filter.extend(range.map(|test| (sorted.to_owned(), Bson::from(test))));
            if is_part && bound == "a" {
                filter.insert("c", 2);
            }
            (filter, doc! { sorted: if backwards { -1 } else { 1 } })
        },
    )
}

#[test]
fn an_index_never_changes_an_answer() {
    // The generators nest deeply in builds that are not optimised.
    let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(run).expect("a thread can be started");
    // The thread has reported why.
    assert!(thread.join().is_ok(), "an index changed an answer");
}

fn run() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let directory = tempfile::tempdir().expect("a directory for the test");
    let store = EmbeddedStore::open(directory.path(), &Options::default()).expect("a new store");
    let cases = std::env::var_os(CASES).and_then(|cases| cases.to_str()?.parse().ok()).unwrap_or(150);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let strategy = (vec(document(), 0..12), vec(question(), 20));
    let turns = Cell::new(0);
    let result = TestRunner::new(config).run(&strategy, |(documents, questions)| {
        turns.set(turns.get() + 1);
        runtime.block_on(async {
            renew(&store, INDEXES[turns.get() % 2]).await;
            fill(&store, documents).await;
            for question in questions {
                compare(&store, question).await?;
            }
            prop_assert_eq!(store.check().await.expect("the store can be read"), Vec::<String>::new());
            Ok(())
        })
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

async fn renew(store: &EmbeddedStore, indexes: &'static [IndexSpec]) {
    let clear = |collection| Change::DeleteMany { collection, filter: Filter::all() };
    store.commit(Unit::of(clear(PLAIN)).and(clear(INDEXED))).await.expect("nothing stands against it");
    store.prepare(&[CollectionSpec { name: INDEXED, indexes }]).await.expect("the indexes can be made");
}

/// Stores the documents that the indexes can hold.
async fn fill(store: &EmbeddedStore, documents: Vec<Document>) {
    for (document, id) in documents.into_iter().zip(0..) {
        let mut whole = doc! { "_id": (id * 7) % 12 };
        whole.extend(document);
        let document = RawDocumentBuf::try_from(whole).expect("documents of tests are BSON");
        let insert = |collection| Change::Insert { collection, document: document.clone() };
        match store.commit(Unit::of(insert(PLAIN)).and(insert(INDEXED))).await {
            Ok(_) | Err(StoreError::Query { code: PARALLEL_ARRAYS, .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
}

async fn compare(store: &EmbeddedStore, (filter, sort, skip, limit): Question) -> Result<(), TestCaseError> {
    // What no store would be asked, is refused before it gets to one.
    let Ok(parsed) = Filter::parse(&filter, &Limits::NONE) else { return Ok(()) };
    let Ok(order) = Sort::parse(&sort) else { return Ok(()) };
    let mut query = FindQuery::new(parsed.clone(), BUDGET).sorted(order).limited(limit);
    query.skip = skip;
    let explained = store.explain(INDEXED, &query).await;
    let what = || format!("{filter} sorted by {sort}, {skip} and {limit}: {explained:?}");
    let (plain, indexed) = (store.page(PLAIN, &query).await, store.page(INDEXED, &query).await);
    match (plain, indexed) {
        (Ok(plain), Ok(indexed)) => {
            prop_assert_eq!(show(&plain.documents), show(&indexed.documents), "{}", what());
            prop_assert_eq!(plain.total, indexed.total, "{}", what());
            let found = store.find(INDEXED, &query).await.expect("a page of it was found");
            prop_assert_eq!(show(&plain.documents), show(&found), "{}", what());
            let count = store.count(INDEXED, &parsed, BUDGET).await.expect("a page of it was found");
            prop_assert_eq!(plain.total, count, "{}", what());
        }
        // A query that fails on one document need not look at it when an index leads past it.
        (Err(StoreError::Query { .. }), _) => {}
        (plain, indexed) => prop_assert!(false, "{plain:?} {indexed:?} {}", what()),
    }
    Ok(())
}

fn show(documents: &Documents) -> Vec<String> {
    documents.iter().map(|document| format!("{document:?}")).collect()
}
