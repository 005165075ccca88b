//! Types as collections: the same rows as a view of a real server, for who may see the type.

use std::path::Path;
use std::process::Command;

use bson::oid::ObjectId;
use bson::{Bson, DateTime, Document, RawDocumentBuf, doc};
use futures::TryStreamExt;
use inventory_service::store::{Change, Unit};
use mongodb::error::ErrorKind;
use mongodb::{Client, Database};
use serde_json::json;
use tempfile::TempDir;

use super::support::{DATABASE, ToolApp, code_of, found, refused};
use crate::support::app::TestApp;
use crate::support::mongod::{self, Deployment};

const VIEW: &[&str] = &["base.framework.object.view", "base.framework.type.view"];
const SERVER: &str = "type.server";

/// A type of racks and one of servers with fields of many kinds; gives their ids.
async fn types(app: &TestApp) -> (i64, i64) {
    let text = |name: &str| json!({"type": "text", "name": name, "label": name});
    let rack = json!({
        "name": "rack", "label": "Rack", "author_id": 1, "fields": [text("name"), text("note"), {"type": "password", "name": "code", "label": "Code"}],
        "render_meta": {"summary": {"fields": ["name", "code", "note"]}, "sections": [], "externals": []},
    });
    let rack = app.created("/types/", &rack).await;
    let options = json!([{"name": "red", "label": "Red"}, {"name": "blue", "label": "Blue"}]);
    let fields = json!([
        text("hostname"), {"type": "number", "name": "units", "label": "Units"}, text("version"), text("a.b"),
        {"type": "ref", "name": "rack", "label": "Rack", "ref_types": [rack]},
        {"type": "refs", "name": "peers", "label": "Peers", "ref_types": [rack]},
        {"type": "select", "name": "tags", "label": "Tags", "multiple": true, "options": options},
        {"type": "ip", "name": "ip", "label": "IP"}, {"type": "password", "name": "secret", "label": "Secret"},
    ]);
    (rack, app.created("/types/", &json!({"name": "server", "author_id": 1, "fields": fields})).await)
}

/// An object as it is stored, with these entries.
fn object(id: u8, type_id: i64, entries: &[(&str, Bson)]) -> Document {
    let entries = entries.iter().map(|(name, value)| doc! { "name": *name, "value": value.clone() });
    doc! {
        "_id": ObjectId::from_bytes([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, id]), "public_id": i64::from(id), "type_id": type_id,
        "active": id.is_multiple_of(2), "version": "1.0.1", "author_id": 1_i64, "creation_time": DateTime::from_millis(i64::from(id)),
        "last_edit_time": null, "fields": entries.collect::<Vec<Document>>(),
    }
}

fn objects(rack: i64, server: i64) -> Vec<Document> {
    let mut all = vec![
        object(1, rack, &[("name", "r1".into()), ("code", "0000".into()), ("note", "east".into())]),
        object(2, rack, &[("name", "".into()), ("code", "1111".into()), ("note", Bson::Null)]),
        object(
            3,
            server,
            &[("hostname", "web-1".into()), ("units", 2.into()), ("rack", 1_i64.into()), ("secret", "s".into())],
        ),
        object(
            4,
            server,
            &[("hostname", "web-2".into()), ("units", 2.5.into()), ("rack", 2_i64.into()), ("a.b", "x".into())],
        ),
        object(
            5,
            server,
            &[("hostname", Bson::Null), ("units", Bson::Null), ("rack", 77_i64.into()), ("version", "v7".into())],
        ),
        object(6, server, &[("hostname", "db-1".into()), ("hostname", "db-2".into()), ("ip", "10.0.0.10".into())]),
        object(
            7,
            server,
            &[("tags", vec!["red", "blue"].into()), ("ip", "10.0.0.9".into()), ("peers", vec![2_i64, 77, 1].into())],
        ),
        object(8, server, &[("peers", Vec::<i64>::new().into()), ("tags", vec!["red"].into()), ("unknown", 1.into())]),
    ];
    // Entries that other tools may have stored.
    let mut odd = object(9, server, &[]);
    odd.insert(
        "fields",
        vec![Bson::from("hostname"), doc! { "name": "hostname" }.into(), doc! { "name": 1, "value": 1 }.into()],
    );
    let mut none = object(10, server, &[]);
    none.remove("fields");
    all.extend([odd, none]);
    all
}

async fn store(app: &TestApp, objects: &[Document]) {
    let insert = |document: &Document| Change::Insert {
        collection: "framework.objects",
        document: RawDocumentBuf::try_from(document).expect("BSON"),
    };
    let unit = Unit { conditions: Vec::new(), changes: objects.iter().map(insert).collect() };
    app.store.commit(unit).await.expect("they are stored");
}

/// A database of its own on a server.
async fn database_of(server: &mongod::Mongod) -> (String, Database) {
    let uri = server.fresh_uri();
    let name = uri.rsplit_once('/').and_then(|(_, rest)| rest.split('?').next()).expect("a name").to_owned();
    let database = Client::with_uri_str(&uri).await.expect("a client").database(&name);
    (uri, database)
}

fn aggregate(stages: &[Document]) -> Document {
    doc! { "aggregate": SERVER, "pipeline": stages, "cursor": {} }
}

/// What is asked of both.
fn questions() -> Vec<Document> {
    let sorted = |filter: Document| doc! { "find": SERVER, "filter": filter, "sort": { "_id": 1 } };
    let filters = [
        doc! {},
        doc! { "hostname": "web-1" },
        doc! { "hostname": "db-2" },
        doc! { "hostname": null },
        doc! { "hostname": { "$exists": false } },
        doc! { "hostname": { "$ne": "web-1" } },
        doc! { "hostname": { "$regex": "^WEB", "$options": "i" } },
        doc! { "hostname": { "$size": 2 } },
        doc! { "hostname": { "$not": { "$in": ["web-1", null] } } },
        doc! { "hostname.x": null },
        doc! { "units": { "$gte": 2, "$lt": 2.5 } },
        doc! { "units": { "$type": "number" } },
        doc! { "tags": "red" },
        doc! { "tags": { "$all": ["red", "blue"] } },
        doc! { "tags.0": "blue" },
        doc! { "tags": ["red"] },
        doc! { "tags": { "$elemMatch": { "$gt": "p" } } },
        doc! { "ip": { "$gt": "10.0.0.1", "$lt": "10.0.0.2" } },
        doc! { "rack": 1 },
        doc! { "rack": { "$in": [2, 77] } },
        doc! { "peers": 77 },
        doc! { "rack_summary": "r1 | east" },
        doc! { "rack_summary": null, "rack": { "$gt": 0 } },
        doc! { "peers_summary": null },
        doc! { "peers_summary.0": "Rack #2" },
        doc! { "secret": { "$exists": true } },
        doc! { "fields": { "$exists": true } },
        doc! { "type_id": { "$exists": true } },
        doc! { "a_b": "x" },
        doc! { "a.b": "x" },
        doc! { "version": "v7" },
        doc! { "version_": "1.0.1" },
        doc! { "active": true },
        doc! { "_id": ObjectId::from_bytes([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4]) },
        doc! { "public_id": { "$gt": 3 } },
        doc! { "creation_time": { "$lt": DateTime::from_millis(5) } },
        doc! { "last_edit_time": null },
        doc! { "$or": [{ "hostname": "web-2" }, { "units": 2 }] },
        doc! { "$or": [{ "rack_summary": "Rack #2" }, { "units": 2 }] },
        doc! { "$nor": [{ "hostname": "web-1" }, { "rack_summary": "Rack #2" }] },
        doc! { "$and": [{ "hostname": { "$regex": "web" } }, { "rack_summary": { "$regex": "^r" } }] },
        doc! { "$expr": { "$eq": ["$units", 2] } },
        doc! { "$jsonSchema": { "required": ["hostname"] } },
        doc! { "$jsonSchema": { "minProperties": 11 } },
        doc! { "$jsonSchema": { "maxProperties": 9 } },
        doc! { "rack->name": "r1" },
        doc! { "rack.x->name": null },
    ];
    let mut all: Vec<Document> = filters.iter().cloned().map(sorted).collect();
    all.extend(filters.iter().map(|filter| doc! { "count": SERVER, "query": filter.clone() }));
    all.extend([
        doc! { "find": SERVER, "sort": { "units": -1, "_id": 1 }, "limit": 3 },
        doc! { "find": SERVER, "sort": { "ip": 1, "_id": -1 }, "skip": 5 },
        doc! { "find": SERVER, "sort": { "rack_summary": 1, "_id": 1 }, "skip": 1, "limit": 6 },
        doc! { "find": SERVER, "filter": { "rack_summary": { "$gt": "" } }, "sort": { "_id": 1 }, "limit": 1 },
        doc! { "find": SERVER, "sort": { "tags": -1, "public_id": 1 }, "projection": { "tags": 1, "_id": 0 } },
        doc! { "find": SERVER, "sort": { "_id": 1 }, "projection": { "rack": 0, "rack_summary": 0 } },
        doc! { "find": SERVER, "sort": { "_id": 1 }, "projection": { "both": { "$concat": ["$hostname", "$rack_summary"] } } },
        doc! { "find": SERVER, "sort": { "_id": 1 }, "projection": { "hostname": { "x": 0 } } },
        doc! { "find": SERVER, "sort": { "_id": 1 }, "batchSize": 2 },
        doc! { "find": SERVER, "sort": { "units": 2 } },
        doc! { "find": SERVER, "filter": { "units": { "$bad": 1 } } },
        doc! { "count": SERVER, "skip": 2, "limit": 3 },
        doc! { "count": SERVER },
        doc! { "distinct": SERVER, "key": "hostname" },
        doc! { "distinct": SERVER, "key": "tags", "query": { "public_id": { "$gt": 7 } } },
        doc! { "distinct": SERVER, "key": "rack_summary" },
        doc! { "distinct": SERVER, "key": "secret" },
        doc! { "find": "type.nothing" },
        aggregate(&[doc! { "$group": { "_id": "$rack_summary", "n": { "$sum": 1 } } }, doc! { "$sort": { "_id": 1 } }]),
        aggregate(&[doc! { "$match": { "units": { "$gt": 1 } } }, doc! { "$group": { "_id": null, "n": { "$sum": "$units" } } }]),
        aggregate(&[doc! { "$group": { "_id": null, "all": { "$max": "$$ROOT" } } }]),
        aggregate(&[doc! { "$match": { "rack": 1 } }, doc! { "$count": "n" }]),
        aggregate(&[doc! { "$sort": { "_id": 1 } }, doc! { "$project": { "rack_summary": 1 } }]),
        aggregate(&[doc! { "$sort": { "_id": 1 } }, doc! { "$project": { "hostname": 1, "fields": 1 } }]),
        aggregate(&[doc! { "$unwind": "$tags" }, doc! { "$sortByCount": "$tags" }]),
        aggregate(&[
            doc! { "$sort": { "_id": 1 } },
            doc! { "$lookup": { "from": "type.rack", "localField": "rack", "foreignField": "public_id", "as": "of" } },
        ]),
        aggregate(&[
            doc! { "$sort": { "_id": 1 } },
            doc! { "$lookup": { "from": SERVER, "localField": "units", "foreignField": "units", "as": "same", "pipeline": [
                { "$match": { "rack_summary": { "$exists": true } } }, { "$sort": { "_id": 1 } }, { "$project": { "hostname": 1 } },
            ] } },
        ]),
        aggregate(&[
            doc! { "$match": { "rack": { "$gt": 0 } } },
            doc! { "$sort": { "_id": 1 } },
            doc! { "$lookup": { "from": "type.rack", "let": { "id": "$rack" }, "as": "racks", "pipeline": [
                { "$match": { "$expr": { "$eq": ["$public_id", "$$id"] } } }, { "$project": { "name": 1, "code": 1 } },
            ] } },
        ]),
        aggregate(&[
            doc! { "$project": { "hostname": 1 } },
            doc! { "$unionWith": { "coll": "type.rack", "pipeline": [{ "$match": { "name": "r1" } }] } },
            doc! { "$sort": { "_id": 1 } },
        ]),
        aggregate(&[doc! { "$facet": { "a": [{ "$count": "n" }], "b": [{ "$sort": { "_id": 1 } }, { "$limit": 1 }] } }]),
    ]);
    all
}

/// An answer without what differs between any two servers.
fn essence(answer: Result<Document, mongodb::error::Error>) -> Document {
    match answer {
        Err(error) => doc! { "code": code_of(&error) },
        Ok(answer) => match answer.get_document("cursor") {
            Ok(cursor) => {
                let more = cursor.get_i64("id").is_ok_and(|id| id != 0);
                doc! { "documents": cursor.get("firstBatch").cloned(), "more": more }
            }
            Err(_) => {
                // A view gives different values in no order.
                let mut values: Vec<String> =
                    answer.get_array("values").into_iter().flatten().map(Bson::to_string).collect();
                values.sort();
                doc! { "n": answer.get("n").cloned(), "values": values }
            }
        },
    }
}

#[tokio::test]
async fn a_table_answers_as_a_view_of_mongodb_does() {
    let Some(server) = mongod::shared(Deployment::ReplicaSet).await else { return };
    let tools = ToolApp::start().await;
    let (uri, theirs) = database_of(server).await;
    for app in [&tools.app, &TestApp::on(&uri, &[]).await] {
        let (rack, server) = types(app).await;
        store(app, &objects(rack, server)).await;
    }
    let directory = TempDir::new().expect("a temporary directory");
    assert_eq!(run(directory.path(), &uri, &["views"]), "2 views made, 0 taken away\n");
    let ours = tools.admin().await;
    let mut different = Vec::new();
    for command in questions() {
        let (ours, theirs) = (ours.run_command(command.clone()).await, theirs.run_command(command.clone()).await);
        let (ours, theirs) = (essence(ours), essence(theirs));
        if ours != theirs {
            different.push(format!("{command}\n ours   {ours}\n theirs {theirs}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[tokio::test]
async fn a_row_has_the_columns_of_its_type_and_no_password() {
    let tools = ToolApp::start().await;
    let (rack, server) = types(&tools.app).await;
    store(&tools.app, &objects(rack, server)).await;
    let database = tools.admin().await;
    let rows = found(&database, doc! { "find": SERVER, "sort": { "public_id": 1 } }).await;
    let names: Vec<&str> = rows[0].keys().map(String::as_str).collect();
    let wanted = [
        "_id", "public_id", "hostname", "units", "rack", "active", "version_", "creation_time", "last_edit_time",
        "rack_summary",
    ];
    assert_eq!(names, wanted);
    assert_eq!(rows[0].get_str("rack_summary").ok(), Some("r1 | east"));
    assert_eq!(rows[1].get_str("rack_summary").ok(), Some("Rack #2"));
    assert!(!rows[2].contains_key("rack_summary"));
    let lines = vec![Bson::from("Rack #2"), Bson::Null, Bson::from("r1 | east")];
    assert_eq!(rows[4].get_array("peers_summary").ok(), Some(&lines));
    assert!(rows.iter().all(|row| !row.contains_key("secret")));
    let indexes = found(&database, doc! { "listIndexes": SERVER }).await;
    assert_eq!(indexes, [doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" }]);
    let stats = database.run_command(doc! { "dbStats": 1 }).await.expect("an answer");
    assert_eq!(stats.get_i64("collections").ok(), Some(8));
    let size = database.run_command(doc! { "collStats": SERVER }).await.expect("an answer");
    assert_eq!((size.get_i64("count").ok(), size.get_i32("nindexes").ok()), (Some(8), Some(1)));
}

#[tokio::test]
async fn a_question_about_a_table_is_answered_by_the_indexes_of_the_objects() {
    let tools = ToolApp::start().await;
    let (rack, server) = types(&tools.app).await;
    store(&tools.app, &objects(rack, server)).await;
    let database = tools.admin().await;
    let find = |filter: Document| doc! { "find": SERVER, "filter": filter };
    for (command, index) in [
        (find(doc! { "hostname": "web-1" }), "fields"),
        (find(doc! { "hostname": "web-1", "rack_summary": "r1 | east" }), "fields"),
        (find(doc! { "public_id": 3 }), "public_id"),
        (find(doc! { "rack_summary": "r1 | east" }), "type_id"),
        (doc! { "count": SERVER, "query": { "hostname": "web-1" } }, "fields"),
        (doc! { "count": SERVER }, "type_id"),
        (aggregate(&[doc! { "$match": { "hostname": "web-1" } }, doc! { "$count": "n" }]), "fields"),
    ] {
        let plan = database.run_command(doc! { "explain": command.clone() }).await.expect("a plan");
        assert!(plan.to_string().contains(&format!("\"indexName\": \"{index}\"")), "{command}: {plan}");
    }
}

#[tokio::test]
async fn what_a_caller_may_not_see_is_no_table() {
    let tools = ToolApp::start().await;
    let hidden = tools.hidden_type("hidden", &[1]).await;
    let (rack, server) = types(&tools.app).await;
    store(&tools.app, &objects(rack, server)).await;
    tools.app.create_object(hidden, &json!({})).await;
    let (user_id, token) = tools.user("ada", VIEW).await;
    let ada = tools.client("ada", &token).await.database(DATABASE);
    let tables = async |database: &Database| {
        let names = database.list_collection_names().await.expect("names");
        let mut names: Vec<String> = names.into_iter().filter(|name| name.starts_with("type.")).collect();
        names.sort();
        names
    };
    assert_eq!(tables(&tools.admin().await).await, ["type.hidden", "type.rack", SERVER]);
    assert_eq!(tables(&ada).await, ["type.rack", SERVER]);
    let lookup = |name: &str| {
        let lookup = doc! { "from": name, "localField": "units", "foreignField": "public_id", "as": "found" };
        aggregate(&[doc! { "$lookup": lookup }])
    };
    let asked = |name: &str| {
        [
            doc! { "find": name },
            doc! { "count": name },
            doc! { "distinct": name, "key": "public_id" },
            doc! { "aggregate": name, "pipeline": [], "cursor": {} },
            doc! { "aggregate": name, "pipeline": [{ "$collStats": {} }], "cursor": {} },
            doc! { "listIndexes": name },
            doc! { "collStats": name },
            doc! { "explain": { "find": name } },
            lookup(name),
            aggregate(&[doc! { "$unionWith": name }]),
        ]
    };
    let narrow = tools.token(user_id, &json!({"name": "narrow", "rights": [VIEW[0]]})).await;
    let narrow = tools.client("ada", &narrow).await.database(DATABASE);
    assert!(tables(&narrow).await.is_empty());
    for (database, hidden) in [(&ada, "hidden"), (&narrow, "server")] {
        let nothing = "nothing".get(..hidden.len()).expect("a name of the same length");
        for (hidden_one, unknown) in asked(&format!("type.{hidden}")).into_iter().zip(asked(&format!("type.{nothing}")))
        {
            let said = |answer: Result<Document, mongodb::error::Error>| match answer {
                Ok(answer) => answer.to_string(),
                Err(error) => match *error.kind {
                    ErrorKind::Command(refusal) => format!("{}: {}", refusal.code, refusal.message),
                    other => panic!("{other:?}"),
                },
            };
            let plain = |answer: String| answer.replace(&format!("type.{hidden}"), &format!("type.{nothing}"));
            let answer = plain(said(database.run_command(hidden_one.clone()).await));
            assert_eq!(answer, plain(said(database.run_command(unknown).await)), "{hidden_one}");
        }
    }
    // A summary shows nothing of a hidden object.
    let acl = json!({"acl": {"activated": true, "groups": {"includes": {"1": ["READ"]}}}});
    let open = ada.run_command(doc! { "find": SERVER, "batchSize": 1 }).await.expect("a batch");
    let changed = tools.app.patch(&format!("/types/{rack}"), &acl).await;
    assert!(changed.status.is_success(), "{}", changed.text);
    let rows = found(&ada, doc! { "find": SERVER, "filter": { "rack": 1 } }).await;
    assert!(rows.len() == 1 && !rows[0].contains_key("rack_summary"), "{rows:?}");
    let id = open.get_document("cursor").and_then(|cursor| cursor.get_i64("id")).expect("a cursor");
    assert_eq!(refused(&ada, doc! { "getMore": id, "collection": SERVER }).await.0, 175);
}

#[tokio::test]
async fn a_long_table_comes_in_batches_with_all_its_summaries() {
    let tools = ToolApp::start().await;
    let (rack, server) = types(&tools.app).await;
    let rack_of = |id: i64| ("rack", Bson::from(id % 2 + 1));
    let mut all = objects(rack, server);
    all.extend((11..3000).map(|id: i64| {
        let mut one = object(0, server, &[("hostname", format!("web-{id}").into()), rack_of(id)]);
        one.insert("public_id", id);
        one.insert("_id", id);
        one
    }));
    store(&tools.app, &all).await;
    let database = tools.admin().await;
    let filter = doc! { "public_id": { "$gt": 10 } };
    let read = database.collection::<Document>(SERVER).find(filter.clone()).batch_size(700).await.expect("a cursor");
    let rows: Vec<Document> = read.try_collect().await.expect("rows");
    assert_eq!(rows.len(), 2989);
    let with =
        |line: &str| rows.iter().filter(|row| row.get_str("rack_summary").is_ok_and(|said| said == line)).count();
    assert_eq!((with("r1 | east"), with("Rack #2")), (1494, 1495));
    let estimated = database.collection::<Document>(SERVER).estimated_document_count().await.expect("a number");
    assert_eq!(estimated, 2997);
}

/// Runs a command of the program on a store.
fn run(directory: &Path, uri: &str, arguments: &[&str]) -> String {
    let uri = format!("store.uri={uri}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_inventory-service"));
    let ended =
        command.current_dir(directory).args(["--set", &uri]).args(arguments).output().expect("the binary starts");
    String::from_utf8([ended.stdout, ended.stderr].concat()).expect("text")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn views_of_a_store_on_mongodb_are_made_again_and_taken_away() {
    let Some(server) = mongod::shared(Deployment::ReplicaSet).await else { return };
    let (uri, database) = database_of(server).await;
    let app = TestApp::on(&uri, &[]).await;
    let (rack, server_type) = types(&app).await;
    store(&app, &objects(rack, server_type)).await;
    let directory = TempDir::new().expect("a temporary directory");
    assert_eq!(run(directory.path(), &uri, &["views"]), "2 views made, 0 taken away\n");
    let rows = found(&database, doc! { "find": SERVER, "filter": { "hostname": "web-1" } }).await;
    assert_eq!((rows.len(), rows[0].get_str("rack_summary").ok()), (1, Some("r1 | east")));
    assert!(!rows[0].contains_key("secret"));
    // Views of others stay, and a name that another collection has keeps none of the rest from being made.
    for (name, of) in [("type.open", "framework.objects"), ("racks", "framework.types")] {
        database.create_collection(name).view_on(of.to_owned()).pipeline([doc! { "$limit": 1 }]).await.expect("a view");
    }
    database.collection::<Document>("type.rack").drop().await.expect("no view");
    database.create_collection("type.rack").await.expect("a collection");
    app.patch(&format!("/types/{server_type}"), &json!({"name": "host"})).await;
    let said = run(directory.path(), &uri, &["views"]);
    assert!(said.starts_with("1 view made, 1 taken away\n") && said.contains("not made: type.rack: "), "{said}");
    assert_eq!(found(&database, doc! { "find": "type.host", "filter": { "hostname": "web-1" } }).await.len(), 1);
    database.collection::<Document>("type.rack").drop().await.expect("no collection");
    assert_eq!(run(directory.path(), &uri, &["views"]), "2 views made, 0 taken away\n");
    let printed = run(directory.path(), &uri, &["views", "--print"]);
    assert!(printed.starts_with("db.createView(\"type.host\", \"framework.objects\", [{"), "{printed}");
    assert_eq!(run(directory.path(), &uri, &["views", "--remove"]), "0 views made, 2 taken away\n");
    let left = found(&database, doc! { "listCollections": 1, "filter": { "type": "view" } }).await;
    assert_eq!(left.len(), 2, "{left:?}");
    let embedded = run(directory.path(), "embedded:data", &["views"]);
    assert!(embedded.contains("views are for a store on MongoDB"), "{embedded}");
}
