//! `after`: pages that continue where the last one ended. docs/api.md, Cursors.

use bson::oid::ObjectId;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, DateTime, JavaScriptCodeWithScope, Regex, Timestamp, doc};
use inventory_service::domain::document::raw;
use inventory_service::store::collections::OBJECTS;
use inventory_service::store::{Change, Unit};
use reqwest::Method;
use serde_json::{Value, json};

use super::people::Person;
use crate::support::app::{Answer, TestApp, on_each_store, send};

/// The link to the next page.
fn next(answer: &Answer) -> Option<String> {
    let link = answer.header("link").split(", <").find(|part| part.ends_with("rel=\"next\""))?;
    Some(link.trim_start_matches('<').split('>').next()?.to_owned())
}

/// A value of the items on all pages.
async fn all(app: &TestApp, first: &str, pointer: &str) -> Vec<Value> {
    let mut answer = app.get(first).await;
    let mut values = answer.results(pointer);
    let mut pages = 1;
    while let Some(url) = next(&answer) {
        answer = app.get(&url).await;
        values.extend(answer.results(pointer));
        pages += 1;
        assert!(pages < 60, "the pages do not end: {url}");
    }
    values
}

/// Objects whose value is of many kinds, some of them equal, as other tools store them.
async fn mixed_objects(app: &TestApp) -> i64 {
    let kind = app.create_type("thing", &[("a", "text")]).await;
    let values: Vec<Bson> = vec![
        Bson::Null,
        3.into(),
        1_i64.into(),
        2.5.into(),
        f64::NAN.into(),
        "b".into(),
        "a".into(),
        true.into(),
        3.into(),
        DateTime::from_millis(5).into(),
        doc! { "x": 1 }.into(),
        Bson::Array(vec![]),
        vec![Bson::from(2), "c".into()].into(),
        vec![Bson::from("a"), Bson::Null].into(),
        "b".into(),
        false.into(),
        Bson::Null,
    ];
    let changes = (1_i64..).zip(values).map(|(id, value)| {
        let entry = doc! { "name": "a", "value": value.clone() };
        let document =
            doc! { "_id": id, "public_id": id, "type_id": kind, "own": value, "fields": [entry], "active": true };
        Change::Insert { collection: OBJECTS, document: raw(&document) }
    });
    app.store.commit(Unit { changes: changes.collect(), ..Unit::default() }).await.expect("stored");
    let bare = Change::Insert {
        collection: OBJECTS,
        document: raw(&doc! { "_id": 99, "public_id": 99_i64, "type_id": kind }),
    };
    app.store.commit(Unit::of(bare)).await.expect("stored");
    kind
}

fn decimal(text: &str) -> Bson {
    Bson::Decimal128(text.parse().expect("a decimal"))
}

/// Two of each kind of value, as other tools store them; at the end those that no cursor holds.
async fn objects_of_every_kind(app: &TestApp) -> (usize, Vec<Value>) {
    let kind = app.create_type("thing", &[("a", "text")]).await;
    let regex = |pattern: &str| {
        Bson::RegularExpression(Regex {
            pattern: pattern.try_into().expect("short"),
            options: "i".try_into().expect("short"),
        })
    };
    let code = || "f()".to_owned();
    let comparable: Vec<[Bson; 2]> = vec![
        [Bson::MinKey, Bson::MinKey],
        [Bson::Undefined, Bson::Array(vec![])],
        [Bson::Null, Bson::Null],
        [decimal("NaN"), f64::NAN.into()],
        [decimal("NaN"), decimal("NaN")],
        [vec![decimal("NaN"), 7.into()].into(), vec![Bson::from(f64::NAN), decimal("8")].into()],
        [decimal("-Infinity"), f64::NEG_INFINITY.into()],
        [decimal("2.50"), 2.5.into()],
        [1.into(), 1_i64.into()],
        [decimal("Infinity"), f64::INFINITY.into()],
        ["a".into(), Bson::Symbol("a".to_owned())],
        [doc! { "n": decimal("NaN") }.into(), doc! { "n": f64::NAN }.into()],
        [
            Binary { subtype: BinarySubtype::Generic, bytes: vec![1] }.into(),
            Binary { subtype: BinarySubtype::UserDefined(128), bytes: vec![1] }.into(),
        ],
        [ObjectId::from_bytes([7; 12]).into(), ObjectId::from_bytes([8; 12]).into()],
        [false.into(), true.into()],
        [DateTime::from_millis(5).into(), DateTime::from_millis(5).into()],
        [Timestamp { time: 5, increment: 1 }.into(), Timestamp { time: 5, increment: 2 }.into()],
        [Bson::MaxKey, Bson::MaxKey],
    ];
    let others: Vec<[Bson; 2]> = vec![
        [vec![Bson::from(vec![Bson::from(1)])].into(), vec![Bson::from(vec![decimal("NaN")])].into()],
        [regex("^a"), regex("^b")],
        [Bson::JavaScriptCode(code()), Bson::JavaScriptCode(code())],
        [
            JavaScriptCodeWithScope { code: code(), scope: doc! {} }.into(),
            JavaScriptCodeWithScope { code: code(), scope: doc! { "a": 1 } }.into(),
        ],
    ];
    let first_other = comparable.len() * 2 + 1;
    let changes = (1_i64..).zip(comparable.into_iter().chain(others).flatten()).map(|(id, value)| {
        let among = vec![Bson::from(doc! { "k": value.clone() }), doc! { "l": 1 }.into()];
        let entry = doc! { "name": "a", "value": value.clone() };
        let document = doc! {
            "_id": id, "public_id": id, "type_id": kind, "inner": { "own": value.clone() }, "own": value,
            "among": if id % 2 == 0 { among.into() } else { among[0].clone() }, "fields": [entry], "active": true,
        };
        Change::Insert { collection: OBJECTS, document: raw(&document) }
    });
    let changes: Vec<Change> = changes.collect();
    let count = changes.len();
    app.store.commit(Unit { changes, ..Unit::default() }).await.expect("stored");
    (count, (first_other..=count).map(Value::from).collect())
}

on_each_store! {
    async fn pages_pass_values_of_every_kind(app) {
        let (count, others) = objects_of_every_kind(app).await;
        for path in ["own", "inner.own", "among.k", "f.a"] {
            for sort in [path.to_owned(), format!("-{path}")] {
                let whole = app.get(&format!("/objects/?limit=100&sort={sort}")).await.results("/public_id");
                assert_eq!(whole.len(), count);
                for limit in 1..=count {
                    let mut answer = app.get(&format!("/objects/?after=&limit={limit}&sort={sort}&projection=public_id")).await;
                    let mut passed = answer.results("/public_id");
                    while let Some(url) = next(&answer) {
                        answer = app.get(&url).await;
                        if answer.status == 400 {
                            // It ended on a value that no condition compares.
                            assert!(others.contains(passed.last().expect("an item")), "{sort} by {limit}: {}", answer.text);
                            break;
                        }
                        assert_eq!(answer.json()["total"], count, "{sort} by {limit} behind {passed:?}");
                        passed.extend(answer.results("/public_id"));
                        assert!(whole.starts_with(&passed), "{sort} by {limit}: {passed:?} are not the beginning of {whole:?}");
                    }
                    assert!(answer.status == 400 || passed == whole, "{sort} by {limit}: {passed:?} instead of {whole:?}");
                }
            }
        }
    }

    async fn a_list_of_any_order_goes_on_behind_its_cursor(app) {
        mixed_objects(app).await;
        for sort in ["public_id", "-public_id", "own", "-own", "f.a", "-f.a", "own,-public_id", "-public_id,own", "-type_id,-public_id,own", "-type_id,own", "active,f.a,public_id"] {
            let whole = app.get(&format!("/objects/?limit=100&sort={sort}")).await.results("/public_id");
            assert_eq!(whole.len(), 18);
            for limit in [1, 4, 18, 100] {
                let paged = all(app, &format!("/objects/?after=&limit={limit}&sort={sort}"), "/public_id").await;
                assert_eq!(paged, whole, "{sort} by {limit}");
            }
        }
        app.get("/objects/?sort=own,f.a").await.error(400, "query_2");
        for sort in ["name", "-level,name"] {
            assert_eq!(app.get(&format!("/rights/?after=&sort={sort}")).await.status, 400);
        }
        let users = all(app, "/users/?after=&limit=1&sort=-user_name", "/user_name").await;
        assert_eq!(users, ["admin"]);
        let groups = all(app, "/groups/?after=&limit=1&sort=-name", "/name").await;
        assert_eq!(groups, ["user", "admin"]);
    }

    async fn what_comes_and_goes_meanwhile_moves_no_page(app) {
        let kind = app.create_type("thing", &[("a", "text")]).await;
        for _ in 0..6 {
            app.create_object(kind, &json!({"a": "x"})).await;
        }
        let first = app.get("/objects/?after=&limit=2&sort=-public_id").await;
        assert_eq!((first.results("/public_id"), &first.json()["total"]), (vec![json!(6), json!(5)], &json!(6)));
        // One is deleted before the position, and one is created there.
        app.delete("/objects/6").await;
        app.create_object(kind, &json!({"a": "x"})).await;
        let url = next(&first).expect("more");
        let second = app.get(&url).await;
        assert_eq!(second.results("/public_id"), [4, 3]);
        let body = second.json();
        assert_eq!((&body["pager"]["page"], &body["pager"]["total_pages"], &body["total"]), (&json!(2), &json!(3), &json!(6)));
        assert_eq!(body["pagination"]["next"].as_str(), next(&second).as_deref());
        let last = app.get(&next(&second).expect("more")).await;
        assert_eq!((last.results("/public_id"), next(&last)), (vec![json!(2), json!(1)], None));
        assert_eq!(last.json()["pagination"]["next"], last.json()["pagination"]["current"]);
    }

    async fn a_cursor_belongs_to_its_question(app) {
        mixed_objects(app).await;
        let url = next(&app.get("/objects/?after=&limit=2&sort=own").await).expect("more");
        assert!(!url.contains("own=") && url.contains("after="), "{url}");
        for (from, to) in [("sort=own", "sort=-own"), ("sort=own", "sort=public_id"), ("after=", "after=AA"), ("sort=own", "sort=own&active=true"), ("sort=own", "sort=own&filter={}&page=2"), ("sort=own", "sort=own&explain=true")] {
            let changed = url.replace(from, to);
            let answer = app.get(&changed).await;
            answer.error(400, "parameter_invalid");
        }
        // What does not change the order may change.
        for more in ["&view=render", "&projection=version", "&limit=5"] {
            let changed = if more.starts_with("&limit") { url.replace("limit=2", "limit=5") } else { format!("{url}{more}") };
            let answer = app.get(&changed).await;
            assert_eq!(answer.status, 200, "{more}: {}", answer.text);
            assert!(next(&answer).is_some(), "{more}");
        }
        app.get("/objects/?after=&limit=1001").await.error(400, "parameter_invalid");
        app.get("/objects/?after=&sort=own.a,own.b").await.error(400, "parameter_invalid");
        assert_eq!(app.get("/objects/?after=&filter={\"public_id\":0}").await.results("/public_id"), [0; 0]);
        let query = Method::from_bytes(b"QUERY").expect("a method");
        let body = json!({"sort": "own", "limit": 3, "after": ""});
        let first = send(app.request(query.clone(), "/objects/").json(&body)).await;
        let again = send(app.request(query, "/objects/?after=").json(&json!({"sort": "own", "limit": 3}))).await;
        assert_eq!(first.results("/public_id"), again.results("/public_id"));
        assert!(next(&first).is_some_and(|url| url.contains("sort=own")));
    }

    async fn a_cursor_is_good_for_its_user_alone(app) {
        mixed_objects(app).await;
        let eve = Person::with_rights(app, "eve", &["base.framework.object.view"]).await;
        let url = next(&app.get("/objects/?after=&limit=2&sort=-public_id").await).expect("more");
        eve.get(app, &url).await.error(400, "parameter_invalid");
        assert_eq!(app.get(&url).await.status, 200);
        let own = next(&eve.get(app, "/objects/?after=&limit=2&sort=-public_id").await).expect("more");
        assert_eq!(eve.get(app, &own).await.results("/public_id").len(), 2);
    }

    async fn what_is_hidden_while_a_list_goes_on_is_not_shown(app) {
        let kind = mixed_objects(app).await;
        let hidden = app.create_type("hidden", &[("a", "text")]).await;
        for _ in 0..3 {
            app.create_object(hidden, &json!({"a": "secret"})).await;
        }
        let eve = Person::with_rights(app, "eve", &["base.framework.object.view"]).await;
        let mut url = next(&eve.get(app, "/objects/?after=&limit=2&sort=-public_id").await).expect("more");
        let acl = json!({"acl": {"activated": true, "groups": {"includes": {"1": ["READ"]}}}});
        assert_eq!(app.patch(&format!("/types/{hidden}"), &acl).await.status, 202);
        let mut seen = Vec::new();
        loop {
            let answer = eve.get(app, &url).await;
            seen.extend(answer.results("/type_id"));
            let Some(more) = next(&answer) else { break };
            url = more;
        }
        assert!(!seen.is_empty() && seen.iter().all(|type_id| *type_id == kind), "{seen:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_is_good_on_every_instance() {
    let Some(server) = crate::support::mongod::shared(crate::support::mongod::Deployment::ReplicaSet).await else {
        return;
    };
    let uri = server.fresh_uri();
    let (one, other) = (TestApp::on(&uri, &[]).await, TestApp::on(&uri, &[]).await);
    for name in ["aa", "bb", "cc"] {
        one.create_type(name, &[]).await;
    }
    let url = next(&one.get("/types/?after=&limit=2&sort=-name").await).expect("more");
    assert_eq!(other.get(&url.replace(&one.origin, &other.origin)).await.results("/name"), ["aa"]);
}
