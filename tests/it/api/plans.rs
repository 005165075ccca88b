//! Plans of changes of types: docs/api.md, Plans.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use super::migrations::{field, with};
use super::people::Person;
use crate::differential::random::Random;
use crate::support::app::{Answer, TestApp, on_each_store, send};

/// The plan of a patch.
async fn plan(app: &TestApp, id: i64, patch: &Value) -> Value {
    let answer = app.patch(&format!("/types/{id}?dry_run=true"), patch).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()["result"].clone()
}

/// The differences as change, name, class and number of objects.
fn differences(plan: &Value) -> Vec<Value> {
    let all = plan["differences"].as_array().expect("a list").iter();
    all.map(|it| json!([it["change"], it["name"], it["class"], it["objects"]])).collect()
}

/// A field by chance. `racks` and `rooms` are types that it may refer to.
fn any_field(random: &mut Random, name: &str, (racks, rooms): (i64, i64)) -> Value {
    let kinds = ["text", "textarea", "select", "number", "checkbox", "date", "ref", "json", "password", "email"];
    let kind = *random.pick(&kinds);
    let mut made = field(kind, name);
    if random.below(3) == 0 {
        made["required"] = true.into();
        if random.below(3) == 0 && kind == "number" {
            made["value"] = "7".into();
        }
    }
    match kind {
        "text" | "textarea" | "password" if random.below(2) == 0 => {
            made["regex"] = (*random.pick(&["[a-z]+", "[0-9]*", "a|b|", "\\d{4}-.*"])).into();
        }
        "select" => {
            made["options"] =
                json!([{"name": random.pick(&["a", "b", "12"]), "label": "one"}, {"name": "", "label": "none"}]);
        }
        "ref" => {
            made["ref_types"] =
                random.pick(&[json!([racks]), json!([rooms]), json!([racks, rooms]), json!([])]).clone();
        }
        _ => {}
    }
    made
}

/// The ids that a plan names, by whether a rule of this name is counted.
fn named(plan: &Value, counts: impl Fn(&str) -> bool) -> BTreeSet<i64> {
    let all =
        plan["differences"].as_array().expect("a list").iter().flat_map(|it| it["misfits"].as_array().expect("a list"));
    let all = all.chain(plan["misfits"].as_array().expect("a list"));
    let counted = all.filter(|group| counts(group["rule"].as_str().expect("a rule")));
    counted
        .flat_map(|group| group["first"].as_array().expect("a list"))
        .filter_map(|it| it["public_id"].as_i64())
        .collect()
}

on_each_store! {
    async fn a_plan_says_what_a_change_would_do_and_changes_nothing(app) {
        let rack = app.create_type("rack", &[("name", "text")]).await;
        let fields = json!([field("text", "host"), field("text", "size"), with(field("ref", "rack"), "ref_types", json!([rack]))]);
        let id = app.created("/types/", &json!({"name": "server", "author_id": 1, "fields": fields})).await;
        let place = app.create_object(rack, &json!({"name": "r1"})).await;
        let one = app.create_object(id, &json!({"host": "web-1", "size": "12", "rack": place})).await;
        let two = app.create_object(id, &json!({"host": "web-2", "size": "big"})).await;
        let summaries = json!([{"type_id": id, "line": "{}", "label": "S", "fields": ["size"], "icon": "i"}]);
        let reference = with(with(field("ref", "server"), "ref_types", json!([id])), "summaries", summaries);
        let disk = app.created("/types/", &json!({"name": "disk", "author_id": 1, "fields": [reference]})).await;
        let webhook = json!({"name": "hook", "url": "https://hooks.example.org/", "resources": ["objects"], "filter": "{\"f.size\": \"12\"}"});
        let webhook = app.created("/webhooks/", &webhook).await;
        let before = app.get(&format!("/types/{id}")).await;

        let patch = json!({"label": "Servers", "fields": [
            with(field("text", "hostname"), "label", json!("host")), with(field("number", "size"), "required", json!(true)),
            with(field("ref", "rack"), "ref_types", json!([disk])),
        ]});
        let plan_of = plan(app, id, &patch).await;
        let expected = [
            json!(["label", null, "allowed", 0]), json!(["field_removed", "host", "needs_migration", 2]),
            json!(["field_added", "hostname", "needs_check", 0]), json!(["kind", "size", "needs_migration", 2]),
            json!(["required", "size", "needs_check", 0]), json!(["ref_types", "rack", "needs_check", 1]),
        ];
        assert_eq!(differences(&plan_of), expected, "{plan_of}");
        assert_eq!((&plan_of["class"], &plan_of["objects"]), (&json!("needs_migration"), &json!({"total": 2, "unfit": 2})));
        let all = &plan_of["differences"];
        assert_eq!(all[1]["may_be_renamed_to"], "hostname");
        assert_eq!(all[1]["misfits"][0]["first"][0], json!({"public_id": one, "value": "web-1", "reason": "the type has no such field"}));
        let of_size = json!([{"field": "size", "rule": "kind", "objects": 2, "first": [
            {"public_id": one, "value": "12", "reason": "must be a number or null"},
            {"public_id": two, "value": "big", "reason": "must be a number or null"}]}]);
        assert_eq!(all[3]["misfits"], of_size);
        let dependents = json!([
            {"resource": "types", "public_id": disk, "place": "summaries", "name": "server"},
            {"resource": "webhooks", "public_id": webhook, "place": "filter", "name": "hook"},
        ]);
        assert_eq!(all[3]["dependents"], dependents);
        let reason = format!("object {place} is of none of the types [{disk}]");
        assert_eq!(all[5]["misfits"][0]["first"], json!([{"public_id": one, "value": place, "reason": reason}]));
        let after = app.get(&format!("/types/{id}")).await;
        assert_eq!((after.header("etag"), after.json()["result"].clone()), (before.header("etag"), before.json()["result"].clone()));
        assert_eq!(app.get(&format!("/types/{id}/history")).await.json()["total"], 1);
    }

    async fn a_plan_compares_the_new_type_with_what_is_stored_whatever_the_old_one_said(app) {
        let id = app.create_type("server", &[("size", "text"), ("name", "text")]).await;
        let odd = app.create_object(id, &json!({"size": "big", "name": "a"})).await;
        // The field goes, and comes back as another one.
        assert_eq!(app.patch(&format!("/types/{id}"), &json!({"fields": [field("text", "name")]})).await.status, 202);
        let back = plan(app, id, &json!({"fields": [field("text", "name"), field("number", "size")]})).await;
        assert_eq!(differences(&back), [json!(["field_added", "size", "needs_check", 1])], "{back}");
        assert_eq!(back["differences"][0]["misfits"][0]["first"][0]["public_id"], odd);
        // Nothing differs, and the object has a field that the type has lost.
        let same = plan(app, id, &json!({})).await;
        assert_eq!((&same["class"], &same["differences"]), (&json!("allowed"), &json!([])));
        assert_eq!((&same["misfits"][0]["rule"], &same["misfits"][0]["objects"]), (&json!("unknown"), &json!(1)), "{same}");
    }

    async fn a_plan_is_refused_as_the_change_would_be(app) {
        app.create_type("rack", &[]).await;
        let id = app.create_type("server", &[]).await;
        let path = format!("/types/{id}?dry_run=true");
        app.put(&path, &json!({"name": "server"})).await.error(400, "validation_failed");
        app.patch(&path, &json!([])).await.error(400, "patch_not_an_object");
        app.patch("/types/99?dry_run=true", &json!({})).await.error(404, "type_not_found");
        app.patch(&format!("/types/{id}?dry_run=perhaps"), &json!({})).await.error(400, "parameter_invalid");
        app.patch(&format!("/types/{id}?dry=true"), &json!({})).await.error(400, "parameter_invalid");
        let request = app.request(Method::PATCH, &path).header("If-Match", "\"other\"").json(&json!({}));
        send(request).await.error(412, "precondition_failed");
        // A taken name is a part of the plan.
        let taken = plan(app, id, &json!({"name": "rack", "label": "Racks"})).await;
        assert_eq!(taken["class"], "refused");
        assert_eq!(taken["differences"][0]["reason"], "another type has the same name; choose another one");
        app.patch(&format!("/types/{id}"), &json!({"name": "rack"})).await.error(400, "type_name_taken");
    }

    async fn a_plan_names_no_object_that_is_hidden_and_no_password(app) {
        let fields = json!([field("password", "pin"), field("text", "name")]);
        let id = app.created("/types/", &json!({"name": "vault", "author_id": 1, "fields": fields})).await;
        app.create_object(id, &json!({"pin": "1234", "name": "a"})).await;
        let seen = plan(app, id, &json!({"fields": [field("number", "pin")]})).await;
        assert_eq!(seen["differences"][1]["misfits"][0]["first"][0]["value"], "********", "{seen}");
        let gone = plan(app, id, &json!({"fields": []})).await;
        assert!(!gone.to_string().contains("1234"), "{gone}");
        let rights = ["base.framework.type.edit", "base.framework.object.view"];
        let person = Person::with_rights(app, "editor", &rights).await;
        let acl = json!({"activated": true, "groups": {"includes": {"1": ["READ", "CREATE"]}}});
        assert_eq!(app.patch(&format!("/types/{id}"), &json!({"acl": acl})).await.status, 202);
        let told = async |person: &Person| -> Answer {
            person.send(app, Method::PATCH, &format!("/types/{id}?dry_run=true"), &json!({"fields": []})).await
        };
        let hidden = told(&person).await.json()["result"].clone();
        assert_eq!((&hidden["objects"], &hidden["misfits"]), (&json!(null), &json!([])), "{hidden}");
        assert_eq!(hidden["differences"][0]["objects"], json!(null));
        assert_eq!(hidden["differences"][0]["misfits"], json!([]));
        let blind = Person::with_rights(app, "blind", &["base.framework.type.edit"]).await;
        assert_eq!(told(&blind).await.json()["result"], hidden);
    }

    async fn the_first_hundred_are_named_and_all_are_counted(app) {
        let id = app.create_type("server", &[("size", "text")]).await;
        let objects: Vec<Value> = (0..130).map(|number| json!({"type_id": id, "author_id": 1, "fields": {"size": format!("n{number}")}})).collect();
        assert!(app.post("/objects/bulk", &Value::from(objects)).await.status.is_success());
        let planned = plan(app, id, &json!({"fields": [field("number", "size")]})).await;
        let group = &planned["differences"][0]["misfits"][0];
        assert_eq!((&group["objects"], group["first"].as_array().map(Vec::len)), (&json!(130), Some(100)));
        assert_eq!(planned["objects"], json!({"total": 130, "unfit": 130}));
    }

    async fn what_a_plan_names_the_new_type_refuses_and_the_rest_it_takes(app) {
        let (racks, rooms) = (app.create_type("rack", &[]).await, app.create_type("room", &[]).await);
        let (a_rack, a_room) = (app.create_object(racks, &json!({})).await, app.create_object(rooms, &json!({})).await);
        let names = ["a", "b", "c", "d"];
        let free: Vec<Value> = names.iter().map(|name| field("json", name)).collect();
        let id = app.created("/types/", &json!({"name": "thing", "author_id": 1, "fields": free})).await;
        let values = [
            json!(null), json!(""), json!("a"), json!("b"), json!("12"), json!("2026-01-31"), json!(3), json!(2.5), json!(true),
            json!({"$date": 1_700_000_000_000_i64}), json!([]), json!(["a"]), json!({"x": 1}), json!(a_rack), json!(a_room),
        ];
        let mut random = Random::new(0x5eed_0044, 0);
        let mut made: Vec<Value> = Vec::new();
        for _ in 0..40 {
            let fields: serde_json::Map<String, Value> =
                names.iter().map(|name| ((*name).to_owned(), random.pick(&values).clone())).collect();
            made.push(json!({"type_id": id, "author_id": 1, "fields": fields}));
        }
        let stored = app.post("/objects/bulk?atomic=true", &Value::from(made)).await;
        assert_eq!(stored.status, 200, "{}", stored.text);
        let all = app.get(&format!("/objects/?limit=0&filter={{\"type_id\":{id}}}")).await.json()["results"].as_array().expect("a list").clone();
        let last = all.iter().filter_map(|object| object["public_id"].as_i64()).max().expect("an id");
        for round in 0..20 {
            let mut fields: Vec<Value> = Vec::new();
            for name in names {
                if random.below(4) > 0 {
                    fields.push(any_field(&mut random, name, (racks, rooms)));
                }
            }
            if random.below(4) == 0 {
                fields.push(any_field(&mut random, "new", (racks, rooms)));
            }
            let patch = json!({"fields": fields, "enforce": "new"});
            let planned = plan(app, id, &patch).await;
            let at = format!("round {round}: {patch}");
            assert_eq!(app.patch(&format!("/types/{id}"), &patch).await.status, 202, "{at}");
            // The same plan, as nothing differs any more.
            let same = plan(app, id, &patch).await;
            assert_eq!(named(&same, |_| true), named(&planned, |_| true), "{at}");
            assert_eq!((&same["objects"], &same["differences"]), (&planned["objects"], &json!([])), "{at}");
            let refused = named(&planned, |rule| rule != "form");
            let again = all.iter().map(|object| json!({"type_id": id, "author_id": 1, "fields": object["fields"]}));
            let answer = app.post("/objects/bulk", &again.collect()).await.json();
            for (object, outcome) in all.iter().zip(answer["results"].as_array().expect("outcomes")) {
                let public_id = object["public_id"].as_i64().expect("an id");
                assert_eq!(outcome["status"] == 400, refused.contains(&public_id), "{at}, {object}: {outcome}, {planned}");
            }
            // The list of unclean objects says the same, but for references and for fields that an object lacks.
            let unclean = app.get(&format!("/objects/clean/{id}?limit=0&filter={{\"public_id\":{{\"$lte\":{last}}}}}")).await;
            let unclean: BTreeSet<i64> = unclean.results("/public_id").iter().filter_map(Value::as_i64).collect();
            let wanted: BTreeSet<&str> = fields.iter().filter_map(|field| field["name"].as_str()).collect();
            let mut expected = named(&planned, |rule| rule != "ref_types");
            let lacks_some = !wanted.iter().all(|name| names.contains(name));
            expected.extend(all.iter().filter(|_| lacks_some).filter_map(|object| object["public_id"].as_i64()));
            assert_eq!(unclean, expected, "{at}");
            let new = app.get(&format!("/objects/?limit=0&filter={{\"type_id\":{id},\"public_id\":{{\"$gt\":{last}}}}}")).await.results("/public_id");
            let gone = app.delete(&format!("/objects/?filter={{\"public_id\":{{\"$gt\":{last}}}}}&expected_count={}", new.len())).await;
            assert_eq!(gone.status, 200, "{}", gone.text);
        }
    }
}
