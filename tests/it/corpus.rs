//! Query cases with the answers of a real MongoDB, asked of both stores through the port.
//!
//! The variable `INVENTORY_CORPUS` names the file, `.jsonl` or `.jsonl.gz`; one case a line: `docs` that are
//! stored in this order, `filter`, `projection`, `sort`, `skip`, `limit`, and what MongoDB `expected`.
//! `INVENTORY_CORPUS_REPORT` names a file for the cases that fail; the kind of the store is appended to the name.
//!
//! On the embedded store each case is asked twice: of a collection without indexes, whose answer is compared with MongoDB's, and
//! of one with many, whose answer must be the same to the byte. On MongoDB it is asked once: the server answers the plain part, and
//! the service the rest.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bson::raw::RawDocumentBuf;
use bson::{Bson, Decimal128, Document};
use flate2::read::GzDecoder;
use inventory_service::json::read::bson_from_value;
use inventory_service::query::{Filter, Limits, Projection, Sort};
use inventory_service::store::collections::{down, up};
use inventory_service::store::embedded::{EmbeddedStore, Options};
use inventory_service::store::mongo::{MongoOptions, MongoStore};
use inventory_service::store::{Change, CollectionSpec, FindQuery, IndexSpec, Store, StoreError, Unit};
use mongodb::Database;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::support::mongod::{Deployment, shared};

const CORPUS: &str = "INVENTORY_CORPUS";
const REPORT: &str = "INVENTORY_CORPUS_REPORT";

/// How many cases run at once, each in collections of its own.
const LANES: usize = 32;

/// The percentage of a category's cases in which the answers must be MongoDB's; 100 for all others.
const FLOORS: &[(&str, f64)] = &[("projection.computed", 99.9)];

/// Functions that compute decimals through doubles: their answers have 15 of MongoDB's 34 digits.
const THROUGH_DOUBLES: [&str; 15] = [
    "$exp", "$ln", "$log", "$sin", "$cos", "$tan", "$asin", "$acos", "$atan", "$atan2", "$sinh", "$cosh", "$tanh",
    "$asinh", "$acosh",
];

/// Cases that do not pass: the tangent of a decimal that is nearer to a right angle than any double. All other cases must pass.
const FAILING: [&str; 1] = ["documentdb-3dd643d661"];

/// How many percent of the expected errors must have MongoDB's number.
const CODE_FLOOR: f64 = 95.0;

/// MongoDB's number for a negative skip or limit.
const NEGATIVE: i32 = 51024;

/// Where only a server can answer, and saying so is right.
const SERVER_ONLY: [&str; 3] = ["geo", "text", "projection.meta"];

const INDEXES: &[IndexSpec] = &[
    IndexSpec { name: "a", keys: &[up("a")], unique: false, partial: &[] },
    IndexSpec { name: "v", keys: &[down("v")], unique: false, partial: &[] },
    IndexSpec { name: "a.b a.c", keys: &[up("a.b"), up("a.c")], unique: false, partial: &[] },
    IndexSpec { name: "b", keys: &[up("b")], unique: false, partial: &[] },
    IndexSpec { name: "x", keys: &[down("x")], unique: false, partial: &[] },
    IndexSpec { name: "name value", keys: &[up("name"), down("value")], unique: false, partial: &[] },
    IndexSpec { name: "a.b.c", keys: &[up("a.b.c")], unique: false, partial: &[] },
    IndexSpec { name: "results", keys: &[up("results.product"), down("results.score")], unique: false, partial: &[] },
    IndexSpec { name: "tags", keys: &[up("tags")], unique: false, partial: &[] },
    IndexSpec { name: "c.d", keys: &[up("c.d")], unique: false, partial: &[] },
    IndexSpec { name: "foo _id", keys: &[up("foo"), up("_id")], unique: false, partial: &[] },
    IndexSpec { name: "val", keys: &[up("val")], unique: false, partial: &[] },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_of_mongodb() {
    let Some(path) = std::env::var_os(CORPUS) else {
        eprintln!("skipped: {CORPUS} names no file of cases");
        return;
    };
    let cases = read_cases(Path::new(&path));
    let directory = tempfile::tempdir().expect("a directory for the test");
    let store = EmbeddedStore::open(directory.path(), &Options::default()).expect("a new store");
    report(&run_all(Arc::new(store), None, cases).await, "embedded");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_of_mongodb_when_a_server_is_asked_for_the_plain_part() {
    let Some(path) = std::env::var_os(CORPUS) else {
        eprintln!("skipped: {CORPUS} names no file of cases");
        return;
    };
    let Some(server) = shared(Deployment::ReplicaSet).await else { return };
    let uri = server.fresh_uri();
    let name = uri.rsplit('/').next().and_then(|rest| rest.split('?').next()).expect("the URI names a database");
    let store = MongoStore::connect(&uri, MongoOptions::default()).await.expect("the server answers");
    let database = server.client().await.database(name);
    report(&run_all(Arc::new(store), Some(database), read_cases(Path::new(&path))).await, "mongodb");
}

/// A case as it is written in the file.
struct Case {
    id: String,
    category: String,
    line: Value,
}

fn read_cases(path: &Path) -> Vec<Case> {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let plain: Box<dyn Read> =
        if path.extension().is_some_and(|end| end == "gz") { Box::new(GzDecoder::new(file)) } else { Box::new(file) };
    let lines = BufReader::new(plain).lines().map(|line| line.expect("the file can be read"));
    lines
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            let line: Value = serde_json::from_str(&line).expect("each line is JSON");
            let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            Case { id: text("id"), category: text("category"), line }
        })
        .collect()
}

/// How a case went.
struct Outcome {
    id: String,
    category: String,
    /// What was expected and found, where they differ.
    difference: Option<(String, String)>,
    /// For an error that was expected and came: whether the numbers agree.
    code_agrees: Option<bool>,
    /// An index changed the answer.
    index_difference: Option<String>,
}

/// With a database the documents are stored there, and no collection with indexes is asked.
async fn run_all(store: Arc<dyn Store>, database: Option<Database>, cases: Vec<Case>) -> Vec<Outcome> {
    let mut lanes: Vec<Vec<Case>> = (0..LANES).map(|_| Vec::new()).collect();
    for (number, case) in cases.into_iter().enumerate() {
        lanes[number % LANES].push(case);
    }
    let mut tasks = JoinSet::new();
    for (number, cases) in lanes.into_iter().enumerate() {
        let (store, database) = (Arc::clone(&store), database.clone());
        // Collections have names for as long as the process; there are few.
        let plain: &'static str = Box::leak(format!("corpus.plain{number}").into_boxed_str());
        let indexed: &'static str = Box::leak(format!("corpus.indexed{number}").into_boxed_str());
        tasks.spawn(async move {
            let collections =
                [CollectionSpec { name: plain, indexes: &[] }, CollectionSpec { name: indexed, indexes: INDEXES }];
            store.prepare(&collections).await.expect("the collections can be made");
            let mut outcomes = Vec::with_capacity(cases.len());
            for case in cases {
                let lane = Lane { store: &*store, database: database.as_ref(), plain, indexed };
                outcomes.push(lane.run(case).await);
            }
            outcomes
        });
    }
    tasks.join_all().await.into_iter().flatten().collect()
}

/// What was answered, or the number and the words of an error.
type Answer = Result<Vec<RawDocumentBuf>, (Option<i32>, String)>;

/// Where cases are asked, one after the other.
struct Lane<'a> {
    store: &'a dyn Store,
    database: Option<&'a Database>,
    plain: &'static str,
    indexed: &'static str,
}

impl Lane<'_> {
    async fn run(&self, case: Case) -> Outcome {
        let answer = self.ask(self.plain, &case.line).await;
        let index_difference = match self.database {
            Some(_) => None,
            None => index_difference(&answer, &self.ask(self.indexed, &case.line).await),
        };
        let (difference, code_agrees) = compare(&case, &answer, self.database.is_some());
        Outcome { index_difference, id: case.id, category: case.category, difference, code_agrees }
    }

    /// Stores the documents of the case in place of those before it, and asks its question.
    async fn ask(&self, collection: &'static str, case: &Value) -> Answer {
        let bson = |name: &str| bson_from_value(case[name].clone()).map_err(|error| (None, format!("{name}: {error}")));
        let document = |name: &str| match bson(name)? {
            Bson::Document(document) => Ok(Some(document)),
            Bson::Null => Ok(None),
            _ => Err((None, format!("{name} is no document"))),
        };
        let Bson::Array(documents) = bson("docs")? else { return Err((None, "docs is no array".to_owned())) };
        self.store_documents(collection, documents).await?;
        let refused = |error: inventory_service::query::QueryError| (Some(error.code), error.to_string());
        let filter = Filter::parse(&document("filter")?.unwrap_or_default(), &Limits::NONE).map_err(refused)?;
        let sort = document("sort")?.map(|sort| Sort::parse(&sort)).transpose().map_err(refused)?.unwrap_or_default();
        let projection = document("projection")?
            .map(|wanted| Projection::parse_within(&wanted, &filter, &Limits::NONE))
            .transpose()
            .map_err(refused)?;
        // The port has no negative numbers: its callers have refused them.
        let number = |name: &str| case[name].as_u64().ok_or_else(|| (Some(NEGATIVE), format!("{name} is negative")));
        let mut query = FindQuery::new(filter, Duration::from_mins(1)).sorted(sort).limited(number("limit")?);
        query.skip = number("skip")?;
        query.projection = projection;
        let found = self.store.find(collection, &query).await.map_err(|error| match error {
            StoreError::Query { code, message } => (Some(code), message),
            other => (None, other.to_string()),
        })?;
        Ok(found.iter().map(ToOwned::to_owned).collect())
    }

    async fn store_documents(
        &self,
        collection: &'static str,
        documents: Vec<Bson>,
    ) -> Result<(), (Option<i32>, String)> {
        if let Some(database) = self.database {
            let collection = database.collection::<Bson>(collection);
            collection.delete_many(Document::new()).await.expect("the server answers");
            if documents.is_empty() {
                return Ok(());
            }
            return collection
                .insert_many(documents)
                .await
                .map(drop)
                .map_err(|error| (None, format!("storing: {error}")));
        }
        let mut unit = Unit::of(Change::DeleteMany { collection, filter: Filter::all() });
        for document in documents {
            let Bson::Document(document) = document else { return Err((None, "a document is none".to_owned())) };
            let document = RawDocumentBuf::try_from(document).map_err(|error| (None, error.to_string()))?;
            unit = unit.and(Change::Insert { collection, document });
        }
        self.store.commit(unit).await.map(drop).map_err(|error| (None, format!("storing: {error}")))
    }
}

/// MongoDB's number for documents that an index cannot hold; a real server would have refused them too.
fn is_refused_by_index(answer: &Answer) -> bool {
    answer.as_ref().is_err_and(|(_, words)| words.contains("cannot both be in the index"))
}

fn index_difference(plain: &Answer, indexed: &Answer) -> Option<String> {
    if is_refused_by_index(indexed) {
        return None;
    }
    let same = match (plain, indexed) {
        (Ok(plain), Ok(indexed)) => plain == indexed,
        (Err((plain, _)), Err((indexed, _))) => plain == indexed,
        // A query that fails on one document need not look at it when an index leads past it.
        (Err((Some(_), _)), Ok(_)) => true,
        _ => false,
    };
    (!same).then(|| format!("without indexes: {}, with: {}", show(plain), show(indexed)))
}

/// Without a sort a server gives documents in the order of the index that it chose.
fn compare(case: &Case, answer: &Answer, is_server: bool) -> (Option<(String, String)>, Option<bool>) {
    let expected = &case.line["expected"];
    if SERVER_ONLY.contains(&case.category.as_str())
        && answer.as_ref().is_err_and(|(code, words)| words.contains("not supported") || code.is_some())
    {
        return (None, None);
    }
    let Value::Array(expected_documents) = expected else {
        return match answer {
            Ok(_) => (Some((expected.to_string(), show(answer))), None),
            // What is recorded of server-side JavaScript is not what this service answers.
            Err(_) if !case.line["mongod"].is_null() => (None, None),
            Err((code, _)) => (None, Some(code.map(i64::from) == expected["error"].as_i64())),
        };
    };
    let question = format!("{}{}", case.line["filter"], case.line["projection"]);
    let is_near = THROUGH_DOUBLES.iter().any(|name| question.contains(&format!("\"{name}\"")));
    let same = answer.as_ref().is_ok_and(|found| {
        found.len() == expected_documents.len()
            && if is_server && case.line["sort"].is_null() {
                found
                    .iter()
                    .all(|found| expected_documents.iter().any(|expected| is_same_document(found, expected, is_near)))
            } else {
                found.iter().zip(expected_documents).all(|(found, expected)| is_same_document(found, expected, is_near))
            }
    });
    if same { (None, None) } else { (Some((expected.to_string(), show(answer))), None) }
}

fn is_same_document(found: &RawDocumentBuf, expected: &Value, is_near: bool) -> bool {
    let found = Document::try_from(found.clone()).map(Bson::Document);
    let expected = bson_from_value(expected.clone());
    matches!((found, expected), (Ok(found), Ok(expected)) if is_same(&found, &expected, is_near))
}

/// Same types, values, cohorts of decimals, order of members. One NaN is as good as another. With `is_near` 14 digits of a decimal do.
fn is_same(left: &Bson, right: &Bson, is_near: bool) -> bool {
    match (left, right) {
        (Bson::Double(left), Bson::Double(right)) => {
            left.to_bits() == right.to_bits() || (left.is_nan() && right.is_nan())
        }
        (Bson::Document(left), Bson::Document(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|((name, left), (other, right))| name == other && is_same(left, right, is_near))
        }
        (Bson::Array(left), Bson::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| is_same(left, right, is_near))
        }
        (Bson::Decimal128(left), Bson::Decimal128(right)) if is_near => {
            let double = |number: &Decimal128| number.to_string().parse::<f64>().expect("a number");
            let (left, right) = (double(left), double(right));
            left.total_cmp(&right).is_eq() || (left - right).abs() <= 1e-14 * right.abs()
        }
        (left, right) => left == right,
    }
}

fn show(answer: &Answer) -> String {
    match answer {
        Ok(documents) => {
            let documents = documents.iter().map(|document| match Document::try_from(document.clone()) {
                Ok(document) => Bson::Document(document).into_canonical_extjson(),
                Err(error) => Value::String(error.to_string()),
            });
            Value::Array(documents.collect()).to_string()
        }
        Err((code, words)) => {
            format!("error {}: {words}", code.map_or("without number".to_owned(), |code| code.to_string()))
        }
    }
}

/// Prints the table, writes the failing cases, and fails below the floors.
fn report(outcomes: &[Outcome], store: &str) {
    let mut table: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut failures = String::new();
    for outcome in outcomes {
        let (passed, total) = table.entry(&outcome.category).or_default();
        *total += 1;
        match &outcome.difference {
            None => *passed += 1,
            Some((expected, found)) => {
                let _ = writeln!(
                    failures,
                    "{}\t{}\n  expected {expected}\n  found    {found}",
                    outcome.id, outcome.category
                );
            }
        }
        if outcome.code_agrees == Some(false) {
            let _ = writeln!(failures, "{}\t{}\tanother number of the error", outcome.id, outcome.category);
        }
        if let Some(difference) = &outcome.index_difference {
            let _ =
                writeln!(failures, "{}\t{}\tindexes changed the answer\n  {difference}", outcome.id, outcome.category);
        }
    }
    if let Some(mut path) = std::env::var_os(REPORT) {
        path.push(format!(".{store}"));
        fs::write(path, &failures).expect("the report can be written");
    }
    for (category, (passed, total)) in &table {
        println!("{category} {passed}/{total}");
    }
    let codes: Vec<bool> = outcomes.iter().filter_map(|outcome| outcome.code_agrees).collect();
    let agreeing = codes.iter().filter(|agrees| **agrees).count();
    println!("numbers of errors {agreeing}/{}", codes.len());
    let changed: Vec<&str> = outcomes.iter().filter(|o| o.index_difference.is_some()).map(|o| o.id.as_str()).collect();
    println!("answers changed by indexes {}", changed.len());
    let passed: usize = table.values().map(|(passed, _)| passed).sum();
    println!("{store}: {passed} passed, {} failed", outcomes.len() - passed);

    let unexplained = |outcome: &&Outcome| outcome.difference.is_some() && !FAILING.contains(&outcome.id.as_str());
    let unexplained: Vec<&str> = outcomes.iter().filter(unexplained).map(|outcome| outcome.id.as_str()).collect();
    let floor_of =
        |category: &str| FLOORS.iter().find(|(name, _)| *name == category).map_or(100.0, |(_, floor)| *floor);
    let below = table.iter().filter(|(category, (passed, total))| percent(*passed, *total) < floor_of(category));
    let below: Vec<&&str> = below.map(|(category, _)| category).collect();
    assert!(changed.is_empty(), "indexes changed the answers of {changed:?}");
    assert!(below.is_empty(), "below the floor: {below:?}");
    assert!(unexplained.is_empty(), "no reason is written for {unexplained:?}");
    assert!(percent(agreeing, codes.len()) >= CODE_FLOOR, "too many errors have another number than MongoDB's");
}

fn percent(part: usize, whole: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts of cases are small")]
    let percent = part as f64 * 100.0 / whole.max(1) as f64;
    percent
}
