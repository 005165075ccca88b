//! Changes of several objects of a list at a time.

use serde_json::json;

use super::browser::Browser;
use crate::support::app::{TestApp, on_each_store};

/// Four servers: their type, and their ids.
async fn servers(app: &TestApp) -> (i64, Vec<i64>) {
    let fields = json!([
        {"type": "text", "name": "hostname", "label": "Host name", "required": true},
        {"type": "number", "name": "units", "label": "Units"},
        {"type": "password", "name": "key", "label": "Key"},
    ]);
    let servers = json!({"name": "server", "label": "Servers", "author_id": 1, "fields": fields,
        "render_meta": {"summary": {"fields": ["hostname"]}}});
    let servers = app.created("/types/", &servers).await;
    let mut ids = Vec::new();
    for number in 1..=4 {
        ids.push(app.create_object(servers, &json!({"hostname": format!("web-{number}"), "units": number})).await);
    }
    (servers, ids)
}

on_each_store! {
    async fn a_field_is_set_in_the_objects_that_are_ticked(app) {
        let (servers, ids) = servers(app).await;
        let mut browser = Browser::of_admin(app).await;
        let list = browser.page(&format!("/ui/types/{servers}")).await;
        assert!(list.html.contains(&format!("name=\"id\" value=\"{}\"", ids[0])), "{}", list.html);
        let address = format!("/ui/types/{servers}/several?id={}&id={}", ids[0], ids[2]);
        browser.page(&address).await.shows("2 objects").shows("web-1").shows("web-3").hides("web-2").hides("value=\"key\"");
        let action = format!("{address}&set=units");
        let form = browser.page(&action).await.form(&action).with("do", "set");
        let refused = browser.submit(&form.clone().with("f.units", "many")).await;
        assert_eq!(refused.status, 400);
        refused.shows("Type a number.");
        let empty = browser.submit(&form.clone()).await;
        assert_eq!(empty.status, 400);
        empty.shows("Type a value, or tick");
        browser.submitted(&form.with("f.units", "40")).await.shows("2 objects were changed.");
        browser.page(&format!("/ui/types/{servers}?from.units=40&to.units=40")).await.shows("2 objects found").hides("web-2");
    }

    async fn all_that_a_filter_finds_are_switched_off_and_others_stay(app) {
        let (servers, _) = servers(app).await;
        let mut browser = Browser::of_admin(app).await;
        let address = format!("/ui/types/{servers}/several?from.units=2&all=yes");
        let form = browser.page(&address).await.shows("3 objects").form(&address).with("do", "deactivate");
        browser.submitted(&form).await.shows("3 objects were changed.");
        browser.page(&format!("/ui/types/{servers}?is.active=yes")).await.shows("1 object found").shows("web-1");
    }

    async fn what_changed_since_the_page_was_shown_is_not_touched(app) {
        let (servers, _) = servers(app).await;
        let mut browser = Browser::of_admin(app).await;
        let address = format!("/ui/types/{servers}/several?all=yes");
        let form = browser.page(&address).await.form(&address);
        app.create_object(servers, &json!({"hostname": "web-5", "units": 5})).await;
        for (what, sure) in [("deactivate", ""), ("delete", "4")] {
            let refused = browser.submit(&form.clone().with("do", what).with("sure", sure)).await;
            assert_eq!(refused.status, 412, "{}", refused.text());
        }
        browser.page(&format!("/ui/types/{servers}?is.active=yes")).await.shows("5 objects found");
    }

    async fn several_objects_are_deleted_only_with_their_number_typed(app) {
        let (servers, ids) = servers(app).await;
        let mut browser = Browser::of_admin(app).await;
        let address = format!("/ui/types/{servers}/several?id={}&id={}", ids[0], ids[1]);
        let form = browser.page(&address).await.form(&address).with("do", "delete");
        for sure in ["", "3", "yes"] {
            let refused = browser.submit(&form.clone().with("sure", sure)).await;
            assert_eq!(refused.status, 400, "{sure}");
            refused.shows("Type 2 to confirm");
        }
        browser.submitted(&form.with("sure", "2")).await.shows("2 objects were deleted.").shows("2 objects found").hides("web-1");
    }

    async fn no_ticked_object_means_none_and_not_all(app) {
        let (servers, _) = servers(app).await;
        let mut browser = Browser::of_admin(app).await;
        for asked in ["", "?id=", "?id=x", "?id=999", "?from.units=2"] {
            browser.page(&format!("/ui/types/{servers}/several{asked}")).await.shows("No object was chosen").hides("danger");
        }
    }
}
