//! What an ordinary account tries in order to get at the accounts of others, and at what these may see.

use reqwest::Method;
use serde_json::{Value, json};

use crate::api::people::{PASSWORD, Person};
use crate::support::app::{Answer, TestApp, on_each_store, send};

const MANAGER: &[&str] = &["base.user-management.user.*", "base.user-management.group.*", "base.framework.object.view"];

/// A type whose objects this group alone may see, with one object.
async fn secret_of(app: &TestApp, group_id: i64) -> i64 {
    let acl = json!({"activated": true, "groups": {"includes": {group_id.to_string(): ["READ"], "1": ["CREATE"]}}});
    let secret = json!({"name": "secret", "author_id": 1, "fields": [], "acl": acl});
    let type_id = app.created("/types/", &secret).await;
    app.create_object(type_id, &json!({})).await
}

/// Two people whose groups hold the same rights; the group of the second one has a secret.
async fn manager_and_insider(app: &TestApp) -> (Person, Person, i64) {
    let manager = Person::with_rights(app, "manager", MANAGER).await;
    let insider = Person::with_rights(app, "insider", MANAGER).await;
    let object = secret_of(app, insider.group_id).await;
    assert_eq!(insider.get(app, &format!("/objects/{object}")).await.status, 200);
    manager.get(app, &format!("/objects/{object}")).await.error(404, "object_not_found");
    (manager, insider, object)
}

async fn sign_in(app: &TestApp, user_name: &str, password: &str) -> Answer {
    let body = json!({"user_name": user_name, "password": password});
    send(app.anonymous(Method::POST, "/auth/login").json(&body)).await
}

/// Every request that changes a user, or makes something in the user's name.
fn changes_of(user: &Person, user_name: &str) -> Vec<(Method, String, Value)> {
    let own = format!("/users/{}", user.id);
    let setting = json!({"identifier": "theme", "setting_type": "GLOBAL"});
    vec![
        (Method::POST, format!("{own}/tokens/"), json!({"name": "mine", "rights": []})),
        (Method::GET, format!("{own}/tokens/"), Value::Null),
        (Method::GET, format!("{own}/tokens/?explain=true"), Value::Null),
        (Method::DELETE, format!("{own}/tokens/1"), Value::Null),
        (Method::PATCH, format!("{own}/password"), json!({"password": "now it is mine"})),
        (Method::PATCH, own.clone(), json!({"password": "now it is mine"})),
        (Method::PATCH, own.clone(), json!({"group_id": 2})),
        (Method::PATCH, own.clone(), json!({"active": false})),
        (Method::PATCH, own.clone(), json!({"user_name": "nobody"})),
        (Method::PATCH, own.clone(), json!({"email": "mine@example.com"})),
        (Method::PUT, own.clone(), json!({"user_name": user_name})),
        (Method::POST, format!("{own}/settings/"), setting.clone()),
        (Method::PUT, format!("{own}/settings/kept"), setting),
        (Method::PATCH, format!("{own}/settings/kept"), json!({"payload": {"a": 1}})),
        (Method::DELETE, format!("{own}/settings/kept"), Value::Null),
        (Method::DELETE, own, Value::Null),
    ]
}

/// Sends all of them as the attacker, and asserts that each is refused and nothing changed.
async fn assert_out_of_hands(app: &TestApp, attacker: &Person, user: &Person, user_name: &str) {
    let own = format!("/users/{}", user.id);
    let kept = json!({"identifier": "kept", "setting_type": "GLOBAL"});
    assert_eq!(user.send(app, Method::POST, &format!("{own}/settings/"), &kept).await.status, 201);
    let token = user.send(app, Method::POST, &format!("{own}/tokens/"), &json!({"name": "backup"})).await;
    assert_eq!(token.status, 201, "{}", token.text);
    let before = (app.get(&own).await.text, user.get(app, &format!("{own}/settings/")).await.results(""));
    for (method, path, body) in changes_of(user, user_name) {
        let request = attacker.request(app, method.clone(), &path);
        let answer = send(if body.is_null() { request } else { request.json(&body) }).await;
        assert_eq!(answer.status, 403, "{method} {path} {body}: {}", answer.text);
        answer.error(403, "rights_exceeded");
    }
    let settings = user.get(app, &format!("{own}/settings/")).await.results("");
    let unstamped = |text: &str| text.split("\"time\"").next().unwrap_or_default().to_owned();
    assert_eq!((unstamped(&app.get(&own).await.text), settings), (unstamped(&before.0), before.1));
    assert_eq!(user.get(app, &format!("{own}/tokens/")).await.results("/name"), ["backup"]);
    assert_eq!(sign_in(app, user_name, PASSWORD).await.status, 200);
}

on_each_store! {
    async fn an_access_list_puts_users_out_of_the_hands_of_others(app) {
        let (manager, insider, _) = manager_and_insider(app).await;
        assert_out_of_hands(app, &manager, &insider, "insider").await;
    }

    async fn an_administrator_is_out_of_the_hands_of_a_user_manager(app) {
        let manager = Person::with_rights(app, "manager", MANAGER).await;
        let second = json!({"user_name": "second", "password": PASSWORD, "group_id": 1});
        let id = app.created("/users/", &second).await;
        let second = Person { id, group_id: 1, token: app.login("second", PASSWORD).await };
        assert_out_of_hands(app, &manager, &second, "second").await;
    }

    async fn nobody_gets_into_a_group_that_sees_more(app) {
        let (manager, insider, object) = manager_and_insider(app).await;
        let member = |name: &str| json!({"user_name": name, "password": PASSWORD, "group_id": insider.group_id});
        let own = format!("/users/{}", manager.id);
        let into = json!({"group_id": insider.group_id});
        let friend = app.created("/users/", &json!({"user_name": "friend", "password": PASSWORD})).await;
        let spare = app.created("/groups/", &json!({"name": "spare", "rights": []})).await;
        app.created("/users/", &json!({"user_name": "third", "password": PASSWORD, "group_id": spare})).await;
        let group = insider.group_id;
        for (method, path, body) in [
            (Method::POST, "/users/".to_owned(), member("mine")),
            (Method::PATCH, own.clone(), into.clone()),
            (Method::PUT, own, member("manager")),
            (Method::PATCH, format!("/users/{friend}"), into),
            (Method::DELETE, format!("/groups/{spare}?action=MOVE&group_id={group}"), Value::Null),
            (Method::DELETE, format!("/groups/{group}?action=MOVE&group_id=2"), Value::Null),
            (Method::DELETE, format!("/groups/{group}?action=DELETE"), Value::Null),
        ] {
            let request = manager.request(app, method, &path);
            send(if body.is_null() { request } else { request.json(&body) }).await.error(403, "rights_exceeded");
        }
        manager.get(app, &format!("/objects/{object}")).await.error(404, "object_not_found");
        assert_eq!(insider.get(app, &format!("/objects/{object}")).await.status, 200);
    }

    async fn an_access_list_counts_for_the_group_of_everyone_too(app) {
        let clerk = Person::with_rights(app, "clerk", &["base.user-management.user.*"]).await;
        let ordinary = |name: &str| json!({"user_name": name, "password": PASSWORD});
        assert_eq!(clerk.send(app, Method::POST, "/users/", &ordinary("first")).await.status, 201);
        secret_of(app, 2).await;
        clerk.send(app, Method::POST, "/users/", &ordinary("second")).await.error(403, "rights_exceeded");
        assert_eq!(app.post("/users/", &ordinary("second")).await.status, 201);
    }

    async fn a_refusal_names_types_only_to_those_who_may_see_types(app) {
        let (manager, insider, _) = manager_and_insider(app).await;
        let path = format!("/users/{}/tokens/", insider.id);
        let said = manager.send(app, Method::POST, &path, &json!({"name": "mine"})).await.error(403, "rights_exceeded");
        assert!(!said["message"].as_str().expect("a message").contains("secret"), "{said}");
        let rights = json!([MANAGER, &["base.framework.type.view"]].concat());
        app.patch(&format!("/groups/{}", manager.group_id), &json!({"rights": rights})).await;
        let manager = Person { token: app.login("manager", PASSWORD).await, ..manager };
        let said = manager.send(app, Method::POST, &path, &json!({"name": "mine"})).await.error(403, "rights_exceeded");
        assert!(said["message"].as_str().expect("a message").contains("secret"), "{said}");
    }

    async fn answers_about_hidden_types_tell_nothing_of_them_to_those_who_may_not_see_types(app) {
        let rights = ["base.framework.object.*", "base.import.object.*", "base.export.object.*", "base.framework.type.add"];
        let clerk = Person::with_rights(app, "clerk", &rights).await;
        let acl = json!({"activated": true, "groups": {"includes": {"1": ["CREATE", "READ", "UPDATE", "DELETE"]}}});
        let section = json!({"type": "section", "name": "vault", "label": "V", "fields": ["pin"]});
        let hidden = app.created("/types/", &json!({"name": "secret", "author_id": 1, "acl": acl,
            "fields": [{"type": "text", "name": "pin", "label": "P"}], "render_meta": {"sections": [section]}})).await;
        let own = json!({"name": "own", "author_id": 1, "fields": [{"type": "ref", "name": "rel", "label": "R", "ref_types": [hidden]}]});
        let own = app.created("/types/", &own).await;
        let object = json!({"type_id": hidden, "author_id": 1, "fields": {}});
        let table = async |path: &str, text: &str| {
            let request = clerk.request(app, Method::POST, path).header("Content-Type", "text/csv");
            send(request.body(text.to_owned())).await
        };
        let into_own = format!("/import/objects?dry_run=true&type_id={own}");
        let refused = [
            clerk.send(app, Method::POST, "/objects/", &object).await,
            clerk.send(app, Method::POST, "/objects/bulk", &json!([object])).await,
            clerk.get(app, &format!("/export/objects?type_id={hidden}")).await,
            table(&format!("/import/objects?type_id={hidden}"), "pin\na\n").await,
        ];
        for answer in refused {
            assert!(answer.text.contains("403") && !answer.text.contains("secret"), "{}", answer.text);
        }
        let mut told = Vec::new();
        for (name, field) in [("secret", "pin"), ("secret", "pan"), ("sacred", "pin")] {
            let answer = table(&into_own, &format!("rel={name}/{field}\na\n")).await;
            let report = answer.json()["report"].to_string();
            told.push((answer.status, report.replace(name, "x").replace(field, "y")));
        }
        assert!(told.iter().all(|one| *one == told[0]), "{told:?}");
        let mut told = Vec::new();
        for (place, name) in ["vault", "volt"].iter().enumerate() {
            let part = json!({"type": "ref-section", "name": "part", "label": "P",
                "reference": {"type_id": hidden, "section_name": name, "selected_fields": ["pin"]}});
            let body = json!({"name": format!("mine-{place}"), "author_id": 1, "fields": [], "render_meta": {"sections": [part]}});
            let answer = clerk.send(app, Method::POST, "/types/", &body).await;
            told.push((answer.status, answer.headers.get("inventory-warning").cloned()));
        }
        assert_eq!(told[0], told[1]);
    }

    async fn the_default_of_a_field_tells_nothing_of_objects_to_those_who_may_not_see_them(app) {
        let clerk = Person::with_rights(app, "clerk", &["base.framework.type.add"]).await;
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        let there = app.create_object(kind, &json!({"hostname": "a"})).await;
        let mut told = Vec::new();
        for id in [there, there + 1] {
            let reference = json!({"type": "ref", "name": "to", "label": "To", "ref_types": [kind], "value": id.to_string()});
            let wrong = json!({"type": "text", "name": "a", "label": "A", "regex": "("});
            let body = json!({"name": "mine", "author_id": 1, "fields": [reference, wrong]});
            told.push(clerk.send(app, Method::POST, "/types/", &body).await.pointers());
        }
        assert_eq!(told, [["/fields/1/regex"], ["/fields/1/regex"]]);
    }

    async fn the_mask_of_a_password_tells_nothing_to_those_who_may_not_read_it(app) {
        let person = Person::with_rights(app, "writer", &["base.framework.object.edit"]).await;
        let all = ["CREATE", "READ", "UPDATE", "DELETE"];
        let groups = json!({"1": all, person.group_id.to_string(): ["UPDATE"]});
        let acl = json!({"activated": true, "groups": {"includes": groups}});
        let fields = json!([{"type": "text", "name": "a", "label": "A"}, {"type": "password", "name": "pin", "label": "Pin"}]);
        let kind = app.created("/types/", &json!({"name": "vault", "author_id": 1, "acl": acl, "fields": fields})).await;
        let mut told = Vec::new();
        for pin in [json!("1234"), Value::Null] {
            let id = app.create_object(kind, &json!({"a": "x", "pin": pin})).await;
            let answer = person.send(app, Method::PATCH, &format!("/objects/{id}"), &json!({"fields": {"pin": "********"}})).await;
            told.push((answer.status.as_u16(), answer.pointers()));
        }
        assert_eq!(told[0], told[1]);
        assert_eq!(told[0].0, 400);
    }

    async fn a_cut_token_reaches_no_further_than_its_rights(app) {
        let rights = json!(["base.user-management.user.*"]);
        let made = app.post("/users/1/tokens/", &json!({"name": "clerk", "rights": rights})).await;
        let token = made.json()["token"].as_str().expect("a token").to_owned();
        let clerk = Person { id: 1, group_id: 1, token };
        let second = json!({"user_name": "second", "password": PASSWORD, "group_id": 1});
        let second = app.created("/users/", &second).await;
        for id in [1, second] {
            let own = format!("/users/{id}");
            for body in [json!({"password": "now it is mine"}), json!({"email": "a@b.c"}), json!({"group_id": 2})] {
                clerk.send(app, Method::PATCH, &own, &body).await.error(403, "rights_exceeded");
            }
            let longer = json!({"name": "longer", "rights": rights});
            clerk.send(app, Method::POST, &format!("{own}/tokens/"), &longer).await.error(403, "rights_exceeded");
        }
        let ordinary = json!({"user_name": "ordinary", "password": PASSWORD});
        assert_eq!(clerk.send(app, Method::POST, "/users/", &ordinary).await.status, 201);
    }

    async fn a_token_of_a_deleted_user_does_not_work_for_the_next_one(app) {
        let ada = Person::with_rights(app, "ada", &[]).await;
        let own = format!("/users/{}", ada.id);
        let machine = ada.send(app, Method::POST, &format!("{own}/tokens/"), &json!({"name": "backup"})).await;
        let machine = machine.json()["token"].as_str().expect("a token").to_owned();
        assert_eq!(app.delete(&own).await.status, 202);
        let next = json!({"public_id": ada.id, "user_name": "grace", "password": PASSWORD, "group_id": 1});
        assert_eq!(app.created("/users/", &next).await, ada.id);
        ada.get(app, &own).await.error(401, "token_invalid");
        let machine = Person { token: machine, ..ada };
        machine.get(app, &own).await.error(401, "token_invalid");
    }

    async fn a_user_is_not_to_be_mistaken_for_another(app) {
        let refused = |name: &str| json!({"user_name": name, "password": PASSWORD});
        for name in ["\u{430}dmin", "adm\u{456}n", "adrnin", "ad\u{200b}min", "\u{410}DMIN", "\u{ff41}dmin"] {
            app.post("/users/", &refused(name)).await.error(400, "user_name_confusable");
        }
        let ian = app.created("/users/", &refused("Ian")).await;
        app.post("/users/", &refused("lan")).await.error(400, "user_name_confusable");
        let hans = app.created("/users/", &refused("hans")).await;
        app.patch(&format!("/users/{ian}"), &json!({"user_name": "\u{41d}ANS"})).await.error(400, "user_name_confusable");
        let same = app.patch(&format!("/users/{hans}"), &json!({"user_name": "h\u{430}ns"})).await;
        assert_eq!(same.status, 202, "{}", same.text);
        assert_eq!(app.get("/users/").await.json()["total"], 3);
        app.created("/users/", &refused("\u{430}\u{434}\u{43c}\u{438}\u{43d}")).await;
    }
}
