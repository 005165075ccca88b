//! Screens that show: lists, objects, history, search, files.

use serde_json::json;

use super::browser::{Browser, Page};
use crate::support::app::{TestApp, on_each_store};

/// A rack, and servers in it.
struct World {
    servers: i64,
    racks: i64,
    rack: i64,
    first: i64,
}

async fn world(app: &TestApp) -> World {
    let rack_fields = json!([{"type": "text", "name": "name", "label": "Rack name"}]);
    let racks = json!({"name": "rack", "label": "Racks", "author_id": 1, "fields": rack_fields,
        "render_meta": {"summary": {"fields": ["name"]}}});
    let racks = app.created("/types/", &racks).await;
    let fields = json!([
        {"type": "text", "name": "hostname", "label": "Host name", "required": true},
        {"type": "number", "name": "units", "label": "Units"},
        {"type": "select", "name": "state", "label": "State",
            "options": [{"name": "on", "label": "In service"}, {"name": "off", "label": "Switched off"}]},
        {"type": "checkbox", "name": "spare", "label": "Spare"},
        {"type": "date", "name": "bought", "label": "Bought on"},
        {"type": "ref", "name": "rack", "label": "In rack", "ref_types": [racks]},
        {"type": "href", "name": "console", "label": "Console"},
    ]);
    let sections = json!([
        {"type": "section", "name": "place", "label": "Place", "fields": ["rack", "units"]},
        {"type": "section", "name": "identity", "label": "Identity", "fields": ["hostname", "state", "spare", "bought"]},
    ]);
    let externals = json!([{"name": "wiki", "label": "Wiki", "icon": "fa-book", "href": "https://wiki.example/{}", "fields": ["hostname"]}]);
    let servers = json!({"name": "server", "label": "Servers", "author_id": 1, "fields": fields, "render_meta":
        {"sections": sections, "summary": {"fields": ["hostname"]}, "externals": externals}});
    let servers = app.created("/types/", &servers).await;
    app.created("/categories/", &json!({"name": "hardware", "label": "Hardware", "types": [servers, racks]})).await;
    let rack = app.create_object(racks, &json!({"name": "north-7"})).await;
    let mut first = 0;
    for number in 1..=60 {
        let state = if number % 2 == 0 { "on" } else { "off" };
        let values = json!({"hostname": format!("web-{number:02}"), "units": number, "state": state, "spare": number == 3,
            "bought": {"$date": format!("2026-01-{:02}T00:00:00Z", number % 28 + 1)}, "rack": rack,
            "console": "https://console.example/"});
        let id = app.create_object(servers, &values).await;
        if number == 1 {
            first = id;
        }
    }
    World { servers, racks, rack, first }
}

/// The names of the hosts in a list, in order.
fn hosts(page: &Page) -> Vec<String> {
    page.text().split_whitespace().filter(|word| word.starts_with("web-")).map(str::to_owned).collect()
}

on_each_store! {
    async fn the_tree_has_categories_and_types_with_their_numbers(app) {
        let world = world(app).await;
        let mut browser = Browser::of_admin(app).await;
        let page = browser.page("/ui/").await;
        page.shows("Hardware").shows("Servers 60").shows("Racks 1");
        assert_eq!(page.link("Servers 60"), format!("/ui/types/{}", world.servers));
        app.create_object(world.racks, &json!({"name": "south-1"})).await;
        browser.page("/ui/").await.shows("Racks 2");
    }

    async fn a_list_has_labels_pages_and_the_number_found(app) {
        let world = world(app).await;
        let mut browser = Browser::of_admin(app).await;
        let page = browser.page(&format!("/ui/types/{}", world.servers)).await;
        page.shows("60 objects found").shows("Host name").shows("In service").shows("north-7").shows("2026-01-02");
        let mut all = hosts(&page);
        assert_eq!(all.len(), 50);
        let next = browser.page(&page.link("Next page")).await;
        next.shows("60 objects found");
        all.extend(hosts(&next));
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 60);
        assert_eq!(next.link("First page"), format!("/ui/types/{}", world.servers));
    }

    async fn a_list_is_sorted_by_its_headings(app) {
        let world = world(app).await;
        let mut browser = Browser::of_admin(app).await;
        let page = browser.page(&format!("/ui/types/{}", world.servers)).await;
        let up = browser.page(&page.link("Units")).await;
        assert_eq!(hosts(&up)[..2], ["web-01", "web-02"]);
        let down = browser.page(&up.link("Units ▲")).await;
        assert_eq!(hosts(&down)[..2], ["web-60", "web-59"]);
        assert!(down.html.contains("aria-sort=\"descending\""));
    }

    async fn a_filter_has_the_form_of_its_kind(app) {
        let world = world(app).await;
        let mut browser = Browser::of_admin(app).await;
        for (filter, count) in [
            ("has.hostname=WEB-0", 9), ("from.units=59", 2), ("to.units=3&is.state=off", 2), ("is.spare=yes", 1),
            ("is.spare=no", 59), ("from.bought=2026-01-02&to.bought=2026-01-02", 3), ("has.rack=north", 60),
            ("has.rack=south", 0), ("is.active=no", 0), ("is.active=yes", 60), ("has.hostname=.", 0), ("has.hostname=%28", 0),
            ("filter=%7B%22f.units%22%3A%7B%22%24gt%22%3A58%7D%7D", 2),
        ] {
            let page = browser.page(&format!("/ui/types/{}?{filter}", world.servers)).await;
            let objects = if count == 1 { "object" } else { "objects" };
            page.shows(&format!("{count} {objects} found"));
        }
        let page = browser.page(&format!("/ui/types/{}?has.rack={}", world.servers, world.rack)).await;
        page.shows("60 objects found");
    }

    async fn a_filter_that_cannot_be_understood_says_so_and_stays_in_its_control(app) {
        let world = world(app).await;
        let mut browser = Browser::of_admin(app).await;
        for (filter, message) in [
            ("from.units=many", "is no number"), ("from.bought=soon", "must be a day"), ("filter=%7Bx", "filter"),
            ("filter=%7B%22f.hostnam%22%3A1%7D", "hostname"), ("after=forged", "is no cursor"),
        ] {
            let page = browser.get(&format!("/ui/types/{}?{filter}", world.servers)).await;
            assert_eq!(page.status, 400, "{filter}");
            page.shows(message);
        }
        let page = browser.get(&format!("/ui/types/{}?from.units=many", world.servers)).await;
        assert!(page.html.contains("value=\"many\""), "{}", page.html);
    }

    async fn the_address_of_a_list_holds_everything_and_nothing_empty(app) {
        let world = world(app).await;
        let mut browser = Browser::of_admin(app).await;
        let path = format!("/ui/types/{}", world.servers);
        let page = browser.get(&format!("{path}?has.hostname=web-1&from.units=&is.state=&sort=-units")).await;
        assert_eq!((page.status.as_u16(), page.location()), (303, format!("{path}?has.hostname=web-1&sort=-units")));
        let page = browser.page(&format!("{path}?has.hostname=web-1&sort=-units&column=hostname")).await;
        assert_eq!(hosts(&page)[0], "web-19");
        page.hides("In service");
    }

    async fn a_list_is_exported_as_it_is_filtered_and_sorted(app) {
        let world = world(app).await;
        let mut browser = Browser::of_admin(app).await;
        let page = browser.page(&format!("/ui/types/{}?has.hostname=web-0&sort=-units", world.servers)).await;
        let file = browser.page(&page.link("CSV")).await;
        assert!(file.header("content-disposition").starts_with("attachment; filename=\"server.csv\""));
        let lines: Vec<&str> = file.html.lines().collect();
        assert_eq!(lines.len(), 10, "{lines:?}");
        assert!(lines[1].contains("web-09"), "{lines:?}");
        let sheet = browser.app.anonymous(reqwest::Method::GET, &format!("{}{}", app.origin, page.link("Excel")));
        let sheet = sheet.header("cookie", browser.cookie.as_deref().expect("a cookie")).send().await.expect("an answer");
        assert_eq!(sheet.status(), 200);
        assert!(sheet.bytes().await.expect("bytes").starts_with(b"PK"));
    }

    async fn an_object_has_its_sections_links_and_what_refers_to_it(app) {
        let world = world(app).await;
        let mut browser = Browser::of_admin(app).await;
        let page = browser.page(&format!("/ui/objects/{}", world.first)).await;
        page.shows("Place").shows("Identity").shows("In rack north-7").shows("State Switched off").shows("Spare No");
        page.shows("Bought on 2026-01-02").shows("by admin");
        let text = page.text();
        assert!(text.find("Place") < text.find("Identity"), "{text}");
        assert_eq!(page.link("Wiki"), "https://wiki.example/web-01");
        assert_eq!(page.link("https://console.example/"), "https://console.example/");
        let rack = browser.page(&page.link("north-7")).await;
        rack.shows("Refers to it").shows("Servers 60");
        let all = browser.page(&rack.link("All 60")).await;
        all.shows("60 objects found").shows("web-01");
        let next = browser.page(&all.link("Next page")).await;
        assert_eq!(hosts(&next).len(), 10);
    }

    async fn the_history_is_told_in_labels_and_names_and_leads_to_the_past(app) {
        let world = world(app).await;
        let south = app.create_object(world.racks, &json!({"name": "south-1"})).await;
        let changes = [json!([{"name": "hostname", "value": "web-99"}, {"name": "rack", "value": south}]),
            json!([{"name": "state", "value": "on"}]), json!([{"name": "units", "value": null}])];
        for fields in changes {
            let changed = app.patch(&format!("/objects/{}", world.first), &json!({"fields": fields})).await;
            assert!(changed.status.is_success(), "{}", changed.text);
        }
        let mut browser = Browser::of_admin(app).await;
        let page = browser.page(&format!("/ui/objects/{}", world.first)).await;
        page.shows("admin changed it.").shows("Host name: from “web-01” to “web-99”").shows("admin created it.");
        page.shows("In rack: from “north-7” to “south-1”").shows("State: from “Switched off” to “In service”");
        page.shows("Units: “1” removed").hides("/fields/");
        let entries = app.get(&format!("/objects/{}/history?sort=sequence", world.first)).await.json();
        let created = entries["results"][0]["sequence"].as_i64().expect("a sequence");
        let past = browser.page(&format!("/ui/objects/{}?at={created}", world.first)).await;
        past.shows("It is not the present one").shows("web-01").hides("/edit\"");
        let back = browser.submitted(&past.form(&format!("/ui/objects/{}/revert", world.first))).await;
        back.shows("Saved.").shows("Host name web-01").shows("admin put back an earlier state.");
        for at in ["tomorrow", "2999-01-01T00:00:00Z", "999999"] {
            assert_eq!(browser.get(&format!("/ui/objects/{}?at={at}", world.first)).await.status, 400, "{at}");
        }
    }

    async fn a_server_is_found_by_its_name_and_by_its_number(app) {
        let world = world(app).await;
        let mut browser = Browser::of_admin(app).await;
        let form = browser.page("/ui/").await.form("/ui/search").with("q", "web-01");
        let page = browser.page(&format!("/ui/search?q={}", form.get("q"))).await;
        page.shows("1 object found");
        browser.page(&page.link("web-01")).await.shows("In rack north-7");
        let page = browser.page(&format!("/ui/search?q={}", world.first)).await;
        assert_eq!(page.link("web-01"), format!("/ui/objects/{}", world.first));
        browser.page("/ui/search?q=.*").await.shows("Nothing found for “.*”.");
        browser.page("/ui/search").await.shows("Type a number of an object");
    }

    async fn what_is_not_there_is_a_page_that_says_so(app) {
        let mut browser = Browser::of_admin(app).await;
        for path in ["/ui/objects/999", "/ui/objects/x", "/ui/types/999", "/ui/objects/-1", "/ui/nowhere", "/ui/files/x.css"] {
            let page = browser.get(path).await;
            assert_eq!(page.status, 404, "{path}");
            page.shows("This does not exist");
        }
    }

    async fn the_language_is_that_of_the_browser(app) {
        let world = world(app).await;
        let mut browser = Browser::of_admin(app).await;
        browser.language = "de-AT,de;q=0.9,en;q=0.5";
        let page = browser.page(&format!("/ui/types/{}", world.servers)).await;
        page.shows("60 Objekte gefunden").shows("Nächste Seite");
        assert!(page.html.contains("<html lang=\"de\">"));
        browser.page(&format!("/ui/objects/{}", world.first)).await.shows("admin hat es angelegt.");
    }

    async fn a_list_is_short_on_the_wire(app) {
        let world = world(app).await;
        let mut browser = Browser::of_admin(app).await;
        let page = browser.page(&format!("/ui/types/{}", world.servers)).await;
        assert!(page.html.len() < 60_000, "{}", page.html.len());
    }

    async fn what_changed_and_what_was_deleted_can_be_looked_up(app) {
        let world = world(app).await;
        let mut browser = Browser::of_admin(app).await;
        let gone = app.delete(&format!("/objects/{}", world.first)).await;
        assert!(gone.status.is_success(), "{}", gone.text);
        browser.page("/ui/changes/").await.shows("admin deleted it.").shows("web-60: admin created it.");
        let page = browser.page("/ui/changes/?action=DELETE").await;
        page.hides("created it");
        let form = page.form(&format!("/ui/objects/{}/restore", world.first));
        browser.submitted(&form).await.shows("The object is back.").shows("web-01");
        let next = browser.page("/ui/changes/").await.link("Next page");
        browser.page(&next).await.shows("created it");
    }
}
