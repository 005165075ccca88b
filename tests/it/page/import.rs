//! Rows that are pasted become objects.

use serde_json::json;

use super::browser::Browser;
use crate::support::app::on_each_store;

on_each_store! {
    async fn pasted_rows_are_checked_corrected_and_imported_once(app) {
        let fields = json!([
            {"type": "text", "name": "hostname", "label": "Host name"}, {"type": "number", "name": "units", "label": "Units"},
        ]);
        let servers = app.created("/types/", &json!({"name": "server", "label": "Servers", "author_id": 1, "fields": fields})).await;
        let mut browser = Browser::of_admin(app).await;
        let action = format!("/ui/types/{servers}/import");
        assert_eq!(browser.page(&format!("/ui/types/{servers}")).await.link("Import"), action);
        let form = browser.page(&action).await.shows("Host name, Units").form(&action).with("decimal", ",");
        let wrong = form.clone().with("rows", "Host name\tUnits\r\nweb-1\t1,5\r\nweb-<2>\tmany\r\n");
        let page = browser.submit(&wrong.with("do", "import")).await;
        assert_eq!(page.status, 400);
        page.shows("1 row cannot be imported").shows("must be a number").hides("<2>");
        assert!(page.html.contains("web-&lt;2&gt;\tmany"), "{}", page.html);
        let right = form.with("rows", "Host name\tUnits\r\nweb-1\t1,5\r\nweb-2\t2\r\n");
        let checked = browser.submit(&right.clone().with("do", "check")).await;
        checked.shows("New objects: 2; changed: 0");
        assert!(checked.html.contains("web-1\t1,5"), "{}", checked.html);
        assert_eq!(app.get("/objects/").await.json()["total"], 0);
        browser.submit(&right.clone().with("do", "import")).await.shows("Imported. New objects: 2;");
        let again = browser.submit(&right.clone().with("do", "import")).await;
        assert_eq!(again.status, 409, "{}", again.text());
        again.shows("within the last day");
        let keyed = right.with("key", "hostname").with("rows", "hostname,units\nweb-1,7\nweb-2,2\n").with("do", "import");
        browser.submit(&keyed).await.shows("changed: 1;");
        browser.page(&format!("/ui/types/{servers}?from.units=7&to.units=7")).await.shows("1 object found").shows("web-1");
        let empty = browser.submit(&keyed.with("rows", "")).await;
        assert_eq!(empty.status, 400);
        empty.shows("the file is empty");
    }
}
