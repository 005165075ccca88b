//! What DATAGERRY takes and this service refuses without the setting: values of another kind, another type, references
//! that lead nowhere.

use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::{Theirs, ask, get, on_each_compatible_store, send, web_created, web_object, web_type};
use crate::api::people::Person;
use crate::support::app::{TestApp, on_each_store};

/// A type with fields of the kinds that are translated, and its id.
async fn kinds(app: &TestApp) -> i64 {
    app.create_type("kinds", &[("text", "text"), ("tel", "tel"), ("number", "number"), ("checkbox", "checkbox")]).await
}

/// The body as it is written: numbers keep their digits.
fn written(request: RequestBuilder, body: String) -> RequestBuilder {
    request.header("content-type", "application/json").body(body)
}

fn object(type_id: i64, fields: &str) -> String {
    format!(r#"{{"type_id": {type_id}, "author_id": 1, "fields": [{fields}]}}"#)
}

async fn posted(app: &TestApp, type_id: i64, fields: &str) -> Theirs {
    ask(written(app.request(Method::POST, "/object/"), object(type_id, fields))).await
}

async fn put(app: &TestApp, id: i64, type_id: i64, fields: &str) -> Theirs {
    ask(written(app.request(Method::PUT, &format!("/object/{id}")), object(type_id, fields))).await
}

/// The stored values of an object.
async fn values(app: &TestApp, id: i64) -> Value {
    let native = get(app, &format!("/object/{id}/native")).await.body;
    native["fields"].as_array().expect("fields").iter().map(|field| field["value"].clone()).collect()
}

fn warnings(headers: &HeaderMap) -> Vec<&str> {
    headers.get_all("inventory-warning").iter().map(|text| text.to_str().expect("ASCII")).collect()
}

/// An object of the type of the observed requests that refers to this one.
fn referring(type_id: i64, to: i64) -> Value {
    let mut body = web_object(type_id, "refers");
    body["fields"][4]["value"] = json!(to);
    body
}

on_each_compatible_store! {
    async fn numbers_and_texts_take_the_kind_of_their_field(app) {
        let type_id = kinds(app).await;
        let sent = r#"{"name": "text", "value": 1.10}, {"name": "tel", "value": 123456789012345678901234567890},
            {"name": "number", "value": "42"}, {"name": "checkbox", "value": true}"#;
        let answer = posted(app, type_id, sent).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let id = answer.body.as_i64().expect("an id");
        assert_eq!(values(app, id).await, json!(["1.10", "123456789012345678901234567890", 42, true]));
        let sent = r#"{"name": "text", "value": false}, {"name": "number", "value": "-0.5e1"}"#;
        let answer = put(app, id, type_id, sent).await;
        assert_eq!(answer.status, 202, "{}", answer.body);
        assert_eq!(values(app, id).await, json!(["false", "123456789012345678901234567890", -5.0, true]));
    }

    async fn what_is_no_exact_number_or_of_another_kind_stays_refused(app) {
        let type_id = kinds(app).await;
        for text in ["007", "4 2", " 42", "+1", "1e400", "NaN", "12345678901234567890123", "0.12345678901234567890"] {
            let answer = posted(app, type_id, &format!(r#"{{"name": "number", "value": "{text}"}}"#)).await;
            assert_eq!((answer.status, &answer.body["errors"][0]["pointer"]), (400, &json!("/fields/0/value")), "{text}");
        }
        for field in [r#"{"name": "number", "value": true}"#, r#"{"name": "text", "value": [1]}"#, r#"{"name": "checkbox", "value": 1}"#] {
            assert_eq!(posted(app, type_id, field).await.status, 400, "{field}");
        }
    }

    async fn another_type_is_ignored_and_named(app) {
        let type_id = web_type(app).await;
        let other = app.create_type("other", &[("text-66398", "ref")]).await;
        let id = web_created(app, type_id, "one").await;
        let answer = put(app, id, other, r#"{"name": "text-66398", "value": 1}"#).await;
        assert_eq!(answer.status, 202, "{}", answer.body);
        assert_eq!(warnings(&answer.headers), [format!("type_id: {other} is ignored; an object keeps its type")]);
        let native = get(app, &format!("/object/{id}/native")).await.body;
        assert_eq!((&native["type_id"], &native["fields"][0]["value"]), (&json!(type_id), &json!("1")));
        let answer = put(app, id, type_id, r#"{"name": "text-66398", "value": 2}"#).await;
        assert_eq!((answer.status, warnings(&answer.headers).len()), (202, 0));
        let refused = put(app, id, other, r#"{"name": "no-such-field", "value": 1}"#).await;
        assert_eq!((refused.status, warnings(&refused.headers).len()), (400, 0));
        let gone = put(app, 4711, other, "").await;
        assert_eq!((gone.status, warnings(&gone.headers).len()), (404, 0));
    }

    async fn references_that_lead_nowhere_are_stored_as_sent_and_named(app) {
        let type_id = web_type(app).await;
        let answer = send(app, Method::POST, "/object/", &referring(type_id, 4711)).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(warnings(&answer.headers), ["fields/4/value: object 4711 does not exist"]);
        let id = answer.body.as_i64().expect("an id");
        assert_eq!(values(app, id).await[4], 4711);
        let rendered = get(app, &format!("/object/{id}")).await;
        assert_eq!((rendered.status, &rendered.body["fields"][4]["value"]), (200, &json!(4711)), "{}", rendered.body);
        let listed = get(app, "/objects/?view=render").await;
        assert_eq!((listed.status, &listed.body["total"]), (200, &json!(1)));
        assert_eq!(get(app, &format!("/object/{id}/references")).await.status, 200);
        // An object of another type than the field lists.
        let answer = send(app, Method::PUT, &format!("/object/{id}"), &referring(type_id, id)).await;
        assert_eq!(answer.status, 202, "{}", answer.body);
        let [warning] = warnings(&answer.headers)[..] else { panic!("one warning") };
        assert!(warning.starts_with(&format!("fields/4/value: object {id} is of none of the types [")), "{warning}");
        assert_eq!(values(app, id).await[4], id);
        // The list of unclean objects is about names of fields alone.
        assert_eq!(get(app, &format!("/object/clean/{type_id}")).await.body["total"], json!(0));
    }

    async fn good_references_and_refused_bodies_have_no_warning(app) {
        let type_id = web_type(app).await;
        let location = get(app, "/types/?filter=%7B%22name%22:%22location%22%7D").await.body["results"][0]["public_id"].as_i64();
        let place = app.create_object(location.expect("an id"), &json!({"name": "here"})).await;
        let answer = send(app, Method::POST, "/object/", &referring(type_id, place)).await;
        assert_eq!((answer.status, warnings(&answer.headers).len()), (200, 0));
        let mut wrong = referring(type_id, 4711);
        wrong["fields"][1]["value"] = json!("no date");
        let answer = send(app, Method::POST, "/object/", &wrong).await;
        assert_eq!((answer.status, warnings(&answer.headers).len()), (400, 0));
    }

    async fn several_objects_take_references_that_lead_nowhere(app) {
        let type_id = web_type(app).await;
        let (one, two) = (web_created(app, type_id, "a").await, web_created(app, type_id, "b").await);
        let body = json!({"fields": [{"name": "ref-33293", "value": 4711}]});
        let answer = send(app, Method::PUT, &format!("/object/0?objectIDs={one}&objectIDs={two}"), &body).await;
        assert_eq!((answer.status, &answer.body["failed"]), (202, &json!([])), "{}", answer.body);
        assert_eq!(warnings(&answer.headers).len(), 1, "{:?}", answer.headers);
        assert_eq!((values(app, one).await[4].clone(), values(app, two).await[4].clone()), (json!(4711), json!(4711)));
    }

    async fn rules_of_a_type_without_effect_are_stored_with_a_warning(app) {
        let fields = json!([
            {"type": "text", "name": "pattern", "label": "A", "regex": "[0-9]+", "value": "none"},
            {"type": "text", "name": "broken", "label": "B", "regex": "(", "value": "any"},
            {"type": "text", "name": "empty", "label": "C", "regex": "", "value": "any"},
            {"type": "number", "name": "number", "label": "D", "value": "many"},
            {"type": "ref", "name": "to", "label": "E", "ref_types": [4711], "value": "4711"},
        ]);
        let mut body = json!({"name": "loose", "author_id": 1, "fields": fields});
        let created = send(app, Method::POST, "/types/", &body).await;
        assert_eq!(created.status, 201, "{}", created.body);
        let places = |headers: &HeaderMap| -> Vec<String> {
            let places = warnings(headers).into_iter().map(|warning| warning.split(':').next().unwrap_or_default().to_owned());
            places.filter(|place| place.ends_with("/value") || place.ends_with("/regex")).collect()
        };
        let expected = ["fields/1/regex", "fields/0/value", "fields/3/value", "fields/4/value"];
        assert_eq!(places(&created.headers), expected);
        body["fields"][3]["value"] = json!("more");
        let changed = send(app, Method::PUT, &format!("/types/{}", created.body["result_id"]), &body).await;
        assert_eq!((changed.status, places(&changed.headers)), (202, vec!["fields/3/value".to_owned()]), "{}", changed.body);
    }

    async fn a_type_gets_rules_that_its_objects_break(app) {
        let type_id = app.create_type("loose", &[("text", "text")]).await;
        assert_eq!(posted(app, type_id, r#"{"name": "text", "value": ""}"#).await.status, 200);
        let field = json!({"type": "text", "name": "text", "label": "A", "required": true, "regex": "[0-9]+"});
        let body = json!({"public_id": type_id, "name": "loose", "author_id": 1, "fields": [field]});
        let changed = send(app, Method::PUT, &format!("/types/{type_id}"), &body).await;
        assert_eq!((changed.status, warnings(&changed.headers).len()), (202, 1), "{}", changed.body);
    }

    async fn of_many_references_the_first_are_named(app) {
        let names: Vec<String> = (0..12).map(|index| format!("to-{index}")).collect();
        let fields: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "ref")).collect();
        let type_id = app.create_type("many", &fields).await;
        let fields: Vec<Value> = names.iter().map(|name| json!({"name": name, "value": 4711})).collect();
        let answer = send(app, Method::POST, "/object/", &json!({"type_id": type_id, "author_id": 1, "fields": fields})).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let warnings = warnings(&answer.headers);
        assert_eq!((warnings.len(), warnings[10]), (11, "fields: there is more of this kind"));
    }

    async fn a_hidden_object_looks_like_none(app) {
        let secret = app.create_type("secret", &[("a", "text")]).await;
        let hidden = app.create_object(secret, &json!({"a": "b"})).await;
        let fields = json!([{"type": "ref", "name": "to", "label": "To", "ref_types": [secret]}]);
        let open = app.created("/types/", &json!({"name": "open", "author_id": 1, "fields": fields})).await;
        let acl = json!({"activated": true, "groups": {"includes": {"1": ["CREATE", "READ", "UPDATE", "DELETE"]}}});
        assert_eq!(ask(app.request(Method::PATCH, &format!("/types/{secret}")).json(&json!({"acl": acl}))).await.status, 202);
        let viewer = Person::with_rights(app, "viewer", &["base.framework.*"]).await;
        let body = |to: i64| json!({"type_id": open, "author_id": 1, "fields": [{"name": "to", "value": to}]});
        for to in [hidden, 4711] {
            let answer = ask(viewer.request(app, Method::POST, "/object/").json(&body(to))).await;
            assert_eq!(answer.status, 200, "{}", answer.body);
            assert_eq!(warnings(&answer.headers), [format!("fields/0/value: object {to} does not exist")]);
            let own = answer.body.as_i64().expect("an id");
            assert_eq!(ask(viewer.request(app, Method::PUT, &format!("/object/{own}")).json(&body(4712))).await.status, 202);
            let answer = ask(viewer.request(app, Method::PUT, &format!("/object/{own}")).json(&body(to))).await;
            assert_eq!((answer.status, warnings(&answer.headers)), (202, vec![&*format!("fields/0/value: object {to} does not exist")]));
        }
        // An id of nothing and a hidden one, with the type that the object has and with another: one answer.
        let mut answers = Vec::new();
        for (id, type_id) in [(hidden, secret), (hidden, open), (4711, secret), (4711, open)] {
            let request = viewer.request(app, Method::PUT, &format!("/object/{id}"));
            let answer = ask(written(request, object(type_id, ""))).await;
            let text = answer.body["message"].to_string().replace(&id.to_string(), "ID");
            answers.push((answer.status, text, warnings(&answer.headers).len()));
        }
        answers.dedup();
        assert_eq!(answers.len(), 1, "{answers:?}");
    }
}

on_each_store! {
    async fn without_the_setting_all_of_it_is_refused(app) {
        let type_id = kinds(app).await;
        let other = app.create_type("other", &[("to", "ref")]).await;
        let id = app.create_object(type_id, &json!({"text": "a"})).await;
        let refused = async |method: Method, path: &str, type_id: i64, field: &str| {
            let answer = ask(written(app.request(method, path), object(type_id, field))).await;
            assert_eq!((answer.status, warnings(&answer.headers).len()), (400, 0), "{field}: {}", answer.body);
            answer.body["errors"][0]["pointer"].clone()
        };
        for field in [r#"{"name": "text", "value": 1}"#, r#"{"name": "number", "value": "42"}"#, r#"{"name": "tel", "value": true}"#] {
            assert_eq!(refused(Method::POST, "/objects/", type_id, field).await, "/fields/0/value");
            assert_eq!(refused(Method::PUT, &format!("/objects/{id}"), type_id, field).await, "/fields/0/value");
        }
        assert_eq!(refused(Method::PUT, &format!("/objects/{id}"), other, "").await, "/type_id");
        let nowhere = r#"{"name": "to", "value": 4711}"#;
        assert_eq!(refused(Method::POST, "/objects/", other, nowhere).await, "/fields/0/value");
        let empty = app.create_object(other, &json!({})).await;
        assert_eq!(refused(Method::PUT, &format!("/objects/{empty}"), other, nowhere).await, "/fields/0/value");
    }
}
