//! Bodies: unknown members are refused or reported, and fields may be a map.

use std::io::Write;

use bson::doc;
use bson::raw::RawDocumentBuf;
use flate2::Compression;
use flate2::write::GzEncoder;
use inventory_service::store::{Change, Unit};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{ADMIN_PASSWORD, Answer, on_each_store, send};

fn a_type(field: &Value) -> Value {
    json!({"name": "rack", "author_id": 1, "fields": [field]})
}

on_each_store! {
    async fn short_bodies_refuse_what_they_do_not_list_too(app) {
        let kind = app.create_type("rack", &[]).await;
        let object = app.create_object(kind, &json!({})).await;
        let password = app.patch("/users/1/password", &json!({"pasword": "a long password"})).await;
        password.error(400, "validation_failed");
        assert_eq!(password.pointers(), ["/pasword", "/password"]);
        let state = app.put(&format!("/objects/{object}/state"), &json!({"active": false, "x": 1})).await;
        state.error(400, "validation_failed");
        assert_eq!(state.pointers(), ["/x"]);
        assert_eq!(app.get(&format!("/objects/{object}/state")).await.json(), true);
    }

    async fn a_misspelt_member_is_refused_with_its_place_and_the_right_name(app) {
        let kind = app.create_type("rack", &[("a", "text")]).await;
        let object = app.create_object(kind, &json!({"a": "x"})).await;
        let field = json!({"type": "text", "name": "b", "label": "B"});
        let cases = [
            (format!("/objects/{object}"), json!({"feilds": []}), "/feilds", "did you mean fields?"),
            (format!("/objects/{object}"), json!({"colour": "red"}), "/colour", "known are public_id"),
            (format!("/types/{kind}"), json!({"feilds": [field]}), "/feilds", "did you mean fields?"),
            (
                format!("/types/{kind}"),
                json!({"fields": [{"type": "text", "name": "b", "label": "B", "requried": true}]}),
                "/fields/0/requried",
                "did you mean required?",
            ),
            (
                format!("/types/{kind}"),
                json!({"fields": [{"type": "nubmer", "name": "b", "label": "B"}]}),
                "/fields/0/type",
                "did you mean number?",
            ),
            ("/users/1".to_owned(), json!({"username": "x"}), "/username", "did you mean user_name?"),
            ("/users/1".to_owned(), json!({"nickname": "x"}), "/nickname", "is unknown here"),
            ("/groups/2".to_owned(), json!({"lable": "x"}), "/lable", "did you mean label?"),
        ];
        for (path, patch, pointer, words) in cases {
            let before = app.get(&path).await.text;
            let refused = app.patch(&path, &patch).await;
            let body = refused.error(400, "validation_failed");
            assert_eq!(refused.pointers(), [pointer], "{body}");
            let message = body["errors"][0]["message"].as_str().expect("a message");
            assert!(message.contains(words), "{message}");
            assert_eq!(strip_time(&app.get(&path).await.text), strip_time(&before));
        }
        let new = json!({"name": "hall", "parnet": 1});
        assert_eq!(app.post("/categories/", &new).await.pointers(), ["/parnet"]);
        let settings = json!({"identifier": "a", "setting_type": "GLOBAL", "paylod": {}});
        assert_eq!(app.post("/users/1/settings/", &settings).await.pointers(), ["/paylod"]);
        let bulk = app.post("/objects/bulk", &json!([{"type_id": kind, "author_id": 1, "feilds": []}])).await;
        assert_eq!(bulk.json()["results"][0]["errors"][0]["pointer"], "/feilds", "{}", bulk.text);
    }

    async fn a_misspelt_member_at_sign_in_is_told_beside_the_missing_one(app) {
        let body = json!({"username": "admin", "password": ADMIN_PASSWORD});
        let refused = send(app.anonymous(Method::POST, "/auth/login").json(&body)).await;
        let told = refused.error(400, "validation_failed");
        assert_eq!(refused.pointers(), ["/username", "/user_name"], "{told}");
        assert_eq!(told["errors"][0]["message"], "is unknown here; did you mean user_name?");
        let other = json!({"user_name": "admin", "password": ADMIN_PASSWORD, "remember_me": true});
        assert_eq!(send(app.anonymous(Method::POST, "/auth/login").json(&other)).await.status, 200);
    }

    async fn what_reads_show_can_be_sent_back(app) {
        let kind = app.create_type("rack", &[("a", "text")]).await;
        let object = app.create_object(kind, &json!({"a": "x"})).await;
        let category = app.created("/categories/", &json!({"name": "hall", "types": [kind]})).await;
        for (path, pointer) in [
            (format!("/objects/{object}/native"), ""),
            (format!("/types/{kind}"), "/result"),
            (format!("/categories/{category}"), "/result"),
            ("/groups/2".to_owned(), "/result"),
        ] {
            let shown = app.get(&path).await.json();
            let mut shown = shown.pointer(pointer).filter(|it| it.is_object()).unwrap_or(&shown).clone();
            if let Some(results) = shown.get("results") {
                shown = results[0].clone();
            }
            let path = path.trim_end_matches("/native");
            let answer = app.put(path, &shown).await;
            assert!(answer.status.is_success(), "{path}: {} {shown}", answer.text);
        }
        let old = json!({
            "name": "switch", "author_id": 1, "status": true, "clean_db": false, "category_id": 1,
            "access": {"groups": "", "users": ""}, "fields": [], "note": "dropped, as no member is like it",
        });
        let answer = app.post("/types/", &old).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
    }

    async fn members_that_other_tools_stored_are_no_mistake(app) {
        let kind = app.create_type("rack", &[]).await;
        let object = 900;
        let stored = doc! {
            "_id": 900, "public_id": 900_i64, "type_id": kind, "author_id": 1_i64, "version": "1.0.0", "active": true,
            "fields": [], "feilds": "by hand",
        };
        let document = RawDocumentBuf::try_from(stored).expect("it is BSON");
        let insert = Change::Insert { collection: "framework.objects", document };
        app.store.commit(Unit::of(insert)).await.expect("the object can be stored");
        let shown = app.get(&format!("/objects/{object}/native")).await.json();
        assert_eq!(shown["feilds"], "by hand");
        let answer = app.put(&format!("/objects/{object}"), &shown).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_eq!(app.get(&format!("/objects/{object}/native")).await.json()["feilds"], "by hand");
    }

    async fn a_kind_that_would_be_a_check_elsewhere_is_refused(app) {
        for (kind, meant) in [
            ("ipv6", "; did you mean ip"), ("cidr", "; did you mean network"), ("currency", ""), ("user", ""), ("boolean", "; did you mean checkbox"), ("string", "; did you mean text"),
        ] {
            let refused = app.post("/types/", &a_type(&json!({"type": kind, "name": "a", "label": "A"}))).await;
            refused.error(400, "validation_failed");
            assert_eq!(refused.pointers(), ["/fields/0/type"], "{kind}");
            let message = refused.json()["errors"][0]["message"].clone();
            let begin = format!("\"{kind}\" is no known kind of field, so no value would be checked{meant}; known are text, password");
            let message = message.as_str().expect("a text");
            assert!(message.starts_with(&begin) && message.ends_with("a field with \"type\": \"json\" takes any JSON"), "{message}");
        }
        // A type that has such a field already keeps it.
        let stored = doc! {
            "_id": 900, "public_id": 900_i64, "name": "rack", "label": "Rack", "author_id": 1_i64, "version": "1.0.0", "active": true,
            "fields": [{"type": "currency", "name": "a", "label": "A"}],
        };
        let document = RawDocumentBuf::try_from(stored).expect("it is BSON");
        let insert = Change::Insert { collection: "framework.types", document };
        app.store.commit(Unit::of(insert)).await.expect("the type can be stored");
        let kept = app.put("/types/900", &a_type(&json!({"type": "currency", "name": "a", "label": "A"}))).await;
        assert_eq!(kept.status, 202, "{}", kept.text);
    }

    async fn values_are_unique_or_not(app) {
        for unique in [json!(false), json!(null), json!(true), json!("fold")] {
            let field = json!({"type": "text", "name": "a", "label": "A", "unique": unique});
            let name = format!("kind-{}", unique.as_str().map_or_else(|| unique.to_string(), str::to_owned));
            let made = app.post("/types/", &json!({"name": name, "author_id": 1, "fields": [field]})).await;
            assert_eq!(made.status, 201, "{}", made.text);
        }
    }

    async fn an_empty_regex_is_none(app) {
        let field = json!({"type": "text", "name": "a", "label": "A", "regex": "", "value": "as you like"});
        let id = app.created("/types/", &a_type(&field)).await;
        let made = app.create_object(id, &json!({"a": "anything"})).await;
        assert_eq!(app.get(&format!("/objects/{made}/native")).await.json()["fields"][0]["value"], "anything");
        let again = app.get(&format!("/types/{id}")).await.json()["result"].clone();
        assert_eq!(app.put(&format!("/types/{id}"), &again).await.status, 202);
    }

    async fn an_unknown_kind_of_field_is_taken_with_a_warning(app) {
        let created = app.post("/types/", &a_type(&json!({"type": "geo-point", "name": "a", "label": "A"}))).await;
        assert_eq!(created.status, 201, "{}", created.text);
        let warning = "fields/0/type: \"geo-point\" is no known kind of field; its values can be any JSON";
        assert_eq!(created.header("inventory-warning"), warning);
        let json = app.post("/types/", &json!({"name": "other", "author_id": 1, "fields": [{"type": "json", "name": "a", "label": "A"}]})).await;
        assert_eq!((json.status.as_u16(), json.header("inventory-warning")), (201, ""), "the way to say any JSON");
        let path = format!("/types/{}", created.json()["result_id"]);
        let known = app.put(&path, &a_type(&json!({"type": "text", "name": "a", "label": "A"}))).await;
        assert_eq!((known.status.as_u16(), known.header("inventory-warning")), (202, ""));
        let misspelt = app.post("/types/", &a_type(&json!({"type": "txet", "name": "a", "label": "A"}))).await;
        assert_eq!(misspelt.pointers(), ["/fields/0/type"]);
    }

    async fn a_misspelt_access_list_does_not_open_a_type(app) {
        for acl in [
            json!({"actived": true, "groups": {"includes": {"1": ["READ"]}}}),
            json!({"activated": true, "gruops": {"includes": {"1": ["READ"]}}}),
            json!({"activated": true, "groups": {"include": {"1": ["READ"]}}}),
        ] {
            let refused = app.post("/types/", &json!({"name": "vault", "author_id": 1, "acl": acl})).await;
            refused.error(400, "validation_failed");
            assert!(refused.pointers()[0].starts_with("/acl/"), "{:?}", refused.pointers());
        }
    }

    async fn a_byte_order_mark_in_front_of_json_is_ignored(app) {
        let kind = app.create_type("rack", &[("hostname", "text")]).await;
        let object = json!({"type_id": kind, "author_id": 1, "fields": {"hostname": "web"}});
        let marked = |text: &str| format!("\u{feff}{text}").into_bytes();
        let packed = |text: &str| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(&marked(text)).expect("memory takes it");
            encoder.finish().expect("memory takes it")
        };
        let one = object.to_string();
        let list = format!("[{one}]");
        let posts = [
            ("/objects/", "application/json", marked(&one), None),
            ("/objects/", "application/json", packed(&one), Some("gzip")),
            ("/objects/bulk", "application/json", marked(&list), None),
            ("/objects/bulk", "application/json", packed(&list), Some("gzip")),
            ("/objects/bulk", "application/x-ndjson", marked(&one), None),
            ("/objects/bulk", "application/x-ndjson", packed(&one), Some("gzip")),
        ];
        for (path, kind, body, coding) in posts {
            let mut request = app.request(Method::POST, path).header("Content-Type", kind).body(body);
            if let Some(coding) = coding {
                request = request.header("Content-Encoding", coding);
            }
            let answer = send(request).await;
            assert!(answer.status.is_success(), "{path} {kind} {coding:?}: {}", answer.text);
        }
        assert_eq!(app.get("/objects/?limit=1").await.json()["total"], 6);
    }

    async fn members_that_a_type_drops_are_told(app) {
        let field = json!({"type": "text", "name": "host", "label": "Host", "shade": 1, "mandatory": true, "note": null});
        let mut body = json!({"name": "server", "author_id": 1, "fields": [field], "icon": "fa-server", "colour": "red"});
        let told = |answer: &Answer| {
            let told = answer.headers.get_all("inventory-warning").iter();
            told.map(|told| told.to_str().expect("a text").to_owned()).collect::<Vec<_>>()
        };
        let created = app.post("/types/", &body).await;
        assert_eq!(created.status, 201, "{}", created.text);
        let known = "known are type, required, name, label, description, unique, regex, placeholder, value, helperText, default, \
                     options, multiple, ref_types, on_delete, summaries";
        let of_field = [
            format!("fields/0/shade: it is unknown here and was dropped; {known}"),
            "fields/0/mandatory: it is unknown here and was dropped; did you mean required?".to_owned(),
        ];
        let icon = "icon: it is unknown here and was dropped; did you mean render_meta.icon?".to_owned();
        let colour = told(&created).pop().expect("a warning");
        assert!(colour.starts_with("colour: it is unknown here and was dropped; known are public_id, name, "), "{colour}");
        assert_eq!(told(&created), [&of_field[..], &[icon, colour.clone()]].concat());
        let path = format!("/types/{}", created.json()["result_id"]);
        assert_eq!(told(&app.patch(&path, &json!({"colour": "blue", "shape": null})).await), [colour]);
        // What is read is sent back, without a warning.
        body = app.get(&path).await.json()["result"].clone();
        assert_eq!(told(&app.put(&path, &body).await), [] as [&str; 0]);
    }

    async fn warnings_are_few_and_short(app) {
        let kind = "k\u{fc}".repeat(2000);
        let fields: Vec<Value> =
            (0..40).map(|number| json!({"type": kind, "name": format!("f{number}"), "label": "F"})).collect();
        let created = app.post("/types/", &json!({"name": "many", "author_id": 1, "fields": fields})).await;
        assert_eq!(created.status, 201, "{}", created.text);
        let warnings: Vec<_> = created.headers.get_all("inventory-warning").iter().collect();
        assert_eq!(warnings.len(), 10);
        assert!(warnings.iter().all(|warning| warning.len() < 200));
    }

    async fn a_line_of_an_import_with_a_misspelt_member_is_refused(app) {
        let kind = app.create_type("rack", &[("a", "text")]).await;
        let import = app.request(Method::POST, &format!("/import/objects?type_id={kind}"));
        let line = "{\"author_id\": 1, \"feilds\": [{\"name\": \"a\", \"value\": \"x\"}]}\n";
        let refused = send(import.header("Content-Type", "application/x-ndjson").body(line)).await;
        refused.error(400, "import_refused");
        assert!(refused.text.contains("did you mean fields?"), "{}", refused.text);
    }

    async fn the_fields_of_an_object_may_be_a_map(app) {
        let kind = app.create_type("rack", &[("hostname", "text"), ("units", "number")]).await;
        let body = |fields: Value| json!({"type_id": kind, "author_id": 1, "fields": fields});
        let object = app.created("/objects/", &body(json!({"hostname": "web-1", "units": null}))).await;
        let fields = async || app.get(&format!("/objects/{object}/native")).await.json()["fields"].clone();
        let of = |hostname: &str, units: Value| {
            json!([{"name": "hostname", "value": hostname}, {"name": "units", "value": units}])
        };
        assert_eq!(fields().await, of("web-1", json!(null)));
        let path = format!("/objects/{object}");
        assert_eq!(app.put(&path, &body(json!({"units": 3}))).await.status, 200);
        assert_eq!(fields().await, of("web-1", json!(3)));
        assert_eq!(app.patch(&path, &json!({"fields": {"hostname": "web-2"}})).await.status, 202);
        assert_eq!(fields().await, of("web-2", json!(3)));
        let wrong = app.patch(&path, &json!({"fields": {"hostname": "web-3", "units": "many"}})).await;
        wrong.error(400, "validation_failed");
        assert_eq!(wrong.pointers(), ["/fields/units"]);
        let unknown = app.post("/objects/", &body(json!({"hostnam": "web-1"}))).await;
        assert_eq!(unknown.pointers(), ["/fields/hostnam"]);
        let mut of_type = body(json!({}));
        of_type["type"] = of_type["type_id"].take();
        let told = app.post("/objects/", &of_type).await.error(400, "validation_failed")["errors"].to_string();
        assert!(told.contains("is unknown here; did you mean type_id?"), "{told}");
        let rendered = app.get(&path).await.json();
        let told = app.put(&path, &rendered).await.error(400, "validation_failed")["errors"].to_string();
        assert!(told.contains("is of a rendered object; change and send what GET /rest/objects/{id}/native answers"), "{told}");
        assert_eq!(fields().await, of("web-2", json!(3)));
    }
}

fn strip_time(text: &str) -> String {
    let mut body: Value = serde_json::from_str(text).expect("JSON");
    if let Some(members) = body.as_object_mut() {
        members.remove("time");
        members.remove("current_render_time");
    }
    body.to_string()
}
