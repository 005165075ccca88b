//! The questions of `tests/filters`, `tests/projections` and `tests/sorts`, asked of the listener: the answers that
//! MongoDB 6.0.27 gave.

use bson::{Bson, Document, RawDocumentBuf, doc};
use inventory_service::query::Filter;
use inventory_service::store::{Change, Unit};
use mongodb::error::ErrorKind;

use super::support::ToolApp;
use crate::filters::{files_in, read};

const OBJECTS: &str = "framework.objects";

/// Cases whose answer depends on the member that makes the documents objects.
const DEPENDING: &[&str] = &["$$ROOT", "$$CURRENT", "additionalProperties", "maxProperties", "minProperties"];

#[tokio::test]
async fn every_filter_matches_over_the_wire_what_mongodb_matches() {
    let count = ask("tests/filters", "matches", |case| {
        doc! { "find": OBJECTS, "filter": case.get("filter").cloned(), "projection": { "_id": 1 } }
    });
    assert!(count.await > 400);
}

#[tokio::test]
async fn every_projection_gives_over_the_wire_what_mongodb_gives() {
    let count = ask("tests/projections", "results", |case| {
        doc! { "find": OBJECTS, "filter": case.get("filter").cloned(), "projection": case.get("projection").cloned() }
    });
    assert!(count.await > 50);
}

#[tokio::test]
async fn every_sort_orders_over_the_wire_as_mongodb_orders() {
    let count = ask("tests/sorts", "order", |case| {
        doc! { "find": OBJECTS, "sort": case.get("sort").cloned(), "projection": { "_id": 1 } }
    });
    assert!(count.await > 10);
}

/// Asks all cases of a folder, and compares with their `outcome`. Returns how many there were.
async fn ask(folder: &str, outcome: &str, command: impl Fn(&Document) -> Document) -> usize {
    let tools = ToolApp::start().await;
    let database = tools.admin().await;
    let (mut failures, mut count) = (Vec::new(), 0);
    for file in files_in(folder) {
        let contents = read(&file);
        store(&tools, &contents).await;
        for case in contents.get_array("cases").expect("cases").iter().filter_map(Bson::as_document) {
            if DEPENDING.iter().any(|name| case.to_string().contains(name)) {
                continue;
            }
            count += 1;
            let mut command = command(case);
            command.insert("batchSize", 1000);
            let found = match database.run_command(command).await {
                Ok(answer) => documents(&answer, outcome == "results"),
                Err(error) => match &*error.kind {
                    ErrorKind::Command(refusal) => Bson::Int32(refusal.code),
                    other => panic!("{case}: {other:?}"),
                },
            };
            let wanted = case.get(outcome).or(case.get("error")).expect("an outcome").clone();
            if found != wanted {
                failures.push(format!("{}: {case}\n  found    {found}", file.display()));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {count} cases failed\n{}", failures.len(), failures.join("\n"));
    count
}

/// Stores the documents of a data file as objects, instead of those before.
async fn store(tools: &ToolApp, contents: &Document) {
    let mut changes = vec![Change::DeleteMany { collection: OBJECTS, filter: Filter::all() }];
    for (id, document) in (1_i64..).zip(contents.get_array("documents").expect("documents")) {
        let mut document = document.as_document().expect("a document").clone();
        // The index on it is unique.
        document.insert("public_id", id);
        changes
            .push(Change::Insert { collection: OBJECTS, document: RawDocumentBuf::try_from(&document).expect("BSON") });
    }
    tools.app.store.commit(Unit { conditions: Vec::new(), changes }).await.expect("they are stored");
}

/// The documents of an answer without the member that made them objects, or their ids.
fn documents(answer: &Document, whole: bool) -> Bson {
    let batch = answer.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch")).expect("a batch");
    let shown = |item: &Bson| {
        let mut found = item.as_document().expect("a document").clone();
        if whole {
            found.remove("public_id");
            Bson::Document(found)
        } else {
            found.get("_id").expect("an id").clone()
        }
    };
    Bson::Array(batch.iter().map(shown).collect())
}
