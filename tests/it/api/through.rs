//! `f.<reference>-><field>`: fields of objects that others refer to, in filters, sorts and projections.

use serde_json::{Value, json};

use super::field_names::{list, names};
use super::people::Person;
use crate::support::app::{Answer, TestApp, on_each_store};

/// Servers in racks in sites.
struct World {
    rack: i64,
    server: i64,
}

fn reference(name: &str, kind: &str, types: &[i64]) -> Value {
    json!({"type": kind, "name": name, "label": name, "ref_types": types})
}

fn plain(name: &str, kind: &str) -> Value {
    json!({"type": kind, "name": name, "label": name})
}

async fn type_of(app: &TestApp, name: &str, fields: Value, readers: Option<i64>) -> i64 {
    let mut body = json!({"name": name, "author_id": 1, "fields": fields});
    if let Some(group) = readers {
        body["acl"] = json!({"activated": true, "groups": {"includes": {group.to_string(): ["CREATE", "READ", "UPDATE", "DELETE"]}}});
    }
    app.created("/types/", &body).await
}

/// The sites are seen by the administrators alone, if it is said so.
async fn world(app: &TestApp, hides_sites: bool) -> World {
    let site = type_of(app, "site", json!([plain("name", "text")]), hides_sites.then_some(1)).await;
    let of_rack =
        json!([plain("name", "text"), plain("units", "number"), plain("ip", "ip"), reference("site", "ref", &[site])]);
    let rack = type_of(app, "rack", of_rack, None).await;
    let of_server = json!([
        plain("name", "text"),
        reference("rack", "ref", &[rack]),
        reference("spares", "refs", &[rack]),
        plain("note", "text")
    ]);
    let server = type_of(app, "server", of_server, None).await;
    let (north, south) = (
        app.create_object(site, &json!({"name": "north"})).await,
        app.create_object(site, &json!({"name": "south"})).await,
    );
    let first = json!({"name": "r1", "units": 42, "ip": "10.0.0.9", "site": north});
    let second = json!({"name": "r2", "units": 10, "ip": "10.0.0.10", "site": south});
    let (r1, r2) = (app.create_object(rack, &first).await, app.create_object(rack, &second).await);
    let r3 = app.create_object(rack, &json!({"name": "r3", "units": null, "ip": null, "site": null})).await;
    for (name, rack, spares) in [
        ("a", json!(r1), json!([r1, r2])),
        ("b", json!(r2), json!([r3])),
        ("c", json!(r3), json!([])),
        ("d", json!(null), json!(null)),
    ] {
        app.create_object(server, &json!({"name": name, "rack": rack, "spares": spares, "note": name})).await;
    }
    World { rack, server }
}

#[track_caller]
fn message(answer: &Answer) -> String {
    answer.error(400, "query_2")["message"].as_str().expect("a message").to_owned()
}

fn escaped(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

on_each_store! {
    async fn a_condition_is_about_the_object_that_is_referred_to(app) {
        let World { server, .. } = world(app, false).await;
        for (path, said, expected) in [
            ("rack->name", json!("r1"), vec!["a"]),
            ("rack->name", json!({"$ne": "r1"}), vec!["b", "c", "d"]),
            ("rack->name", json!({"$in": ["r1", "r3"]}), vec!["a", "c"]),
            ("rack->name", json!({"$nin": ["r1", "r3"]}), vec!["b", "d"]),
            ("rack->units", json!(null), vec!["c", "d"]),
            ("rack->units", json!({"$ne": null}), vec!["a", "b"]),
            ("rack->units", json!({"$in": [null, 42]}), vec!["a", "c", "d"]),
            ("rack->units", json!({"$nin": [null, 42]}), vec!["b"]),
            ("rack->units", json!({"$exists": true}), vec!["a", "b", "c"]),
            ("rack->units", json!({"$exists": false}), vec!["d"]),
            ("rack->units", json!({"$gt": 5, "$lt": 20}), vec!["b"]),
            ("rack->units", json!({"$not": {"$gt": 20}}), vec!["b", "c", "d"]),
            ("rack->ip", json!({"$gte": "10.0.0.9", "$lt": "10.0.0.10"}), vec!["a"]),
            ("rack->site->name", json!({"$regex": "^S", "$options": "i"}), vec!["b"]),
            ("rack->site->name", json!(null), vec!["c", "d"]),
            ("spares->name", json!("r2"), vec!["a"]),
            ("spares->units", json!({"$gt": 20, "$lt": 20}), vec!["a"]),
            ("spares->units", json!(null), vec!["b", "d"]),
            ("spares->units", json!({"$ne": null}), vec!["a", "c"]),
            ("spares->site->name", json!({"$all": ["north", "south"]}), vec!["a"]),
        ] {
            let filter = json!({"type_id": server, format!("f.{path}"): said});
            let found = list(app, &[("filter", &filter.to_string())]).await;
            assert_eq!(found.status, 200, "{filter}: {}", found.text);
            assert_eq!((names(&found), &found.json()["total"]), (expected.iter().map(|it| json!(it)).collect(), &json!(expected.len())), "{filter}");
        }
        let both = json!({"$or": [{"f.rack->name": "r1"}, {"f.rack->site->name": "south"}], "f.rack->units": {"$exists": true}});
        assert_eq!(names(&list(app, &[("filter", &both.to_string())]).await), ["a", "b"]);
        let stages = json!([{"$match": {"f.rack->name": "r2"}}, {"$project": {"fields": 1}}]);
        assert_eq!(names(&list(app, &[("filter", &stages.to_string())]).await), ["b"]);
        let aggregated = app.post("/objects/aggregate", &json!({"pipeline": stages})).await;
        assert_eq!(names(&aggregated), ["b"]);
    }

    async fn objects_are_selected_through_references_wherever_they_are_selected(app) {
        let World { server, .. } = world(app, false).await;
        let filter = json!({"f.rack->site->name": "north"}).to_string();
        let exported = app.get(&format!("/export/objects?type_id={server}&filter={}", escaped(&filter))).await;
        assert_eq!(exported.text.lines().count(), 2, "{}", exported.text);
        let changed = app
            .patch(&format!("/objects/?expected_count=1&filter={}", escaped(&filter)), &json!({"fields": {"note": "moved"}}))
            .await;
        assert_eq!(changed.status, 202, "{}", changed.text);
        let again = json!({"f.note": "moved", "f.rack->name": "r1"}).to_string();
        assert_eq!(names(&list(app, &[("filter", &again)]).await), ["a"]);
    }

    async fn what_the_caller_may_not_see_counts_as_missing(app) {
        let World { rack, .. } = world(app, true).await;
        let person = Person::with_rights(app, "visitor", &["base.framework.object.view"]).await;
        let ask = async |filter: Value| {
            person.get(app, &format!("/objects/?sort=public_id&filter={}", escaped(&filter.to_string()))).await
        };
        // The field of a type that is hidden is as unknown as any other.
        let hidden = message(&ask(json!({"f.rack->site->name": "north"})).await);
        let absent = message(&ask(json!({"f.rack->site->nome": "north"})).await);
        assert_eq!(hidden.replace("->name", "->nome").replace("\"name\"", "\"nome\""), absent);
        // Where a reference may lead to others as well, hidden ones are missing.
        let sites = [1_i64, rack];
        let home = type_of(app, "home", json!([plain("name", "text"), reference("at", "ref", &sites)]), None).await;
        let site = list(app, &[("filter", r#"{"f.name": "north"}"#)]).await.json()["results"][0]["public_id"].clone();
        let r1 = list(app, &[("filter", r#"{"f.name": "r1"}"#)]).await.json()["results"][0]["public_id"].clone();
        for (name, at) in [("in sight", r1), ("hidden", site)] {
            app.create_object(home, &json!({"name": name, "at": at})).await;
        }
        let of_home = |said: Value| json!({"type_id": home, "f.at->name": said});
        for (said, seen, all) in [
            (json!("north"), vec![], vec!["hidden"]),
            (json!({"$exists": true}), vec!["in sight"], vec!["in sight", "hidden"]),
            (json!(null), vec!["hidden"], vec![]),
            (json!({"$ne": "north"}), vec!["in sight", "hidden"], vec!["in sight"]),
        ] {
            let filter = of_home(said);
            assert_eq!(names(&ask(filter.clone()).await), seen, "{filter}");
            assert_eq!(names(&list(app, &[("filter", &filter.to_string())]).await), all, "{filter}");
        }
        let path = format!("/objects/?filter={}&sort=-f.at-%3Ename&projection=f.name,f.at-%3Ename", escaped(&of_home(json!({"$ne": 1})).to_string()));
        let shown = person.get(app, &path).await;
        let entry = |name: &str, value: &str| json!({"name": name, "value": value});
        let expected = json!([
            {"fields": [entry("name", "in sight"), entry("at->name", "r1")]},
            {"fields": [entry("name", "hidden")]},
        ]);
        assert_eq!(shown.json()["results"], expected, "{}", shown.text);
    }

    async fn values_of_referred_objects_are_shown_and_sorted_by(app) {
        let World { server, .. } = world(app, false).await;
        let of_type = json!({"type_id": server}).to_string();
        let filter = ("filter", of_type.as_str());
        for (sort, expected) in [
            ("f.rack->units", ["c", "d", "b", "a"]),
            ("-f.rack->units", ["a", "b", "c", "d"]),
            ("f.rack->ip", ["c", "d", "a", "b"]),
            ("-f.rack->site->name,-f.name", ["b", "a", "d", "c"]),
            (r#"{"f.spares->name": 1, "public_id": -1}"#, ["d", "c", "a", "b"]),
        ] {
            let found = list(app, &[filter, ("sort", sort)]).await;
            assert_eq!(found.status, 200, "{sort}: {}", found.text);
            // An empty list comes before null.
            let expected = if sort.starts_with('{') { ["c", "d", "a", "b"] } else { expected };
            assert_eq!(names(&found), expected, "{sort}");
            let second = list(app, &[filter, ("sort", sort), ("limit", "1"), ("page", "2")]).await;
            assert_eq!((names(&second), &second.json()["total"]), (vec![json!(expected[1])], &json!(4)), "{sort}");
        }
        let shown = async |projection: &str, view: &str| {
            let answer = list(app, &[filter, ("projection", projection), ("view", view), ("limit", "2")]).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
            answer.json()["results"].clone()
        };
        let entry = |name: &str, value: Value| json!({"name": name, "value": value});
        assert_eq!(
            shown("f.rack->units,f.spares->name", "native").await,
            json!([
                {"fields": [entry("rack->units", json!(42)), entry("spares->name", json!(["r1", "r2"]))]},
                {"fields": [entry("rack->units", json!(10)), entry("spares->name", json!(["r3"]))]},
            ])
        );
        assert_eq!(
            shown(r#"{"site": {"$toUpper": "$f.rack->site->name"}}"#, "native").await,
            json!([{"site": "NORTH"}, {"site": "SOUTH"}])
        );
        assert_eq!(
            shown("f.rack->name", "render").await[0],
            json!({"type_information": {"fields": [entry("rack->name", json!("r1"))]}})
        );
        let all = list(app, &[filter, ("projection", "f.rack->name"), ("limit", "0"), ("sort", "-f.rack->name")]).await;
        assert_eq!(all.json()["results"][0], json!({"fields": [entry("rack->name", json!("r3"))]}));
        assert_eq!(all.json()["results"][3], json!({"fields": []}));
    }

    async fn explain_shows_what_was_looked_up(app) {
        let World { rack, server } = world(app, false).await;
        let filter = json!({"type_id": server, "f.rack->name": "r1"}).to_string();
        let explained = list(app, &[("filter", &filter), ("explain", "true"), ("sort", "f.rack->name")]).await.json();
        assert_eq!(explained["references"][0]["path"], "f.rack->name");
        assert_eq!(explained["references"][0]["found"], 1);
        assert_eq!(explained["references"][0]["filter"], json!({"type_id": {"$in": [rack]}, "f.name": "r1"}));
        assert_eq!((&explained["sort"], &explained["total"]), (&json!("memory"), &json!(1)));
        assert_eq!(explained["plan"]["index"], "fields", "{explained}");
        let none = list(app, &[("filter", r#"{"f.name": "r1"}"#), ("explain", "true")]).await.json();
        assert_eq!(none.get("references"), None);
    }

    async fn a_path_that_leads_nowhere_is_refused_with_its_place(app) {
        let World { server, .. } = world(app, false).await;
        for (filter, place, told) in [
            (json!({"f.rack->nam": 1}), "filter.f.rack->nam", "no type that rack refers to has a field named \"nam\"; did you mean name?"),
            (json!({"f.rock->name": 1}), "filter.f.rock->name", "no type has a field named \"rock\"; did you mean rack?"),
            (json!({"f.note->name": 1}), "filter.f.note->name", "note is no reference"),
            (json!({"$or": [{"f.rack->": 1}]}), "filter.$or.0.f.rack->", "has a field named \"\""),
            (json!({"f.rack->ip": {"$gt": "ten"}}), "filter.f.rack->ip.$gt", "must be an IPv4"),
            (json!({"$expr": {"$eq": ["$f.rack->name", "r1"]}}), "filter.$expr.$eq.0", "a pipeline with $lookup"),
            (json!([{"$sort": {"f.rack->name": 1}}]), "filter.0.$sort.f.rack->name", "a pipeline with $lookup"),
        ] {
            let refused = message(&list(app, &[("filter", &filter.to_string())]).await);
            assert!(refused.starts_with(place) && refused.contains(told), "{filter}: {refused}");
        }
        for parameters in [
            [("sort", "f.rack->name"), ("after", "")],
            [("sort", "f.rack->name"), ("filter", r#"[{"$match": {}}, {"$set": {"a": 1}}]"#)],
            [("projection", "f.rack->name"), ("filter", r#"[{"$match": {}}, {"$set": {"a": 1}}]"#)],
        ] {
            list(app, &parameters).await.error(400, "parameter_invalid");
        }
        let left_out = message(&list(app, &[("projection", r#"{"f.rack->name": 0}"#)]).await);
        assert!(left_out.contains("no object has it as a field of its own"), "{left_out}");
        let sorted = app.get(&format!("/export/objects?type_id={server}&sort=f.rack-%3Ename")).await;
        assert!(message(&sorted).contains("->"), "{}", sorted.text);
        let followed = app.get(&format!("/changes/?resource=objects&filter={}", escaped(r#"{"f.rack->name":"r1"}"#))).await;
        assert!(message(&followed).contains("f.rack->name goes through a reference"), "{}", followed.text);
        let hook = json!({"name": "hook", "url": "https://example.com/", "resources": ["objects"], "filter": r#"{"f.rack->name": "r1"}"#});
        let hook = app.post("/webhooks/", &hook).await;
        assert_eq!((hook.status.as_u16(), hook.pointers()), (400, vec!["/filter".to_owned()]), "{}", hook.text);
        let many: Vec<Value> = (0..17).map(|units| json!({"f.rack->units": units})).collect();
        let refused = list(app, &[("filter", &json!({"$or": many}).to_string())]).await;
        assert_eq!(refused.status, 400, "{}", refused.text);
        assert!(refused.text.contains("more than 16 lookups"), "{}", refused.text);
    }

    async fn a_name_with_an_arrow_is_a_name(app) {
        let odd = app.create_type("odd", &[("a->b", "text"), ("a", "text")]).await;
        app.create_object(odd, &json!({"a->b": "x", "a": "y"})).await;
        assert_eq!(list(app, &[("filter", r#"{"f.a->b": "x"}"#)]).await.json()["total"], 1);
        assert_eq!(names(&list(app, &[("sort", "f.a->b"), ("projection", "f.a->b")]).await), ["x"]);
    }
}
