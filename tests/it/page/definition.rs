//! The form of a type: a new one, the plan of a change, and the change, in which values follow their fields.

use serde_json::json;

use super::browser::{Browser, Form};
use crate::support::app::{TestApp, on_each_store};

/// A type with two servers.
async fn servers(app: &TestApp) -> (i64, i64) {
    let fields = json!([
        {"type": "text", "name": "host", "label": "Host name", "placeholder": "web-1"},
        {"type": "text", "name": "units", "label": "Units"},
    ]);
    let meta = json!({"icon": "fa-server", "summary": {"fields": ["host"]},
        "sections": [{"type": "section", "name": "identity", "label": "Identity", "fields": ["host", "units"]}]});
    let body = json!({"name": "server", "label": "Servers", "author_id": 1, "fields": fields, "render_meta": meta});
    let servers = app.created("/types/", &body).await;
    app.create_object(servers, &json!({"host": "web-1", "units": "2"})).await;
    let second = app.create_object(servers, &json!({"host": "web-2", "units": "4"})).await;
    (servers, second)
}

async fn form(browser: &mut Browser<'_>, id: i64) -> Form {
    let action = format!("/ui/types/{id}/definition");
    browser.page(&action).await.form(&action)
}

on_each_store! {
    async fn a_type_is_made_from_its_fields(app) {
        let mut browser = Browser::of_admin(app).await;
        let path = browser.page("/ui/").await.link("New type");
        let form = browser.page(&path).await.form(&path).with("name", "rack").with("label", "Racks").with("do", "save");
        let form = form.with("0.name", "site").with("0.label", "Site").with("0.summary", "yes").with("0.section", "Place");
        let form = form.with("1.name", "state").with("1.kind", "select").with("1.options", "on=In use\noff");
        let refused = browser.submit(&form.clone().with("name", "")).await;
        assert_eq!(refused.status, 400, "{}", refused.text());
        browser.submitted(&form).await.shows("Racks").shows("Site").shows("In use").shows("0 objects found");
        let rack = &app.get("/types/?filter={\"name\":\"rack\"}").await.json()["results"][0];
        assert_eq!(rack["fields"], json!([
            {"type": "text", "name": "site", "label": "Site"},
            {"type": "select", "name": "state", "label": "state",
                "options": [{"name": "on", "label": "In use"}, {"name": "off", "label": "off"}]},
        ]));
        assert_eq!(rack["render_meta"]["sections"][0]["label"], "Place");
    }

    async fn a_form_that_is_sent_as_it_is_changes_nothing(app) {
        let (servers, _) = servers(app).await;
        let mut browser = Browser::of_admin(app).await;
        let before = app.get(&format!("/types/{servers}")).await.json();
        let plan = form(&mut browser, servers).await.with("do", "plan");
        let plan = browser.submit(&plan).await;
        assert_eq!(plan.status, 200);
        plan.shows("Nothing changes.").shows("0 of 2 objects would not fit.");
        let form = form(&mut browser, servers).await.with("do", "save");
        browser.submitted(&form).await.shows("Saved.");
        let after = app.get(&format!("/types/{servers}")).await.json();
        for member in ["fields", "render_meta", "name", "label"] {
            assert_eq!(before["result"][member], after["result"][member], "{member}");
        }
    }

    async fn the_plan_comes_first_and_values_follow_their_fields(app) {
        let (servers, second) = servers(app).await;
        let mut browser = Browser::of_admin(app).await;
        let form = form(&mut browser, servers).await.with("0.name", "hostname").with("1.kind", "number");
        let plan = browser.submit(&form.clone().with("do", "plan")).await;
        plan.shows("Plan: stored values must change").shows("The values of 2 objects change.");
        assert_eq!(app.get(&format!("/types/{servers}")).await.json()["result"]["fields"][0]["name"], "host");
        browser.submitted(&form.clone().with("do", "save")).await.shows("Saved.");
        let object = app.get(&format!("/objects/{second}/native")).await.json();
        assert_eq!(object["fields"], json!([{"name": "hostname", "value": "web-2"}, {"name": "units", "value": 4}]));
        browser.page(&format!("/ui/types/{servers}")).await.shows("web-2");
        // The form was made before the change.
        let late = browser.submit(&form.with("do", "save")).await;
        assert_eq!(late.status, 412, "{}", late.text());
    }

    async fn what_values_break_is_named_with_its_objects(app) {
        let (servers, second) = servers(app).await;
        let mut browser = Browser::of_admin(app).await;
        let form = form(&mut browser, servers).await.with("0.regex", "^web-1$");
        let plan = browser.submit(&form.clone().with("do", "plan")).await;
        plan.shows("stored values may break it").shows("1 of 2 objects would not fit.");
        assert_eq!(plan.link(&format!("#{second}")), format!("/ui/objects/{second}"));
        let refused = browser.submit(&form.clone().with("do", "save")).await;
        assert_eq!(refused.status, 400);
        refused.shows("Nothing was saved.");
        browser.submitted(&form.with("do", "save").with("enforce", "new")).await.shows("Saved.");
    }

    async fn a_field_goes_with_its_values_or_without(app) {
        let (servers, second) = servers(app).await;
        let mut browser = Browser::of_admin(app).await;
        let form = form(&mut browser, servers).await.with("1.drop", "yes").with("do", "save");
        browser.submitted(&form).await.shows("Saved.");
        let object = app.get(&format!("/objects/{second}/native")).await.json();
        assert_eq!(object["fields"], json!([{"name": "host", "value": "web-2"}]));
        let after = app.get(&format!("/types/{servers}")).await.json();
        assert_eq!(after["result"]["render_meta"]["sections"][0]["fields"], json!(["host"]));
    }
}
