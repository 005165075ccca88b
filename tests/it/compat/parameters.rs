//! Parameters of lists.

use reqwest::Method;
use serde_json::{Value, json};

use super::{ask, filtered, get, of, on_each_compatible_store, send, web_created, web_type};
use crate::support::app::TestApp;

on_each_compatible_store! {
    async fn the_cookie_hides_inactive_objects(app) {
        let type_id = web_type(app).await;
        let (kept, hidden) = (web_created(app, type_id, "a").await, web_created(app, type_id, "b").await);
        assert_eq!(send(app, Method::PUT, &format!("/object/{hidden}/state"), &json!(false)).await.status, 202);
        assert_eq!(send(app, Method::PUT, &format!("/object/{hidden}/state"), &json!(false)).await.status, 204);
        for (cookie, expected) in [("true", vec![kept]), ("false", vec![kept, hidden])] {
            for path in ["/objects/?view=native", "/objects/?view=render", "/object/?filter=%5B%7B%22$match%22:%7B%7D%7D%5D"] {
                let list = get(app, &format!("{path}&onlyActiveObjCookie={cookie}")).await.body;
                assert_eq!(list["total"], expected.len(), "{path} {cookie}");
            }
        }
        let head = ask(app.request(Method::HEAD, "/objects/?limit=0&onlyActiveObjCookie=true")).await;
        assert_eq!(head.headers["x-total-count"], "1");
        let link = get(app, "/objects/?limit=1&onlyActiveObjCookie=false").await.body["pagination"]["next"].clone();
        assert_eq!(of(&get(app, link.as_str().expect("a link")).await.body, "/public_id"), [hidden]);
    }

    async fn unknown_parameters_are_named_in_a_header(app) {
        let answer = get(app, "/users/?limit=5&colour=red&size=2").await;
        assert_eq!((answer.status, &answer.headers["inventory-ignored-parameters"]), (200, &"colour, size".parse().unwrap()));
        let answer = get(app, "/users/?limit=5").await;
        assert!(answer.headers.get("inventory-ignored-parameters").is_none());
        assert_eq!(get(app, "/users/?limit=many").await.status, 400);
        assert_eq!(get(app, "/users/?filter=%C3%A9").await.status, 400);
    }

    async fn lists_of_types_show_active_ones_and_take_a_projection(app) {
        let (on, off) = (app.create_type("on", &[("a", "text")]).await, app.create_type("off", &[]).await);
        let change = json!({"public_id": off, "name": "off", "active": false, "author_id": 1});
        assert_eq!(send(app, Method::PUT, &format!("/types/{off}"), &change).await.status, 202);
        assert_eq!(of(&get(app, "/types/").await.body, "/public_id"), [on]);
        assert_eq!(of(&get(app, "/types/?active=true").await.body, "/public_id"), [on]);
        assert_eq!(of(&get(app, "/types/?active=false").await.body, "/public_id"), [on, off]);
        assert_eq!(of(&filtered(app, "/types/", &json!({"name": "off"}), &[]).await, "/public_id"), Vec::<Value>::new());
        let sidebar = "/types/?projection=%7B%22public_id%22:1,%22name%22:1%7D&limit=0&sort=public_id&order=1&page=1&active=false";
        assert_eq!(get(app, sidebar).await.body["results"], json!([{"public_id": on, "name": "on"}, {"public_id": off, "name": "off"}]));
        assert_eq!(get(app, "/types/?projection=%7B%22a%22:%7B%22$add%22:%5B1,2%5D%7D%7D").await.status, 400);
    }

    async fn a_filter_may_be_json_in_json(app) {
        let id = app.create_type("location", &[]).await;
        let filter = json!(json!({"name": "location"}).to_string());
        assert_eq!(of(&filtered(app, "/types/", &filter, &[("active", "false")]).await, "/public_id"), [id]);
    }

    async fn everything_is_a_limit_of_a_hundred_thousand(app) {
        assert_eq!(get(app, "/objects/?limit=100000").await.body["pager"]["page_size"], 100_000);
        assert_eq!(get(app, "/objects/?limit=100001").await.status, 400);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_setting_nothing_of_it_is_there() {
    let app = TestApp::embedded().await;
    app.get("/objects/?onlyActiveObjCookie=true").await.error(400, "parameter_invalid");
    app.get("/types/?active=true").await.error(400, "parameter_invalid");
    assert_eq!(ask(app.request(Method::GET, "/date/")).await.status, 404);
    let basic = app.anonymous(Method::GET, "/users/").basic_auth("admin", Some(crate::support::app::ADMIN_PASSWORD));
    assert_eq!(ask(basic).await.status, 401);
}
