//! Screens that show: lists, objects, history, search, files.

use inventory_service::clock::{Clock, SystemClock};
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

    async fn the_first_page_counts_by_type_by_value_by_day_and_by_what_comes_soon(app) {
        let world = world(app).await;
        let soon = SystemClock.now() + chrono::Duration::days(40);
        let day = soon.format("%Y-%m-%dT00:00:00Z").to_string();
        let fields = json!({"fields": [{"name": "bought", "value": {"$date": day}}]});
        assert!(app.patch(&format!("/objects/{}", world.first), &fields).await.status.is_success());
        let mut browser = Browser::of_admin(app).await;
        browser.page("/ui/").await.shows("Servers 60").hides("within 60 days").hides("Switched off");
        let page = browser.page(&format!("/ui/?by={}.state", world.servers)).await;
        page.shows("In service 30").shows("Switched off 30");
        browser.page(&page.link("In service")).await.shows("30 objects found");
        let soon = browser.page("/ui/").await.link("Count the days of the next 90 days");
        let page = browser.page(&soon).await;
        page.shows("within 60 days").shows("Servers Bought on 0 1 1");
        browser.page(&page.link("1")).await.shows("1 object found").shows("web-01");
        let page = browser.page("/ui/?show=days").await;
        let today = SystemClock.now().format("%Y-%m-%d").to_string();
        browser.page(&page.link(&today)).await.shows("web-01: admin changed it.");
        let by_rack = browser.page(&format!("/ui/?by={}.rack", world.servers)).await;
        by_rack.shows("north-7 60");
        browser.page(&by_rack.link("north-7")).await.shows("60 objects found");
        browser.page(&format!("/ui/?by={}.spare", world.servers)).await.shows("No 59").shows("Yes 1");
    }

    async fn the_graph_of_an_object_is_a_picture_and_a_table(app) {
        let world = world(app).await;
        let mut browser = Browser::of_admin(app).await;
        let path = browser.page(&format!("/ui/objects/{}", world.first)).await.link("Graph");
        let page = browser.page(&path).await;
        page.shows("Graph: web-01").shows("web-01 In rack north-7").hides("web-02");
        browser.page(&format!("{path}?depth=2")).await.shows("web-01 In rack north-7").shows("web-02 In rack north-7");
        assert_eq!(page.link("north-7"), format!("/ui/objects/{}", world.rack));
        let out = browser.page(&format!("{path}?direction=out&depth=4")).await;
        out.shows("web-01 In rack north-7").hides("web-02");
        browser.page(&format!("{path}?direction=in")).await.shows("none refers to it");
        browser.page(&format!("/ui/objects/{}/graph?type={}", world.rack, world.racks)).await.shows("none refers to it");
        let file = browser.page(&out.link("Save as SVG")).await;
        assert_eq!(file.header("content-type"), "image/svg+xml");
        assert!(file.header("content-disposition").starts_with("attachment"), "{:?}", file.headers);
        file.shows("web-01").shows("north-7").hides("web-02").hides("href");
        assert!(file.html.starts_with("<svg") && file.html.contains("xmlns="), "{}", file.html);
    }

    async fn changes_are_chosen_by_day_by_type_and_by_person(app) {
        let world = world(app).await;
        let mut browser = Browser::of_admin(app).await;
        let today = SystemClock.now().format("%Y-%m-%d").to_string();
        let path = format!("/ui/changes/?from={today}&to={today}&type={}&who=admin", world.racks);
        browser.page(&path).await.shows("north-7: admin created it.").hides("web-60");
        for nothing in ["who=nobody", "to=2020-01-01", "from=2999-01-01", "type=999"] {
            browser.page(&format!("/ui/changes/?{nothing}")).await.shows("Nothing changed.");
        }
        assert_eq!(browser.get("/ui/changes/?from=soon").await.status, 400);
        let next = browser.page(&format!("/ui/changes/?type={}", world.servers)).await.link("Next page");
        browser.page(&next).await.shows("web-01: admin created it.").hides("north-7");
    }

    async fn a_list_is_kept_by_name_for_its_user_alone(app) {
        let world = world(app).await;
        let mut browser = Browser::of_admin(app).await;
        let list = format!("/ui/types/{}", world.servers);
        let action = format!("{list}/saved");
        let asked = format!("{list}?is.state=on&sort=-units&column=units&column=hostname");
        let form = browser.page(&asked).await.form(&action).with("name", "In service <b>");
        browser.submitted(&form).await.shows("30 objects found").shows("In service <b>");
        let page = browser.page(&list).await;
        assert_eq!(page.link("In service <b>"), asked);
        browser.page(&format!("/ui/types/{}", world.racks)).await.hides("In service");
        assert_eq!(browser.submit(&form.clone().with("name", "")).await.status, 400);
        let group = app.created("/groups/", &json!({"name": "eves", "label": "Eves", "rights": ["base.framework.object.view"]})).await;
        app.created("/users/", &json!({"user_name": "eve", "password": "another one 1", "group_id": group})).await;
        Browser::of(app, "eve", "another one 1").await.page(&list).await.hides("&lt;b&gt;");
        // Keeping it again under the same name replaces it.
        browser.submitted(&form.clone().with("query", "sort=units")).await.shows("60 objects found");
        assert_eq!(browser.page(&list).await.link("In service <b>"), format!("{list}?sort=units"));
        browser.submitted(&form.with("do", "forget")).await.hides("&lt;b&gt;");
    }
}
