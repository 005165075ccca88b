//! Callers who may change or delete objects that they may not read: no answer discloses what the objects hold.

use reqwest::Method;
use serde_json::{Value, json};

use crate::api::people::Person;
use crate::support::app::{Answer, TestApp, fields, on_each_store, send};

/// What no answer may hold.
const SECRET: &str = "plugh";

/// An administrator who keeps a type hidden from all others, and another user.
struct Hidden<'a> {
    app: &'a TestApp,
    mallory: Person,
    /// The type, of which the other one has the permissions of the test.
    secrets: i64,
    /// A type that is open to all.
    open: i64,
}

impl<'a> Hidden<'a> {
    /// `permissions` are those of the other one on the type.
    async fn with(app: &'a TestApp, permissions: &[&str]) -> Self {
        let rights = ["base.framework.object.*", "base.framework.type.*", "base.import.object.*"];
        let mallory = Person::with_rights(app, "mallory", &rights).await;
        let secrets = json!({"name": "secrets", "author_id": 1, "fields": [
            {"type": "text", "name": "word", "label": "Word"},
            {"type": "text", "name": "needed", "label": "Needed"},
            {"type": "ref", "name": "to", "label": "To", "ref_types": []},
        ]});
        let secrets = app.created("/types/", &secrets).await;
        let open = json!({"name": "open", "author_id": 1, "fields": [
            {"type": "text", "name": "word", "label": "Word"},
            {"type": "ref", "name": "to", "label": "To", "ref_types": [secrets, secrets + 1]},
        ]});
        let open = app.created("/types/", &open).await;
        let hidden = Self { app, mallory, secrets, open };
        hidden.allow(permissions).await;
        hidden
    }

    /// Changes what the other one may do with objects of the type.
    async fn allow(&self, permissions: &[&str]) {
        let all = ["CREATE", "READ", "UPDATE", "DELETE"];
        let groups = json!({"1": all, self.mallory.group_id.to_string(): permissions});
        let acl = json!({
            "acl": {"activated": true, "groups": {"includes": groups}},
            "fields": [
                {"type": "text", "name": "word", "label": "Word"},
                {"type": "text", "name": "needed", "label": "Needed"},
                {"type": "ref", "name": "to", "label": "To", "ref_types": [self.secrets, self.open]},
            ],
        });
        let answer = self.app.patch(&format!("/types/{}", self.secrets), &acl).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
    }

    async fn secret(&self) -> i64 {
        self.app.create_object(self.secrets, &json!({"word": SECRET})).await
    }

    /// A request of the other one, whose answer must not hold the secret nor an entity tag.
    async fn send(&self, method: Method, path: &str, body: &Value) -> Answer {
        let answer = self.mallory.send(self.app, method, path, body).await;
        assert!(!answer.text.contains(SECRET), "{path}: {}", answer.text);
        assert_eq!(answer.header("etag"), "", "{path}: {}", answer.text);
        answer
    }

    async fn tagged(&self, method: Method, path: &str, tag: &str) -> Answer {
        let takes_body = method != Method::DELETE;
        let request = self.mallory.request(self.app, method, path).header("If-Match", tag);
        send(if takes_body { request.json(&json!({"active": true})) } else { request }).await
    }

    async fn import(&self, parameters: &str, file: &str) -> Answer {
        let path = format!("/import/objects?{parameters}");
        let request = self.mallory.request(self.app, Method::POST, &path).header("Content-Type", "text/csv");
        send(request.body(file.to_owned())).await
    }
}

fn word(value: &str) -> Value {
    json!({"author_id": 1, "fields": fields(&json!({"word": value}))})
}

/// What is wrong with one place of a body.
#[track_caller]
fn violation(answer: &Answer) -> String {
    let body = answer.error(400, "validation_failed");
    let errors = body["errors"].as_array().expect("violations");
    assert_eq!(errors.len(), 1, "{body}");
    format!("{}: {}", errors[0]["pointer"], errors[0]["message"])
}

on_each_store! {
    async fn who_writes_without_reading_is_told_the_id_alone(app) {
        let hidden = Hidden::with(app, &["CREATE", "UPDATE", "DELETE"]).await;
        let id = hidden.secret().await;
        let path = format!("/objects/{id}");
        let alone = json!({"public_id": id});
        for (method, path, body, status) in [
            (Method::PATCH, path.clone(), json!({"fields": fields(&json!({"needed": "x"}))}), 202),
            (Method::PUT, path.clone(), json!({"author_id": 1, "fields": []}), 200),
            (Method::PUT, format!("{path}/state"), json!(false), 202),
            // An answer that it is so already would disclose how it was.
            (Method::PUT, format!("{path}/state"), json!(false), 202),
            (Method::PUT, format!("{path}/state"), json!({"active": true}), 202),
        ] {
            let answer = hidden.send(method, &path, &body).await;
            assert_eq!((answer.status.as_u16(), &answer.json()["result"]), (status, &alone), "{path} {}", answer.text);
            assert_eq!(answer.header("location"), format!("{}/rest/objects/{id}", app.origin));
        }
        let stored = app.get(&format!("{path}/native")).await.json();
        assert_eq!(stored["fields"], fields(&json!({"word": SECRET, "needed": "x", "to": null})));
        let gone = hidden.send(Method::DELETE, &path, &json!({})).await;
        assert_eq!((gone.status.as_u16(), &gone.json()["deleted_entry"]), (200, &alone), "{}", gone.text);
        let made = hidden.send(Method::POST, "/objects/", &json!({"author_id": 1, "type_id": hidden.secrets})).await;
        assert_eq!(made.json()["raw"], json!({"public_id": made.json()["result_id"]}), "{}", made.text);
    }

    async fn who_lacks_the_right_to_read_is_told_the_id_alone_too(app) {
        let rights = ["base.framework.object.edit", "base.framework.object.activation", "base.framework.object.delete"];
        let mallory = Person::with_rights(app, "mallory", &rights).await;
        let kind = app.create_type("kind", &[("word", "text")]).await;
        let id = app.create_object(kind, &json!({"word": SECRET})).await;
        let path = format!("/objects/{id}");
        mallory.get(app, &path).await.error(403, "right_missing");
        let alone = json!({"public_id": id});
        let patched = mallory.send(app, Method::PATCH, &path, &json!({"active": false})).await;
        assert_eq!((&patched.json()["result"], patched.header("etag")), (&alone, ""), "{}", patched.text);
        // Comparing a tag would disclose whether a guess of the content is right.
        for (method, path) in [(Method::PATCH, path.clone()), (Method::PUT, format!("{path}/state")), (Method::DELETE, path.clone())] {
            let request = mallory.request(app, method.clone(), &path).header("If-Match", "\"abc\"");
            let request = if method == Method::DELETE { request } else { request.json(&json!({"active": true})) };
            send(request).await.error(403, "right_missing");
        }
        // The right to set the state is the right to read it.
        assert_eq!(mallory.send(app, Method::PUT, &format!("{path}/state"), &json!(false)).await.status, 204);
        assert_eq!(mallory.delete(app, &path).await.json()["deleted_entry"], alone);
    }

    async fn who_writes_many_without_reading_is_told_their_ids_alone(app) {
        let hidden = Hidden::with(app, &["UPDATE", "DELETE"]).await;
        let ids = [hidden.secret().await, hidden.secret().await];
        let seen = app.create_object(hidden.open, &json!({"word": "seen"})).await;
        let path = format!("/objects/{},{seen},77777", ids[0]);
        let gone = hidden.send(Method::DELETE, &path, &json!({})).await.json();
        assert_eq!(gone["not_found"], json!([77777]));
        let entries = gone["deleted_entries"].as_array().expect("entries");
        let of = |id: i64| entries.iter().find(|entry| entry["public_id"] == id).expect("an entry");
        assert_eq!(of(ids[0]), &json!({"public_id": ids[0]}));
        assert_eq!(of(seen)["fields"][0]["value"], "seen");
        let more = json!({"fields": [
            {"type": "text", "name": "word", "label": "Word"}, {"type": "text", "name": "new", "label": "New"},
        ]});
        app.patch(&format!("/types/{}", hidden.secrets), &more).await;
        let clean = format!("/objects/clean/{}", hidden.secrets);
        assert_eq!(hidden.mallory.get(app, &clean).await.results(""), Vec::<Value>::new());
        let cleaned = hidden.send(Method::PUT, &clean, &json!({})).await;
        assert_eq!(cleaned.json()["results"], json!([{"public_id": ids[1]}]), "{}", cleaned.text);
        // A filter selects only what may be read.
        let all = "/objects/?filter=%7B%7D&expected_count=0";
        let none = hidden.send(Method::DELETE, all, &json!({})).await;
        assert_eq!(none.json()["deleted_ids"], json!([]), "{}", none.text);
    }

    async fn a_tag_is_compared_only_for_who_may_read(app) {
        let hidden = Hidden::with(app, &["UPDATE", "DELETE"]).await;
        let id = hidden.secret().await;
        let tag = app.get(&format!("/objects/{id}/native")).await.header("etag").to_owned();
        for (permissions, refusal) in [
            (["UPDATE", "DELETE"].as_slice(), (403, "acl_denied")), (&[], (404, "object_not_found")),
        ] {
            hidden.allow(permissions).await;
            for (method, path) in [
                (Method::PUT, format!("/objects/{id}")),
                (Method::PATCH, format!("/objects/{id}")),
                (Method::PUT, format!("/objects/{id}/state")),
                (Method::DELETE, format!("/objects/{id}")),
            ] {
                let right = hidden.tagged(method.clone(), &path, &tag).await.error(refusal.0, refusal.1);
                let wrong = hidden.tagged(method.clone(), &path, "\"0\"").await.error(refusal.0, refusal.1);
                assert_eq!(right["message"], wrong["message"], "{method} {path}");
            }
        }
        hidden.allow(&["UPDATE"]).await;
        assert_eq!(hidden.tagged(Method::PUT, &format!("/objects/{id}/state"), "*").await.status, 202);
    }

    async fn whether_a_body_is_taken_does_not_depend_on_what_may_not_be_read(app) {
        let hidden = Hidden::with(app, &["UPDATE"]).await;
        let target = app.create_object(hidden.open, &json!({})).await;
        let id = app.create_object(hidden.secrets, &json!({"word": SECRET, "to": target})).await;
        app.delete(&format!("/objects/{target}")).await;
        let path = format!("/objects/{id}");
        // What is stored and breaks a rule by now may be sent back by who read it, and by nobody else.
        for sent in [target, 77777] {
            let body = json!({"fields": [{"name": "to", "value": sent}]});
            let message = violation(&hidden.send(Method::PATCH, &path, &body).await);
            assert_eq!(message, format!("\"/fields/0/value\": \"object {sent} does not exist\""));
        }
        let required = json!({"fields": [
            {"type": "text", "name": "word", "label": "Word", "required": true, "regex": "[0-9]+"},
            {"type": "text", "name": "needed", "label": "Needed", "required": true},
        ], "enforce": "new"});
        app.patch(&format!("/types/{}", hidden.secrets), &required).await;
        for guess in [SECRET, "other"] {
            let message = violation(&hidden.mallory.send(app, Method::PUT, &path, &word(guess)).await);
            assert_eq!(message, "\"/fields/0/value\": \"must match the pattern of the field word: [0-9]+\"");
        }
        // Nothing is asked of fields that are not sent.
        assert_eq!(hidden.send(Method::PUT, &path, &word("12")).await.status, 200);
        let other = json!({"author_id": 1, "type_id": hidden.open});
        let message = violation(&hidden.send(Method::PUT, &path, &other).await);
        assert_eq!(message, "\"/type_id\": \"the type of an object cannot change\"");
    }

    async fn a_reference_to_what_may_not_be_seen_leads_nowhere(app) {
        let hidden = Hidden::with(app, &[]).await;
        let id = hidden.secret().await;
        let own = app.create_object(hidden.open, &json!({"word": "own"})).await;
        let kept = app.create_object(hidden.open, &json!({"word": "kept", "to": id})).await;
        let message = |answer: &Answer, id: i64| {
            let said = violation(answer);
            assert!(said.ends_with(&format!("object {id} does not exist\"")), "{said}");
        };
        for target in [id, 77777] {
            let refer = json!({"author_id": 1, "type_id": hidden.open, "fields": [{"name": "to", "value": target}]});
            message(&hidden.send(Method::POST, "/objects/", &refer).await, target);
            let patch = json!({"fields": [{"name": "to", "value": target}]});
            for method in [Method::PATCH, Method::PUT] {
                let body = if method == Method::PUT { &refer } else { &patch };
                message(&hidden.mallory.send(app, method, &format!("/objects/{own}"), body).await, target);
            }
            let selected = format!("/objects/?filter=%7B%22public_id%22:{own}%7D&expected_count=1");
            message(&hidden.send(Method::PATCH, &selected, &patch).await, target);
            let bulk = hidden.send(Method::POST, "/objects/bulk", &json!([refer])).await.json();
            assert_eq!(bulk["results"][0]["errors"][0]["message"], format!("object {target} does not exist"), "{bulk}");
            let file = format!("word,to\nx,{target}\n");
            let report = hidden.import(&format!("type_id={}", hidden.open), &file).await.error(400, "import_refused");
            assert_eq!(report["report"]["errors"][0]["reason"], format!("object {target} does not exist"));
        }
        let kept = format!("/objects/{kept}");
        let native = hidden.mallory.get(app, &format!("{kept}/native")).await.json();
        assert_eq!(hidden.mallory.send(app, Method::PUT, &kept, &native).await.status, 200);
    }

    async fn an_import_looks_up_only_what_may_be_read(app) {
        let hidden = Hidden::with(app, &["CREATE", "UPDATE"]).await;
        let id = hidden.secret().await;
        let of_type = |more: &str| format!("type_id={}{more}", hidden.secrets);
        for word in [SECRET, "other"] {
            for more in ["&key=word", "&key=word&dry_run=true"] {
                hidden.import(&of_type(more), &format!("word\n{word}\n")).await.error(403, "acl_denied");
            }
            for id in [id, 77777] {
                let file = format!("public_id,word\n{id},{word}\n");
                hidden.import(&of_type("&dry_run=true"), &file).await.error(403, "acl_denied");
            }
            let changed = hidden.import(&of_type(""), &format!("public_id,word\n{id},{SECRET}\n")).await.json();
            assert_eq!((&changed["updated"], &changed["unchanged"]), (&json!(1), &json!(0)), "{changed}");
        }
        assert_eq!(hidden.import(&of_type("&dry_run=true"), "word\nx\n").await.json()["created"], 1);
        hidden.allow(&["CREATE"]).await;
        for id in [id, 77777] {
            hidden.import(&of_type(""), &format!("public_id,word\n{id},x\n")).await.error(403, "acl_denied");
        }
        // An id of a hidden object in a file for another type.
        for id in [id, 77777] {
            let file = format!("public_id,word\n{id},x\n");
            let tried = hidden.import(&format!("type_id={}&dry_run=true", hidden.open), &file).await.json();
            assert_eq!((&tried["created"], &tried["lines"][0]["public_id"]), (&json!(1), &json!(id)), "{tried}");
        }
        let taken = hidden.import(&format!("type_id={}", hidden.open), &format!("public_id,word\n{id},x\n")).await;
        let reason = taken.error(400, "import_refused")["report"]["errors"][0]["reason"].clone();
        assert_eq!(reason, "another object has the same public_id; choose another one");
    }

    async fn of_referring_objects_that_may_not_be_seen_only_their_being_there_is_told(app) {
        let hidden = Hidden::with(app, &[]).await;
        let target = app.create_object(hidden.open, &json!({})).await;
        let refuse = format!("/objects/{target}?on_references=refuse");
        let clear = format!("/objects/{target}?on_references=clear");
        let mut told = Vec::new();
        for _ in 0..2 {
            app.create_object(hidden.secrets, &json!({"word": SECRET, "to": target})).await;
            let refused = hidden.send(Method::DELETE, &refuse, &json!({})).await.error(400, "object_referenced");
            let denied = hidden.send(Method::DELETE, &clear, &json!({})).await.error(403, "acl_denied");
            told.push((refused["message"].clone(), denied["message"].clone()));
        }
        let words = [json!("objects that you may not see refer to this"), json!("objects that you may neither see nor change refer to this")];
        assert_eq!((&told[0].0, &told[0].1), (&words[0], &words[1]));
        assert_eq!(told[0], told[1]);
        // Nor do more of them than fit into memory show.
        let large = SECRET.repeat(900_000 / SECRET.len());
        let mut more = Vec::new();
        for _ in 0..40 {
            more.push(app.create_object(hidden.secrets, &json!({"word": large, "to": target})).await);
        }
        assert_eq!(hidden.send(Method::DELETE, &clear, &json!({})).await.error(403, "acl_denied")["message"], words[1]);
        for id in more {
            assert_eq!(app.delete(&format!("/objects/{id}")).await.status, 200);
        }
        // An inactive type is not named either.
        hidden.app.patch(&format!("/types/{}", hidden.secrets), &json!({"active": false})).await;
        hidden.allow(&["UPDATE"]).await;
        assert_eq!(hidden.send(Method::DELETE, &clear, &json!({})).await.error(403, "acl_denied")["message"], words[1]);
        hidden.app.patch(&format!("/types/{}", hidden.secrets), &json!({"active": true})).await;
        // Who may see them learns how many, and only of those.
        let open = json!({"type_id": hidden.open, "author_id": 1});
        app.patch(&format!("/types/{}", hidden.open), &json!({"fields": [
            {"type": "text", "name": "word", "label": "Word"},
            {"type": "ref", "name": "to", "label": "To", "ref_types": [hidden.open]},
        ]})).await;
        let mut seen = open.clone();
        seen["fields"] = fields(&json!({"to": target}));
        let seen = app.created("/objects/", &seen).await;
        let message = hidden.send(Method::DELETE, &refuse, &json!({})).await.error(400, "object_referenced")["message"].clone();
        assert!(message.as_str().expect("a message").contains(&format!("(1: {seen})")), "{message}");
        // A user who may change what the user may not see may clear it.
        let cleared = hidden.mallory.delete(app, &clear).await;
        assert_eq!(cleared.status, 200, "{}", cleared.text);
    }

    async fn how_many_hidden_objects_a_type_has_is_not_told(app) {
        let hidden = Hidden::with(app, &["DELETE"]).await;
        let path = format!("/types/{}", hidden.secrets);
        let mut told = Vec::new();
        for _ in 0..2 {
            hidden.secret().await;
            told.push(hidden.send(Method::DELETE, &path, &json!({})).await.error(400, "type_in_use")["message"].clone());
        }
        assert_eq!(told[0], told[1]);
        let gone = hidden.mallory.delete(app, &format!("{path}?cascade=true")).await;
        assert_eq!(gone.json()["also_changed"], json!({"categories": 0}), "{}", gone.text);
    }

    async fn an_id_that_a_hidden_object_has_is_taken(app) {
        let hidden = Hidden::with(app, &[]).await;
        let id = hidden.secret().await;
        let body = json!({"public_id": id, "author_id": 1, "type_id": hidden.open});
        hidden.send(Method::POST, "/objects/", &body).await.error(400, "object_public_id_taken");
        let bulk = hidden.send(Method::POST, "/objects/bulk", &json!([body])).await.json();
        assert_eq!(bulk["results"][0]["code"], "object_public_id_taken", "{bulk}");
        hidden.send(Method::POST, "/objects/bulk?atomic=true", &json!([body])).await.error(400, "validation_failed");
    }
}
