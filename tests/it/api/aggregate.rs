//! `POST /objects/aggregate`: pipelines on objects.

use inventory_service::exchange::locale::Locale;
use inventory_service::exchange::sheet;
use reqwest::Method;
use serde_json::{Value, json};

use super::people::Person;
use crate::support::app::{Answer, TestApp, on_each_store};

/// Three racks and a room.
async fn racks(app: &TestApp) -> (i64, i64) {
    let rack = app.create_type("rack", &[("hostname", "text"), ("units", "number")]).await;
    let room = app.create_type("room", &[("hostname", "text")]).await;
    for (name, units) in [("web-1", 3), ("web-2", 1), ("db-1", 2)] {
        app.create_object(rack, &json!({"hostname": name, "units": units})).await;
    }
    app.create_object(room, &json!({"hostname": "web-room"})).await;
    (rack, room)
}

async fn aggregate(app: &TestApp, pipeline: Value) -> Answer {
    app.post("/objects/aggregate", &json!({"pipeline": pipeline})).await
}

async fn results(app: &TestApp, pipeline: Value) -> Value {
    let answer = aggregate(app, pipeline).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let mut body = answer.json();
    assert_eq!(body["count"].as_u64(), body["results"].as_array().map(|all| all.len() as u64));
    body["results"].take()
}

on_each_store! {
    async fn objects_are_grouped_and_counted(app) {
        let (rack, room) = racks(app).await;
        let grouped = json!([{"$group": {"_id": "$type_id", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]);
        assert_eq!(results(app, grouped).await, json!([{"_id": rack, "n": 3}, {"_id": room, "n": 1}]));
        assert_eq!(results(app, json!([{"$match": {"type_id": rack}}, {"$count": "n"}])).await, json!([{"n": 3}]));
        assert_eq!(results(app, json!([{"$match": {"type_id": -1}}])).await, json!([]));
    }

    async fn objects_enter_as_native_reads_show_them(app) {
        racks(app).await;
        let native = app.get("/objects/1/native").await.json();
        assert_eq!(results(app, json!([{"$match": {"public_id": 1}}])).await, json!([native]));
        let seen = json!([{"$match": {"public_id": 1}}, {"$project": {"_id": 1, "public_id": 1, "t": {"$type": "$_id"}}}]);
        assert_eq!(results(app, seen).await, json!([{"public_id": 1, "t": "missing"}]));
    }

    async fn objects_are_joined_by_their_fields(app) {
        let rack = app.create_type("rack", &[("hostname", "text")]).await;
        let server = app.create_type("server", &[("hostname", "text"), ("rack", "ref")]).await;
        let first = app.create_object(rack, &json!({"hostname": "r1"})).await;
        let web = app.create_object(server, &json!({"hostname": "web-1", "rack": first})).await;
        app.create_object(server, &json!({"hostname": "web-2"})).await;
        let by = |here: &str, there: &str| json!({"$lookup": {
            "from": "framework.objects", "localField": here, "foreignField": there, "as": "found",
        }});
        let shown = json!({"$project": {"_id": 0, "public_id": 1, "found": "$found.public_id"}});
        let one = json!({"$match": {"public_id": web}});
        let joined = json!([one, by("f.rack", "public_id"), shown]);
        assert_eq!(results(app, joined).await, json!([{"public_id": web, "found": [first]}]));
        // What the service keeps meanwhile does not show, and an object without the field finds what has none.
        let whole = results(app, json!([{"$match": {"f.hostname": "web-2"}}, by("f.rack", "type_id")])).await;
        assert_eq!((&whole[0]["found"], whole[0].get("_joined_by_field")), (&json!([]), None));
        let listed = json!([one, by("f.rack", "public_id")]).to_string();
        let listed = app.get_with("/objects/", &[("filter", &listed)]).await;
        assert_eq!(listed.results("/found/0/public_id"), [first]);
        // The other way round is refused with what finds it.
        let refused = aggregate(app, json!([by("public_id", "f.rack")])).await.error(400, "query_2");
        assert_eq!(refused["errors"][0]["pointer"], "/0/$lookup/foreignField");
        let message = refused["message"].as_str().expect("a text");
        let (_, written) = message.split_once("; write ").expect("a remedy");
        let mut lookup = json!({"from": "framework.objects", "localField": "public_id", "as": "found"});
        let written: Value = serde_json::from_str(&format!("{{{written}}}")).expect("members in JSON");
        lookup.as_object_mut().expect("an object").extend(written.as_object().expect("an object").clone());
        let found = json!([{"$match": {"public_id": first}}, {"$lookup": lookup}, shown]);
        assert_eq!(results(app, found).await, json!([{"public_id": first, "found": [web]}]));
        aggregate(app, json!([by("f.rak", "public_id")])).await.error(400, "query_2");
        aggregate(app, json!([by("public_id", "f.rak")])).await.error(400, "query_2");
    }

    async fn stages_that_would_change_a_field_are_refused_with_what_to_write(app) {
        racks(app).await;
        for (stage, pointer, said) in [
            (json!({"$unwind": "$f.hostname"}), "/0/$unwind", r#"write {"$set": {"values": "$f.hostname"}}, {"$unwind": "$values"}"#),
            (json!({"$unwind": {"path": "$f.hostname"}}), "/0/$unwind/path", r#"{"$unwind": "$values"}"#),
            (json!({"$unwind": {"path": "$fields", "includeArrayIndex": "f.n"}}), "/0/$unwind/f.n", "use a name without f."),
            (json!({"$set": {"f.hostname": "x"}}), "/0/$set/f.hostname", "use a name without f., for instance hostname"),
            (json!({"$addFields": {"f.hostname": "x"}}), "/0/$addFields/f.hostname", "changes no field"),
            (json!({"$unset": "f.hostname.x"}), "/0/$unset", "whole fields only"),
            (json!({"$unset": ["public_id", "f.hostnam"]}), "/0/$unset", "did you mean hostname"),
        ] {
            let error = aggregate(app, json!([stage])).await.error(400, "query_2");
            assert_eq!(error["errors"][0]["pointer"], pointer, "{stage}: {error}");
            assert!(error["message"].as_str().is_some_and(|message| message.contains(said)), "{stage}: {error}");
        }
    }

    async fn a_field_is_unset_by_its_name(app) {
        racks(app).await;
        let one = json!({"$match": {"public_id": 1}});
        let shown = json!({"$project": {"_id": 0, "public_id": 1, "fields": 1}});
        let left = results(app, json!([one, {"$unset": "f.hostname"}, shown])).await;
        assert_eq!(left, json!([{"public_id": 1, "fields": [{"name": "units", "value": 3}]}]));
        let left = results(app, json!([one, {"$unset": ["f.hostname", "public_id"]}, shown])).await;
        assert_eq!(left, json!([{"fields": [{"name": "units", "value": 3}]}]));
    }

    async fn a_bare_array_is_told_what_to_send(app) {
        let refused = app.post("/objects/aggregate", &json!([{"$count": "n"}])).await.error(400, "json_malformed");
        let message = refused["message"].as_str().expect("a text");
        assert!(message.ends_with(r#"it is an array; send {"pipeline": [...]}"#), "{message}");
    }

    async fn fields_are_meant_by_their_names(app) {
        let (rack, _) = racks(app).await;
        let sorted = json!([
            {"$match": {"f.units": {"$gt": 1}}}, {"$sort": {"f.units": -1}}, {"$project": {"f.hostname": 1, "public_id": 1}},
        ]);
        let expected = json!([
            {"public_id": 1, "fields": [{"name": "hostname", "value": "web-1"}]},
            {"public_id": 3, "fields": [{"name": "hostname", "value": "db-1"}]},
        ]);
        assert_eq!(results(app, sorted).await, expected);
        let summed = json!([{"$match": {"type_id": rack}}, {"$group": {"_id": null, "units": {"$sum": "$f.units"}}}]);
        assert_eq!(results(app, summed).await, json!([{"_id": null, "units": 6}]));
        aggregate(app, json!([{"$match": {"f.unit": 1}}])).await.error(400, "query_2");
    }

    async fn types_are_looked_up(app) {
        let (rack, _) = racks(app).await;
        let pipeline = json!([
            {"$match": {"type_id": rack}}, {"$sort": {"public_id": 1}}, {"$limit": 1},
            {"$lookup": {"from": "framework.types", "localField": "type_id", "foreignField": "public_id", "as": "type"}},
            {"$project": {"public_id": 1, "type": {"$map": {"input": "$type", "in": ["$$this.name", {"$type": "$$this._id"}]}}}},
        ]);
        assert_eq!(results(app, pipeline).await, json!([{"public_id": 1, "type": [["rack", "missing"]]}]));
    }

    async fn what_is_not_offered_is_refused_with_its_place(app) {
        racks(app).await;
        for (pipeline, code, pointer) in [
            (json!([{"$limit": 1}, {"$out": "x"}]), "query_224", "/1/$out"),
            (json!([{"$merge": "x"}]), "query_224", "/0/$merge"),
            (json!([{"$set": {"a": {"$function": {"body": "x", "args": [], "lang": "js"}}}}]), "query_224", "/0/$set/a/$function"),
            (json!([{"$grop": {}}]), "query_40324", "/0/$grop"),
            (json!([{"$facet": {"a": [{"$match": {"b": {"$foo": 1}}}]}}]), "query_2", "/0/$facet/a/0/$match/b/$foo"),
            (json!([{"$match": {"$where": "true"}}]), "query_224", "/0/$match/$where"),
            // Harmless to every server: what is unwound is a number.
            (
                json!([{"$set": {"a": {"b": 1}}}, {"$unwind": {"path": "$a.b", "includeArrayIndex": "a"}}]),
                "query_224", "/1/$unwind/includeArrayIndex",
            ),
            (
                json!([{"$lookup": {"from": "framework.types", "as": "t", "pipeline": [{"$set": {"a": {"b": {"c": 1}}}}, {"$unwind": {"path": "$a.b.c", "includeArrayIndex": "a.b"}}]}}]),
                "query_224", "/0/$lookup/pipeline/1/$unwind/includeArrayIndex",
            ),
        ] {
            let answer = aggregate(app, pipeline.clone()).await;
            answer.error(400, code);
            assert_eq!(answer.pointers(), [pointer], "{pipeline}");
        }
        let fields = json!([{"$unwind": {"path": "$fields", "includeArrayIndex": "fields"}}, {"$limit": 1}, {"$project": {"fields": 1}}]);
        assert_eq!(results(app, fields).await, json!([{"fields": 0}]));
        aggregate(app, json!([{"$unionWith": "management.users"}])).await.error(400, "query_13");
        aggregate(app, json!([{"$lookup": {"from": "service.keys", "pipeline": [], "as": "x"}}])).await.error(400, "query_13");
        aggregate(app, json!({"$match": {}})).await.error(400, "parameter_invalid");
        app.post("/objects/aggregate", &json!({"pipeline": [], "x": 1})).await.error(400, "parameter_invalid");
        app.post("/objects/aggregate", &json!({})).await.error(400, "parameter_invalid");
    }

    async fn more_results_than_a_page_takes_are_refused(app) {
        racks(app).await;
        let many = json!([{"$limit": 1}, {"$set": {"n": {"$range": [0, 100_000]}}}, {"$unwind": "$n"}, {"$project": {"n": 1}}]);
        let error = aggregate(app, many).await.error(400, "parameter_invalid");
        assert!(error["message"].as_str().expect("a message").contains("$limit"), "{error}");
    }

    async fn what_an_access_list_hides_stays_hidden(app) {
        let (rack, room) = racks(app).await;
        let caller = Person::with_rights(app, "outsider", &["base.framework.object.view", "base.framework.type.view"]).await;
        let acl = json!({"acl": {"activated": true, "groups": {"includes": {"1": ["READ"]}}}});
        assert_eq!(app.patch(&format!("/types/{rack}"), &acl).await.status, 202);
        let fails = json!({"$divide": [1, {"$subtract": ["$type_id", rack]}]});
        for (pipeline, expected) in [
            (json!([{"$count": "n"}]), json!([{"n": 1}])),
            (json!([{"$match": {"$expr": {"$gt": [fails, 0]}}}, {"$count": "n"}]), json!([{"n": 1}])),
            (json!([{"$group": {"_id": fails, "n": {"$sum": 1}}}]), json!([{"_id": 1.0, "n": 1}])),
            (json!([{"$unionWith": "framework.objects"}, {"$count": "n"}]), json!([{"n": 2}])),
            (
                json!([
                    {"$lookup": {"from": "framework.objects", "let": {}, "pipeline": [{"$match": {"$expr": {"$gt": [fails, 0]}}}], "as": "all"}},
                    {"$project": {"all.type_id": 1}},
                ]),
                json!([{"all": [{"type_id": room}]}]),
            ),
        ] {
            let answer = caller.send(app, Method::POST, "/objects/aggregate", &json!({"pipeline": pipeline})).await;
            assert_eq!(answer.status, 200, "{pipeline}: {}", answer.text);
            assert_eq!(answer.json()["results"], expected, "{pipeline}");
        }
        let beyond = json!({"pipeline": [{"$unionWith": "framework.categories"}]});
        caller.send(app, Method::POST, "/objects/aggregate", &beyond).await.error(400, "query_13");
    }

    async fn results_are_a_table_with_a_column_for_each_member(app) {
        let (rack, room) = racks(app).await;
        let grouped = json!({"pipeline": [
            {"$group": {"_id": {"type": "$type_id", "active": "$active"}, "n": {"$sum": 1}}},
            {"$set": {"=note": {"$cond": [{"$gt": ["$n", 1]}, ["many", 2], "$$REMOVE"]}}},
            {"$sort": {"_id.type": 1}},
        ]});
        let answer = app.post("/objects/aggregate?format=csv&delimiter=semicolon&quoting=necessary", &grouped).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_eq!(answer.headers["content-disposition"], "attachment; filename=\"results.csv\"");
        let expected = format!("_id.type;_id.active;n;'=note\n{rack};true;3;\"[\"\"many\"\",2]\"\n{room};true;1;\n");
        assert_eq!(answer.text, expected);
        let request = app.request(Method::POST, "/objects/aggregate?format=xlsx").json(&grouped);
        let bytes = request.send().await.expect("an answer").bytes().await.expect("a file");
        let table = sheet::read(&bytes, None, &Locale::default(), &|_| true).expect("a table");
        assert_eq!(table.header[..3], ["_id.type", "_id.active", "n"]);
        assert_eq!(table.rows[1].1.iter().collect::<Vec<_>>(), [&*room.to_string(), "true", "1", ""]);
        let empty = json!({"pipeline": [{"$match": {"type_id": -1}}]});
        let none = app.post("/objects/aggregate?format=csv", &empty).await;
        assert_eq!((none.status.as_u16(), none.text.as_str()), (200, ""));
        // Names of members grow with the pipeline, and their paths must not.
        let long = json!({"$reduce": {"input": {"$range": [0, 18]}, "initialValue": "n", "in": {"$concat": ["$$value", "$$value"]}}});
        let many = json!({"$map": {"input": {"$range": [0, 100]}, "in": {"k": {"$toString": "$$this"}, "v": 1}}});
        let named = json!({"$arrayToObject": [[{"k": long, "v": {"$arrayToObject": many}}]]});
        let wide = json!({"pipeline": [{"$limit": 1}, {"$replaceWith": named}]});
        app.post("/objects/aggregate?format=csv", &wide).await.error(400, "export_does_not_fit");
        let same = json!({"pipeline": [{"$limit": 1}, {"$replaceWith": {"$literal": {"a": {"b": 1}, "a.b": 2}}}]});
        app.post("/objects/aggregate?format=csv", &same).await.error(400, "export_does_not_fit");
        assert_eq!(app.post("/objects/aggregate?format=xlsx", &empty).await.status, 200);
        app.post("/objects/aggregate?format=xlsx&bom=true", &empty).await.error(400, "parameter_invalid");
    }
}
