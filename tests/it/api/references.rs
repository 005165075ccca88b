//! References: what deleting does to them, those that lead nowhere, and graphs. docs/api.md, References and Graph.

use reqwest::Method;
use serde_json::{Value, json};

use super::people::Person;
use crate::support::app::{Answer, TestApp, fields, on_each_store};

/// Racks, and servers that are in one: `on_delete` is that of the field.
async fn racks_and_servers(app: &TestApp, on_delete: &str) -> (i64, i64) {
    let rack = app.create_type("rack", &[("name", "text")]).await;
    let server = json!({"name": "server", "author_id": 1, "fields": [
        {"type": "text", "name": "hostname", "label": "Host"},
        {"type": "ref", "name": "rack", "label": "Rack", "ref_types": [rack], "on_delete": on_delete},
        {"type": "ref", "name": "spare", "label": "Spare", "ref_types": [rack]},
    ], "render_meta": {"summary": {"fields": ["hostname"]}}});
    (rack, app.created("/types/", &server).await)
}

async fn value_of(app: &TestApp, id: i64, name: &str) -> Value {
    let object = app.get(&format!("/objects/{id}/native")).await.json();
    let entries = object["fields"].as_array().expect("fields").clone();
    entries.into_iter().find(|entry| entry["name"] == name).expect("the field is there")["value"].take()
}

fn warnings(answer: &Answer) -> Vec<&str> {
    answer.headers.get_all("inventory-warning").iter().filter_map(|told| told.to_str().ok()).collect()
}

fn ids(of: &Value, member: &str) -> Vec<i64> {
    of.as_array().expect("a list").iter().filter_map(|item| item[member].as_i64()).collect()
}

async fn set_acl(app: &TestApp, type_id: i64, groups: Value) {
    let acl = json!({"acl": {"activated": true, "groups": {"includes": groups}}});
    assert_eq!(app.patch(&format!("/types/{type_id}"), &acl).await.status, 202);
}

on_each_store! {
    async fn a_field_that_clears_does_so_whatever_the_request_says(app) {
        let (rack, server) = racks_and_servers(app, "clear").await;
        for wish in ["", "?on_references=keep", "?on_references=clear"] {
            let target = app.create_object(rack, &json!({"name": "r1"})).await;
            let other = app.create_object(rack, &json!({"name": "r2"})).await;
            let cleared = app.create_object(server, &json!({"rack": target, "spare": other})).await;
            let gone = app.delete(&format!("/objects/{target}{wish}")).await;
            assert_eq!((gone.status.as_u16(), warnings(&gone)), (200, vec![]), "{}", gone.text);
            assert_eq!(value_of(app, cleared, "rack").await, json!(null));
            assert_eq!(value_of(app, cleared, "spare").await, json!(other), "another reference stays");
        }
        let target = app.create_object(rack, &json!({})).await;
        app.create_object(server, &json!({"rack": target})).await;
        app.delete(&format!("/objects/{target}?on_references=refuse")).await.error(400, "object_referenced");
    }

    async fn a_field_that_refuses_does_so_whatever_the_request_says(app) {
        let (rack, server) = racks_and_servers(app, "refuse").await;
        let target = app.create_object(rack, &json!({})).await;
        let in_it = app.create_object(server, &json!({"rack": target})).await;
        let told = format!("objects refer to this (1: {in_it}); a field with on_delete \"refuse\" keeps it; set its references to null first");
        for wish in ["", "?on_references=keep", "?on_references=clear", "?on_references=refuse"] {
            let refused = app.delete(&format!("/objects/{target}{wish}")).await.error(400, "object_referenced");
            assert_eq!(refused["message"], told, "{wish}");
        }
        app.delete(&format!("/objects/{target},{in_it},99")).await;
        assert_eq!(app.get("/objects/").await.json()["total"], 0, "references among those that go do not count");
        let target = app.create_object(rack, &json!({})).await;
        let in_it = app.create_object(server, &json!({"rack": target})).await;
        app.delete(&format!("/objects/?filter={{\"type_id\":{rack}}}&expected_count=1")).await.error(400, "object_referenced");
        app.patch(&format!("/objects/{in_it}"), &json!({"fields": {"rack": null, "spare": target}})).await;
        let gone = app.delete(&format!("/objects/{target}")).await;
        assert_eq!((gone.status.as_u16(), warnings(&gone)), (200, vec!["1 object refers to it"]));
    }

    async fn a_refusal_names_the_first_hundred(app) {
        let (rack, server) = racks_and_servers(app, "refuse").await;
        let target = app.create_object(rack, &json!({})).await;
        let body = json!({"type_id": server, "author_id": 1, "fields": {"rack": target}});
        assert_eq!(app.post("/objects/bulk", &json!(vec![body; 101])).await.status, 200);
        let refused = app.delete(&format!("/objects/{target}")).await.error(400, "object_referenced");
        let named: Vec<String> = (target + 1..=target + 100).map(|id| id.to_string()).collect();
        let told = refused["message"].as_str().expect("a message").to_owned();
        assert!(told.starts_with(&format!("objects refer to this (101: {}, ...);", named.join(", "))), "{told}");
    }

    async fn what_still_refers_to_a_deleted_object_is_counted(app) {
        let (rack, server) = racks_and_servers(app, "keep").await;
        let mut racks = Vec::new();
        for _ in 0..4 {
            racks.push(app.create_object(rack, &json!({})).await);
        }
        for place in [0, 0, 1, 2, 3] {
            app.create_object(server, &json!({"rack": racks[place], "spare": racks[3]})).await;
        }
        let one = app.delete(&format!("/objects/{}", racks[0])).await;
        assert_eq!(warnings(&one), ["2 objects refer to it"]);
        let several = app.delete(&format!("/objects/{},{}", racks[1], racks[2])).await;
        assert_eq!(warnings(&several), ["2 objects refer to them"]);
        let filter = format!("/objects/?filter={{\"type_id\":{rack}}}&expected_count=1&on_references=clear");
        assert_eq!(warnings(&app.delete(&filter).await), [""; 0]);
    }

    async fn deleting_a_type_with_its_objects_heeds_references_to_them(app) {
        let (rack, server) = racks_and_servers(app, "refuse").await;
        let target = app.create_object(rack, &json!({})).await;
        let in_it = app.create_object(server, &json!({"rack": target})).await;
        let refused = app.delete(&format!("/types/{rack}?cascade=true")).await.error(400, "object_referenced");
        assert!(refused["message"].as_str().expect("a message").contains(&format!("(1: {in_it})")), "{refused}");
        assert_eq!(app.get(&format!("/objects/{target}")).await.status, 200, "nothing went");
        let gone = app.delete(&format!("/types/{server}?cascade=true")).await;
        assert_eq!((gone.status.as_u16(), warnings(&gone)), (202, vec![]), "its own references go with it");
        let other = app.create_object(rack, &json!({})).await;
        let kinds = json!({"name": "host", "author_id": 1, "fields": [
            {"type": "ref", "name": "cleared", "label": "C", "ref_types": [rack], "on_delete": "clear"},
            {"type": "ref", "name": "kept", "label": "K", "ref_types": [rack]},
        ]});
        let host = app.created("/types/", &kinds).await;
        let host = app.create_object(host, &json!({"cleared": target, "kept": other})).await;
        let gone = app.delete(&format!("/types/{rack}?cascade=true")).await;
        assert_eq!((gone.status.as_u16(), warnings(&gone)), (202, vec!["1 object refers to them"]), "{}", gone.text);
        assert_eq!(gone.json()["also_changed"], json!({"objects": 2, "categories": 0}));
        assert_eq!(value_of(app, host, "cleared").await, json!(null));
        assert_eq!(value_of(app, host, "kept").await, json!(other));
    }

    async fn on_delete_is_for_references_to_known_types(app) {
        let field = |kind: &str, types: Value, word: &str| {
            json!({"type": kind, "name": format!("{kind}-{word}"), "label": "L", "ref_types": types, "on_delete": word})
        };
        let body = |fields: Value| json!({"name": "kind", "author_id": 1, "fields": fields});
        let wrong = json!([field("text", json!([]), "clear"), field("ref", json!([]), "refuse"), field("ref", json!([1]), "cascade"),
            field("text", json!([]), "keep")]);
        let answer = app.post("/types/", &body(wrong)).await;
        answer.error(400, "validation_failed");
        assert_eq!(answer.pointers(), ["/fields/2/on_delete", "/fields/0/on_delete", "/fields/1/on_delete"]);
        let right = app.post("/types/", &body(json!([field("ref", json!([1]), "clear")]))).await;
        assert_eq!(right.json()["raw"]["fields"][0]["on_delete"], "clear", "{}", right.text);
    }

    async fn a_field_that_clears_decides_for_objects_that_the_caller_may_not_change(app) {
        let (rack, server) = racks_and_servers(app, "clear").await;
        let target = app.create_object(rack, &json!({})).await;
        let in_it = app.create_object(server, &json!({"hostname": "hidden", "rack": target})).await;
        let person = Person::with_rights(app, "mover", &["base.framework.object.*"]).await;
        set_acl(app, server, json!({"1": ["READ"]})).await;
        let gone = person.delete(app, &format!("/objects/{target}")).await;
        assert_eq!((gone.status.as_u16(), warnings(&gone)), (200, vec![]), "{}", gone.text);
        assert_eq!(value_of(app, in_it, "rack").await, json!(null));
        // What only the request wants needs the permission.
        let target = app.create_object(rack, &json!({})).await;
        set_acl(app, server, json!({"1": ["CREATE", "READ"]})).await;
        app.create_object(server, &json!({"spare": target})).await;
        person.delete(app, &format!("/objects/{target}?on_references=clear")).await.error(403, "acl_denied");
        let gone = person.delete(app, &format!("/objects/{target}")).await;
        assert_eq!((gone.status.as_u16(), warnings(&gone)), (200, vec![]), "hidden objects are not counted");
    }

    async fn references_to_a_deleted_object_are_still_listed(app) {
        let (rack, server) = racks_and_servers(app, "keep").await;
        let target = app.create_object(rack, &json!({})).await;
        let in_it = app.create_object(server, &json!({"rack": target})).await;
        let path = format!("/objects/{target}/references");
        assert_eq!(app.delete(&format!("/objects/{target}")).await.status, 200);
        assert_eq!(app.get(&path).await.results("/public_id"), [json!(in_it)]);
        app.get(&format!("/objects/{}/references", in_it + 1)).await.error(404, "object_not_found");
        let person = Person::with_rights(app, "reader", &["base.framework.object.view"]).await;
        assert_eq!(person.get(app, &path).await.results("/public_id"), [json!(in_it)]);
        set_acl(app, rack, json!({"1": ["READ", "CREATE"]})).await;
        person.get(app, &path).await.error(404, "object_not_found");
    }

    async fn references_that_lead_nowhere_are_listed_page_by_page(app) {
        let (rack, server) = racks_and_servers(app, "keep").await;
        let target = app.create_object(rack, &json!({})).await;
        let there = app.create_object(rack, &json!({})).await;
        let mut lost = Vec::new();
        for number in 0..5 {
            let spare = if number == 2 { target } else { there };
            let id = app.create_object(server, &json!({"rack": if number == 4 { there } else { target }, "spare": spare})).await;
            lost.extend((number != 4).then(|| json!({"public_id": id, "type_id": server, "field": "rack", "reference": target})));
            lost.extend((number == 2).then(|| json!({"public_id": id, "type_id": server, "field": "spare", "reference": target})));
        }
        let list = |page: Answer| page.json()["results"].as_array().expect("a list").clone();
        assert_eq!(list(app.get("/objects/dangling/").await), Vec::<Value>::new(), "all of them are there");
        app.delete(&format!("/objects/{target}")).await;
        assert_eq!(list(app.get("/objects/dangling/").await), lost);
        assert_eq!(list(app.get(&format!("/objects/dangling/?type_id={server}")).await), lost);
        assert_eq!(list(app.get(&format!("/objects/dangling/?type_id={rack}")).await), Vec::<Value>::new());
        app.get("/objects/dangling/?type_id=77").await.error(404, "type_not_found");
        for wrong in ["limit=0", "limit=1001", "after=7", "after=1-", "after=-1-2", "page=2"] {
            app.get(&format!("/objects/dangling/?{wrong}")).await.error(400, "parameter_invalid");
        }
        let (mut found, mut path, mut pages) = (Vec::new(), "/objects/dangling/?limit=2".to_owned(), 0);
        loop {
            let page = app.get(&path).await.json();
            found.extend(page["results"].as_array().expect("a list").clone());
            pages += 1;
            let Some(next) = page["next"].as_str() else { break };
            path = format!("/objects/dangling/?limit=2&after={next}");
        }
        assert_eq!((found, pages), (lost, 3), "the third page is empty or has the rest");
    }

    async fn a_reference_to_a_hidden_object_is_told_from_none_neither_here_nor_there(app) {
        let hidden = app.create_type("hidden", &[]).await;
        let open = app.create_type("open", &[]).await;
        let kind = json!({"name": "kind", "author_id": 1, "fields": [
            {"type": "ref", "name": "mixed", "label": "M", "ref_types": [hidden, open]},
            {"type": "ref", "name": "any", "label": "A"},
            {"type": "ref", "name": "open", "label": "O", "ref_types": [open]},
        ]});
        let kind = app.created("/types/", &kind).await;
        let there = app.create_object(hidden, &json!({})).await;
        let (gone, lost) = (app.create_object(hidden, &json!({})).await, app.create_object(open, &json!({})).await);
        for to in [there, gone] {
            app.create_object(kind, &json!({"mixed": to, "any": to, "open": lost})).await;
        }
        app.delete(&format!("/objects/{gone},{lost}")).await;
        let fields_of = |answer: Answer| answer.results("/field");
        assert_eq!(fields_of(app.get("/objects/dangling/").await), ["open", "mixed", "any", "open"]);
        let person = Person::with_rights(app, "reader", &["base.framework.object.view"]).await;
        set_acl(app, hidden, json!({"1": ["READ"]})).await;
        assert_eq!(fields_of(person.get(app, "/objects/dangling/").await), ["open", "open"]);
        set_acl(app, kind, json!({"1": ["READ"]})).await;
        assert_eq!(fields_of(person.get(app, "/objects/dangling/").await), [""; 0]);
    }

    async fn a_graph_goes_so_far_and_in_the_directions_that_are_asked_for(app) {
        // 1 <- 2 <- 3 <- 4 and 3 -> 1; 4 -> 4.
        let node = json!({"name": "node", "author_id": 1, "fields": [
            {"type": "text", "name": "name", "label": "Name"},
            {"type": "ref", "name": "to", "label": "To", "ref_types": [1]},
            {"type": "ref", "name": "also", "label": "Also", "ref_types": [1]},
        ], "render_meta": {"summary": {"fields": ["name"]}}});
        let node = app.created("/types/", &node).await;
        for (name, to, also) in [("a", None, None), ("b", Some(1), None), ("c", Some(2), Some(1)), ("d", Some(3), None)] {
            app.create_object(node, &json!({"name": name, "to": to, "also": also})).await;
        }
        app.patch("/objects/4", &json!({"fields": {"also": 4}})).await;
        let graph = async |query: &str| {
            let graph = app.get(&format!("/objects/{query}")).await.json();
            (ids(&graph["nodes"], "public_id"), ids(&graph["nodes"], "depth"), graph["edges"].as_array().expect("edges").len(), graph["truncated"].clone())
        };
        let whole = app.get("/objects/2/graph?depth=8").await.json();
        assert_eq!(whole["nodes"][0], json!({"public_id": 2, "type_id": node, "type_label": "Node", "summary_line": "b", "depth": 0}));
        assert_eq!((ids(&whole["nodes"], "public_id"), whole["edges"].as_array().expect("edges").len()), (vec![2, 1, 3, 4], 5));
        assert!(whole["edges"].as_array().expect("edges").contains(&json!({"from": 3, "to": 1, "field": "also"})), "{whole}");
        assert_eq!(graph("4/graph?direction=out&depth=1").await, (vec![4, 3], vec![0, 1], 2, json!([3])));
        assert_eq!(graph("4/graph?direction=out&depth=2").await, (vec![4, 3, 1, 2], vec![0, 1, 2, 2], 5, json!([])));
        assert_eq!(graph("1/graph?direction=in&depth=1").await, (vec![1, 2, 3], vec![0, 1, 1], 3, json!([3])));
        assert_eq!(graph("1/graph?direction=out&depth=8").await, (vec![1], vec![0], 0, json!([])));
        assert_eq!(graph("2/graph?depth=1&max_nodes=2").await.3, json!([2, 1]), "both have neighbours that are not shown");
        assert_eq!(graph("2/graph?max_nodes=1").await, (vec![2], vec![0], 0, json!([2])));
        assert_eq!(graph("2/graph?types=77").await, (vec![2], vec![0], 0, json!([])));
        assert_eq!(graph(&format!("2/graph?depth=8&types={node},77")).await.0, [2, 1, 3, 4]);
        app.get("/objects/99/graph").await.error(404, "object_not_found");
        for wrong in ["direction=up", "depth=0", "depth=9", "types=a", "types=", "max_nodes=1001", "format=svg", "limit=3"] {
            app.get(&format!("/objects/1/graph?{wrong}")).await.error(400, "parameter_invalid");
        }
    }

    async fn a_graph_is_written_for_programs_that_draw(app) {
        let (rack, server) = racks_and_servers(app, "keep").await;
        let target = app.create_object(rack, &json!({"name": "r1"})).await;
        app.create_object(server, &json!({"hostname": "a \"<b>\"\\", "rack": target})).await;
        let written = async |format: &str| {
            let answer = app.get(&format!("/objects/{target}/graph?format={format}")).await;
            (answer.header("content-type").to_owned(), answer.text)
        };
        let (media_type, text) = written("dot").await;
        assert_eq!(media_type, "text/vnd.graphviz; charset=utf-8");
        assert!(text.contains("\"2\" [label=\"a \\\"<b>\\\"\\\\\\nServer\"];") && text.contains("\"2\" -> \"1\" [label=\"rack\"];"), "{text}");
        let (media_type, text) = written("mermaid").await;
        assert_eq!(media_type, "text/plain; charset=utf-8");
        assert!(text.starts_with("flowchart LR\n") && text.contains("n2 -->|\"rack\"| n1"), "{text}");
        let (media_type, text) = written("graphml").await;
        assert_eq!(media_type, "application/graphml+xml");
        assert!(text.contains("<data key=\"summary_line\">a &quot;&lt;b&gt;&quot;\\</data>"), "{text}");
    }

    async fn a_graph_has_neither_hidden_objects_nor_what_is_behind_them(app) {
        let (rack, server) = racks_and_servers(app, "keep").await;
        let target = app.create_object(rack, &json!({})).await;
        let other = app.create_object(rack, &json!({})).await;
        app.create_object(server, &json!({"rack": target, "spare": other})).await;
        let person = Person::with_rights(app, "reader", &["base.framework.object.view"]).await;
        let path = format!("/objects/{target}/graph?depth=2");
        assert_eq!(ids(&person.get(app, &path).await.json()["nodes"], "public_id").len(), 3);
        set_acl(app, server, json!({"1": ["READ"]})).await;
        for path in [path, format!("/objects/{target}/graph?depth=1&max_nodes=1")] {
            let graph = person.get(app, &path).await.json();
            assert_eq!((ids(&graph["nodes"], "public_id"), &graph["edges"], &graph["truncated"]), (vec![target], &json!([]), &json!([])));
        }
    }

    async fn a_large_neighbourhood_is_cut_and_says_where(app) {
        let (rack, server) = racks_and_servers(app, "keep").await;
        let target = app.create_object(rack, &json!({})).await;
        let body = json!({"type_id": server, "author_id": 1, "fields": fields(&json!({"rack": target}))});
        assert_eq!(app.post("/objects/bulk", &json!(vec![body; 1200])).await.status, 200);
        let graph = app.get(&format!("/objects/{target}/graph?max_nodes=1000")).await.json();
        let (nodes, edges) = (graph["nodes"].as_array().expect("nodes"), graph["edges"].as_array().expect("edges"));
        assert_eq!((nodes.len(), edges.len(), &graph["truncated"]), (1000, 999, &json!([target])));
        let few = app.get(&format!("/objects/{target}/graph")).await.json();
        assert_eq!(few["nodes"].as_array().expect("nodes").len(), 200);
        assert!(few["truncated"].as_array().expect("ids").contains(&json!(target)));
        let head = app.request(Method::HEAD, &format!("/objects/{target}/graph"));
        assert_eq!(crate::support::app::send(head).await.status, 200);
    }
}
