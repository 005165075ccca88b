//! `f.<name>`: fields of objects by their names, wherever objects are filtered, sorted and projected.

use reqwest::Method;
use serde_json::{Value, json};

use super::people::Person;
use crate::support::app::{Answer, TestApp, on_each_store};

/// Three racks and a room, which has no units.
async fn racks(app: &TestApp) -> (i64, i64) {
    let rack = app.create_type("rack", &[("hostname", "text"), ("units", "number"), ("installed", "date")]).await;
    let room = app.create_type("room", &[("hostname", "text"), ("v1.2", "text")]).await;
    for (name, units) in [("web-1", json!(3)), ("web-2", json!(1)), ("db-1", json!(null))] {
        app.create_object(rack, &json!({"hostname": name, "units": units})).await;
    }
    app.create_object(room, &json!({"hostname": "web-room", "v1.2": "east"})).await;
    (rack, room)
}

pub(super) async fn list(app: &TestApp, parameters: &[(&str, &str)]) -> Answer {
    app.get_with("/objects/", parameters).await
}

pub(super) fn names(answer: &Answer) -> Vec<Value> {
    let of = |fields: Vec<Value>| fields.into_iter().map(|mut fields| fields[0]["value"].take()).collect();
    of(answer.results("/fields"))
}

on_each_store! {
    async fn a_field_is_asked_for_by_its_name(app) {
        let (rack, _) = racks(app).await;
        for (filter, expected) in [
            (json!({"f.hostname": "web-1"}), vec!["web-1"]),
            (json!({"f.hostname": {"$regex": "^web"}, "f.units": {"$gt": 2}}), vec!["web-1"]),
            (json!({"f.units": {"$ne": 3}}), vec!["web-2", "db-1", "web-room"]),
            (json!({"f.units": null}), vec!["db-1", "web-room"]),
            (json!({"f.units": {"$ne": null}}), vec!["web-1", "web-2"]),
            (json!({"f.units": {"$nin": [null, 1]}}), vec!["web-1"]),
            (json!({"f.units": {"$not": {"$in": [null, 1]}}}), vec!["web-1"]),
            (json!({"f.units": {"$exists": false}}), vec!["web-room"]),
            (json!({"$or": [{"f.units": 1}, {"f.v1.2": "east"}], "type_id": {"$gt": 0}}), vec!["web-2", "web-room"]),
            (json!({"$expr": {"$eq": [{"$strLenBytes": "$f.hostname"}, 4]}}), vec!["db-1"]),
            (json!({"type_id": rack, "f.units": {"$in": [1, 3]}}), vec!["web-1", "web-2"]),
        ] {
            let found = list(app, &[("filter", &filter.to_string())]).await;
            assert_eq!(names(&found), expected, "{filter}");
            let body = app.post("/objects/query", &json!({"filter": filter})).await;
            assert_eq!(names(&body), expected, "{filter}");
            assert_eq!(body.json()["parameters"]["filter"], filter);
        }
    }

    async fn a_list_is_sorted_by_a_field(app) {
        racks(app).await;
        assert_eq!(names(&list(app, &[("sort", "-f.units")]).await), ["web-1", "web-2", "db-1", "web-room"]);
        let sort = r#"{"f.units": 1, "f.hostname": -1}"#;
        assert_eq!(names(&list(app, &[("sort", sort)]).await), ["web-room", "db-1", "web-2", "web-1"]);
        let same = r#"{"fields.units": -1}"#;
        assert_eq!(names(&list(app, &[("sort", same)]).await), names(&list(app, &[("sort", "-fields.units")]).await));
        list(app, &[("sort", "f.unit")]).await.error(400, "query_2");
    }

    async fn a_projection_keeps_named_fields(app) {
        let (rack, _) = racks(app).await;
        let filter = ("filter", r#"{"f.hostname": "web-1"}"#);
        let shown = async |projection: &str, view: &str| {
            let answer = list(app, &[filter, ("projection", projection), ("view", view)]).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
            answer.json()["results"][0].clone()
        };
        let hostname = json!({"name": "hostname", "value": "web-1"});
        assert_eq!(shown(r#"{"f.hostname": 1}"#, "native").await, json!({"fields": [hostname]}));
        assert_eq!(shown("f.hostname,type_id", "native").await, json!({"type_id": rack, "fields": [hostname]}));
        assert_eq!(shown(r#"{"name": "$f.hostname"}"#, "native").await, json!({"name": "web-1"}));
        let without = shown(r#"{"f.units": 0, "f.installed": 0}"#, "native").await;
        assert_eq!((&without["fields"], &without["type_id"]), (&json!([hostname]), &json!(rack)));
        let rendered = shown(r#"{"f.hostname": 1}"#, "render").await;
        let entry = json!({"type": "text", "name": "hostname", "label": "hostname", "value": "web-1"});
        assert_eq!(rendered, json!({"type_information": {"fields": [entry]}}));
        let by_units = list(app, &[filter, ("projection", "f.units"), ("sort", "f.units")]).await;
        assert_eq!(by_units.json()["results"], json!([{"fields": [{"name": "units", "value": 3}]}]));
    }

    async fn a_field_that_holds_arrays_is_asked_for_as_any_member_that_does(app) {
        let server = app.create_type("server", &[("hostname", "text"), ("tags", "json")]).await;
        let tags = [("a", json!(["x", "y"])), ("b", json!("x")), ("c", json!([["x"]])), ("d", json!({"at": ["z"]})), ("e", json!(null))];
        for (name, tags) in tags {
            app.create_object(server, &json!({"hostname": name, "tags": tags})).await;
        }
        for (said, expected) in [
            (json!("x"), vec!["a", "b"]),
            (json!({"$ne": "x"}), vec!["c", "d", "e"]),
            (json!({"$size": 2}), vec!["a"]),
            (json!({"$elemMatch": {"$gt": "x"}}), vec!["a"]),
            (json!(["x"]), vec!["c"]),
            (json!({"$all": ["x", "y"]}), vec!["a"]),
            (json!({"$not": {"$type": "array"}}), vec!["b", "d", "e"]),
        ] {
            let filter = json!({"type_id": server, "f.tags": said}).to_string();
            let found = list(app, &[("filter", &filter), ("limit", "1"), ("page", "1")]).await;
            assert_eq!((names(&found), &found.json()["total"]), (vec![json!(expected[0])], &json!(expected.len())), "{filter}");
            assert_eq!(names(&list(app, &[("filter", &filter)]).await), expected, "{filter}");
            let ordered = list(app, &[("filter", &filter), ("sort", "-f.hostname"), ("limit", "1")]).await;
            assert_eq!(names(&ordered), [*expected.last().expect("one")], "{filter}");
        }
        assert_eq!(names(&list(app, &[("sort", "-f.tags.at")]).await)[0], "d");
        let one = "/objects/?filter=%7B%22f.tags%22%3A%7B%22%24size%22%3A2%7D%7D&expected_count=1";
        assert_eq!(app.patch(one, &json!({"fields": [{"name": "tags", "value": []}]})).await.status, 202);
        let explained = list(app, &[("filter", r#"{"f.tags": {"$size": 0}}"#), ("explain", "true")]).await.json();
        let entry = json!({"name": "tags", "value": {"$exists": true}});
        assert_eq!((&explained["filter"], &explained["total"]), (&json!({"$and": [{"fields": {"$elemMatch": entry}}]}), &json!(1)));
    }

    async fn behind_a_stage_that_makes_f_its_paths_are_plain(app) {
        let (rack, _) = racks(app).await;
        let pairs = json!({"$map": {"input": "$fields", "as": "e", "in": {"k": "$$e.name", "v": "$$e.value"}}});
        let made = json!({"$project": {"f": {"$arrayToObject": pairs}, "public_id": 1}});
        let sorted = json!([{"$match": {"type_id": rack}}, made, {"$sort": {"f.units": 1, "public_id": 1}}]);
        let listed = list(app, &[("filter", &sorted.to_string())]).await;
        assert_eq!(listed.results("/f/hostname"), ["db-1", "web-2", "web-1"], "{}", listed.text);
        let listed = list(app, &[("filter", &json!([made]).to_string()), ("sort", "-f.units"), ("limit", "1")]).await;
        assert_eq!(listed.results("/f/hostname"), ["web-1"], "{}", listed.text);
        for (behind, expected) in [
            (json!([{"$match": {"f.no_field": null, "f.units": {"$gt": 1}}}, {"$project": {"_id": 0, "n": "$f.hostname"}}]), json!([{"n": "web-1"}])),
            (json!([{"$group": {"_id": "$type_id", "f": {"$max": {"u": "$f.units"}}}}, {"$match": {"f.u": {"$gt": 2}}}, {"$project": {"_id": "$f.u"}}]), json!([{"_id": 3}])),
        ] {
            let mut stages = sorted.as_array().expect("stages").clone();
            stages.extend(behind.as_array().expect("stages").clone());
            let results = app.post("/objects/aggregate", &json!({"pipeline": stages})).await;
            assert_eq!(results.json()["results"], expected, "{}", results.text);
        }
        let stays = json!([{"$set": {"numbers": [1, 2]}}, {"$unwind": "$numbers"}, {"$match": {"f.units": 3}}, {"$count": "n"}]);
        let counted = app.post("/objects/aggregate", &json!({"pipeline": stays})).await;
        assert_eq!(counted.json()["results"], json!([{"n": 2}]), "{}", counted.text);
    }

    async fn an_unknown_name_is_refused_with_the_nearest(app) {
        let (_, room) = racks(app).await;
        for (parameter, value) in [
            ("filter", r#"{"f.hostnam": "web-1"}"#),
            ("filter", r#"{"$expr": {"$eq": ["$f.hostnam", 1]}}"#),
            ("sort", "f.hostnam"),
            ("projection", r#"{"f.hostnam": 1}"#),
        ] {
            let refused = list(app, &[(parameter, value)]).await.error(400, "query_2");
            let message = refused["message"].as_str().expect("a message");
            assert!(message.contains("no type has a field named \"hostnam\"; did you mean hostname?"), "{message}");
        }
        let filter = json!({"type_id": room, "f.units": 1}).to_string();
        let refused = list(app, &[("filter", &filter)]).await.error(400, "query_2");
        assert!(refused["message"].as_str().expect("a message").contains("no type with this type_id"), "{refused}");
    }

    async fn names_of_hidden_types_are_unknown(app) {
        let person = Person::with_rights(app, "visitor", &["base.framework.object.view"]).await;
        let acl = json!({"activated": true, "groups": {"includes": {"1": ["READ", "CREATE"]}}});
        let fields = json!([{"type": "text", "name": "secret", "label": "S"}]);
        app.created("/types/", &json!({"name": "vault", "author_id": 1, "fields": fields, "acl": acl})).await;
        assert_eq!(list(app, &[("filter", r#"{"f.secret": 1}"#)]).await.status, 200);
        let question = |name: &str| format!("/objects/?filter=%7B%22f.{name}%22%3A1%7D");
        let hidden = person.get(app, &question("secret")).await.error(400, "query_2");
        let absent = person.get(app, &question("sacred")).await.error(400, "query_2");
        assert_eq!(hidden["message"].as_str().map(|it| it.replace("secret", "sacred")), absent["message"].as_str().map(str::to_owned));
        // Types list their fields to everybody: that no type has this one would be wrong.
        let told = "no type whose objects you may see has a field named \"secret\"";
        assert!(hidden["message"].as_str().is_some_and(|message| message.contains(told)), "{hidden}");
        let of_a_type = person.get(app, "/objects/?filter=%7B%22type_id%22%3A9%2C%22f.secret%22%3A1%7D").await;
        let told = "no type with this type_id whose objects you may see has a field named \"secret\"";
        assert!(of_a_type.error(400, "query_2")["message"].as_str().is_some_and(|message| message.contains(told)));
        let entry = r#"/objects/?filter={"fields.name":"secret"}"#.replace('{', "%7B").replace('}', "%7D").replace('"', "%22");
        let told = "no type whose objects you may see has a field \"secret\"";
        assert_eq!(person.get(app, &entry).await.header("inventory-query-hint"), told);
    }

    async fn fields_are_known_by_name_wherever_objects_are_selected(app) {
        let (rack, room) = racks(app).await;
        let lines = app.get_with("/export/objects", &[("type_id", &rack.to_string()), ("filter", r#"{"f.units": {"$gt": 1}}"#), ("sort", "f.units")]).await;
        assert_eq!(lines.text.lines().count(), 2, "{}", lines.text);
        let wrong = app.get_with("/export/objects", &[("type_id", &room.to_string()), ("filter", r#"{"f.units": 1}"#)]).await;
        wrong.error(400, "query_2");
        let path = "/objects/?filter=%7B%22f.units%22%3A1%7D&expected_count=1";
        let changed = app.patch(path, &json!({"fields": [{"name": "units", "value": 7}]})).await;
        assert_eq!(changed.status, 202, "{}", changed.text);
        assert_eq!(names(&list(app, &[("filter", r#"{"f.units": 7}"#)]).await), ["web-2"]);
        let deleted = app.delete("/objects/?filter=%7B%22f.units%22%3A7%7D&expected_count=1").await;
        assert_eq!(deleted.status, 200, "{}", deleted.text);
        let clean = app.get_with(&format!("/objects/clean/{room}"), &[("filter", r#"{"f.units": 1}"#)]).await;
        clean.error(400, "query_2");
        assert_eq!(app.request(Method::GET, "/types/?filter=%7B%22f.units%22%3A1%7D").send().await.expect("an answer").status(), 200);
    }

    async fn explain_shows_the_filter_that_is_asked(app) {
        racks(app).await;
        let explained = list(app, &[("filter", r#"{"f.hostname": "web-1"}"#), ("explain", "true")]).await.json();
        let entry = json!({"name": "hostname", "value": "web-1"});
        assert_eq!(explained["filter"], json!({"fields": {"$elemMatch": entry}}));
        let plan = &explained["plan"];
        assert_eq!(plan["kind"], "index", "{explained}");
        assert_eq!(plan["keys"][0]["path"], "fields.name", "{explained}");
    }

    async fn every_list_takes_a_sort_document(app) {
        let (rack, room) = racks(app).await;
        let sorted = app.get_with("/types/", &[("sort", r#"{"name": -1}"#)]).await;
        assert_eq!(sorted.results("/public_id"), [room, rack]);
        let two = list(app, &[("sort", r#"{"type_id": -1, "public_id": -1}"#)]).await;
        assert_eq!(names(&two), ["web-room", "db-1", "web-2", "web-1"]);
        assert_eq!(names(&app.post("/objects/query", &json!({"sort": {"public_id": -1}, "limit": 1})).await), ["web-room"]);
        list(app, &[("sort", r#"[["type_id", 1]]"#)]).await.error(400, "parameter_invalid");
        list(app, &[("sort", r#"{"type_id": 1}"#), ("order", "-1")]).await.error(400, "parameter_invalid");
        list(app, &[("sort", r#"{"type_id": 2}"#)]).await.error(400, "query_15975");
    }
}
