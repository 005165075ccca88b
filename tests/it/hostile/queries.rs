//! Filters, sorts and projections that are to break out, to guess, or to never end.

use reqwest::Method;
use serde_json::{Value, json};

use super::{assert_refused, assert_well};
use crate::support::app::{TestApp, on_each_store, send};
use crate::support::mongod::{Deployment, shared};

async fn some_objects(app: &TestApp) -> i64 {
    let of_type = app.create_type("thing", &[("text", "text"), ("secret", "password")]).await;
    for number in 0..5 {
        let values = json!({"text": format!("{}!", "a".repeat(30 + number)), "secret": "hunter2"});
        app.create_object(of_type, &values).await;
    }
    5
}

/// Code in every disguise that a filter can give it.
fn code() -> Vec<Value> {
    let mut filters = Vec::new();
    for code in [
        json!({"$where": "sleep(10000) || true"}),
        json!({"$where": {"$code": "true"}}),
        json!({"$where": {"$code": "true", "$scope": {}}}),
        json!({"$expr": {"$function": {"body": "function() { return true }", "args": [], "lang": "js"}}}),
        json!({"$expr": {"$accumulator": {"init": "function() {}", "lang": "js"}}}),
    ] {
        filters.push(json!({"$and": [{"$or": [code]}]}));
        filters.push(json!({"$nor": [code]}));
        filters.push(json!({"fields": {"$elemMatch": code}}));
        filters.push(json!({"fields": {"$not": {"$elemMatch": code}}}));
        filters
            .push(json!({"$jsonSchema": {"properties": {"a": {"enum": [1], "not": {"$where": "1"}}}, "$where": "1"}}));
        filters.push(code);
    }
    filters.push(json!({"$expr": {"$cond": [true, {"$function": {"body": "x", "args": [], "lang": "js"}}, false]}}));
    filters.push(json!({"a": {"$in": [{"$where": "1"}], "$where": "1"}}));
    filters
}

on_each_store! {
    async fn no_filter_runs_code(app) {
        let objects = some_objects(app).await;
        for filter in code() {
            let answer = app.post("/objects/query", &json!({"filter": filter})).await;
            let filter = filter.to_string();
            assert_refused(&answer, &filter);
            assert_refused(&app.get_with("/objects/", &[("filter", filter.as_str())]).await, &filter);
        }
        for projection in [
            json!({"a": {"$function": {"body": "x", "args": [], "lang": "js"}}}),
            json!({"a": {"$cond": [true, {"$function": {"body": "x", "args": [], "lang": "js"}}, 1]}}),
        ] {
            let projection = projection.to_string();
            assert_refused(&app.get_with("/objects/", &[("projection", projection.as_str())]).await, &projection);
        }
        assert_well(app, objects).await;
    }

    async fn conditions_on_elements_of_a_member_without_a_name_are_answered(app) {
        some_objects(app).await;
        // Harmless to every server: it asks for no member.
        let into = json!({"": {"$elemMatch": {"$alwaysTrue": 1}}});
        for filter in [into.clone(), json!([{"$match": into.clone()}])] {
            let found = app.get_with("/objects/", &[("filter", filter.to_string().as_str())]).await;
            assert_eq!((found.status.as_u16(), found.json()["total"].as_i64()), (200, Some(0)), "{}", found.text);
        }
        let lookup = json!({"$lookup": {"from": "framework.objects", "localField": "public_id", "foreignField": "public_id", "as": "a", "pipeline": [{"$match": into}]}});
        let stages = json!([lookup, {"$match": {"a": {"$ne": []}}}]);
        let found = app.post("/objects/aggregate", &json!({"pipeline": stages})).await;
        assert_eq!(found.status, 200, "{}", found.text);
    }

    async fn no_expression_takes_more_than_it_may(app) {
        some_objects(app).await;
        let range = |end: Value| json!({"$range": [0, end]});
        let steps = |end: i64, initial: Value, body: Value| json!({"$reduce": {"input": range(json!(end)), "initialValue": initial, "in": body}});
        // What depends on a document is not computed ahead.
        let one = json!({"$size": "$fields"});
        let many = json!({"$multiply": [1_000, one]});
        for (expression, codes) in [
            (steps(220, json!({}), json!({"a": "$$value"})), ["query_15", "query_146"]),
            (steps(220, json!({"n": one}), json!({"a": "$$value"})), ["query_15", "query_146"]),
            (steps(22, json!([one]), json!({"$concatArrays": ["$$value", "$$value"]})), ["query_146", "query_146"]),
            (steps(25, json!({"$toString": one}), json!({"$concat": ["$$value", "$$value"]})), ["query_16493", "query_146"]),
            (json!({"$map": {"input": range(many.clone()), "in": range(many)}}), ["query_146", "query_146"]),
        ] {
            let condition = json!({"$expr": {"$eq": [{"$type": expression}, "zz"]}});
            for (path, question) in [
                ("query", json!({"filter": condition})),
                ("query", json!({"filter": [{"$match": condition}]})),
                ("query", json!({"projection": {"a": expression}})),
                ("aggregate", json!({"pipeline": [{"$set": {"a": expression}}]})),
                ("aggregate", json!({"pipeline": [{"$group": {"_id": null, "a": {"$max": expression}}}]})),
                ("aggregate", json!({"pipeline": [{"$group": {"_id": expression}}]})),
                ("aggregate", json!({"pipeline": [{"$replaceWith": {"a": expression}}]})),
                ("aggregate", json!({"pipeline": [{"$redact": {"$cond": [expression, "$$KEEP", "$$PRUNE"]}}]})),
                ("aggregate", json!({"pipeline": [{"$facet": {"a": [{"$sortByCount": expression}]}}]})),
                ("aggregate", json!({"pipeline": [{"$lookup": {"from": "framework.objects", "let": {"a": expression}, "pipeline": [], "as": "b"}}]})),
            ] {
                let refused = app.post(&format!("/objects/{path}"), &question).await;
                assert_eq!(refused.status, 400, "{question}: {}", refused.text);
                let code = refused.json()["code"].clone();
                assert!(codes.iter().any(|known| code == *known), "{question}: {}", refused.text);
            }
            assert_eq!(app.get("/objects/?limit=1").await.status, 200);
        }
    }

    async fn a_result_that_nests_too_deep_is_refused_and_no_damage(app) {
        some_objects(app).await;
        let deep = vec!["a"; 90].join(".");
        let deeper = json!({"$project": {deep: "$a"}});
        let stages = json!([{"$project": {"_id": 0, "a": "$public_id"}}, deeper, deeper, deeper]);
        app.post("/objects/aggregate", &json!({"pipeline": stages})).await.error(400, "query_15");
        let around = (0..17).fold(json!("$a"), |inner, _| json!([inner]));
        let mut stages = vec![json!({"$project": {"_id": 0, "a": "$fields"}})];
        stages.extend(vec![json!({"$set": {"a": around}}); 12]);
        app.post("/objects/aggregate", &json!({"pipeline": stages})).await.error(400, "query_15");
        assert_eq!(app.get("/objects/?limit=1").await.status, 200);
    }

    async fn no_filter_leaves_its_collection(app) {
        let objects = some_objects(app).await;
        for filter in [
            json!({"$lookup": {"from": "service.credentials", "as": "a"}}),
            json!({"$expr": {"$lookup": {"from": "service.credentials", "as": "a", "pipeline": []}}}),
            json!({"$unionWith": "service.credentials"}),
            json!({"$out": "framework.objects"}),
            json!({"$merge": {"into": "framework.objects"}}),
            json!({"$set": {"active": false}}),
            json!({"$text": {"$search": "a"}, "$where": "1"}),
            json!([{"$lookup": {"from": "service.credentials", "localField": "a", "foreignField": "b", "as": "a"}}]),
            json!([{"$lookup": {"from": "management.users", "as": "a", "pipeline": []}}]),
            json!([{"$unionWith": "service.credentials"}]),
            json!([{"$out": "framework.objects"}]),
            json!("active"),
        ] {
            let filter = filter.to_string();
            assert_refused(&app.get_with("/objects/", &[("filter", filter.as_str())]).await, &filter);
        }
        assert_well(app, objects).await;
    }

    async fn a_filter_that_is_too_large_is_refused_at_once(app) {
        let objects = some_objects(app).await;
        let deep = (0..500).fold(json!({"a": 1}), |inner, _| json!({"$and": [inner]}));
        let wide: Value = (0..60_000).map(|number| (format!("m{number}"), json!(1))).collect::<serde_json::Map<_, _>>().into();
        let many = json!({"public_id": {"$in": (0..100_000).collect::<Vec<i64>>()}});
        let branches = json!({"$or": vec![json!({"a": 1}); 50_000]});
        let long = json!({"a": {"$regex": "a".repeat(500_000)}});
        for filter in [deep, wide, many, branches, long] {
            let answer = app.post("/objects/query", &json!({"filter": filter})).await;
            assert_refused(&answer, &filter.to_string());
        }
        assert_well(app, objects).await;
    }

    async fn a_name_that_is_there_twice_is_refused_in_questions(app) {
        let objects = some_objects(app).await;
        for (name, text) in [
            ("filter", r#"{"type_id": 1, "type_id": {"$exists": true}}"#),
            ("filter", r#"{"$or": [{"a": {"$gt": 1, "$gt": 0}}]}"#),
            ("filter", r#"{"a": {"$date": 1, "$date": 2}}"#),
            ("projection", r#"{"name": 1, "name": 0}"#),
        ] {
            assert_refused(&app.get_with("/objects/", &[(name, text)]).await, text);
            let body = format!(r#"{{"{name}": {text}}}"#);
            let request = app.request(Method::POST, "/objects/query").header("Content-Type", "application/json");
            assert_refused(&send(request.body(body)).await, text);
        }
        assert_well(app, objects).await;
    }

    async fn every_disguise_of_a_value_is_answered_or_refused(app) {
        let objects = some_objects(app).await;
        let id = "0123456789abcdef01234567";
        for value in [
            json!({"$oid": id}), json!({"$oid": "x"}), json!({"$symbol": "a"}), json!({"$undefined": true}), json!({"$undefined": 1}),
            json!({"$minKey": 1}), json!({"$maxKey": 1}), json!({"$minKey": "a"}), json!({"$timestamp": {"t": -1, "i": 1}}),
            json!({"$timestamp": {"t": 4_294_967_296_i64, "i": 0}}), json!({"$numberInt": "2147483648"}), json!({"$numberLong": "x"}),
            json!({"$numberDouble": "NaN"}), json!({"$numberDouble": "1e999"}), json!({"$numberDecimal": "1E+9999"}),
            json!({"$numberDecimal": "-0"}), json!({"$binary": {"base64": "!", "subType": "00"}}),
            json!({"$binary": {"base64": "AAAA", "subType": "fff"}}), json!({"$uuid": "no"}), json!({"$date": {"$numberLong": "1e3"}}),
            json!({"$dbPointer": {"$ref": "framework.types", "$id": {"$oid": id}}}), json!({"$ref": "framework.types", "$id": 1}),
            json!({"$regularExpression": {"pattern": "(", "options": ""}}), json!({"$regularExpression": {"pattern": "a", "options": "xyz"}}),
            json!({"$regex": "a\u{0}b"}), json!({"$regex": "(?<a>a)\\k<b>"}), json!({"$options": "i"}), json!({"$eq": {"$gt": ""}}),
            json!({"$type": "nothing"}), json!({"$size": -1}), json!({"$size": 1e300}), json!({"$mod": [0, 0]}), json!({"$mod": [1e300, 1]}),
            json!({"$bitsAllSet": -1}), json!({"$bitsAllSet": [2_147_483_648_i64]}), json!({"$all": [{"$elemMatch": {}}, 1]}),
            json!({"$exists": {"$ne": 1}}), json!({"$in": {"$in": []}}), json!({"$not": {}}), json!({"$comment": {"$where": "1"}}),
        ] {
            for filter in [json!({"public_id": value}), json!({"fields.value": {"$ne": value}}), json!({"$nor": [{"a": {"$in": [value]}}]})] {
                let answer = app.post("/objects/query", &json!({"filter": filter})).await;
                if answer.status != 200 {
                    assert_refused(&answer, &filter.to_string());
                }
            }
        }
        assert_well(app, objects).await;
    }

    async fn pages_at_the_edges_of_numbers_are_empty_or_refused(app) {
        let objects = some_objects(app).await;
        for page in ["1000000", "2147483648", "4294967297", "9007199254740991", "9007199254740992", "9223372036854775807",
            "9223372036854775808", "18446744073709551615", "18446744073709551616", "99999999999999999999999"]
        {
            for (limit, view) in [("1", "native"), ("10000", "native"), ("0", "render")] {
                let answer = app.get_with("/objects/", &[("page", page), ("limit", limit), ("view", view)]).await;
                if answer.status == 200 {
                    let list = answer.json();
                    assert_eq!((&list["count"], &list["total"]), (&json!(0), &json!(objects)), "{page} {limit}");
                } else {
                    assert_refused(&answer, page);
                }
            }
        }
        for limit in ["10001", "4294967296", "9223372036854775808", "-9223372036854775809", "1e9", "0.5"] {
            assert_refused(&app.get_with("/objects/", &[("limit", limit)]).await, limit);
        }
        assert_well(app, objects).await;
    }

    async fn a_misspelt_parameter_changes_and_deletes_nothing(app) {
        let objects = some_objects(app).await;
        for query in ["fliter={}&expected_count=5", "filter={}&expected_cuont=5", "filter={}", "expected_count=5", "",
            "filter={}&expected_count=5&limit=1", "filter=&expected_count=5", "filter={}&expected_count=5&expected_count=5"]
        {
            let path = format!("/objects/?{query}");
            assert_refused(&app.delete(&path).await, &path);
            assert_refused(&app.patch(&path, &json!({"active": false})).await, &path);
        }
        assert_refused(&app.delete("/objects/1?casacde=true").await, "a misspelt parameter of one object");
        assert_well(app, objects).await;
        assert_eq!(app.get("/objects/?active=true").await.json()["total"], objects);
    }

    async fn what_users_sign_in_with_cannot_be_asked_for(app) {
        let everything = app.get_with("/users/", &[("limit", "0")]).await;
        for name in ["hash", "epoch", "$argon2"] {
            assert!(!everything.text.contains(name), "{}", everything.text);
        }
        for path in ["password", "credentials.hash", "hash", "password.0", "epoch"] {
            for condition in
                [json!({"$regex": "^\\$argon2"}), json!({"$gt": ""}), json!({"$exists": true}), json!({"$type": 2})]
            {
                let filter = json!({path: condition}).to_string();
                let answer = app.get_with("/users/", &[("filter", filter.as_str())]).await;
                let is_blind = answer.status.is_client_error() || answer.json()["total"] == 0;
                assert!(is_blind, "{filter} sees something: {}", answer.text);
            }
            let sorted = app.get_with("/users/", &[("sort", path)]).await;
            assert!(!sorted.text.contains("$argon2"), "{}", sorted.text);
        }
        let expression = json!({"$expr": {"$gt": [{"$strLenCP": {"$ifNull": ["$password", ""]}}, 10]}}).to_string();
        let answer = app.get_with("/users/", &[("filter", expression.as_str())]).await;
        assert!(answer.status.is_client_error() || answer.json()["total"] == 0, "{}", answer.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_of_ten_megabytes_is_refused_even_where_bodies_may_be_so_large() {
    let app = TestApp::embedded_with(&[("server.max_body_bytes", "20000000")]).await;
    let filter = json!({"$or": vec![json!({"fields.value": 1}); 600_000]});
    let body = json!({"filter": filter}).to_string();
    assert!(body.len() > 10_000_000);
    let request = app.request(Method::POST, "/objects/query").header("Content-Type", "application/json");
    assert_refused(&send(request.body(body)).await, "ten megabytes");
    assert_well(&app, 0).await;
}

/// Patterns that take a backtracking matcher longer than the universe has been there.
const ENDLESS: [&str; 6] =
    ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(?=(a+)+$)b", "^(([a-z])+.)+[A-Z]([a-z])+$", "(a*)*\\1$"];

async fn assert_that_patterns_end(app: &TestApp) {
    let objects = some_objects(app).await;
    for pattern in ENDLESS {
        let filter = json!({"fields": {"$elemMatch": {"name": "text", "value": {"$regex": pattern}}}}).to_string();
        let answer = app.get_with("/objects/", &[("filter", filter.as_str())]).await;
        assert!([200, 400, 503].contains(&answer.status.as_u16()), "{pattern}: {}", answer.text);
        if answer.status == 503 {
            answer.error(503, "query_timeout");
        }
    }
    assert_well(app, objects).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pattern_that_never_ends_is_stopped_on_the_embedded_store() {
    assert_that_patterns_end(&TestApp::embedded_with(&[("query.max_time_ms", "2000")]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pattern_that_never_ends_is_stopped_on_mongodb() {
    let Some(server) = shared(Deployment::ReplicaSet).await else { return };
    assert_that_patterns_end(&TestApp::on(&server.fresh_uri(), &[("query.max_time_ms", "2000")]).await).await;
}
