//! What search finds, in which order, and how it shows it.

use serde_json::{Value, json};

use super::support::{asked, found, found_in_pages};
use crate::api::people::Person;
use crate::support::app::{TestApp, on_each_store};

/// Racks, and servers in them: the type ids.
async fn racks_and_servers(app: &TestApp) -> (i64, i64) {
    let rack = json!({"name": "rack", "label": "Rack", "author_id": 1, "fields": [
        {"type": "text", "name": "name", "label": "Name"},
        {"type": "text", "name": "note", "label": "Note"},
    ], "render_meta": {"summary": {"fields": ["name"]}}});
    let rack = app.created("/types/", &rack).await;
    let options = json!([{"name": "prod", "label": "Production"}, {"name": "test", "label": "Test"}]);
    let server = json!({"name": "server", "label": "Server", "author_id": 1, "fields": [
        {"type": "text", "name": "host", "label": "Host"},
        {"type": "ip", "name": "ip", "label": "Address"},
        {"type": "number", "name": "units", "label": "Units"},
        {"type": "select", "name": "state", "label": "State", "options": options},
        {"type": "password", "name": "secret", "label": "Secret"},
        {"type": "ref", "name": "rack", "label": "Rack", "ref_types": [rack]},
    ], "render_meta": {"summary": {"fields": ["host"]}}});
    (rack, app.created("/types/", &server).await)
}

/// The first hit: field, and text with the marked words in angle brackets.
async fn shown(app: &TestApp, words: &str) -> (String, String) {
    let body = asked(app, words, &[]).await.json();
    let hit = &body["results"][0];
    let pieces = hit["text"].as_array().expect("pieces").iter().map(|piece| {
        let text = piece["text"].as_str().expect("a text");
        if piece["is_match"] == true { format!("<{text}>") } else { text.to_owned() }
    });
    (hit["field"].as_str().expect("a field").to_owned(), pieces.collect())
}

on_each_store! {
    async fn words_numbers_addresses_labels_and_summaries_are_found(app) {
        let (rack, server) = racks_and_servers(app).await;
        let in_rack = app.create_object(rack, &json!({"name": "ZRH1-R01", "note": "near the door"})).await;
        let web = app.create_object(server, &json!({
            "host": "Web-01.Example.com", "ip": "10.0.0.9", "units": 2.5, "state": "prod", "secret": "hunter2", "rack": in_rack,
        })).await;
        let other = app.create_object(server, &json!({"host": "db-7", "ip": "10.0.0.10"})).await;
        for (words, expected) in [
            ("web", vec![web]),
            ("WEB-01", vec![web]),
            ("example.com", vec![]),
            ("example com", vec![web]),
            ("10.0.0.9", vec![web]),
            ("10.0.0", vec![web, other]),
            ("2.5", vec![web]),
            ("production", vec![web]),
            ("prod", vec![web]),
            ("zrh1", vec![in_rack, web]),
            ("zrh1-r01", vec![in_rack, web]),
            ("door", vec![in_rack]),
            ("web zrh1", vec![web]),
            ("zrh1 web", vec![web]),
            ("zr web", vec![]),
            ("web zr", vec![web]),
            ("hunter2", vec![]),
            ("nothing", vec![]),
        ] {
            assert_eq!(found(app, words).await, expected, "{words}");
        }
        assert_eq!(found(app, &other.to_string()).await[0], other, "by its id");
        assert_eq!(found(app, &format!("db {other}")).await, [other], "its id is a word");
    }

    async fn whole_values_come_before_whole_words_and_those_before_beginnings(app) {
        let (rack, server) = racks_and_servers(app).await;
        let begins = app.create_object(rack, &json!({"name": "alphabet"})).await;
        let word = app.create_object(rack, &json!({"name": "the alpha"})).await;
        let late = app.create_object(server, &json!({"host": "ÁLPHA"})).await;
        let value = app.create_object(rack, &json!({"name": "Alpha"})).await;
        let body = asked(app, "alpha", &[]).await.json();
        let list: Vec<(i64, &str)> = body["results"].as_array().expect("results").iter()
            .map(|hit| (hit["public_id"].as_i64().expect("an id"), hit["match"].as_str().expect("a kind"))).collect();
        assert_eq!(list, [(value, "value"), (late, "value"), (word, "word"), (begins, "beginning")]);
        assert_eq!((&body["count"], &body["next"], &body["too_common"]), (&json!(4), &Value::Null, &json!([])));
        for limit in 1..=5 {
            let pages = found_in_pages(app, None, "alpha", (limit, None)).await;
            assert_eq!(pages.iter().map(|(_, id)| *id).collect::<Vec<_>>(), [value, late, word, begins], "{limit}");
        }
        let of_racks = found_in_pages(app, None, "alpha", (2, Some(rack))).await;
        assert_eq!(of_racks.iter().map(|(_, id)| *id).collect::<Vec<_>>(), [value, word, begins]);
    }

    async fn a_hit_says_which_field_matched_and_marks_the_words(app) {
        let (rack, server) = racks_and_servers(app).await;
        let in_rack = app.create_object(rack, &json!({"name": "ZRH1-R01", "note": "near the big door, behind the door"})).await;
        let web = app.create_object(server, &json!({"host": "web-01", "state": "test", "rack": in_rack})).await;
        assert_eq!(shown(app, "door big").await, ("note".into(), "near the <big> <door>, behind the <door>".into()));
        assert_eq!(shown(app, "web").await, ("host".into(), "<web>-01".into()));
        assert_eq!(shown(app, "web-01").await, ("host".into(), "<web-01>".into()));
        assert_eq!(shown(app, "web zrh1-r01").await.1, "<web>-01");
        let body = asked(app, "zrh1", &[("type_id", &server.to_string())]).await.json();
        let hit = &body["results"][0];
        assert_eq!((&hit["public_id"], &hit["field"], &hit["field_label"]), (&json!(web), &json!("rack"), &json!("Rack")));
        assert_eq!((&hit["type_id"], &hit["type_label"], &hit["summary_line"]), (&json!(server), &json!("Server"), &json!("web-01")));
        let by_id = asked(app, &web.to_string(), &[]).await.json();
        assert_eq!(by_id["results"][0]["field"], "public_id");
    }

    async fn hidden_objects_are_neither_found_nor_a_reason_to_find_others(app) {
        let (rack, server) = racks_and_servers(app).await;
        let secret = app.create_object(rack, &json!({"name": "bunker", "note": "web"})).await;
        let web = app.create_object(server, &json!({"host": "web", "rack": secret})).await;
        let person = Person::with_rights(app, "outsider", &["base.framework.object.view"]).await;
        let acl = json!({"acl": {"activated": true, "groups": {"includes": {"1": ["READ"]}}}});
        assert_eq!(app.patch(&format!("/types/{rack}"), &acl).await.status, 202);
        let all = |list: Vec<(String, i64)>| list.into_iter().map(|(_, id)| id).collect::<Vec<_>>();
        for (words, seen, by_all) in [
            ("bunker", vec![], vec![secret, web]),
            ("bunk", vec![], vec![secret, web]),
            ("web", vec![web], vec![web, secret]),
            (&secret.to_string(), vec![], vec![secret]),
        ] {
            assert_eq!(all(found_in_pages(app, Some(&person), words, (1, None)).await), seen, "{words}");
            let mut found = all(found_in_pages(app, None, words, (1, None)).await);
            found.sort_unstable();
            let mut expected = by_all;
            expected.sort_unstable();
            assert_eq!(found, expected, "{words}");
        }
        let no_right = Person::with_rights(app, "nobody", &["base.framework.type.view"]).await;
        no_right.get(app, "/search/?q=web").await.error(403, "right_missing");
    }

    async fn questions_without_words_are_refused(app) {
        let long = "a".repeat(501);
        for (parameters, place) in [
            (vec![], "q"),
            (vec![("q", "")], "q"),
            (vec![("q", " -- ")], "q"),
            (vec![("q", "a b c d e f g h i")], "q"),
            (vec![("q", long.as_str())], "q"),
            (vec![("q", "a"), ("limit", "0")], "limit"),
            (vec![("q", "a"), ("limit", "101")], "limit"),
            (vec![("q", "a"), ("cursor", "3-1-1")], "cursor"),
            (vec![("q", "a"), ("cursor", "1-1")], "cursor"),
            (vec![("q", "a"), ("page", "2")], "page"),
        ] {
            let refused = app.get_with("/search/", &parameters).await.error(400, "parameter_invalid");
            assert_eq!(refused["errors"][0]["pointer"], place, "{parameters:?}: {refused}");
        }
        asked(app, "a", &[("type_id", "77")]).await.error(404, "type_not_found");
    }
}
