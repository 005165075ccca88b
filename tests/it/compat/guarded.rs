//! The setting weakens no right.

use reqwest::Method;
use serde_json::{Value, json};

use super::{COMPATIBLE, ask, on_each_compatible_store, web_created, web_object, web_type};
use crate::api::people::{PASSWORD, Person};
use crate::support::app::{ADMIN_PASSWORD, TestApp};

on_each_compatible_store! {
    async fn each_route_needs_its_right(app) {
        let type_id = web_type(app).await;
        let id = web_created(app, type_id, "a").await;
        let nobody = Person::with_rights(app, "nobody", &[]).await;
        let pipeline = "filter=%5B%7B%22$unset%22:%22a%22%7D%5D";
        let requests = [
            (Method::PUT, format!("/object/0?objectIDs={id}")), (Method::GET, "/object/group/type_id".to_owned()),
            (Method::GET, "/search/quick/count/?searchValue=a".to_owned()), (Method::GET, format!("/log/object/{id}")),
            (Method::GET, "/log/object/exists".to_owned()), (Method::GET, "/log/object/notexists".to_owned()),
            (Method::GET, "/log/object/deleted".to_owned()), (Method::GET, "/log/1000000001".to_owned()),
            (Method::GET, "/log/1000000001/corresponding".to_owned()),
            (Method::POST, "/date/".to_owned()), (Method::PUT, "/date/".to_owned()),
            (Method::GET, "/auth/providers".to_owned()), (Method::GET, format!("/objects/?{pipeline}")),
            (Method::GET, format!("/types/?{pipeline}")), (Method::GET, format!("/users/?{pipeline}")),
            (Method::PATCH, format!("/object/clean/{type_id}")), (Method::POST, "/object/".to_owned()),
        ];
        for (method, path) in requests {
            let body = web_object(type_id, "b");
            let answer = ask(nobody.request(app, method.clone(), &path).json(&body)).await;
            assert_eq!(answer.status, 403, "{method} {path}: {}", answer.body);
            let answer = ask(app.anonymous(method.clone(), &path).json(&body)).await;
            assert_eq!(answer.status, 401, "{method} {path}: {}", answer.body);
        }
    }

    async fn a_join_needs_the_right_to_see_what_it_joins(app) {
        let viewer = Person::with_rights(app, "viewer", &["base.framework.type.view"]).await;
        let join = json!([{"$lookup": {"from": "management.users", "localField": "author_id", "foreignField": "public_id", "as": "u"}}]);
        let request = viewer.request(app, Method::GET, "/types/").query(&[("filter", join.to_string())]);
        assert_eq!(ask(request).await.status, 403);
    }

    async fn hidden_objects_stay_hidden(app) {
        let type_id = web_type(app).await;
        web_created(app, type_id, "secret").await;
        let viewer = Person::with_rights(app, "viewer", &["base.framework.*"]).await;
        let open = app.create_type("open", &[("to", "number")]).await;
        let seen = app.create_object(open, &json!({"to": 1})).await;
        let acl = json!({"activated": true, "groups": {"includes": {"1": ["CREATE", "READ", "UPDATE", "DELETE"]}}});
        assert_eq!(ask(app.request(Method::PATCH, &format!("/types/{type_id}")).json(&json!({"acl": acl}))).await.status, 202);
        let get = async |path: &str| ask(viewer.request(app, Method::GET, path)).await.body;
        let counts = get("/search/quick/count/?searchValue=secret").await;
        assert_eq!(counts, json!({"active": 0, "inactive": 0, "total": 0}));
        let groups = get("/object/group/type_id").await;
        assert_eq!((groups.as_array().map(Vec::len), &groups[0]["_id"]), (Some(1), &json!(open)));
        let join = json!([
            {"$lookup": {"from": "framework.objects", "localField": "fields.value", "foreignField": "public_id", "as": "data"}},
            {"$match": {"data": {"$size": 0}}},
        ]);
        let request = viewer.request(app, Method::GET, "/objects/").query(&[("filter", join.to_string())]);
        let found = ask(request).await.body;
        assert_eq!((super::of(&found, "/public_id"), &found["total"]), (vec![json!(seen)], &json!(1)));
        // As in DATAGERRY: 403 for a hidden object, and here for an id of nothing too.
        for id in [1, 9_999] {
            let request = viewer.request(app, Method::PUT, &format!("/object/0?objectIDs={id}")).json(&web_object(type_id, "x"));
            let answer = ask(request).await.body;
            assert_eq!((answer["results"].as_array().map(Vec::len), &answer["failed"][0]["status"]), (Some(0), &json!(403)));
            let alone = ask(viewer.request(app, Method::GET, &format!("/object/{id}"))).await;
            assert_eq!((alone.status, &alone.body["code"]), (403, &json!("acl_denied")), "{}", alone.body);
        }
        assert_eq!(ask(app.request(Method::GET, "/object/9999")).await.status, 404, "nothing is hidden from an administrator");
    }

    async fn passwords_of_other_tools_are_not_found_by_pipelines(app) {
        let find = async |path: &str, stages: Value| {
            let request = app.request(Method::GET, path).query(&[("filter", stages.to_string())]);
            ask(request).await.body["total"].clone()
        };
        for (condition, total) in [(json!({"$regex": "argon2id"}), 0), (json!({"$exists": true}), 0), (json!({"$exists": false}), 1)] {
            let behind = json!([{"$unset": "nothing"}, {"$match": {"password": condition}}]);
            assert_eq!(find("/users/", behind).await, total, "{condition}");
            let first = json!([{"$match": {"password": condition}}, {"$limit": 9}]);
            assert_eq!(find("/users/", first).await, total, "{condition}");
            let joined = json!([
                {"$lookup": {"from": "management.users", "localField": "public_id", "foreignField": "group_id", "as": "users"}},
                {"$match": {"users": {"$elemMatch": {"password": condition}}}},
            ]);
            assert_eq!(find("/groups/", joined).await, total, "{condition}");
        }
    }

    async fn a_second_filter_beside_a_pipeline_asks_nothing(app) {
        let stages = json!([{"$unset": "nothing"}]).to_string();
        let oracle = json!({"password": {"$regex": "^\\$argon2id"}}).to_string();
        for (first, second) in [(&stages, &oracle), (&oracle, &stages)] {
            let request = app.request(Method::GET, "/users/").query(&[("filter", first), ("filter", second)]);
            let answer = ask(request).await;
            assert_eq!(answer.status, 400, "{}", answer.body);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn basic_authentication_has_the_throttle_of_signing_in() {
    let app = TestApp::embedded_with(&[
        COMPATIBLE,
        ("auth.throttle.user_failures", "3"),
        ("auth.throttle.free_failures", "3"),
    ])
    .await;
    let basic = |password: &str| app.anonymous(Method::GET, "/users/").basic_auth("admin", Some(password.to_owned()));
    assert_eq!(ask(basic(ADMIN_PASSWORD)).await.status, 200);
    let person = Person::with_rights(&app, "ada", &["base.user-management.user.view"]).await;
    assert!(person.id > 1);
    let ada = |password: &str| app.anonymous(Method::GET, "/users/").basic_auth("ada", Some(password.to_owned()));
    let mut statuses = Vec::new();
    for _ in 0..5 {
        statuses.push(ask(ada("wrong password")).await.status);
    }
    assert_eq!((statuses[0], *statuses.last().unwrap()), (401, 429), "{statuses:?}");
    assert_eq!(ask(ada(PASSWORD)).await.status, 429);
}
