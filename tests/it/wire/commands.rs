//! What tools ask for in addition to documents, and how options are honoured or refused.

use bson::{Bson, Document, doc};
use futures::TryStreamExt;
use mongodb::Database;
use serde_json::json;

use super::support::{DATABASE, ToolApp, refused};

#[tokio::test]
async fn a_tool_that_starts_gets_all_its_answers() {
    let tools = ToolApp::start().await;
    let database = tools.admin().await;
    let admin = database.client().database("admin");
    for command in [
        doc! { "hello": 1 },
        doc! { "isMaster": 1 },
        doc! { "ping": 1 },
        doc! { "buildInfo": 1 },
        doc! { "connectionStatus": 1, "showPrivileges": true },
        doc! { "hostInfo": 1 },
        doc! { "serverStatus": 1 },
        doc! { "getParameter": 1, "featureCompatibilityVersion": 1 },
        doc! { "getParameter": "*" },
        doc! { "getCmdLineOpts": 1 },
        doc! { "getLog": "startupWarnings" },
        doc! { "whatsmyuri": 1 },
        doc! { "listDatabases": 1 },
        doc! { "startSession": 1 },
    ] {
        let answer = admin.run_command(command.clone()).await.expect("an answer");
        assert_eq!(answer.get_f64("ok").ok(), Some(1.0), "{command}: {answer}");
    }
    let info = admin.run_command(doc! { "buildInfo": 1 }).await.expect("an answer");
    assert_eq!(info.get_str("version").ok(), Some("6.0.27"));
    assert_eq!(info.get_array("versionArray").ok(), Some(&vec![6.into(), 0.into(), 27.into(), 0.into()]));
    assert!(info.contains_key("inventory-service"));
}

#[tokio::test]
async fn the_inventory_is_the_one_database() {
    let tools = ToolApp::start_with(&[("wire.database", "assets")]).await;
    let token = tools.token(1, &json!({})).await;
    let client = tools.client("admin", &token).await;
    let databases = client.list_databases().await.expect("databases");
    assert_eq!(databases.iter().map(|database| database.name.as_str()).collect::<Vec<_>>(), ["assets"]);
    assert!(databases[0].size_on_disk > 0 && !databases[0].empty);
    let elsewhere = client.database(DATABASE);
    assert!(elsewhere.list_collection_names().await.expect("names").is_empty());
    assert_eq!(
        elsewhere.run_command(doc! { "count": "management.users" }).await.expect("none").get_i32("n").ok(),
        Some(0)
    );
    let here = client.database("assets").run_command(doc! { "count": "management.users" }).await.expect("a number");
    assert_eq!(here.get_i32("n").ok(), Some(1));
}

#[tokio::test]
async fn collections_and_indexes_are_described_as_in_mongodb() {
    let tools = ToolApp::start().await;
    let database = tools.admin().await;
    for (filter, count) in [
        (doc! { "$expr": { "$eq": [{ "$strLenCP": "$name" }, 17] } }, 2),
        (doc! { "$jsonSchema": { "properties": { "name": { "pattern": "^management" } } } }, 3),
    ] {
        let command = doc! { "listCollections": 1, "nameOnly": true, "filter": filter.clone() };
        let listed = database.run_command(command).await.expect("a list");
        let batch = listed.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch")).expect("a batch");
        assert_eq!(batch.len(), count, "{filter}");
    }
    let fails = doc! { "listCollections": 1, "filter": { "$expr": { "$divide": [1, { "$size": [[]] }] } } };
    assert_eq!(refused(&database, fails).await.0, 2);
    let listed = database.run_command(doc! { "listCollections": 1, "filter": { "name": "framework.types" } });
    let listed = listed.await.expect("a list");
    let batch = listed.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch")).expect("a batch");
    let described = batch[0].as_document().expect("a document");
    assert_eq!((batch.len(), described.get_str("type").ok()), (1, Some("collection")));
    assert_eq!(described.get_document("idIndex").ok(), Some(&doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" }));
    let indexes = database.run_command(doc! { "listIndexes": "framework.objects" }).await.expect("indexes");
    let batch = indexes.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch")).expect("a batch");
    let wanted = [
        doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" },
        doc! { "v": 2, "key": { "public_id": 1 }, "name": "public_id", "unique": true },
        doc! { "v": 2, "key": { "type_id": 1, "public_id": 1 }, "name": "type_id" },
        doc! { "v": 2, "key": { "fields.name": 1, "fields.value": 1 }, "name": "fields" },
    ];
    assert_eq!(batch, &wanted.map(Bson::Document));
}

#[tokio::test]
async fn sizes_are_those_of_the_documents() {
    let tools = ToolApp::start().await;
    let database = tools.admin().await;
    let type_id = tools.app.create_type("rack", &[]).await;
    for _ in 0..5 {
        tools.app.create_object(type_id, &json!({})).await;
    }
    let stats = database.run_command(doc! { "collStats": "framework.objects" }).await.expect("figures");
    let exact = database.run_command(doc! { "dataSize": "inventory.framework.objects" }).await.expect("figures");
    assert_eq!((stats.get_i64("count").ok(), exact.get_i64("numObjects").ok()), (Some(5), Some(5)));
    assert_eq!(stats.get_i64("size").ok(), exact.get_i64("size").ok());
    assert_eq!(
        (stats.get_i64("totalSize").ok(), stats.get_i64("totalIndexSize").ok()),
        (stats.get_i64("storageSize").ok(), Some(0))
    );
    let all = database.run_command(doc! { "dbStats": 1 }).await.expect("figures");
    // With the table of the type.
    assert_eq!(all.get_i64("collections").ok(), Some(7));
    assert!(all.get_i64("dataSize").expect("a size") > stats.get_i64("size").expect("a size"));
}

/// The results of a pipeline on objects.
async fn aggregated(database: &Database, pipeline: Vec<Document>) -> Vec<Document> {
    let collection = database.collection::<Document>("framework.objects");
    collection.aggregate(pipeline).await.expect("results").try_collect().await.expect("results")
}

#[tokio::test]
async fn stages_that_describe_a_collection_stand_in_front_of_others() {
    let tools = ToolApp::start().await;
    let database = tools.admin().await;
    let type_id = tools.app.create_type("rack", &[]).await;
    tools.app.create_object(type_id, &json!({})).await;
    let stats = doc! { "$collStats": { "storageStats": {}, "count": {} } };
    let sums = doc! { "$group": {
        "_id": Bson::Null, "objects": { "$sum": "$storageStats.count" }, "indexes": { "$max": "$storageStats.nindexes" }
    } };
    assert_eq!(
        aggregated(&database, vec![stats.clone(), sums]).await,
        [doc! { "_id": Bson::Null, "objects": 1_i64, "indexes": 4 }]
    );
    let names =
        vec![doc! { "$indexStats": {} }, doc! { "$sort": { "name": 1 } }, doc! { "$project": { "name": 1, "key": 1 } }];
    let expected = [
        doc! { "name": "_id_", "key": { "_id": 1 } },
        doc! { "name": "fields", "key": { "fields.name": 1, "fields.value": 1 } },
        doc! { "name": "public_id", "key": { "public_id": 1 } },
        doc! { "name": "type_id", "key": { "type_id": 1, "public_id": 1 } },
    ];
    assert_eq!(aggregated(&database, names).await, expected);
    let asked = |pipeline: Vec<Document>| doc! { "aggregate": "framework.objects", "pipeline": pipeline, "cursor": {} };
    let join = doc! { "$lookup": { "from": "framework.types", "localField": "a", "foreignField": "b", "as": "c" } };
    for (pipeline, code) in [
        (vec![stats.clone(), join], 13),
        (vec![doc! { "$limit": 1 }, stats], 224),
        (vec![doc! { "$indexStats": { "a": 1 } }], 72),
        (vec![doc! { "$collStats": 1 }], 9),
    ] {
        assert_eq!(refused(&database, asked(pipeline.clone())).await.0, code, "{pipeline:?}");
    }
    let (_, message) = refused(&database, asked(vec![doc! { "$collStats": {} }, doc! { "$foo": 1 }])).await;
    assert!(message.contains("pipeline.1.$foo"), "{message}");
}

#[tokio::test]
async fn everything_that_writes_is_refused_with_the_reason() {
    let tools = ToolApp::start().await;
    let database = tools.admin().await;
    for command in [
        doc! { "insert": "framework.types", "documents": [{ "a": 1 }] },
        doc! { "update": "framework.types", "updates": [{ "q": {}, "u": { "$set": { "a": 1 } } }] },
        doc! { "delete": "framework.types", "deletes": [{ "q": {}, "limit": 0 }] },
        doc! { "findAndModify": "framework.types", "remove": true },
        doc! { "create": "things" },
        doc! { "drop": "framework.types" },
        doc! { "dropDatabase": 1 },
        doc! { "createIndexes": "framework.types", "indexes": [] },
        doc! { "renameCollection": "inventory.framework.types", "to": "inventory.a" },
    ] {
        let (code, message) = refused(&database, command).await;
        assert_eq!((code, message.as_str()), (13, "this server is read-only; change the inventory over REST"));
    }
    // The driver sends its documents next to the command.
    let error = database.collection("framework.types").insert_one(doc! { "a": 1 }).await.expect_err("a refusal");
    assert!(error.to_string().contains("read-only"), "{error}");
    assert_eq!(refused(&database, doc! { "noSuchCommand": 1 }).await.0, 59);
    // It may only read, and is refused for another reason.
    let command = doc! { "mapReduce": "framework.types", "map": "", "reduce": "", "out": { "inline": 1 } };
    let (code, message) = refused(&database, command).await;
    assert!(code == 115 && message.contains("JavaScript") && message.contains("$group"), "{code}: {message}");
}

#[tokio::test]
async fn a_user_is_told_about_himself_alone() {
    let tools = ToolApp::start().await;
    let database = tools.admin().await;
    let admin = database.client().database("admin");
    let users = async |database: &Database, asked: Bson| {
        let answer =
            database.run_command(doc! { "usersInfo": asked, "showPrivileges": true }).await.expect("an answer");
        let users = answer.get_array("users").expect("users").clone();
        users.into_iter().map(|user| user.as_document().expect("a document").clone()).collect::<Vec<_>>()
    };
    for asked in [
        Bson::from("admin"),
        doc! { "user": "admin", "db": "admin" }.into(),
        vec![doc! { "user": "other", "db": "admin" }, doc! { "user": "admin", "db": "admin" }].into(),
        Bson::from(1),
        doc! { "forAllDBs": true }.into(),
    ] {
        let found = users(&admin, asked.clone()).await;
        assert_eq!((found.len(), found[0].get_str("_id").ok()), (1, Some("admin.admin")), "{asked}");
        let roles = found[0].get_array("roles").expect("roles");
        assert_eq!(roles, &[Bson::from(doc! { "role": "read", "db": "inventory" })]);
        assert_eq!(found[0].get_array("inheritedPrivileges").map(Vec::len).ok(), Some(6));
    }
    for asked in ["other", "anna"] {
        assert!(users(&admin, asked.into()).await.is_empty());
    }
    assert!(users(&database, "admin".into()).await.is_empty(), "he is a user of another database");
    for (asked, code) in [
        (doc! { "usersInfo": 2 }, 2),
        (doc! { "usersInfo": 1, "showCredentials": true }, 72),
        (doc! { "usersInfo": 1, "filter": { "a": 1 } }, 72),
        (doc! { "usersInfo": 1, "shwPrivileges": true }, 40415),
    ] {
        assert_eq!(refused(&admin, asked.clone()).await.0, code, "{asked}");
    }
}

#[tokio::test]
async fn there_are_no_indexes_of_a_search() {
    let tools = ToolApp::start().await;
    let database = tools.admin().await;
    let command = doc! { "aggregate": "framework.objects", "pipeline": [{ "$listSearchIndexes": {} }], "cursor": {} };
    let error = database.run_command(command).await.expect_err("a refusal");
    assert!(error.to_string().contains("31082 (SearchNotEnabled)"), "{error}");
}

#[tokio::test]
async fn options_are_honoured_or_refused() {
    let tools = ToolApp::start().await;
    let database = tools.admin().await;
    let refusal =
        async |option: &str, value: Bson| refused(&database, doc! { "find": "framework.types", option: value }).await.0;
    assert_eq!(refusal("collation", doc! { "locale": "de" }.into()).await, 72);
    assert_eq!(refusal("tailable", true.into()).await, 72);
    assert_eq!(refusal("min", doc! { "public_id": 1 }.into()).await, 72);
    assert_eq!(refusal("hint", doc! { "public_id": 1 }.into()).await, 2);
    assert_eq!(refusal("hint", 7.into()).await, 9);
    assert_eq!(refusal("filtr", doc! {}.into()).await, 40415);
    assert_eq!(refusal("filter", "text".into()).await, 14);
    assert_eq!(refusal("limit", (-1).into()).await, 51024);
    assert_eq!(refusal("readConcern", doc! { "level": "strong" }.into()).await, 72);
    assert_eq!(refusal("filter", doc! { "$where": "1" }.into()).await, 224);
    assert_eq!(refusal("filter", doc! { "a": { "$foo": 1 } }.into()).await, 2);
    assert_eq!(refused(&database, doc! { "find": 7 }).await.0, 73);
    for (option, value) in [
        ("collation", doc! { "locale": "simple" }.into()),
        ("hint", doc! { "$natural": -1 }.into()),
        ("readConcern", doc! { "level": "snapshot" }.into()),
        ("allowDiskUse", true.into()),
        ("comment", "why".into()),
        ("maxTimeMS", 5000.into()),
        ("noCursorTimeout", true.into()),
        ("tailable", false.into()),
        ("singleBatch", true.into()),
    ] as [(&str, Bson); 9]
    {
        let command = doc! { "find": "framework.types", option: value };
        database.run_command(command.clone()).await.unwrap_or_else(|error| panic!("{command}: {error}"));
    }
}

#[tokio::test]
async fn variables_of_let_are_known_to_expressions() {
    let tools = ToolApp::start().await;
    let database = tools.admin().await;
    tools.app.create_type("rack", &[]).await;
    tools.app.create_type("cable", &[]).await;
    let command = doc! {
        "find": "framework.types",
        "filter": { "$expr": { "$eq": ["$name", "$$wanted"] } },
        "projection": { "_id": 0, "twice": { "$concat": ["$$wanted", "$name"] } },
        "let": { "wanted": "rack" },
    };
    assert_eq!(super::support::found(&database, command).await, [doc! { "twice": "rackrack" }]);
}
