//! Requests that are sent again because their answer got lost.

use std::time::Duration;

use bson::{doc, rawdoc};
use inventory_service::clock::{Clock, SystemClock};
use inventory_service::query::{Filter, Limits, Update};
use inventory_service::store::collections::{IMPORTS, OBJECTS};
use inventory_service::store::{Change, FindQuery, Unit};
use reqwest::Method;
use serde_json::{Value, json};

use super::bulk::total;
use super::people::{PASSWORD, Person};
use crate::support::app::{Answer, TestApp, fields, on_each_store, send};

async fn import(app: &TestApp, type_id: i64, parameters: &str, key: Option<&str>, file: &str) -> Answer {
    let path = format!("/import/objects?type_id={type_id}{parameters}");
    let request = app.request(Method::POST, &path).header("Content-Type", "text/csv").body(file.to_owned());
    send(key.into_iter().fold(request, |request, key| request.header("Idempotency-Key", key))).await
}

async fn bulk(app: &TestApp, parameters: &str, key: &str, items: &[Value]) -> Answer {
    let request = app.request(Method::POST, &format!("/objects/bulk{parameters}"));
    send(request.header("Idempotency-Key", key).json(&items)).await
}

fn lines(count: usize) -> String {
    let lines = (0..count).map(|number| format!("h{number}\n"));
    std::iter::once("hostname\n".to_owned()).chain(lines).collect()
}

fn server(type_id: i64, name: &str) -> Value {
    json!({"type_id": type_id, "author_id": 1, "fields": fields(&json!({"hostname": name}))})
}

async fn marks(app: &TestApp) -> u64 {
    app.store.count(IMPORTS, &Filter::all(), Duration::from_secs(9)).await.expect("a number")
}

on_each_store! {
    async fn an_import_under_the_same_key_is_answered_as_the_first_time(app) {
        let type_id = app.create_type("server", &[("hostname", "text")]).await;
        // More than one unit on MongoDB.
        let file = lines(2500);
        let first = import(app, type_id, "", Some("one"), &file).await;
        assert_eq!((first.status.as_u16(), first.json()["created"].as_i64()), (200, Some(2500)));
        let again = import(app, type_id, "", Some("one"), &file).await;
        assert_eq!((again.status, again.json()), (first.status, first.json()));
        assert_eq!(total(app).await, 2500);
        // Nothing else is the same: another key, no key.
        import(app, type_id, "", Some("two"), &lines(3)).await;
        import(app, type_id, "", None, &lines(3)).await;
        import(app, type_id, "", None, &lines(3)).await.error(409, "import_repeated");
        import(app, type_id, "&again=true", None, &lines(3)).await;
        assert_eq!((total(app).await, marks(app).await), (2509, 3));
    }

    async fn another_request_under_a_key_is_refused(app) {
        let type_id = app.create_type("server", &[("hostname", "text")]).await;
        import(app, type_id, "", Some("one"), &lines(3)).await;
        import(app, type_id, "", Some("one"), &lines(4)).await.error(422, "idempotency_key_reused");
        import(app, type_id, "&key=hostname", Some("one"), &lines(3)).await.error(422, "idempotency_key_reused");
        import(app, type_id, "", Some(&"x".repeat(256)), &lines(3)).await.error(400, "parameter_invalid");
        assert_eq!(bulk(app, "", "bulk", &[server(type_id, "a")]).await.status, 200);
        bulk(app, "", "bulk", &[server(type_id, "b")]).await.error(422, "idempotency_key_reused");
        bulk(app, "?atomic=true", "bulk", &[server(type_id, "a")]).await.error(422, "idempotency_key_reused");
        // Keys belong to their caller and to the kind of request.
        assert_eq!(bulk(app, "", "one", &[server(type_id, "c")]).await.status, 200);
        let person = Person::with_rights(app, "importer", &["base.import.object.*"]).await;
        let request = person.request(app, Method::POST, &format!("/import/objects?type_id={type_id}"));
        let request = request.header("Content-Type", "text/csv").header("Idempotency-Key", "one");
        assert_eq!(send(request.body(lines(4))).await.json()["created"], 4);
        assert_eq!(total(app).await, 9);
    }

    async fn what_was_refused_and_what_was_only_tried_out_is_not_kept(app) {
        let type_id = app.create_type("server", &[("hostname", "text"), ("cores", "number")]).await;
        let bad = import(app, type_id, "", Some("one"), "hostname,cores\na,many\n").await;
        bad.error(400, "import_refused");
        assert_eq!(import(app, type_id, "&dry_run=true", Some("one"), &lines(3)).await.json()["created"], 3);
        assert_eq!(marks(app).await, 0);
        assert_eq!(import(app, type_id, "", Some("one"), &lines(3)).await.json()["created"], 3);
        assert_eq!(total(app).await, 3);
    }

    async fn the_same_import_twice_at_once_is_carried_out_once(app) {
        let type_id = app.create_type("server", &[("hostname", "text")]).await;
        let file = lines(500);
        let (one, other) = tokio::join!(
            import(app, type_id, "", Some("one"), &file),
            import(app, type_id, "", Some("one"), &file),
        );
        // The second request, whichever it was, got a refusal that asks to repeat it.
        for answer in [&one, &other] {
            assert!(answer.status == 200 || answer.json()["code"] == "idempotency_key_in_use", "{}", answer.text);
        }
        assert!(one.status == 200 || other.status == 200);
        let again = import(app, type_id, "", Some("one"), &file).await;
        assert_eq!((again.status.as_u16(), again.json()["created"].as_i64()), (200, Some(500)));
        assert_eq!(total(app).await, 500);
    }

    async fn every_resource_is_made_once_under_a_key(app) {
        let type_id = app.create_type("server", &[("hostname", "text")]).await;
        let post = async |path: &str, body: &Value| {
            send(app.request(Method::POST, path).header("Idempotency-Key", "one").json(body)).await
        };
        for (path, body) in [
            ("/types/", json!({"name": "rack", "author_id": 1})),
            ("/objects/", server(type_id, "a")),
            ("/categories/", json!({"name": "all"})),
            ("/users/", json!({"user_name": "ada", "password": PASSWORD})),
            ("/groups/", json!({"name": "staff"})),
            ("/users/1/settings/", json!({"identifier": "theme", "setting_type": "GLOBAL"})),
        ] {
            let first = post(path, &body).await;
            assert!(first.status.is_success(), "{path}: {}", first.text);
            let again = post(path, &body).await;
            let (mut one, mut other) = (first.json(), again.json());
            (one["time"], other["time"]) = (Value::Null, Value::Null);
            assert_eq!((again.status, other), (first.status, one), "{path}");
            for name in ["etag", "location"] {
                assert_eq!(again.header(name), first.header(name), "{path}");
            }
            let mut changed = body.clone();
            changed["active"] = json!(false);
            let other = post(path, &changed).await;
            // A member that the resource does not have is not looked at before the key.
            other.error(422, "idempotency_key_reused");
        }
        assert_eq!((total(app).await, app.get("/types/").await.json()["total"].as_i64()), (1, Some(2)));
        let wrong = post("/types/", &json!({"name": "x y", "author_id": 1})).await;
        wrong.error(422, "idempotency_key_reused");
    }

    async fn a_token_that_was_made_under_a_key_is_not_told_again(app) {
        let body = json!({"name": "ci", "expires_at": "2126-01-01T00:00:00Z"});
        let post = async || {
            send(app.request(Method::POST, "/users/1/tokens/").header("Idempotency-Key", "one").json(&body)).await
        };
        let first = post().await;
        assert_eq!(first.status, 201, "{}", first.text);
        post().await.error(409, "token_made_before");
        assert_eq!(app.get("/users/1/tokens/").await.results("/name"), ["ci"]);
    }

    async fn a_key_may_stand_in_quotes(app) {
        let body = json!({"name": "rack", "author_id": 1});
        let post = async |key: &str| {
            send(app.request(Method::POST, "/types/").header("Idempotency-Key", key).json(&body)).await
        };
        let first = post("\"8e03978e-40d5\"").await;
        assert_eq!(first.status, 201, "{}", first.text);
        assert_eq!(post("8e03978e-40d5").await.json()["result_id"], first.json()["result_id"]);
        post("\"8e0").await.error(400, "parameter_invalid");
    }

    async fn a_patch_by_filter_happens_once_under_a_key(app) {
        let type_id = app.create_type("server", &[("hostname", "text")]).await;
        for name in ["a", "b"] {
            app.create_object(type_id, &json!({"hostname": name})).await;
        }
        let patch = async |count: i64, name: &str| {
            let path = format!("/objects/?filter={{\"type_id\":{type_id}}}&expected_count={count}");
            let request = app.request(Method::PATCH, &path).header("Idempotency-Key", "one");
            send(request.json(&json!({"fields": {"hostname": name}}))).await
        };
        let first = patch(2, "x").await;
        assert_eq!((first.status.as_u16(), &first.json()["result_ids"]), (202, &json!([1, 2])), "{}", first.text);
        app.patch("/objects/1", &json!({"fields": {"hostname": "y"}})).await;
        let again = patch(2, "x").await;
        assert_eq!((again.status.as_u16(), &again.json()["result_ids"]), (202, &json!([1, 2])));
        assert_eq!(app.get("/objects/1/native").await.json()["fields"][0]["value"], "y", "nothing was written again");
        patch(2, "z").await.error(422, "idempotency_key_reused");
        patch(3, "x").await.error(422, "idempotency_key_reused");
    }

    async fn a_condition_for_reading_is_answered_with_a_warning_where_something_is_changed(app) {
        let type_id = app.create_type("server", &[("hostname", "text")]).await;
        let id = app.create_object(type_id, &json!({"hostname": "a"})).await;
        let path = format!("/objects/{id}");
        for (method, body) in [
            (Method::PATCH, json!({"fields": {"hostname": "b"}})),
            (Method::PUT, server(type_id, "c")),
            (Method::DELETE, json!({})),
        ] {
            let answer = send(app.request(method.clone(), &path).header("If-None-Match", "*").json(&body)).await;
            assert!(answer.status.is_success(), "{}", answer.text);
            let told = "If-None-Match has no effect here: PUT, PATCH and DELETE take If-Match";
            assert_eq!(answer.header("inventory-warning"), told, "{method}");
        }
    }

    async fn a_key_on_a_route_that_takes_none_is_answered_with_a_warning(app) {
        let type_id = app.create_type("server", &[("hostname", "text")]).await;
        let id = app.create_object(type_id, &json!({"hostname": "a"})).await;
        let with_key = async |method: Method, path: String, body: Value| {
            let answer = send(app.request(method, &path).header("Idempotency-Key", "one").json(&body)).await;
            assert!(answer.status.is_success(), "{}", answer.text);
            answer.header("inventory-warning").to_owned()
        };
        let change = json!({"fields": {"hostname": "b"}});
        let path = format!("/objects/{id}");
        for (method, body) in [(Method::PATCH, change.clone()), (Method::PUT, server(type_id, "c")), (Method::DELETE, json!({}))] {
            let told = with_key(method.clone(), path.clone(), body).await;
            assert!(told.starts_with("Idempotency-Key has no effect here: "), "{method}: {told}");
        }
        let told = with_key(Method::POST, format!("{path}/restore"), json!({})).await;
        assert!(told.starts_with("Idempotency-Key has no effect here: "), "restore: {told}");
        assert_eq!(with_key(Method::POST, "/objects/".to_owned(), server(type_id, "d")).await, "");
        let by_filter = format!("/objects/?filter={{\"type_id\":{type_id}}}&expected_count=2");
        assert_eq!(with_key(Method::PATCH, by_filter, change).await, "");
    }

    async fn a_request_whose_first_is_under_way_is_refused(app) {
        let body = json!({"user_name": "ada", "password": PASSWORD});
        let post = async || {
            send(app.request(Method::POST, "/users/").header("Idempotency-Key", "one").json(&body)).await
        };
        let answers = futures::future::join_all((0..8).map(|_| post())).await;
        assert!(answers.iter().any(|answer| answer.status == 201));
        for answer in answers.iter().filter(|answer| answer.status != 201) {
            answer.error(409, "idempotency_key_in_use");
        }
        assert_eq!(post().await.status, 201, "it is over");
        assert_eq!(app.get("/users/").await.json()["total"], 2);
    }

    async fn a_key_is_forgotten_after_a_day(app) {
        let type_id = app.create_type("server", &[("hostname", "text")]).await;
        import(app, type_id, "", Some("one"), &lines(3)).await;
        let long_ago = bson::DateTime::from_millis(0);
        let aged = Change::UpdateMany {
            collection: IMPORTS,
            filter: Filter::all(),
            update: Update::set("done_at", long_ago),
        };
        app.store.commit(Unit::of(aged)).await.expect("an older mark");
        assert_eq!(import(app, type_id, "", Some("one"), &lines(4)).await.json()["created"], 4);
        assert_eq!((total(app).await, marks(app).await), (7, 1));
    }

    async fn the_oldest_outcomes_of_a_user_go_when_there_are_too_many(app) {
        let type_id = app.create_type("server", &[("hostname", "text")]).await;
        let first = import(app, type_id, "", Some("first"), &lines(1)).await;
        assert_eq!(first.status, 200, "{}", first.text);
        let now = SystemClock.now().timestamp_millis();
        let mark = |number: i64, user_id: i64| {
            let id = format!("{user_id}/{number}");
            let done_at = bson::DateTime::from_millis(now + 1 + number);
            rawdoc! { "_id": id, "user_id": user_id, "of": "other", "request": "other", "done_at": done_at }
        };
        for (user_id, count) in [(1, 9_998), (2, 10)] {
            let marks = (0..count).map(|number| Change::Insert { collection: IMPORTS, document: mark(number, user_id) });
            app.store.commit(Unit { conditions: Vec::new(), changes: marks.collect() }).await.expect("stored");
        }
        // With this one there are 10,000 of the user.
        assert_eq!(import(app, type_id, "", Some("second"), &lines(1)).await.json()["created"], 1);
        assert_eq!(marks(app).await, 10_010);
        let again = import(app, type_id, "", Some("first"), &lines(1)).await;
        assert_eq!(again.json(), first.json());
        // The oldest one gives way.
        assert_eq!(import(app, type_id, "", Some("third"), &lines(1)).await.json()["created"], 1);
        assert_eq!(import(app, type_id, "", Some("first"), &lines(1)).await.json()["created"], 1);
        assert_eq!((marks(app).await, total(app).await), (10_011, 4));
    }

    async fn objects_in_bulk_under_the_same_key_are_stored_once(app) {
        let type_id = app.create_type("server", &[("hostname", "text")]).await;
        let mut items: Vec<Value> = (0..1500).map(|number| server(type_id, &format!("h{number}"))).collect();
        items[7] = server(99, "of no type");
        let first = bulk(app, "", "one", &items).await;
        assert_eq!((first.status.as_u16(), first.json()["created"].as_i64()), (207, Some(1499)));
        let again = bulk(app, "", "one", &items).await;
        assert_eq!((again.status, again.json()["results"].clone()), (first.status, first.json()["results"].clone()));
        assert_eq!(total(app).await, 1499);
        let together = bulk(app, "?atomic=true", "two", &items[10..20]).await;
        assert_eq!(together.status, 200, "{}", together.text);
        let again = bulk(app, "?atomic=true", "two", &items[10..20]).await;
        assert_eq!(again.json()["results"], together.json()["results"]);
        assert_eq!(total(app).await, 1509);
    }

    async fn a_bulk_request_that_failed_in_the_middle_is_completed_when_it_is_sent_again(app) {
        let type_id = app.create_type("server", &[("hostname", "text")]).await;
        let items: Vec<Value> = (0..2500).map(|number| server(type_id, &format!("h{number}"))).collect();
        let first = bulk(app, "", "one", &items).await.json();
        assert_eq!(first["created"], 2500);
        // As if the second of three units had failed: neither its objects nor its mark are there.
        let id = |position: usize| first["results"][position]["result_id"].as_i64().expect("an id");
        let filter = |document| Filter::parse(&document, &Limits::NONE).expect("a filter");
        let objects = filter(doc! {"public_id": {"$gte": id(1000), "$lte": id(1999)}});
        let mark = filter(doc! {"_id": {"$regex": "/1$"}});
        let lost = Unit::of(Change::DeleteMany { collection: OBJECTS, filter: objects });
        let lost = lost.and(Change::DeleteMany { collection: IMPORTS, filter: mark });
        app.store.commit(lost).await.expect("they are there");
        assert_eq!((total(app).await, marks(app).await), (1500, 2));
        let again = bulk(app, "", "one", &items).await;
        assert_eq!((again.status.as_u16(), total(app).await, marks(app).await), (200, 2500, 3));
        assert_eq!(again.json()["results"][2400], first["results"][2400]);
        assert_eq!(bulk(app, "", "one", &items).await.json()["results"], again.json()["results"]);
        assert_eq!(total(app).await, 2500);
    }

    async fn what_a_deleted_user_did_under_a_key_is_not_told_to_the_next_one(app) {
        let type_id = app.create_type("server", &[("hostname", "text")]).await;
        let adder = ["base.framework.object.add", "base.framework.object.view"];
        let ada = Person::with_rights(app, "ada", &adder).await;
        let items = [server(type_id, "a")];
        let request = |token: &str| {
            let request = app.anonymous(Method::POST, "/objects/bulk").bearer_auth(token);
            request.header("Idempotency-Key", "one").json(&items)
        };
        let first = send(request(&ada.token)).await;
        assert_eq!((first.status.as_u16(), total(app).await, marks(app).await), (200, 1, 1), "{}", first.text);
        assert_eq!(app.delete(&format!("/users/{}", ada.id)).await.status, 202);
        assert_eq!(marks(app).await, 0);
        let next = json!({"public_id": ada.id, "user_name": "grace", "password": PASSWORD, "group_id": ada.group_id});
        assert_eq!(app.created("/users/", &next).await, ada.id);
        let second = send(request(&app.login("grace", PASSWORD).await)).await;
        assert_eq!((second.status.as_u16(), total(app).await), (200, 2), "{}", second.text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_import_that_died_behind_its_last_unit_noted_is_gone_when_it_is_told_again() {
    let Some(app) = TestApp::mongodb().await else { return };
    let type_id = app.create_type("server", &[("hostname", "text")]).await;
    // More than one unit, so that the ids of the lines are noted while it runs.
    let file = lines(4000);
    let ids = Filter::parse(&doc! {"first_id": {"$exists": true}}, &Limits::NONE).expect("a filter");
    let noted = FindQuery::new(ids, Duration::from_secs(9));
    let first = import(&app, type_id, "", Some("one"), &file);
    let mut first = std::pin::pin!(first);
    let note = loop {
        tokio::select! {
            answer = &mut first => panic!("it was done before its note was seen: {}", answer.status),
            found = app.store.find(IMPORTS, &noted) => {
                if let Some(note) = found.expect("an answer").first() {
                    break note.to_owned();
                }
            }
        }
    };
    let first = first.await;
    assert_eq!((first.status.as_u16(), marks(&app).await), (200, 1));
    let left = Unit::of(Change::Insert { collection: IMPORTS, document: note });
    app.store.commit(left).await.expect("as if it had died before it was forgotten");
    let again = import(&app, type_id, "", Some("one"), &file).await;
    assert_eq!((again.status, again.json()), (first.status, first.json()));
    assert_eq!((total(&app).await, marks(&app).await), (4000, 1));
}
