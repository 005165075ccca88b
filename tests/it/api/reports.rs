//! Saved reports: docs/api.md, Reports.

use inventory_service::exchange::locale::Locale;
use inventory_service::exchange::sheet;
use reqwest::Method;
use serde_json::{Value, json};

use super::people::Person;
use crate::support::app::{TestApp, on_each_store, send};

/// Two racks, which everybody sees, and a vault, which only the group of administrators sees.
async fn things(app: &TestApp) -> (i64, i64) {
    let rack = app.create_type("rack", &[("hostname", "text"), ("units", "number")]).await;
    let vault = app.create_type("vault", &[("hostname", "text"), ("units", "number")]).await;
    for (of, name, units) in [(rack, "web-1", 3), (rack, "web-2", 1), (vault, "safe-1", 100)] {
        app.create_object(of, &json!({"hostname": name, "units": units})).await;
    }
    let acl =
        json!({"acl": {"activated": true, "groups": {"includes": {"1": ["CREATE", "READ", "UPDATE", "DELETE"]}}}});
    assert_eq!(app.patch(&format!("/types/{vault}"), &acl).await.status, 202);
    (rack, vault)
}

/// The sum of units of each type.
fn units() -> Value {
    json!([
        {"$match": {"f.units": {"$gt": 0}}},
        {"$group": {"_id": "$type_id", "n": {"$sum": 1}}},
        {"$sort": {"_id": 1}},
    ])
}

on_each_store! {
    async fn a_report_is_saved_listed_run_changed_and_deleted(app) {
        let (rack, vault) = things(app).await;
        let body = json!({"title": "Units of each type", "pipeline": units()});
        let made = app.put("/reports/units%20%2F%20type", &body).await;
        assert_eq!(made.status, 201, "{}", made.text);
        assert!(made.header("location").ends_with("/rest/reports/units%20%2F%20type"), "{}", made.header("location"));
        let mut expected = made.json()["raw"].clone();
        assert!(expected["last_edit_time"]["$date"].is_i64(), "{expected}");
        expected.as_object_mut().expect("a report").remove("last_edit_time");
        assert_eq!(expected, json!({
            "public_id": made.json()["result_id"], "of": "user", "owner_id": 1, "name": "units / type", "author_id": 1,
            "title": "Units of each type", "format": "json", "pipeline": units(),
        }));
        let listed = app.get("/reports/").await;
        assert_eq!((listed.results("/name"), &listed.json()["model"]), (vec![json!("units / type")], &json!("Report")));
        let run = app.get("/reports/units%20%2F%20type").await.json();
        assert_eq!(run["results"], json!([{"_id": rack, "n": 2}, {"_id": vault, "n": 1}]));
        // What was read can be sent back, and the tag is that of the definition.
        let read = app.get("/reports/units%20%2F%20type/definition").await;
        assert_eq!(read.header("etag"), made.header("etag"));
        let mut changed = read.json()["result"].clone();
        changed["pipeline"].as_array_mut().expect("stages").push(json!({"$limit": 1}));
        changed["format"] = json!("csv");
        let put = |tag: &str| app.request(Method::PUT, "/reports/units%20%2F%20type").header("If-Match", tag);
        let saved = send(put(read.header("etag")).json(&changed)).await;
        assert_eq!((saved.status.as_u16(), &saved.json()["result"]["format"]), (202, &json!("csv")), "{}", saved.text);
        send(put(read.header("etag")).json(&changed)).await.error(412, "precondition_failed");
        assert_eq!(app.get("/reports/units%20%2F%20type").await.text, format!("_id,n\n{rack},2\n"));
        assert_eq!(app.delete("/reports/units%20%2F%20type").await.status, 202);
        for path in ["/reports/units%20%2F%20type", "/reports/units%20%2F%20type/definition"] {
            app.get(path).await.error(404, "report_not_found");
        }
        app.delete("/reports/units%20%2F%20type").await.error(404, "report_not_found");
        send(put("*").json(&body)).await.error(412, "precondition_failed");
    }

    async fn a_report_is_a_table_as_the_request_says(app) {
        let (rack, vault) = things(app).await;
        app.put("/reports/units", &json!({"pipeline": units(), "format": "xlsx"})).await;
        let file = send(app.request(Method::GET, "/reports/units?format=csv&delimiter=semicolon")).await;
        assert_eq!(file.text, format!("_id;n\n{rack};2\n{vault};1\n"));
        assert!(file.header("content-disposition").ends_with("filename=\"units.csv\""), "{file:?}");
        let bytes = app.request(Method::GET, "/reports/units").send().await.expect("an answer").bytes().await.expect("a body");
        let table = sheet::read(&bytes, None, &Locale::default(), &|_| true).expect("a table");
        assert_eq!(table.header, ["_id", "n"]);
        let rows: Vec<Vec<_>> = table.rows.iter().map(|(_, row)| row.iter().collect()).collect();
        assert_eq!(rows, [[rack.to_string(), "2".to_owned()], [vault.to_string(), "1".to_owned()]]);
        app.get("/reports/units?delimiter=semicolon").await.error(400, "parameter_invalid");
        assert_eq!(app.get("/reports/units?format=json").await.json()["count"], 2);
    }

    async fn a_report_of_a_group_shows_what_its_reader_may_see(app) {
        let (rack, _) = things(app).await;
        let ada = Person::with_rights(app, "ada", &["base.framework.object.view"]).await;
        let bob = Person::with_rights(app, "bob", &["base.framework.object.view"]).await;
        let of_group = format!("/reports/units?group_id={}", ada.group_id);
        let made = app.put(&of_group, &json!({"pipeline": units()})).await;
        assert_eq!((made.status.as_u16(), &made.json()["raw"]["of"]), (201, &json!("group")), "{}", made.text);
        assert!(made.header("location").ends_with(&of_group), "{}", made.header("location"));
        // The author sees the vault, the reader does not.
        let run = ada.get(app, "/reports/units").await.json();
        assert_eq!(run["results"], json!([{"_id": rack, "n": 2}]));
        let file = ada.get(app, "/reports/units?format=csv").await;
        assert_eq!(file.text, format!("_id,n\n{rack},2\n"));
        assert_eq!(ada.get(app, "/reports/").await.results("/name"), ["units"]);
        // The own one wins; the one of the group is asked for by the group.
        let own = json!({"pipeline": [{"$count": "all"}]});
        assert_eq!(ada.send(app, Method::PUT, "/reports/units", &own).await.status, 201);
        assert_eq!(ada.get(app, "/reports/units").await.json()["results"], json!([{"all": 2}]));
        assert_eq!(ada.get(app, &of_group).await.json()["results"], json!([{"_id": rack, "n": 2}]));
        assert_eq!(ada.get(app, "/reports/").await.results("/of").len(), 2);
        // Others have no part in either, and cannot tell them from none.
        for path in ["/reports/units".to_owned(), of_group.clone(), of_group.replace("units", "none")] {
            bob.get(app, &path).await.error(404, "report_not_found");
        }
        assert!(bob.get(app, &format!("/reports/?group_id={}", ada.group_id)).await.results("/name").is_empty());
        for person in [&ada, &bob] {
            person.send(app, Method::PUT, &of_group, &own).await.error(403, "right_missing");
            person.delete(app, &of_group).await.error(403, "right_missing");
        }
        app.put("/reports/units?group_id=99", &own).await.error(404, "group_not_found");
    }

    async fn a_report_goes_with_its_user_and_its_group(app) {
        let ada = Person::with_rights(app, "ada", &["base.framework.object.view"]).await;
        let body = json!({"pipeline": [{"$count": "all"}]});
        let of_group = format!("/reports/all?group_id={}", ada.group_id);
        assert_eq!(ada.send(app, Method::PUT, "/reports/all", &body).await.status, 201);
        assert_eq!(app.put(&of_group, &body).await.status, 201);
        assert_eq!(app.delete(&format!("/users/{}", ada.id)).await.status, 202);
        app.get(&of_group.replace("all?", "all/definition?")).await.json();
        assert_eq!(app.delete(&format!("/groups/{}", ada.group_id)).await.status, 202);
        let left = inventory_service::query::Filter::all();
        let left = app.store.count("service.reports", &left, std::time::Duration::from_secs(10)).await;
        assert_eq!(left.expect("a number"), 0);
    }

    async fn a_report_that_cannot_run_is_not_saved(app) {
        let refused = app.put("/reports/x", &json!({"pipeline": [{"$match": {"a": {"$foo": 1}}}]})).await;
        assert_eq!(refused.error(400, "query_2")["errors"][0]["pointer"], "/0/$match/a/$foo", "{}", refused.text);
        assert_eq!(app.put("/reports/x", &json!({"pipeline": [{"$out": "elsewhere"}]})).await.status, 400);
        let refused = app.put("/reports/x", &json!({"title": " ", "format": "pdf", "pipeline": []})).await;
        refused.error(400, "validation_failed");
        assert_eq!(refused.pointers(), ["/title", "/format"]);
        assert_eq!(app.put("/reports/x", &json!({"format": "csv"})).await.pointers(), ["/pipeline"]);
        assert_eq!(app.put(&format!("/reports/{}", "x".repeat(257)), &json!({"pipeline": []})).await.pointers(), ["/name"]);
        let long = json!({"pipeline": [{"$match": {"note": "x".repeat(70_000)}}]});
        app.put("/reports/x", &long).await.error(400, "quota_exceeded");
        app.get("/reports/x").await.error(404, "report_not_found");
        for wrong in ["owner=1", "group_id=9223372036854775808", "group_id=0"] {
            app.get(&format!("/reports/?{wrong}")).await.error(400, "parameter_invalid");
        }
    }

    async fn a_machine_reads_reports_and_saves_none(app) {
        let ada = Person::with_rights(app, "ada", &["base.framework.object.view"]).await;
        let body = json!({"pipeline": [{"$count": "all"}]});
        assert_eq!(ada.send(app, Method::PUT, "/reports/all", &body).await.status, 201);
        let token = json!({"name": "nightly", "rights": ["base.framework.object.view"]});
        let made = ada.send(app, Method::POST, &format!("/users/{}/tokens/", ada.id), &token).await.json();
        let machine = Person { token: made["token"].as_str().expect("a token").to_owned(), ..ada };
        assert_eq!(machine.get(app, "/reports/all").await.json()["results"], json!([]));
        machine.send(app, Method::PUT, "/reports/all", &body).await.error(403, "right_missing");
        machine.delete(app, "/reports/all").await.error(403, "right_missing");
    }
}
