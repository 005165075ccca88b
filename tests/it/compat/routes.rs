//! Routes that only clients of DATAGERRY use.

use reqwest::Method;
use serde_json::{Value, json};

use super::{COMPATIBLE, ask, filtered, get, on_each_compatible_store, send, web_created, web_type};
use crate::sign_on::Trusted;
use crate::support::mongod::{self, Deployment};

on_each_compatible_store! {
    async fn several_objects_are_changed_each_on_its_own(app) {
        let type_id = web_type(app).await;
        let (one, other) = (web_created(app, type_id, "a").await, web_created(app, type_id, "b").await);
        let body = json!({"status": true, "author_id": 1, "type_id": type_id, "fields": [{"name": "text-66398", "value": "bulk"}]});
        let path = format!("/object/0?objectIDs={one}&objectIDs={other}&objectIDs=999");
        let answer = send(app, Method::PUT, &path, &body).await;
        assert_eq!(answer.status, 202, "{}", answer.body);
        let values: Vec<&Value> =
            answer.body["results"].as_array().expect("results").iter().map(|object| &object["fields"][0]["value"]).collect();
        assert_eq!(values, ["bulk", "bulk"]);
        assert_eq!((&answer.body["failed"][0]["public_id"], &answer.body["failed"][0]["status"]), (&json!(999), &json!(404)));
        assert_eq!(send(app, Method::PUT, "/object/0", &body).await.status, 400);
        assert_eq!(send(app, Method::PUT, "/object/0?objectIDs=x", &body).await.status, 400);
        let active = json!({"author_id": 1, "active": false, "fields": []});
        let answer = send(app, Method::PUT, &format!("/object/0?objectIDs={one}"), &active).await;
        assert_eq!(answer.body["results"][0]["active"], false);
    }

    async fn unclean_objects_are_counted_and_cleaned(app) {
        let type_id = app.create_type("short", &[("a", "text")]).await;
        let id = app.create_object(type_id, &json!({"a": "x"})).await;
        let longer = json!({"public_id": type_id, "name": "short", "author_id": 1, "fields": [
            {"type": "text", "name": "a", "label": "A"}, {"type": "text", "name": "b", "label": "B"},
        ]});
        assert_eq!(send(app, Method::PUT, &format!("/types/{type_id}"), &longer).await.status, 202);
        let path = format!("/object/clean/{type_id}");
        assert_eq!(ask(app.request(Method::HEAD, &path)).await.headers["x-total-count"], "1");
        let cleaned = send(app, Method::PATCH, &path, &Value::Null).await;
        assert_eq!((cleaned.status, &cleaned.body["failed"]), (202, &json!([])));
        assert_eq!(ask(app.request(Method::HEAD, &path)).await.headers["x-total-count"], "0");
        assert_eq!(get(app, &format!("/object/{id}/native")).await.body["fields"][1], json!({"name": "b", "value": null}));
    }

    async fn objects_are_grouped_and_counted(app) {
        let type_id = web_type(app).await;
        let id = web_created(app, type_id, "Berlin").await;
        web_created(app, type_id, "Hamburg").await;
        let groups = get(app, "/object/group/type_id?onlyActiveObjCookie=true").await.body;
        assert_eq!((&groups[0]["_id"], &groups[0]["count"], &groups[0]["label"]), (&json!(type_id), &json!(2), &json!("Web type")));
        assert_eq!(groups[0]["result"]["type_id"], type_id);
        assert_eq!(get(app, "/object/group/author_id").await.status, 404);
        assert_eq!(send(app, Method::PUT, &format!("/object/{id}/state"), &json!(false)).await.status, 202);
        let counts = get(app, "/search/quick/count/?searchValue=berlin").await.body;
        assert_eq!(counts, json!({"active": 0, "inactive": 1, "total": 1}));
        assert_eq!(get(app, "/search/quick/count?searchValue=(").await.status, 400);
    }

    async fn what_the_front_end_asks_at_its_start_is_answered(app) {
        assert_eq!(get(app, "/date/").await.body, json!({"_id": "date", "date_format": "YYYY-MM-DDThh:mm:ssZ", "timezone": "UTC"}));
        assert_eq!(get(app, "/auth/providers").await.body, json!([{"class_name": "LocalAuthenticationProvider", "external": false}]));
        let intro = get(app, "/special/intro").await.body;
        assert_eq!((&intro["execute"], intro["steps"].as_array().map(Vec::len)), (&json!(false), Some(3)));
    }

    async fn regional_settings_are_saved(app) {
        let form = json!({"date_format": "DD.MM.YYYY", "timezone": "Europe/Berlin"});
        for method in [Method::POST, Method::PUT] {
            let saved = send(app, method, "/date/", &form).await;
            assert_eq!((saved.status, &saved.body["timezone"]), (200, &json!("Europe/Berlin")), "{}", saved.body);
        }
        let read = ask(app.anonymous(Method::GET, "/date/")).await.body;
        assert_eq!(read, json!({"_id": "date", "date_format": "DD.MM.YYYY", "timezone": "Europe/Berlin"}));
        let wrong = send(app, Method::POST, "/date/", &json!({"date_format": "", "timezone": 1})).await;
        assert_eq!(wrong.status, 400);
        let places: Vec<&Value> = wrong.body["errors"].as_array().expect("errors").iter().map(|error| &error["pointer"]).collect();
        assert_eq!(places, ["/date_format", "/timezone"]);
    }
}

/// A user of the issuer is shown in the form for users, which offers the classes of this answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_issuer_of_tokens_is_a_provider() {
    let trusted = Trusted::new();
    let mut places = vec![None];
    places.extend(mongod::shared(Deployment::ReplicaSet).await.map(|server| Some(server.fresh_uri())));
    for uri in places {
        let app = trusted.app_on(uri.as_deref(), &[COMPATIBLE]).await;
        let expected = json!([
            {"class_name": "LocalAuthenticationProvider", "external": false},
            {"class_name": "OidcAuthenticationProvider", "external": true},
        ]);
        assert_eq!(get(&app, "/auth/providers").await.body, expected);
        let token = trusted.token("ada-1", &json!({"preferred_username": "ada", "groups": ["staff"]}));
        assert_eq!(ask(app.anonymous(Method::GET, "/types/").bearer_auth(token)).await.status, 200);
        let filter = json!({"user_name": "ada"});
        let mut ada = filtered(&app, "/users/", &filter, &[]).await["results"][0].clone();
        // The form sends the whole record back.
        ada["first_name"] = json!("Ada");
        let answer = send(&app, Method::PUT, &format!("/users/{}", ada["public_id"]), &ada).await;
        assert_eq!((answer.status, &answer.body["result"]["first_name"]), (202, &json!("Ada")), "{}", answer.body);
        assert_eq!(answer.body["result"]["authenticator"], "OidcAuthenticationProvider");
    }
}
