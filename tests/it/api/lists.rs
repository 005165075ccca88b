//! Lists: parameters, pages, what is echoed. docs/api.md, List parameters.

use reqwest::Method;
use serde_json::json;

use crate::support::app::{TestApp, on_each_store, send};

async fn twelve_types(app: &TestApp) {
    for index in 1..=12 {
        app.create_type(&format!("type-{index:02}"), &[]).await;
    }
}

on_each_store! {
    async fn the_envelope_says_where_one_is(app) {
        twelve_types(app).await;
        let answer = app.get("/types/?limit=5&page=2").await;
        let body = answer.json();
        assert_eq!(answer.header("x-total-count"), "12");
        assert_eq!((&body["count"], &body["total"]), (&json!(5), &json!(12)));
        assert_eq!(body["pager"], json!({"page": 2, "page_size": 5, "total_pages": 3}));
        let parameters =
            json!({"limit": 5, "sort": "public_id", "order": 1, "page": 2, "filter": {}, "optional": {}});
        assert_eq!(body["parameters"], parameters);
        let url = format!("{}/rest/types/", app.origin);
        let page = |page: u32| format!("{url}?page={page}&limit=5");
        let pagination = json!({
            "current": format!("{url}?limit=5&page=2"),
            "first": page(1), "prev": page(1), "next": page(3), "last": page(3),
        });
        assert_eq!(body["pagination"], pagination);
        assert_eq!((&body["response_type"], &body["model"]), (&json!("GET"), &json!("Type")));
    }

    async fn the_current_url_is_the_one_that_was_sent(app) {
        let body = app.get("/object/?limit=3").await.json();
        assert_eq!(body["pagination"]["current"], format!("{}/rest/object/?limit=3", app.origin));
    }

    async fn one_page_is_its_own_neighbour(app) {
        let body = app.get("/types/").await.json();
        let url = format!("{}/rest/types/", app.origin);
        assert_eq!(body["pagination"]["current"], url);
        for name in ["first", "prev", "next", "last"] {
            assert_eq!(body["pagination"][name], format!("{url}?page=1"), "{name}");
        }
        assert_eq!(body["pager"]["total_pages"], 1);
    }

    async fn a_page_beyond_the_end_is_empty(app) {
        app.create_type("rack", &[]).await;
        let body = app.get("/types/?page=9").await.json();
        assert_eq!((&body["results"], &body["total"], &body["count"]), (&json!([]), &json!(1), &json!(0)));
    }

    async fn the_limit_zero_is_the_maximum(app) {
        let body = app.get("/types/?limit=0").await.json();
        assert_eq!((&body["parameters"]["limit"], &body["pager"]["page_size"]), (&json!(10_000), &json!(10_000)));
    }

    async fn a_long_list_is_whole_and_like_a_short_one(app) {
        let kind = app.create_type("rack", &[("notes", "text")]).await;
        for number in 0..24 {
            app.create_object(kind, &json!({"notes": format!("{number} {}", "x".repeat(100_000))})).await;
        }
        for view in ["native", "render"] {
            let list = app.get(&format!("/objects/?limit=0&sort=type_id&view={view}")).await;
            assert_eq!((list.header("x-total-count"), list.header("content-length")), ("24", ""));
            let (list, short) = (list.json(), app.get(&format!("/objects/?limit=24&sort=type_id&view={view}")).await.json());
            let ids = |list: &serde_json::Value| -> Vec<serde_json::Value> {
                let results = list["results"].as_array().expect("results");
                results.iter().map(|object| object["object_information"]["object_id"].clone()).collect()
            };
            assert_eq!((&list["count"], &list["total"], ids(&list)), (&json!(24), &json!(24), ids(&short)));
            let names = |list: &serde_json::Value| list.as_object().expect("an envelope").keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(&list), names(&short));
            if view == "native" {
                assert!(list["results"] == short["results"]);
            }
        }
    }

    async fn a_long_list_that_cannot_begin_is_an_error(app) {
        let kind = app.create_type("rack", &[("notes", "text")]).await;
        app.create_object(kind, &json!({"notes": "x"})).await;
        let filter = r#"{"$expr": {"$divide": [1, {"$size": "$multi_data_sections"}]}}"#;
        assert_eq!(app.get_with("/objects/", &[("limit", "0"), ("filter", filter)]).await.status, 400);
    }

    async fn what_cannot_be_meant_is_refused_by_name(app) {
        let wrong = [
            ("limit", "-1"), ("limit", "10001"), ("limit", "ten"), ("page", "0"), ("page", "1.5"), ("order", "2"),
            ("order", "asc"), ("sort", ""), ("sort", "a..b"), ("sort", "$where"), ("filter", "[]"), ("filter", "{"),
            ("filter", "{\"a\":1,\"a\":2}"), ("filtre", "{}"), ("view", "tree"), ("projection", "{}"),
            ("collation", "{\"locale\":\"de\"}"),
        ];
        for (name, value) in wrong {
            let answer = app.get_with("/types/", &[(name, value)]).await;
            answer.error(400, "parameter_invalid");
            assert_eq!(answer.pointers(), [name], "{name}={value}");
        }
        for (limit, told) in [
            ("10.0", "limit: must be a whole number, not 10.0"),
            ("ten", "limit: must be a whole number, not ten"),
            ("-1", "limit: must be from 0 (the maximum) to 10000"),
            ("10001", "limit: must be from 0 (the maximum) to 10000"),
        ] {
            let refused = app.get_with("/types/", &[("limit", limit)]).await.json();
            assert_eq!(refused["message"], told, "{limit}");
        }
        let twice = app.get("/types/?limit=1&limit=2").await;
        assert_eq!((twice.error(400, "parameter_invalid"), twice.pointers()).1, ["limit"]);
        let body = app.get("/types/?filtre=%7B%7D").await.json();
        assert!(body["message"].as_str().expect("a message").contains("did you mean filter?"), "{body}");
    }

    async fn filters_mean_what_they_mean_in_mongodb(app) {
        twelve_types(app).await;
        let filter = r#"{"$or": [{"name": {"$regex": "^type-1"}}, {"public_id": {"$lte": 2}}]}"#;
        let answer = app.get_with("/types/", &[("filter", filter), ("sort", "name"), ("order", "-1")]).await;
        let names: Vec<_> = ["type-12", "type-11", "type-10", "type-02", "type-01"].map(|name| json!(name)).into();
        assert_eq!(answer.results("/name"), names);
        let echoed: serde_json::Value = serde_json::from_str(filter).expect("a filter");
        assert_eq!(answer.json()["parameters"]["filter"], echoed);
    }

    async fn a_filter_that_is_refused_says_where(app) {
        let typo = r#"{"fields": {"$elemMatch": {"value": {"$rgex": "a"}}}}"#;
        let answer = app.get_with("/objects/", &[("filter", typo)]).await;
        assert_eq!(answer.status, 400, "{}", answer.text);
        let message = answer.json()["message"].as_str().expect("a message").to_owned();
        assert!(message.contains("$rgex") && message.contains("$regex"), "{message}");
        for filter in [
            r#"{"$where": "1"}"#, r#"{"a": {"$elemMatch": {"$where": "1"}}}"#,
            r#"{"$expr": {"$function": {"body": "f", "args": [], "lang": "js"}}}"#, r#"{"a": {"$code": "f"}}"#,
        ] {
            let answer = app.get_with("/objects/", &[("filter", filter)]).await;
            assert_eq!(answer.status, 400, "{filter}: {}", answer.text);
        }
    }

    async fn several_sort_keys_may_each_have_a_direction(app) {
        let kind = app.create_type("kind", &[("colour", "text"), ("size", "number")]).await;
        for (colour, size) in [("red", 1), ("blue", 2), ("red", 3), ("blue", 1)] {
            app.create_object(kind, &json!({"colour": colour, "size": size})).await;
        }
        let answer = app.get("/objects/?sort=fields.colour,-fields.size").await;
        assert_eq!(answer.results("/public_id"), [json!(2), json!(4), json!(3), json!(1)]);
        let answer = app.get("/objects/?sort=fields.size&order=-1").await;
        assert_eq!(answer.results("/public_id"), [json!(3), json!(2), json!(1), json!(4)]);
        app.get("/objects/?sort=a,b&order=1").await.error(400, "parameter_invalid");
    }

    async fn the_id_keeps_its_direction_wherever_it_stands_in_an_order(app) {
        let kind = app.create_type("kind", &[("size", "number")]).await;
        for size in [1, 2, 1] {
            app.create_object(kind, &json!({"size": size})).await;
        }
        for (sort, ids) in [
            ("-public_id,version", [3, 2, 1]),
            (r#"{"public_id":-1,"type_id":1}"#, [3, 2, 1]),
            ("-type_id,-public_id,version", [3, 2, 1]),
            ("f.size,-public_id,type_id", [3, 1, 2]),
            ("-f.size,public_id,-f.size", [2, 1, 3]),
        ] {
            for filter in ["{}", r#"[{"$project":{"public_id":1,"type_id":1,"version":1,"fields":1}}]"#] {
                let answer = app.get_with("/objects/", &[("sort", sort), ("filter", filter)]).await;
                assert_eq!(answer.results("/public_id"), ids, "{sort} {filter}: {}", answer.text);
            }
        }
    }

    async fn a_field_whose_value_is_an_array_is_sorted_by_its_lowest_and_its_highest_element(app) {
        let kind = app.create_type("kind", &[("any", "free")]).await;
        for value in [json!([9, 1]), json!(5), json!([2]), json!(null), json!("x"), json!([2, 1]), json!([])] {
            app.create_object(kind, &json!({"any": value})).await;
        }
        let ascending: Vec<_> = [7, 4, 1, 6, 3, 2, 5].map(|id| json!(id)).into();
        assert_eq!(app.get("/objects/?sort=fields.any").await.results("/public_id"), ascending);
        let descending: Vec<_> = [5, 1, 2, 3, 6, 4, 7].map(|id| json!(id)).into();
        assert_eq!(app.get("/objects/?sort=fields.any&order=-1").await.results("/public_id"), descending);
    }

    async fn a_projection_chooses_members(app) {
        let kind = app.create_type("kind", &[("colour", "text")]).await;
        app.create_object(kind, &json!({"colour": "red"})).await;
        for projection in [r#"["type_id"]"#, r#"{"type_id": 1}"#] {
            let answer = app.get_with("/objects/", &[("projection", projection)]).await;
            assert_eq!(answer.json()["results"], json!([{"type_id": kind}]), "{}", answer.text);
            assert_eq!(answer.json()["parameters"]["projection"].to_string().replace(' ', ""), projection.replace(' ', ""));
        }
        let rendered = [("projection", r#"["object_information.object_id"]"#), ("view", "render")];
        let answer = app.get_with("/objects/", &rendered).await;
        assert_eq!(answer.json()["results"], json!([{"object_information": {"object_id": 1}}]), "{}", answer.text);
    }

    async fn a_query_in_the_body_is_the_same_list(app) {
        let kind = app.create_type("kind", &[("colour", "text")]).await;
        for colour in ["red", "blue", "red"] {
            app.create_object(kind, &json!({"colour": colour})).await;
        }
        let body = json!({
            "filter": {"fields": {"$elemMatch": {"name": "colour", "value": "red"}}}, "sort": "public_id", "order": -1, "limit": 1,
        });
        for request in [
            app.request(Method::from_bytes(b"QUERY").expect("a method"), "/objects/"),
            app.request(Method::POST, "/objects/query"),
        ] {
            let answer = send(request.json(&body)).await;
            assert_eq!(answer.results("/public_id"), [json!(3)]);
            assert_eq!(answer.json()["total"], 2);
            let next = answer.json()["pagination"]["next"].as_str().expect("a URL").to_owned();
            let next = send(app.request(Method::GET, &next)).await;
            assert_eq!(next.results("/public_id"), [json!(1)]);
        }
    }

    async fn a_query_in_the_body_has_members_of_the_right_kind(app) {
        let wrong = [
            json!({"sort": []}), json!({"view": true}), json!({"order": "1"}), json!({"page": null}), json!({"limit": "5"}),
            json!({"active": "true"}), json!({"filter": 7}), json!({"filter": [{"$group": {"_id": 1}}]}), json!({"projection": 1}), json!({"projection": ["a\u{0}b"]}), json!({"colour": 1}),
        ];
        for body in wrong {
            let error = app.post("/objects/query", &body).await.error(400, "parameter_invalid");
            let name = body.as_object().expect("an object").keys().next().expect("a name").clone();
            assert_eq!(error["errors"][0]["pointer"], name.as_str(), "{error}");
        }
        app.post("/objects/query", &json!([])).await.error(400, "json_malformed");
        assert_eq!(app.post("/objects/query", &json!({"filter": "{}"})).await.status, 200);
    }

    async fn pages_end_where_numbers_are_no_longer_exact(app) {
        assert_eq!(app.get("/types/?page=9007199254740991").await.json()["results"], json!([]));
        app.get("/types/?page=9007199254740992").await.error(400, "parameter_invalid");
    }

    async fn active_narrows_a_list_of_objects(app) {
        let kind = app.create_type("kind", &[]).await;
        let on = app.create_object(kind, &json!({})).await;
        let off = app.create_object(kind, &json!({})).await;
        app.put(&format!("/objects/{off}/state"), &json!(false)).await;
        let answer = app.get("/objects/?active=true").await;
        assert_eq!(answer.results("/public_id"), [json!(on)]);
        assert_eq!(answer.json()["parameters"]["optional"], json!({"view": "native", "active": true}));
        assert_eq!(app.get("/objects/?active=false").await.json()["total"], 2);
        app.get("/objects/?active=yes").await.error(400, "parameter_invalid");
    }
}
