//! `Inventory-Query-Hint`: hints for valid queries that probably do not mean what the caller intended.

use serde_json::{Value, json};

use super::people::Person;
use crate::support::app::{Answer, TestApp, on_each_store, send};
use crate::support::counting::CountingStore;

fn hints(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 200, "{}", answer.text);
    let hints = answer.headers.get_all("inventory-query-hint").iter();
    hints.map(|hint| hint.to_str().expect("plain ASCII").to_owned()).collect()
}

async fn hints_for(app: &TestApp, filter: &Value, sort: &str) -> Vec<String> {
    hints(&app.get_with("/objects/", &[("filter", &filter.to_string()), ("sort", sort)]).await)
}

async fn a_rack(app: &TestApp) {
    let rack = app.create_type("rack", &[("hostname", "text"), ("installed", "date")]).await;
    app.create_object(rack, &json!({"hostname": "web-1", "installed": "2024-05-06T00:00:00Z"})).await;
}

on_each_store! {
    async fn a_path_that_no_object_has_is_told(app) {
        a_rack(app).await;
        let told = "no object has \"hostname\"; a field is asked for as f.hostname";
        assert_eq!(hints_for(app, &json!({"hostname": "web-1"}), "public_id").await, [told]);
        assert_eq!(hints_for(app, &json!({"$or": [{"hostname.x": 1}, {"type_id": 1}]}), "public_id").await, [told]);
        assert_eq!(hints_for(app, &json!({}), "hostname").await, [told]);
        assert_eq!(hints_for(app, &json!({"$expr": {"$gt": ["$hostname", 10]}}), "public_id").await, [told]);
        assert_eq!(hints(&app.get_with("/objects/", &[("projection", r#"{"x": "$hostname"}"#)]).await), [told]);
        let near = "no object has \"hostnam\"; did you mean the field f.hostname?";
        assert_eq!(hints_for(app, &json!({}), "-hostnam").await, [near]);
        assert_eq!(hints_for(app, &json!({"typ_id": 7}), "public_id").await, ["no object has \"typ_id\"; did you mean type_id?"]);
        for (said, meant) in [("id", "public_id"), ("type", "type_id"), ("or", "$or")] {
            let told = format!("no object has \"{said}\"; did you mean {meant}?");
            assert_eq!(hints_for(app, &json!({said: 1}), "public_id").await, [told]);
        }
        let other = "no object has \"farbe\\u{df}\"; fields are asked for as f.<name>";
        assert_eq!(hints_for(app, &json!({"farbeß": 1}), "public_id").await, [other]);
        assert_eq!(hints_for(app, &json!({}), "fields.hostnam").await, ["no type has a field \"hostnam\", did you mean hostname?"]);
        let entries = "fields have names and values; a field is asked for as f.hostname";
        assert_eq!(hints_for(app, &json!({"fields.hostname": "web-1"}), "public_id").await, [entries]);
    }

    async fn what_is_asked_as_it_is_stored_is_answered_without_a_word(app) {
        a_rack(app).await;
        for filter in [
            json!({}),
            json!({"type_id": 1, "public_id": {"$gt": 0}}),
            json!({"f.hostname": "web-1", "fields.name": "hostname", "fields.0.value": "web-1"}),
            json!({"f.installed": {"$date": "2024-05-06T00:00:00Z"}}),
            json!({"creation_time": {"$gt": {"$date": "2020-01-01T00:00:00Z"}}}),
        ] {
            assert_eq!(hints_for(app, &filter, "fields.hostname").await, [] as [&str; 0], "{filter}");
        }
    }

    async fn a_date_that_is_compared_with_a_text_is_told_with_what_to_write(app) {
        a_rack(app).await;
        let of_field = "f.installed holds dates, and a text is no date; write {\"$date\": \"2024-05-06T00:00:00Z\"}";
        for filter in [
            json!({"f.installed": "2024-05-06T00:00:00Z"}),
            json!({"f.installed": {"$ne": "2024-05-06T00:00:00Z"}}),
            json!({"$nor": [{"f.installed": {"$in": ["2024-05-06T00:00:00Z"]}}]}),
        ] {
            assert_eq!(hints_for(app, &filter, "public_id").await, [of_field], "{filter}");
        }
        let of_member = "creation_time holds dates, and a text is no date; write {\"$date\": \"2024-01-01T00:00:00Z\"}";
        assert_eq!(hints_for(app, &json!({"creation_time": {"$gte": "2024-01-01"}}), "public_id").await, [of_member]);
    }

    async fn a_value_of_another_kind_is_told_with_what_to_write(app) {
        app.create_type("rack", &[("units", "number"), ("hostname", "text"), ("spare", "checkbox")]).await;
        for (filter, told) in [
            (json!({"f.units": "42"}), "f.units holds numbers, and a text is no number; write 42"),
            (json!({"f.units": {"$gt": "many"}}), "f.units holds numbers, and a text is no number"),
            (json!({"f.hostname": {"$in": [7]}}), "f.hostname holds texts, and a number is no text; write \"7\""),
            (json!({"f.spare": "true"}), "f.spare holds true or false; write true"),
            (json!({"active": "true"}), "active holds true or false; write true"),
            (json!({"type_id": "1"}), "type_id holds numbers, and a text is no number; write 1"),
        ] {
            assert_eq!(hints_for(app, &filter, "public_id").await, [told], "{filter}");
        }
    }

    async fn a_number_in_the_place_of_a_date_or_a_flag_is_told_with_what_to_write(app) {
        app.create_type("rack", &[("installed", "date"), ("spare", "checkbox")]).await;
        for (filter, told) in [
            (json!({"creation_time": {"$gt": 1_577_836_800_000_i64}}), "creation_time holds dates, and a number is no date; write {\"$date\": \"2020-01-01T00:00:00Z\"}"),
            (json!({"f.installed": {"$lt": 1_577_836_800}}), "f.installed holds dates, and a number is no date; write {\"$date\": \"2020-01-01T00:00:00Z\"}"),
            (json!({"active": 1}), "active holds true or false; write true"),
            (json!({"active": 0}), "active holds true or false; write false"),
            (json!({"active": "false"}), "active holds true or false; write false"),
            (json!({"f.spare": 1}), "f.spare holds true or false; write true"),
        ] {
            assert_eq!(hints_for(app, &filter, "public_id").await, [told], "{filter}");
        }
    }

    async fn the_id_of_the_store_is_not_ours(app) {
        a_rack(app).await;
        let told = "_id holds ids of the store, which answers do not show; did you mean public_id?";
        for filter in [json!({"_id": 5}), json!({"_id": {"$in": ["5"]}})] {
            assert_eq!(hints_for(app, &filter, "public_id").await, [told], "{filter}");
        }
        let told = "_id holds ids of the store; write {\"$oid\": \"65f0a1b2c3d4e5f60718293a\"}";
        assert_eq!(hints_for(app, &json!({"_id": "65f0a1b2c3d4e5f60718293a"}), "public_id").await, [told]);
        let none: [&str; 0] = [];
        assert_eq!(hints_for(app, &json!({"_id": {"$oid": "65f0a1b2c3d4e5f60718293a"}}), "public_id").await, none);
    }

    async fn a_text_that_looks_like_a_pattern_is_told_where_nothing_is_found(app) {
        a_rack(app).await;
        let told = |what: &str, pattern: &str| {
            [format!("{what} is compared with this very text; for a pattern write {{\"$regex\": {pattern}}}")]
        };
        for (text, pattern) in [
            ("/^ber/", "\"^ber\""),
            ("/^BER/i", "\"^BER\", \"$options\": \"i\""),
            ("ber*", "\"^ber\""),
            ("*.ber%", "\"\\\\.ber\""),
            ("b*r", "\"^b.*r$\""),
            ("^ber", "\"^ber\""),
            ("ber.*", "\"^ber\""),
            ("/ber/i", "\"ber\", \"$options\": \"i\""),
            ("m\u{fc}n*", "\"^m\\u00fcn\""),
        ] {
            assert_eq!(hints_for(app, &json!({"f.hostname": text}), "public_id").await, told("f.hostname", pattern), "{text}");
        }
        assert_eq!(hints_for(app, &json!({"version": "1*"}), "public_id").await, told("version", "\"^1\""));
        let none: [&str; 0] = [];
        for text in ["/var/", "/var/log/i", "*", "web-9"] {
            assert_eq!(hints_for(app, &json!({"f.hostname": text}), "public_id").await, none, "{text}");
        }
        let rack = app.create_type("zone", &[("zone", "text")]).await;
        app.create_object(rack, &json!({"zone": "*.example.org"})).await;
        assert_eq!(hints_for(app, &json!({"f.zone": "*.example.org"}), "public_id").await, none, "it is found");
    }

    async fn a_pattern_with_slashes_and_a_text_for_exists_are_told(app) {
        a_rack(app).await;
        let slashes = |pattern: &str| format!("$regex: the slashes are part of the pattern; write {{\"$regex\": {pattern}}}");
        let exists = |meant: bool| format!("$exists: a text counts as true, whatever it says; write {meant}");
        for (filter, told) in [
            (json!({"f.hostname": {"$regex": "/^jo/i"}}), slashes("\"^jo\", \"$options\": \"i\"")),
            (json!({"f.hostname": {"$not": {"$regex": "/^jo/"}}}), slashes("\"^jo\"")),
            (json!({"version": {"$regex": "/^jo/"}}), slashes("\"^jo\"")),
            (json!({"f.hostname": {"$exists": "false"}}), exists(false)),
            (json!({"active": {"$exists": "true"}}), exists(true)),
        ] {
            assert_eq!(hints_for(app, &filter, "public_id").await, [told], "{filter}");
        }
        assert_eq!(
            hints(&app.get_with("/types/", &[("filter", r#"{"name": {"$regex": "/^ra/"}}"#)]).await),
            [slashes("\"^ra\"")]
        );
        for filter in [json!({"f.hostname": {"$regex": "/var/log"}}), json!({"f.hostname": {"$exists": false}})] {
            assert_eq!(hints_for(app, &filter, "public_id").await, [] as [&str; 0], "{filter}");
        }
    }

    async fn who_asks_what_was_edited_is_told_where_all_changes_are(app) {
        a_rack(app).await;
        let told = "last_edit_time is null until the first change, and what was deleted is not listed; GET \
                    /rest/changes/?since=2020-01-01T00:00:00Z has all changes since then";
        let since = json!({"$date": "2020-01-01T00:00:00Z"});
        for filter in [
            json!({"last_edit_time": {"$gt": since}}),
            json!({"$and": [{"type_id": 1}, {"last_edit_time": {"$gte": since}}]}),
        ] {
            assert_eq!(hints_for(app, &filter, "public_id").await, [told], "{filter}");
            let filter = filter.to_string();
            let of_types = hints(&app.get_with("/types/", &[("filter", &filter)]).await);
            assert!(of_types.iter().any(|hint| hint == told), "{of_types:?}");
        }
        for filter in [
            json!({"last_edit_time": {"$lt": since}}),
            json!({"last_edit_time": null}),
            json!({"$or": [{"last_edit_time": {"$gt": since}}, {"creation_time": {"$gt": since}}]}),
        ] {
            assert_eq!(hints_for(app, &filter, "public_id").await, [] as [&str; 0], "{filter}");
        }
    }

    async fn the_entry_that_a_filter_found_may_be_projected(app) {
        let kind = app.create_type("thing", &[("m", "text")]).await;
        app.create_object(kind, &json!({"m": "x"})).await;
        let filter = json!({"f.m": "x"}).to_string();
        let answer = app.get_with("/objects/", &[("filter", &filter), ("projection", r#"{"fields.$": 1}"#)]).await;
        assert_eq!(answer.results("/fields"), [json!([{"name": "m", "value": "x"}])]);
        assert_eq!(answer.header("inventory-query-hint"), "");
    }

    async fn the_names_in_entries_are_looked_at(app) {
        a_rack(app).await;
        let near = "no type has a field \"hostnam\", did you mean hostname?";
        let entries = "fields have names and values; a field is asked for as f.hostname";
        for (filter, told) in [
            (json!({"fields": {"$elemMatch": {"name": "hostnam", "value": "x"}}}), near),
            (json!({"fields.name": "hostnam"}), near),
            (json!({"fields": {"$elemMatch": {"hostname": "x"}}}), entries),
            (json!({"fields": {"hostname": "x"}}), entries),
        ] {
            assert_eq!(hints_for(app, &filter, "public_id").await, [told], "{filter}");
        }
    }

    async fn each_value_of_a_condition_is_looked_at(app) {
        app.create_type("rack", &[("units", "number"), ("hostname", "text")]).await;
        let told = "f.units holds numbers, and a text is no number; write 20";
        assert_eq!(hints_for(app, &json!({"f.units": {"$gt": 5, "$lt": "20"}}), "public_id").await, [told]);
        let told = hints_for(app, &json!({"f.hostname": {"$in": ["none", "zur*"]}}), "public_id").await;
        assert_eq!(told, ["f.hostname is compared with this very text; for a pattern write {\"$regex\": \"^zur\"}"]);
    }

    async fn a_name_in_the_place_of_an_id_is_told_where_the_id_is_found(app) {
        app.create_type("server", &[("rack", "ref")]).await;
        for (path, filter, told) in [
            ("/objects/", json!({"author_id": "admin"}), r#"author_id holds numbers, and a text is no number; its value is found by GET /rest/users/?filter={"user_name":"admin"}"#),
            ("/objects/", json!({"f.rack": "R1"}), "f.rack holds numbers, and a text is no number; it holds the public_id of an object, which GET /rest/objects/ finds"),
            ("/users/", json!({"group_id": "admin"}), r#"group_id holds numbers, and a text is no number; its value is found by GET /rest/groups/?filter={"name":"admin"}"#),
            ("/users/", json!({"registration_time": {"$gt": "2026-01-31 15:17:19.432000"}}), r#"registration_time holds dates, and a text is no date; write {"$date": "2026-01-31T15:17:19.432Z"}"#),
            ("/users/", json!({"email": 1}), r#"email holds texts, and a number is no text; write "1""#),
        ] {
            assert_eq!(hints(&app.get_with(path, &[("filter", &filter.to_string())]).await), [told], "{path} {filter}");
        }
        assert_eq!(hints_for(app, &json!({}), "+f.rack").await, ["an ascending order has no sign; write sort=f.rack"]);
    }

    async fn other_lists_have_the_same_advice(app) {
        a_rack(app).await;
        app.created("/categories/", &json!({"name": "hardware"})).await;
        for (path, filter, told) in [
            ("/types/", json!({"nme": "server"}), "no type has \"nme\"; did you mean name?"),
            ("/types/", json!({"id": 1}), "no type has \"id\"; did you mean public_id?"),
            ("/types/", json!({"public_id": "7"}), "public_id holds numbers, and a text is no number; write 7"),
            ("/types/", json!({"creation_time": {"$gt": "2020-01-01"}}), "creation_time holds dates, and a text is no date; write {\"$date\": \"2020-01-01T00:00:00Z\"}"),
            ("/types/", json!({"name": "ra*"}), "name is compared with this very text; for a pattern write {\"$regex\": \"^ra\"}"),
            ("/types/", json!({"_id": 1}), "_id holds ids of the store, which answers do not show; did you mean public_id?"),
            ("/categories/", json!({"parnt": 1}), "no category has \"parnt\"; did you mean parent?"),
            ("/users/", json!({"username": "admin"}), "no user has \"username\"; did you mean user_name?"),
            ("/users/", json!({"group_id": "1"}), "group_id holds numbers, and a text is no number; write 1"),
            ("/groups/", json!({"colour": 1}), "no group has \"colour\"; known are public_id, name, label, rights"),
        ] {
            assert_eq!(hints(&app.get_with(path, &[("filter", &filter.to_string())]).await), [told], "{path} {filter}");
        }
        for (path, filter) in [("/types/", json!({"fields.name": "hostname"})), ("/users/", json!({"active": true}))] {
            let none: [&str; 0] = [];
            assert_eq!(hints(&app.get_with(path, &[("filter", &filter.to_string())]).await), none, "{path} {filter}");
        }
    }

    async fn a_pipeline_has_the_advice_of_a_list(app) {
        a_rack(app).await;
        for (pipeline, told) in [
            (json!([{"$match": {"hostname": "web-1"}}]), "no object has \"hostname\"; a field is asked for as f.hostname"),
            (json!([{"$sort": {"hostname": 1}}, {"$count": "n"}]), "no object has \"hostname\"; a field is asked for as f.hostname"),
            (
                json!([{"$match": {"f.installed": "2024-05-06T00:00:00Z"}}]),
                "f.installed holds dates, and a text is no date; write {\"$date\": \"2024-05-06T00:00:00Z\"}",
            ),
        ] {
            let answer = app.post("/objects/aggregate", &json!({"pipeline": pipeline})).await;
            assert_eq!(hints(&answer), [told], "{pipeline}");
        }
        // After another stage a name can be one that the stage made.
        let grouped = json!([{"$group": {"_id": "$type_id", "n": {"$sum": 1}}}, {"$match": {"n": 1}}]);
        let none: [&str; 0] = [];
        assert_eq!(hints(&app.post("/objects/aggregate", &json!({"pipeline": grouped})).await), none);
    }

    async fn no_index_is_proposed_for_a_question_that_is_not_as_it_was_meant(app) {
        super::explain::many_objects(app).await;
        let told = hints_for(app, &json!({"creation_time": {"$lt": 1_577_836_800_000_i64}}), "public_id").await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("$date"), "{told:?}");
    }

    async fn an_operator_without_its_dollar_sign_is_told(app) {
        a_rack(app).await;
        for (filter, told) in [
            (json!({"f.hostname": {"regex": "^web"}}), "f.hostname is compared with a document here; did you mean $regex?"),
            (json!({"type_id": {"in": [1, 2]}}), "type_id is compared with a document here; did you mean $in?"),
        ] {
            assert_eq!(hints_for(app, &filter, "public_id").await, [told], "{filter}");
        }
        assert_eq!(hints_for(app, &json!({"f.hostname": {"x": 1}}), "public_id").await, [] as [&str; 0]);
    }

    async fn a_projection_of_a_path_that_no_object_has_is_told(app) {
        a_rack(app).await;
        let told = "no object has \"hostname\"; a field is asked for as f.hostname";
        for projection in ["hostname", r#"{"hostname": 1}"#] {
            assert_eq!(hints(&app.get_with("/objects/", &[("projection", projection)]).await), [told], "{projection}");
        }
        // A bounded number is looked up; the rest is answered from the members that the service stores.
        let many = hints(&app.get_with("/objects/", &[("projection", "a1,b1,c1,hostnam")]).await);
        assert_eq!(many.last().map(String::as_str), Some("\"hostnam\" is no member of objects; did you mean the field f.hostname?"));
        for projection in ["public_id,f.hostname", r#"{"hostname": 0}"#, r#"{"new": "$type_id"}"#] {
            assert_eq!(hints(&app.get_with("/objects/", &[("projection", projection)]).await), [] as [&str; 0], "{projection}");
        }
    }

    async fn a_projection_of_rendered_objects_is_told_by_what_these_have(app) {
        a_rack(app).await;
        let told = async |projection: &str| {
            hints(&app.get_with("/objects/", &[("projection", projection), ("view", "render")]).await)
        };
        for right in ["f.hostname", "type_information.summary_line", "object_information.object_id,current_render_time"] {
            assert_eq!(told(right).await, [] as [&str; 0], "{right}");
        }
        for (wrong, meant) in [
            ("public_id", "did you mean object_information.object_id?"),
            ("active", "did you mean object_information.active?"),
            ("fields", "did you mean type_information.fields?"),
            ("summary_line", "did you mean type_information.summary_line?"),
            ("hostname", "a field is asked for as f.hostname"),
            ("colour", "it has current_render_time, object_information, type_information"),
        ] {
            assert_eq!(told(wrong).await, [format!("no rendered object has \"{wrong}\"; {meant}")]);
        }
        // Filters and orders are about stored objects in each view.
        let parameters = [("view", "render"), ("sort", "object_information.object_id")];
        let told = "no object has \"object_information\"; did you mean public_id? only view=render has object_information";
        assert_eq!(hints(&app.get_with("/objects/", &parameters).await), [told]);
    }

    async fn the_name_of_a_type_is_no_member_of_objects(app) {
        a_rack(app).await;
        let found = "its value is found by GET /rest/types/?filter={\"name\":\"rack\"}";
        for (filter, told) in [
            (json!({"type_name": "rack"}), format!("no object has \"type_name\"; did you mean type_id? {found}")),
            (
                json!({"type_information.type_name": "rack"}),
                format!("no object has \"type_information\"; did you mean type_id? {found}"),
            ),
            (json!({"type_id": "rack"}), format!("type_id holds numbers, and a text is no number; {found}")),
        ] {
            assert_eq!(hints_for(app, &filter, "public_id").await, [told], "{filter}");
        }
    }

    async fn a_sort_in_a_pipeline_that_does_not_order_the_list_is_told(app) {
        a_rack(app).await;
        let told = "the list is ordered by public_id; a $sort of the pipeline decides what $skip and $limit leave; send sort=... \
                    for the order of the list";
        let of = async |stages: Value, more: &[(&str, &str)]| {
            let stages = stages.to_string();
            hints(&app.get_with("/objects/", &[&[("filter", stages.as_str())], more].concat()).await)
        };
        let newest = json!([{"$match": {"type_id": 1}}, {"$sort": {"f.installed": -1}}]);
        assert_eq!(of(newest, &[]).await, [] as [&str; 0]);
        assert_eq!(of(json!([{"$sort": {"f.installed": -1}}, {"$limit": 3}]), &[]).await, [] as [&str; 0]);
        let changed = json!([{"$sort": {"f.installed": -1}}, {"$limit": 3}, {"$set": {"new": 1}}]);
        assert_eq!(of(changed.clone(), &[]).await, [told]);
        assert_eq!(of(changed, &[("sort", "-f.installed")]).await, [] as [&str; 0]);
        assert_eq!(of(json!([{"$sort": {"public_id": 1}}, {"$limit": 3}]), &[]).await, [] as [&str; 0]);
    }

    async fn a_text_that_is_no_option_is_told_where_nothing_is_found(app) {
        let options = json!([{"name": "prod", "label": "Production"}, {"name": "test", "label": "Test"}]);
        let field = json!({"type": "select", "name": "env", "label": "Environment", "options": options});
        app.post("/types/", &json!({"name": "server", "author_id": 1, "fields": [field]})).await;
        app.create_object(1, &json!({"env": "prod"})).await;
        let meant = "\"production\" is no option of f.env; did you mean \"prod\"?";
        assert_eq!(hints_for(app, &json!({"f.env": "production"}), "public_id").await, [meant]);
        let none = "\"staging\" is no option of f.env";
        assert_eq!(hints_for(app, &json!({"f.env": {"$in": ["staging"]}}), "public_id").await, [none]);
        assert_eq!(hints_for(app, &json!({"f.env": "test"}), "public_id").await, [] as [&str; 0]);
        assert_eq!(hints_for(app, &json!({"f.env": {"$ne": "staging"}}), "public_id").await, [] as [&str; 0]);
    }

    async fn an_array_that_equals_nothing_is_told_the_operator(app) {
        a_rack(app).await;
        let told = "f.hostname is compared with the array as a whole; for one of several values write {\"$in\": [...]}";
        assert_eq!(hints_for(app, &json!({"f.hostname": ["a", "b"]}), "public_id").await, [told]);
        let told = "no object has \"AND\"; did you mean $and?";
        assert_eq!(hints_for(app, &json!({"AND": []}), "public_id").await, [told]);
    }

    async fn an_export_the_changes_and_a_deletion_have_the_advice_of_a_list(app) {
        a_rack(app).await;
        let told = "no object has \"hostname\"; a field is asked for as f.hostname";
        let filter = r#"{"hostname":"web-1"}"#;
        for (path, more) in [
            ("/export/objects", ("type_id", "1")),
            ("/export/objects", ("format", "ndjson")),
            ("/changes/", ("resource", "objects")),
        ] {
            assert_eq!(hints(&app.get_with(path, &[("filter", filter), more]).await), [told], "{path} {more:?}");
        }
        assert_eq!(hints(&app.get_with("/export/objects", &[("type_id", "1"), ("sort", "hostname")]).await), [told]);
        let pattern = "f.hostname is compared with this very text; for a pattern write {\"$regex\": \"^ber\"}";
        for (path, more) in [("/export/objects", ("type_id", "1")), ("/changes/", ("resource", "objects"))] {
            let parameters = [("filter", r#"{"f.hostname":"ber*"}"#), more];
            assert_eq!(hints(&app.get_with(path, &parameters).await), [pattern], "{path}");
        }
        let path = |count: u8| format!("/objects/?filter=%7B%22hostname%22%3A%22web-1%22%7D&expected_count={count}");
        assert_eq!(hints(&app.delete(&path(0)).await), [told]);
        for refused in [app.delete(&path(1)).await, app.patch(&path(1), &json!({"active": false})).await] {
            refused.error(412, "precondition_failed");
            assert_eq!(refused.header("inventory-query-hint"), told);
        }
    }

    async fn log_entries_are_asked_for_as_they_are_stored(app) {
        a_rack(app).await;
        for (filter, told) in [
            (json!({"time": {"$gt": "2026-01-31T04:23:56.488000"}}), "time holds dates, and a text is no date; write {\"$date\": \"2026-01-31T04:23:56.488Z\"}"),
            (json!({"action": "edit"}), "action holds one of CREATE, EDIT, DELETE, ACTIVE_CHANGE, CLEAN, MIGRATE, IMPORT, REVERT, OUTSIDE, did you mean EDIT?"),
            (json!({"resource": "object"}), "resource holds one of objects, types, categories, did you mean objects?"),
            (json!({"user_id": "1"}), "user_id holds numbers, and a text is no number; write 1"),
        ] {
            for path in ["/logs/", "/objects/1/history"] {
                assert_eq!(hints(&app.get_with(path, &[("filter", &filter.to_string())]).await), [told], "{path} {filter}");
            }
        }
        let filter = json!({"action": "CREATE", "resource": "objects", "user_id": 1}).to_string();
        assert_eq!(hints(&app.get_with("/logs/", &[("filter", &filter)]).await), [] as [&str; 0]);
    }

    async fn paths_in_pipelines_are_looked_at(app) {
        a_rack(app).await;
        let told = async |pipeline: Value| hints(&app.post("/objects/aggregate", &json!({"pipeline": pipeline})).await);
        let absent = "no object has \"typ_id\"; did you mean type_id?";
        assert_eq!(told(json!([{"$group": {"_id": "$typ_id"}}])).await, [absent]);
        assert_eq!(told(json!([{"$set": {"a": 1}}, {"$sortByCount": "$typ_id"}])).await, [absent]);
        let field = "no object has \"hostname\"; a field is asked for as f.hostname";
        for stage in [
            json!({"$group": {"_id": "$hostname"}}),
            json!({"$unset": "hostname"}),
            json!({"$unwind": "$hostname"}),
            json!({"$project": {"hostname": 1}}),
            json!({"$facet": {"a": [{"$sortByCount": "$hostname"}]}}),
        ] {
            assert_eq!(told(json!([stage])).await, [field], "{stage}");
        }
        for right in [
            json!([{"$set": {"hostname": "$f.hostname"}}, {"$match": {"hostname": "x"}}, {"$group": {"_id": "$hostname"}}]),
            json!([{"$group": {"_id": "all", "n": {"$sum": 1}}}, {"$project": {"m": "$n"}}]),
            json!([{"$sort": {"f.hostname": 1}}, {"$group": {"_id": "$f.hostname", "all": {"$push": "$$ROOT.fields"}}}]),
            json!([{"$set": {"x": {"$literal": "$hostname"}}}, {"$unwind": {"path": "$fields", "includeArrayIndex": "n"}}, {"$sort": {"n": 1}}]),
        ] {
            assert_eq!(told(right.clone()).await, [] as [&str; 0], "{right}");
        }
        let listed = json!([{"$set": {"cost": "$price"}}, {"$sort": {"cost": 1}}]).to_string();
        let told = hints(&app.get_with("/objects/", &[("filter", &listed), ("sort", "cost")]).await);
        assert_eq!(told, ["no object has \"price\"; fields are asked for as f.<name>"]);
    }

    async fn advice_is_short_and_lets_no_question_fail(app) {
        a_rack(app).await;
        let long = "x".repeat(3000);
        let filter: serde_json::Map<String, Value> =
            (0..40).map(|number| (format!("fields.p{number}"), json!(1))).chain([(long, json!(1))]).collect();
        let told = hints_for(app, &Value::Object(filter), "public_id").await;
        assert!(told.len() <= 5 && told.iter().all(|hint| hint.len() < 300), "{told:?}");
    }

    async fn an_order_has_at_most_32_keys(app) {
        let keys = |count: usize| (0..count).map(|number| format!("a{number}")).collect::<Vec<String>>().join(",");
        assert_eq!(app.get(&format!("/types/?sort={}", keys(31))).await.status, 200);
        app.get(&format!("/types/?sort={}", keys(32))).await.error(400, "parameter_invalid");
    }

    async fn hidden_objects_and_types_leave_no_trace_in_advice(app) {
        let person = Person::with_rights(app, "visitor", &["base.framework.object.view"]).await;
        let acl = json!({"activated": true, "groups": {"includes": {"1": ["READ", "CREATE"]}}});
        let fields = json!([{"type": "date", "name": "secret", "label": "S"}]);
        app.created("/types/", &json!({"name": "vault", "author_id": 1, "fields": fields, "acl": acl})).await;
        let question = |name: &str| format!("/objects/?filter=%7B%22{name}%22%3A%22x%22%7D&sort=fields.{name}");
        let pipeline = |name: &str| json!({"pipeline": [{"$match": {name: "x*"}}, {"$group": {"_id": name, "n": {"$sum": format!("${name}")}}}]});
        let mut told = Vec::new();
        for name in ["secret", "sacred"] {
            let request = person.request(app, reqwest::Method::POST, "/objects/aggregate").json(&pipeline(name));
            told.push(hints(&send(request).await).join("\n").replace(name, "x"));
        }
        assert_eq!(told[0], told[1]);
        let hidden = hints(&person.get(app, &question("secret")).await);
        let absent = hints(&person.get(app, &question("sacred")).await);
        let renamed: Vec<String> = hidden.iter().map(|hint| hint.replace("secret", "sacred")).collect();
        assert_eq!(renamed, absent);
    }

    async fn no_index_is_proposed_on_a_path_that_no_document_has(app) {
        super::explain::many_objects(app).await;
        let answer = app.get_with("/objects/", &[("filter", r#"{"colour": "red"}"#), ("explain", "true")]).await;
        assert_eq!(answer.json()["hint"]["index"], json!([]), "{}", answer.text);
        let told = hints(&answer);
        assert!(told.iter().all(|hint| !hint.contains("an index")), "{told:?}");
        assert!(told.contains(&"no object has \"colour\"; fields are asked for as f.<name>".to_owned()), "{told:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_the_service_gives_no_object_is_told_though_there_is_no_time_to_look_at_all() {
    let counter = CountingStore::counter();
    let app = TestApp::embedded_around(|store| CountingStore::around(store, &counter)).await;
    a_rack(&app).await;
    counter.be_slow();
    let told = "\"hostnam\" is no member of objects; did you mean the field f.hostname?";
    assert_eq!(hints(&app.get_with("/objects/", &[("projection", "hostnam")]).await), [told]);
    assert_eq!(hints_for(&app, &json!({}), "hostnam").await, [told]);
}
