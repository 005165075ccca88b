//! A database that DATAGERRY filled, and may continue to use.

use mongodb::IndexModel;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::IndexOptions;
use serde_json::json;

use super::{COMPATIBLE, get, of, send, web_created, web_type};
use crate::support::app::TestApp;
use crate::support::mongod::{self, Deployment};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_of_datagerry_stay_ahead() {
    let Some(server) = mongod::shared(Deployment::ReplicaSet).await else { return };
    for (settings, expected) in [(&[COMPATIBLE][..], 30), (&[][..], 2)] {
        let uri = server.fresh_uri();
        let name = uri.rsplit('/').next().and_then(|path| path.split('?').next()).expect("a name").to_owned();
        let database = server.client().await.database(&name);
        let counters = database.collection::<Document>("datastorage.counter");
        counters.insert_one(doc! {"_id": "framework.objects", "counter": 2}).await.expect("a counter");
        let app = TestApp::on(&uri, settings).await;
        let type_id = app.create_type("location", &[("name", "text")]).await;
        for public_id in [3, 30] {
            let body = json!({"public_id": public_id, "type_id": type_id, "author_id": 1, "fields": []});
            assert_eq!(app.post("/objects/", &body).await.status, 200);
        }
        let counter =
            counters.find_one(doc! {"_id": "framework.objects"}).await.expect("an answer").expect("a counter");
        assert_eq!(number(counter.get("counter")), Some(expected));
        if !settings.is_empty() {
            assert_eq!(app.create_object(type_id, &json!({})).await, 31);
            let counter =
                counters.find_one(doc! {"_id": "framework.objects"}).await.expect("an answer").expect("a counter");
            assert_eq!(number(counter.get("counter")), Some(31));
        }
        let others = counters.count_documents(doc! {}).await.expect("a number");
        assert_eq!(others, 1, "a counter that DATAGERRY does not have is not made");
    }
}

fn number(value: Option<&Bson>) -> Option<i64> {
    value.and_then(|value| value.as_i64().or_else(|| value.as_i32().map(i64::from)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_datagerry_stored_are_found() {
    let Some(server) = mongod::shared(Deployment::ReplicaSet).await else { return };
    let uri = server.fresh_uri();
    let name = uri.rsplit('/').next().and_then(|path| path.split('?').next()).expect("a name").to_owned();
    let database = server.client().await.database(&name);
    let theirs = doc! {
        "resource": "framework-object", "user_id": 1, "payloads": [{"id": "table-objects"}], "setting_type": "APPLICATION",
    };
    database.collection::<Document>("management.users.settings").insert_one(theirs).await.expect("a setting");
    let app = TestApp::on(&uri, &[COMPATIBLE]).await;
    let list = get(&app, "/users/1/settings/").await.body;
    assert_eq!(of(&list, "/resource"), ["framework-object"]);
    assert_eq!(list["results"][0]["payloads"], json!([{"id": "table-objects"}]));
    let change = json!({
        "setting_type": "APPLICATION", "resource": "framework-object", "user_id": 1, "payloads": [{"id": "other"}],
    });
    let answer = send(&app, reqwest::Method::PUT, "/users/1/settings/framework-object", &change).await;
    assert_eq!((answer.status, &answer.body["result"]["payloads"]), (202, &json!([{"id": "other"}])));
    assert_eq!(get(&app, "/users/1/settings/").await.body["results"].as_array().map(Vec::len), Some(1));
}

/// DATAGERRY declares this index over all settings. So it would take one setting without a `resource` for each user.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_unique_index_of_datagerry_allows_several_settings_made_here() {
    let Some(server) = mongod::shared(Deployment::ReplicaSet).await else { return };
    for settings in [&[COMPATIBLE][..], &[][..]] {
        let uri = server.fresh_uri();
        let name = uri.rsplit('/').next().and_then(|path| path.split('?').next()).expect("a name").to_owned();
        let theirs = server.client().await.database(&name).collection::<Document>("management.users.settings");
        let options = IndexOptions::builder().name("resource-user".to_owned()).unique(true).build();
        let index = IndexModel::builder().keys(doc! {"resource": 1, "user_id": 1}).options(options).build();
        theirs.create_index(index).await.expect("an index");
        let of = |resource: &str| doc! {"resource": resource, "user_id": 1, "payloads": [], "setting_type": "SERVER"};
        theirs.insert_many([of("a"), of("b")]).await.expect("two settings without an identifier");
        let app = TestApp::on(&uri, settings).await;
        for identifier in ["c", "d", "e"] {
            let body = json!({"identifier": identifier, "payload": {}, "setting_type": "APPLICATION"});
            assert_eq!(app.post("/users/1/settings/", &body).await.status, 201, "{identifier}");
        }
        assert_eq!(get(&app, "/users/1/settings/").await.body["results"].as_array().map(Vec::len), Some(5));
        theirs.insert_one(of("a")).await.expect_err("settings of DATAGERRY stay unique");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_datagerry_logged_and_set_is_shown_without_values() {
    let Some(server) = mongod::shared(Deployment::ReplicaSet).await else { return };
    let uri = server.fresh_uri();
    let name = uri.rsplit('/').next().and_then(|path| path.split('?').next()).expect("a name").to_owned();
    let app = TestApp::on(&uri, &[COMPATIBLE]).await;
    let type_id = web_type(&app).await;
    let id = web_created(&app, type_id, "a").await;
    let database = server.client().await.database(&name);
    let entry = doc! {
        "public_id": 1, "object_id": id, "log_type": "CmdbObjectLog", "action": 1, "action_name": "EDIT", "user_id": 1,
        "user_name": "admin", "version": "1.0.1", "comment": "changed", "changes": {"new": ["secret"]}, "render_state": "secret",
    };
    database.collection::<Document>("framework.logs").insert_one(entry).await.expect("an entry");
    let date = doc! {"_id": "date", "date_format": "DD.MM.YYYY", "timezone": "Europe/Berlin"};
    database.collection::<Document>("settings.conf").insert_one(date).await.expect("a setting");
    let log = get(&app, &format!("/log/object/{id}?limit=10&sort=public_id&order=-1")).await.body;
    // Entries of this service come after those of DATAGERRY.
    assert_eq!((&log["total"], of(&log, "/comment")), (&json!(2), vec![json!("Object was created"), json!("changed")]));
    assert_eq!(of(&log, "/public_id")[1], json!(1));
    let theirs = get(&app, "/log/1").await.body;
    assert_eq!((&theirs["comment"], &theirs["render_state"]), (&json!("changed"), &json!(null)));
    assert_eq!(get(&app, "/log/1/corresponding").await.status, 204);
    assert!(!log.to_string().contains("secret"), "{log}");
    // What is not shown cannot be asked for: a filter and an order by it say nothing.
    for asked in ["filter={\"render_state\":\"other\"}", "sort=render_state", "filter={\"public_id\":0}&sort=changes"] {
        assert_eq!(get(&app, &format!("/log/object/{id}?{asked}")).await.body["total"], json!(2), "{asked}");
    }
    let date = get(&app, "/date/").await.body;
    assert_eq!(date, json!({"_id": "date", "date_format": "DD.MM.YYYY", "timezone": "Europe/Berlin"}));
}
