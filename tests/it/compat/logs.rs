//! The history of objects in the shape of DATAGERRY's log.

use reqwest::Method;
use serde_json::{Value, json};

use super::{ask, get, of, on_each_compatible_store, send, web_created, web_object, web_type};
use crate::api::people::Person;
use crate::support::app::TestApp;

/// What an entry has.
const MEMBERS: [&str; 12] = [
    "public_id", "log_time", "log_type", "action", "object_id", "version", "user_name", "user_id", "render_state",
    "changes", "comment", "action_name",
];

/// An object that was created, edited, deactivated and deleted; and one that was only created.
async fn history(app: &TestApp) -> (i64, i64) {
    let type_id = web_type(app).await;
    let (gone, kept) = (web_created(app, type_id, "one").await, web_created(app, type_id, "other").await);
    let mut edited = web_object(type_id, "two");
    edited["comment"] = json!("moved\nby hand");
    assert_eq!(send(app, Method::PUT, &format!("/object/{gone}"), &edited).await.status, 202);
    assert_eq!(send(app, Method::PUT, &format!("/object/{gone}/state"), &json!(false)).await.status, 202);
    assert_eq!(ask(app.request(Method::DELETE, &format!("/object/{kept}"))).await.status, 200);
    let kept = web_created(app, type_id, "third").await;
    (gone, kept)
}

on_each_compatible_store! {
    async fn the_log_of_an_object_is_its_history(app) {
        let (id, _) = history(app).await;
        let filter = json!([{"$match": {"log_type": "CmdbObjectLog", "object_id": id}}]).to_string();
        let request = app.request(Method::GET, &format!("/log/object/{id}"));
        let log = ask(request.query(&[("filter", filter.as_str()), ("limit", "10"), ("sort", "log_time"), ("order", "-1"), ("page", "1")])).await.body;
        assert_eq!((&log["total"], &log["model"]), (&json!(3), &json!("CmdbLog")));
        assert_eq!(of(&log, "/action_name"), ["ACTIVE_CHANGE", "EDIT", "CREATE"]);
        assert_eq!(of(&log, "/action"), [2, 1, 0]);
        assert_eq!(of(&log, "/comment"), ["Active status has changed", "moved by hand", "Object was created"]);
        for entry in log["results"].as_array().expect("results") {
            assert_eq!(entry.as_object().expect("members").keys().collect::<Vec<_>>(), MEMBERS);
            assert_eq!((&entry["object_id"], &entry["user_name"], &entry["log_type"]), (&json!(id), &json!("admin"), &json!("CmdbObjectLog")));
            assert!(entry["log_time"].as_str().is_some_and(|time| time.as_bytes()[10] == b'T'), "{entry}");
        }
        let name = "text-66398";
        assert_eq!(log["results"][0]["changes"], json!({"old": true, "new": false}));
        assert_eq!(log["results"][1]["changes"], json!({"old": [{"name": name, "value": "one"}], "new": [{"name": name, "value": "two"}]}));
        assert_eq!(log["results"][2]["changes"], json!([]));
        let second = get(app, &format!("/log/object/{id}?limit=1&page=2&sort=public_id&order=1")).await.body;
        assert_eq!((of(&second, "/action_name"), &second["pager"]["total_pages"]), (vec![json!("EDIT")], &json!(3)));
        assert_eq!(get(app, "/log/object/999").await.status, 404);
    }

    async fn lists_tell_what_is_there_from_what_is_gone(app) {
        let (there, newest) = history(app).await;
        let gone = newest - 1;
        let list = async |name: &str| get(app, &format!("/log/object/{name}?limit=10&sort=date&order=-1&page=1")).await.body;
        let exists = list("exists").await;
        assert_eq!(of(&exists, "/object_id"), [json!(newest), json!(there), json!(there), json!(there)]);
        let not = list("notexists").await;
        assert_eq!((of(&not, "/object_id"), of(&not, "/action_name")), (vec![json!(gone)], vec![json!("CREATE")]));
        let deleted = list("deleted").await;
        assert_eq!((of(&deleted, "/object_id"), of(&deleted, "/comment")), (vec![json!(gone)], vec![json!("Object was deleted")]));
        assert_eq!(get(app, "/log/object/exists?limit=0").await.body["total"], 4);
    }

    async fn an_entry_has_the_object_as_it_was(app) {
        let (id, newest) = history(app).await;
        let log = get(app, &format!("/log/object/{id}?sort=log_time")).await.body;
        let (created, edited) = (&log["results"][0]["public_id"], &log["results"][1]["public_id"]);
        let state = |entry: &Value| -> Value { serde_json::from_str(entry["render_state"].as_str().expect("a text")).expect("JSON") };
        for (entry, value) in [(created, "one"), (edited, "two")] {
            let entry = get(app, &format!("/log/{entry}")).await.body;
            let state = state(&entry);
            assert_eq!((&state["object_information"]["object_id"], &state["fields"][0]["value"]), (&json!(id), &json!(value)));
            assert!(state["current_render_time"]["$date"].is_i64() && entry["log_time"]["$date"].is_i64(), "{entry}");
        }
        let deletion = get(app, "/log/object/deleted").await.body["results"][0]["public_id"].clone();
        let deletion = get(app, &format!("/log/{deletion}")).await.body;
        assert_eq!((state(&deletion)["fields"][0]["value"].clone(), &deletion["object_id"]), (json!("other"), &json!(newest - 1)));
        let others = get(app, &format!("/log/{created}/corresponding")).await.body;
        assert_eq!((others.as_array().map(Vec::len), &others[0]["public_id"], state(&others[0])["fields"][0]["value"].clone()), (Some(1), edited, json!("two")));
        assert_eq!(get(app, &format!("/log/{edited}/corresponding")).await.status, 204);
        for absent in ["1", "1000009999", "0", "x"] {
            assert_eq!(get(app, &format!("/log/{absent}")).await.status, 404, "{absent}");
            assert_eq!(get(app, &format!("/log/{absent}/corresponding")).await.status, 404, "{absent}");
        }
    }

    async fn the_log_of_a_hidden_object_is_that_of_none(app) {
        let (id, _) = history(app).await;
        let entry = get(app, &format!("/log/object/{id}")).await.body["results"][0]["public_id"].clone();
        let type_id = get(app, &format!("/object/{id}/native")).await.body["type_id"].clone();
        let acl = json!({"activated": true, "groups": {"includes": {"1": ["CREATE", "READ", "UPDATE", "DELETE"]}}});
        assert_eq!(ask(app.request(Method::PATCH, &format!("/types/{type_id}")).json(&json!({"acl": acl}))).await.status, 202);
        let viewer = Person::with_rights(app, "viewer", &["base.framework.*"]).await;
        for list in ["exists", "notexists", "deleted"] {
            let log = ask(viewer.request(app, Method::GET, &format!("/log/object/{list}"))).await.body;
            assert_eq!((&log["total"], &log["results"]), (&json!(0), &json!([])), "{list}");
        }
        let mut refused = Vec::new();
        for absent in [entry, json!(1_000_009_999)] {
            for path in [format!("/log/{absent}"), format!("/log/{absent}/corresponding")] {
                let answer = ask(viewer.request(app, Method::GET, &path)).await;
                refused.push((answer.status, answer.body["code"].clone()));
            }
        }
        assert!(refused.iter().all(|one| *one == (404, json!("not_found"))), "{refused:?}");
    }

    async fn passwords_do_not_show_in_the_log(app) {
        let type_id = app.create_type("account", &[("name", "text"), ("secret", "password")]).await;
        let id = app.create_object(type_id, &json!({"name": "a", "secret": "hunter2"})).await;
        let change = json!({"fields": [{"name": "secret", "value": "hunter3"}]});
        assert_eq!(send(app, Method::PATCH, &format!("/objects/{id}"), &change).await.status, 202);
        let log = get(app, &format!("/log/object/{id}?sort=log_time&order=-1")).await.body;
        assert_eq!(log["results"][0]["changes"]["new"], json!([{"name": "secret", "value": "********"}]));
        assert!(!log.to_string().contains("hunter"), "{log}");
    }
}
