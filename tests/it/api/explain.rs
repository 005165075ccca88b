//! `explain=true`: how a list is found, in place of the list; and the header of lists that were much work for little.

use bson::raw::RawDocumentBuf;
use bson::{Document, doc};
use inventory_service::store::{Change, Unit};
use serde_json::{Value, json};

use super::people::Person;
use crate::support::app::{Answer, TestApp, on_each_store};

const HINT: &str = "inventory-query-hint";

#[track_caller]
fn explanation(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text);
    let body = answer.json();
    assert!(body.get("results").is_none(), "{body}");
    for name in ["keys_examined", "documents_examined", "returned", "total", "time_us"] {
        assert!(body[name].is_u64(), "{name}: {body}");
    }
    for name in ["store", "sort", "total_from"] {
        assert!(body[name].is_string(), "{name}: {body}");
    }
    assert!(body["plan"]["kind"].is_string(), "{body}");
    body
}

/// Stores many objects at once, of no type.
pub(super) async fn many_objects(app: &TestApp) {
    let object = |id: i64| doc! { "_id": id, "public_id": id, "type_id": 1000 + id % 2, "views": id, "fields": [] };
    let insert = |document: Document| Change::Insert {
        collection: "framework.objects",
        document: RawDocumentBuf::try_from(document).expect("it is BSON"),
    };
    let changes = (1..=1100).map(|id| insert(object(id))).collect();
    app.store.commit(Unit { changes, ..Unit::default() }).await.expect("the objects can be stored");
}

on_each_store! {
    async fn every_list_says_how_it_is_found(app) {
        let type_id = app.create_type("rack", &[("units", "number"), ("beside", "ref")]).await;
        let object = app.create_object(type_id, &json!({"units": 42})).await;
        for (path, kinds) in [
            ("/objects/?explain=true".to_owned(), &["index"][..]),
            ("/objects/?explain=true&view=render".to_owned(), &["index"]),
            (format!("/objects/{object}/references?explain=true"), &["nothing", "key", "index", "union"]),
            (format!("/objects/clean/{type_id}?explain=true"), &["index"]),
            ("/types/?explain=true".to_owned(), &["index"]),
            ("/categories/?explain=true".to_owned(), &["index"]),
            ("/categories/?explain=true&view=tree".to_owned(), &["index"]),
            ("/users/?explain=true&filter=%7B%22public_id%22%3A1%7D".to_owned(), &["key"]),
            ("/groups/?explain=true".to_owned(), &["index"]),
            ("/rights/?explain=true".to_owned(), &["memory"]),
            ("/rights/?explain=true&view=tree".to_owned(), &["memory"]),
            ("/users/1/settings/?explain=true".to_owned(), &["index"]),
            ("/users/1/tokens/?explain=true".to_owned(), &["index"]),
        ] {
            let body = explanation(&app.get(&path).await);
            assert_eq!(body["store"], app.store.kind(), "{path}");
            assert!(kinds.iter().any(|kind| body["plan"]["kind"] == *kind), "{path}: {body}");
        }
        let body = explanation(&app.post("/objects/query", &json!({"explain": true, "filter": {"public_id": object}})).await);
        let keys = json!([{"path": "public_id", "order": 1, "bounds": [format!("[{object}, {object}]")]}]);
        assert_eq!((&body["plan"]["kind"], &body["plan"]["keys"]), (&json!("key"), &keys));
        assert_eq!((&body["returned"], &body["total"], &body["documents_examined"]), (&json!(1), &json!(1), &json!(1)));
    }

    async fn the_filter_is_one_that_mongosh_reads_as_it_is_meant(app) {
        app.create_type("rack", &[("units", "number"), ("name", "text")]).await;
        let regex = json!({"$regularExpression": {"pattern": "^a`\\d", "options": "i"}});
        for (said, read) in [
            (json!({"$regex": "^a`\\d", "$options": "i"}), json!({"$regex": regex})),
            (json!({"$gt": 9_007_199_254_740_993_i64}), json!({"$gt": {"$numberLong": "9007199254740993"}})),
            (json!({"$lt": {"$date": 1_700_000_000_123_i64}}), json!({"$lt": {"$date": "2023-11-14T22:13:20.123Z"}})),
            (json!({"$lt": {"$date": 253_402_300_800_000_i64}}), json!({"$lt": {"$date": {"$numberLong": "253402300800000"}}})),
        ] {
            let filter = json!({"f.name": said}).to_string();
            let answer = app.get_with("/objects/", &[("filter", &filter), ("explain", "true")]).await;
            let entry = json!({"fields": {"$elemMatch": {"name": "name", "value": read}}});
            assert_eq!(explanation(&answer)["filter"], entry);
            assert!(!answer.text.contains('`'), "{}", answer.text);
        }
    }

    async fn explaining_is_off_unless_it_is_true(app) {
        assert!(app.get("/types/?explain=false").await.json()["results"].is_array());
        app.get("/types/?explain=1").await.error(400, "parameter_invalid");
        app.get("/users/1/settings/?explain=1").await.error(400, "parameter_invalid");
        app.get("/users/1/tokens/?limit=1").await.error(400, "parameter_invalid");
    }

    async fn explaining_needs_the_right_of_the_list(app) {
        let person = Person::with_rights(app, "visitor", &["base.framework.type.view"]).await;
        explanation(&person.get(app, "/types/?explain=true").await);
        person.get(app, "/objects/?explain=true").await.error(403, "right_missing");
        person.get(app, "/users/1/settings/?explain=true").await.error(403, "right_missing");
    }

    async fn much_work_for_little_is_said_with_the_index_that_would_help(app) {
        many_objects(app).await;
        let wanted = [("filter", r#"{"views": {"$lte": 2}}"#), ("limit", "5")];
        let expected = "examined 1100 documents for 2; an index on public_id, views would help";
        let list = app.get_with("/objects/", &wanted).await;
        assert_eq!(list.results("/public_id"), [1, 2]);
        // The embedded store takes no further indexes, so it names those that it has.
        let among = "examined 1100 documents for 2; conditions and orders by type_id, fields.name use an index";
        let is_embedded = app.store.kind() == "embedded";
        assert_eq!(list.header(HINT), if is_embedded { among } else { "" });
        // A page past the end has only as many documents before it as match.
        let behind = app.get_with("/objects/", &[wanted[0], wanted[1], ("page", "2001")]).await;
        let told = " documents for 0 after 2 on earlier pages;";
        assert!(!is_embedded || behind.header(HINT).contains(told), "{}", behind.header(HINT));
        let explained = app.get_with("/objects/", &[wanted[0], wanted[1], ("page", "2001"), ("explain", "true")]).await;
        assert!(explained.header(HINT).contains(told), "{}", explained.header(HINT));
        let explained = app.get_with("/objects/", &[wanted[0], wanted[1], ("explain", "true")]).await;
        assert_eq!(explained.header(HINT), if is_embedded { among } else { expected });
        assert_eq!(explanation(&explained)["hint"]["index"], json!(["public_id", "views"]));
        let cheap = app.get_with("/objects/", &[("filter", r#"{"type_id": 1001}"#)]).await;
        assert_eq!((&cheap.json()["total"], cheap.header(HINT)), (&json!(550), ""));
    }
}
