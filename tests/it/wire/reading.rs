//! The same questions of the listener and of a real server over the same documents: equal answers.

use bson::{Bson, Document, RawDocumentBuf, doc};
use futures::TryStreamExt;
use inventory_service::store::{Change, Unit};
use mongodb::Database;
use mongodb::options::FindOptions;
use serde_json::json;

use super::support::{ToolApp, refused};
use crate::support::mongod::{self, Deployment};

/// The listener and a server with the same documents.
struct Both {
    _tools: ToolApp,
    ours: Database,
    theirs: Database,
}

impl Both {
    async fn with_objects(count: i64) -> Option<Self> {
        let server = mongod::shared(Deployment::ReplicaSet).await?;
        let tools = ToolApp::start().await;
        let objects: Vec<Document> = (1..=count).map(object).collect();
        for chunk in objects.chunks(5000) {
            let insert = |document| Change::Insert { collection: "framework.objects", document };
            let raw = chunk.iter().map(|object| RawDocumentBuf::try_from(object).expect("BSON"));
            let unit = Unit { conditions: Vec::new(), changes: raw.map(insert).collect() };
            tools.app.store.commit(unit).await.expect("they are stored");
        }
        let uri = server.fresh_uri();
        let name = uri.rsplit_once('/').and_then(|(_, rest)| rest.split('?').next()).expect("a name").to_owned();
        let theirs = mongodb::Client::with_uri_str(uri).await.expect("a client").database(&name);
        theirs.collection::<Document>("framework.objects").insert_many(&objects).await.expect("they are stored");
        let ours = tools.admin().await;
        Some(Self { _tools: tools, ours, theirs })
    }

    /// Asks both, and asserts that the answers are equal.
    async fn same(&self, command: Document) {
        let [ours, theirs] =
            [self.ours.run_command(command.clone()).await, self.theirs.run_command(command.clone()).await];
        let answer = |answer: Result<Document, mongodb::error::Error>| match answer {
            Err(error) => doc! { "code": super::support::code_of(&error) },
            Ok(answer) => match answer.get_document("cursor") {
                Ok(cursor) => {
                    let more = cursor.get_i64("id").is_ok_and(|id| id != 0);
                    doc! { "documents": cursor.get("firstBatch").cloned(), "more": more }
                }
                Err(_) => doc! { "n": answer.get("n").cloned(), "values": answer.get("values").cloned() },
            },
        };
        assert_eq!(answer(ours), answer(theirs), "{command}");
    }
}

fn aggregate(stages: &[Document]) -> Document {
    doc! { "aggregate": "framework.objects", "pipeline": stages, "cursor": {} }
}

fn lookup(from: &str) -> Document {
    doc! { "$lookup": { "from": from, "localField": "type_id", "foreignField": "public_id", "as": "types" } }
}

fn object(id: i64) -> Document {
    let kind = if id % 3 == 0 { Bson::Double(3.0) } else { Bson::Int32(i32::try_from(id % 3).expect("it is small")) };
    doc! {
        "_id": bson::oid::ObjectId::from_bytes([u8::try_from(id % 251).expect("it is small"), 0, 0, 0,
            u8::try_from(id / 251 % 251).expect("it is small"), u8::try_from(id / 63001).expect("it is small"), 0, 0, 0, 0, 0, 0]),
        "public_id": id,
        "type_id": id % 4,
        "kind": kind,
        "active": id % 2 == 0,
        "tags": ["a", { "b": id % 5 }, [id % 2]],
        "fields": [{ "name": "host", "value": format!("host{id}") }, { "name": "units", "value": id % 7 }],
    }
}

#[tokio::test]
async fn finds_counts_and_distincts_are_those_of_mongodb() {
    let Some(both) = Both::with_objects(300).await else { return };
    let objects = "framework.objects";
    for command in [
        doc! { "find": objects },
        doc! { "find": objects, "filter": { "type_id": 1 }, "sort": { "public_id": -1 }, "limit": 7 },
        doc! { "find": objects, "filter": { "kind": 3 }, "projection": { "public_id": 1, "fields.value": 1 }, "batchSize": 200 },
        doc! { "find": objects, "sort": { "active": 1, "public_id": 1 }, "skip": 290, "projection": { "tags": { "$slice": 1 } } },
        doc! { "find": objects, "filter": { "fields": { "$elemMatch": { "name": "units", "value": { "$gt": 5 } } } }, "sort": { "public_id": 1 }, "limit": 10 },
        doc! { "find": objects, "filter": { "_id": object(17).get("_id").cloned() } },
        doc! { "find": objects, "batchSize": 0 },
        doc! { "find": objects, "limit": 300, "singleBatch": true },
        doc! { "find": objects, "limit": 5, "batchSize": 5 },
        doc! { "find": objects, "hint": { "$natural": -1 }, "limit": 3 },
        doc! { "find": objects, "filter": { "$expr": { "$gt": ["$public_id", "$$least"] } }, "let": { "least": 297 } },
        doc! { "find": objects, "filter": { "public_id": { "$bad": 1 } } },
        doc! { "find": objects, "sort": { "public_id": 2 } },
        doc! { "find": objects, "projection": { "a": 1, "b": 0 } },
        doc! { "find": objects, "filter": { "$expr": { "$divide": [1, "$type_id"] } } },
        doc! { "find": "no.such.collection" },
        doc! { "count": objects },
        doc! { "count": objects, "query": { "active": true }, "skip": 10, "limit": 20 },
        doc! { "count": objects, "query": { "active": true }, "limit": -20 },
        doc! { "count": "no.such.collection" },
        doc! { "distinct": objects, "key": "kind" },
        doc! { "distinct": objects, "key": "tags" },
        doc! { "distinct": objects, "key": "tags.b", "query": { "public_id": { "$lt": 4 } } },
        doc! { "distinct": objects, "key": "fields.1.value" },
        doc! { "distinct": objects, "key": "missing" },
        aggregate(&[doc! { "$match": { "type_id": 1 } }, doc! { "$group": { "_id": 1, "n": { "$sum": 1 } } }]),
        aggregate(&[doc! { "$sort": { "public_id": -1 } }, doc! { "$limit": 3 }, doc! { "$project": { "fields": 1 } }]),
        aggregate(&[
            doc! { "$unwind": "$fields" },
            doc! { "$sortByCount": "$fields.name" },
            doc! { "$sort": { "_id": 1 } },
        ]),
        aggregate(&[doc! { "$match": { "public_id": 5 } }, lookup("framework.objects")]),
        aggregate(&[doc! { "$count": "n" }]),
        aggregate(&[doc! { "$foo": 1 }]),
        doc! { "aggregate": objects, "pipeline": [], "cursor": { "batchSize": 7 } },
        doc! { "aggregate": objects, "pipeline": [] },
        doc! { "aggregate": "no.such.collection", "pipeline": [], "cursor": {} },
    ] {
        both.same(command).await;
    }
}

#[tokio::test]
async fn a_long_cursor_gives_every_document_once_and_in_order() {
    let Some(both) = Both::with_objects(20_000).await else { return };
    for batch in [None, Some(1000), Some(7777)] {
        let options = FindOptions::builder().batch_size(batch).build();
        let read = async |database: &Database| {
            let collection = database.collection::<Document>("framework.objects");
            let found = collection.find(doc! {}).with_options(options.clone()).await.expect("a cursor");
            found.try_collect::<Vec<_>>().await.expect("documents")
        };
        let (ours, theirs) = (read(&both.ours).await, read(&both.theirs).await);
        assert_eq!(ours.len(), 20_000);
        assert!(ours == theirs, "with batches of {batch:?}");
    }
}

#[tokio::test]
async fn a_cursor_can_be_closed_and_ends_with_its_session() {
    let tools = ToolApp::start().await;
    let type_id = tools.app.create_type("rack", &[]).await;
    for _ in 0..3 {
        tools.app.create_object(type_id, &json!({})).await;
    }
    let database = tools.admin().await;
    let open = async || {
        let command = doc! { "find": "framework.objects", "batchSize": 1 };
        let answer = database.run_command(command).await.expect("a batch");
        answer.get_document("cursor").and_then(|cursor| cursor.get_i64("id")).expect("a cursor")
    };
    let id = open().await;
    let more = |id: i64| doc! { "getMore": id, "collection": "framework.objects", "batchSize": 1 };
    database.run_command(more(id)).await.expect("the second document");
    assert_eq!(refused(&database, doc! { "getMore": id, "collection": "framework.types" }).await.0, 13);
    assert_eq!(
        refused(&database, doc! { "getMore": id, "collection": "framework.objects", "maxTimeMS": 5 }).await.0,
        2
    );
    let last = database.run_command(more(id)).await.expect("the third document");
    assert_eq!(last.get_document("cursor").and_then(|cursor| cursor.get_i64("id")).ok(), Some(0));
    assert_eq!(refused(&database, more(id)).await.0, 43);

    let id = open().await;
    let kill = doc! { "killCursors": "framework.objects", "cursors": [id, 7_i64] };
    let killed = database.run_command(kill).await.expect("an answer");
    assert_eq!(killed.get_array("cursorsKilled").ok(), Some(&vec![Bson::Int64(id)]));
    assert_eq!(killed.get_array("cursorsNotFound").ok(), Some(&vec![Bson::Int64(7)]));
    assert_eq!(refused(&database, more(id)).await.0, 43);
}

#[tokio::test]
async fn explain_has_the_shape_of_mongodb() {
    let Some(both) = Both::with_objects(50).await else { return };
    let keys = |document: &Document, path: &str| {
        let part = path.split('.').filter(|name| !name.is_empty()).fold(document.clone(), |part, name| {
            part.get_document(name).unwrap_or_else(|error| panic!("{name}: {error}")).clone()
        });
        let mut names: Vec<String> = part.keys().cloned().collect();
        names.sort();
        names
    };
    let find = doc! { "find": "framework.objects", "filter": { "active": true }, "sort": { "kind": 1 }, "limit": 3 };
    let command = doc! { "explain": find, "verbosity": "executionStats" };
    let ours = both.ours.run_command(command.clone()).await.expect("a plan");
    let theirs = both.theirs.run_command(command).await.expect("a plan");
    let (own, other) = (keys(&ours, "queryPlanner"), keys(&theirs, "queryPlanner"));
    assert!(own.iter().all(|name| other.contains(name)), "{own:?} {other:?}");
    for name in [
        "executionSuccess", "nReturned", "executionTimeMillis", "totalKeysExamined", "totalDocsExamined",
        "executionStages",
    ] {
        assert!(keys(&ours, "executionStats").contains(&name.to_owned()), "{name}");
    }
    let stats = ours.get_document("executionStats").expect("figures");
    assert_eq!(stats.get_i32("nReturned").ok(), Some(3));
    let by_id =
        doc! { "explain": { "find": "framework.objects", "filter": { "public_id": 7 } }, "verbosity": "queryPlanner" };
    let explained = both.ours.run_command(by_id).await.expect("a plan");
    let plan =
        explained.get_document("queryPlanner").and_then(|planner| planner.get_document("winningPlan")).expect("a plan");
    assert_eq!(plan.get_str("stage").ok(), Some("FETCH"));
    let scan = plan.get_document("inputStage").expect("an inner stage");
    assert_eq!((scan.get_str("stage").ok(), scan.get_str("indexName").ok()), (Some("IXSCAN"), Some("public_id")));
    assert!(!explained.contains_key("executionStats"));
}
