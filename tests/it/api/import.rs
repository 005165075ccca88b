//! Objects from files.

use std::collections::BTreeMap;
use std::time::Duration;

use inventory_service::query::{Filter, Limits};
use reqwest::Method;
use serde_json::{Value, json};

use super::bulk::total;
use super::people::Person;
use crate::support::app::{Answer, TestApp, on_each_store, send};

pub(super) async fn import(app: &TestApp, parameters: &str, file: impl Into<reqwest::Body>) -> Answer {
    let request = app.request(Method::POST, &format!("/import/objects?{parameters}"));
    send(request.header("Content-Type", "text/csv").body(file)).await
}

async fn export(app: &TestApp, parameters: &str) -> String {
    let answer = app.get(&format!("/export/objects?{parameters}")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.text
}

/// Created, updated, unchanged.
fn counts(answer: &Answer) -> (i64, i64, i64) {
    assert_eq!(answer.status, 200, "{}", answer.text);
    let report = answer.json();
    let count = |name: &str| report[name].as_i64().expect("a number");
    (count("created"), count("updated"), count("unchanged"))
}

/// Line and field of each error of a refused import.
fn errors(answer: &Answer) -> Vec<(i64, String)> {
    let body = answer.error(400, "import_refused");
    let errors = body["report"]["errors"].as_array().expect("errors");
    errors
        .iter()
        .map(|error| (error["line"].as_i64().expect("a line"), error["field"].as_str().expect("a field").to_owned()))
        .collect()
}

fn at(places: &[(i64, &str)]) -> Vec<(i64, String)> {
    places.iter().map(|(line, field)| (*line, (*field).to_owned())).collect()
}

/// Values of an object's fields by name.
async fn values(app: &TestApp, id: i64) -> BTreeMap<String, Value> {
    let object = app.get(&format!("/objects/{id}/native")).await.json();
    let fields = object["fields"].as_array().cloned().expect("fields");
    fields
        .into_iter()
        .map(|field| (field["name"].as_str().expect("a name").to_owned(), field["value"].clone()))
        .collect()
}

async fn server(app: &TestApp) -> i64 {
    app.create_type("server", &[("hostname", "text"), ("cores", "number"), ("rented", "checkbox"), ("bought", "date")])
        .await
}

on_each_store! {
    async fn a_heading_that_is_the_name_of_a_field_means_the_field(app) {
        let kind = app.create_type("server", &[("hostname", "text"), ("status", "text")]).await;
        let target = format!("type_id={kind}");
        let answer = import(app, &target, "public_id,hostname,status,object.status\n900,web-1,in use,false\n").await;
        assert_eq!(counts(&answer), (1, 0, 0));
        let stored = app.get("/objects/900/native").await.json();
        assert_eq!((&stored["status"], values(app, 900).await["status"].clone()), (&json!(false), json!("in use")));
        let table = export(app, &format!("{target}&columns=all")).await;
        assert!(table.starts_with("public_id,active,object.status,version,"), "{table}");
        assert!(table.lines().next().is_some_and(|header| header.ends_with(",hostname,status")), "{table}");
        assert_eq!(counts(&import(app, &target, table).await), (0, 0, 1));
        // Files of older versions have this prefix.
        assert_eq!(counts(&import(app, &target, "public_id,fields.status\n900,in use\n").await), (0, 0, 1));
        assert_eq!(errors(&import(app, &target, "status,fields.status\na,b\n").await), at(&[(1, "status")]));
        assert_eq!(errors(&import(app, &target, "object.status\nin use\n").await), at(&[(2, "status")]));
    }

    async fn a_file_that_is_no_table_tells_what_it_may_be(app) {
        let kind = server(app).await;
        let zip = import(app, &format!("type_id={kind}"), &b"PK\x03\x04\x14\x00\xff\xfe"[..]).await;
        let reason = |answer: &Answer, index: usize| answer.json()["report"]["errors"][index]["reason"].clone();
        assert_eq!(errors(&zip), at(&[(1, "")]));
        assert_eq!(reason(&zip, 0), "is no text but a zip file; add format=xlsx for a spreadsheet");
        // As curl -d sends it.
        let joined = import(app, &format!("type_id={kind}"), "hostname,coresa,1b,2").await;
        assert_eq!(errors(&joined), at(&[(1, ""), (1, "coresa"), (1, "1b"), (1, "2")]));
        let lost = "is the only line; if there were more, send the file with curl --data-binary, as -d loses line ends";
        assert_eq!(reason(&joined, 0), lost);
    }

    async fn a_column_without_a_name_is_told_as_one(app) {
        let kind = server(app).await;
        for (file, column) in [("hostname,cores,\na,1,\n", 3), ("hostname,,cores\na,,1\n", 2), ("hostname, \na,\n", 2)] {
            let answer = import(app, &format!("type_id={kind}"), file).await;
            let reason = format!("column {column} has no name; give it one, or leave the column out");
            assert_eq!(answer.json()["report"]["errors"][0]["reason"], reason);
        }
    }

    async fn the_media_type_tells_the_encoding(app) {
        let kind = server(app).await;
        for (number, (charset, bytes)) in (900_i64..).zip([
            ("iso-8859-1", b"K\xE4rcher".to_vec()),
            ("\"Latin1\"", b"K\xE4rcher".to_vec()),
            ("WINDOWS-1252", b"K\xE4rcher".to_vec()),
            ("utf-8", "K\u{e4}rcher".as_bytes().to_vec()),
            ("koi8-r", "K\u{e4}rcher".as_bytes().to_vec()),
        ]) {
            let file = [b"public_id,hostname\n", format!("{number},").as_bytes(), &bytes, b"\n"].concat();
            let request = app.request(Method::POST, &format!("/import/objects?type_id={kind}"));
            let answer = send(request.header("Content-Type", format!("text/csv; charset={charset}")).body(file)).await;
            assert_eq!(answer.status, 200, "{charset}: {}", answer.text);
            assert_eq!(values(app, number).await["hostname"], "K\u{e4}rcher", "{charset}");
        }
        // The parameter counts more.
        let request = app.request(Method::POST, &format!("/import/objects?type_id={kind}&encoding=utf-8"));
        let answer = send(request.header("Content-Type", "text/csv; charset=latin1").body(&b"hostname\nK\xE4\n"[..])).await;
        assert_eq!(answer.status, 400, "{}", answer.text);
    }

    async fn a_moment_as_databases_write_it_is_a_date(app) {
        let kind = server(app).await;
        let noon = json!({"$date": 1_714_996_800_000_i64});
        for text in [
            "2024-05-06 12:00:00", "2024-05-06T12:00:00", "2024-05-06 12:00:00.000", "2024-05-06 14:00:00+0200",
            "2024-05-06T12:00", "2024-05-06 12:00", "2024-05-06T12:00Z", "2024-05-06 14:00+02:00",
            "2024-05-06T14:00:00+0200", "2024-05-06 14:00:00+02:00", "2024-05-06T14:00:00.0+0200", "2024-05-06 12:00:00Z",
        ] {
            let id = app.create_object(kind, &json!({"bought": text})).await;
            // Stored as a date, not as a text.
            assert_eq!(values(app, id).await["bought"], noon, "{text}");
            let answer = import(app, &format!("type_id={kind}"), format!("public_id,bought\n{id},{text}\n")).await;
            assert_eq!(answer.json()["unchanged"], 1, "{text}: {}", answer.text);
        }
        for text in ["2024-05-06 25:00:00", "2024-05-06 noon", "06.05.2024 12:00:00"] {
            let body = json!({"type_id": kind, "author_id": 1, "fields": {"bought": text}});
            app.post("/objects/", &body).await.error(400, "validation_failed");
        }
    }

    // The recipe of docs/import-export.md, Renaming a field.
    async fn a_field_is_renamed_with_its_values(app) {
        let field = |name: &str| json!({"type": "text", "name": name, "label": "Name of the host"});
        let kind = app.create_type("server", &[("host", "text"), ("rack", "text")]).await;
        let id = app.create_object(kind, &json!({"host": "web-1", "rack": "r1"})).await;
        let empty = app.create_object(kind, &json!({"rack": "r2"})).await;
        let path = format!("/types/{kind}");
        let both = app.patch(&path, &json!({"fields": [field("host"), field("hostname"), field("rack")]})).await;
        assert!(both.status.is_success(), "{}", both.text);
        let filter = r#"filter={"f.host":{"$ne":null}}"#;
        let export = app.get(&format!("/export/objects?type_id={kind}&format=csv&{filter}")).await.text;
        let (header, rows) = export.split_once('\n').expect("a header");
        assert_eq!(header.trim(), "public_id,active,host,hostname,rack");
        // As `cut -d, -f1,3` and a new name do it.
        let kept: Vec<String> = rows.lines().map(|row| row.split(',').collect::<Vec<_>>()).map(|row| format!("{},{}", row[0], row[2])).collect();
        let file = format!("public_id,hostname\n{}\n", kept.join("\n"));
        let answer = import(app, &format!("type_id={kind}"), file).await;
        assert_eq!(counts(&answer), (0, 1, 0));
        let one = app.patch(&path, &json!({"fields": [field("hostname"), field("rack")]})).await;
        assert!(one.header("inventory-warning").contains("has lost \"host\""), "{:?}", one.headers);
        let cleaned = send(app.request(Method::PUT, &format!("/objects/clean/{kind}"))).await;
        assert!(cleaned.status.is_success(), "{}", cleaned.text);
        assert_eq!(app.get(&format!("/objects/clean/{kind}")).await.json()["total"], 0);
        assert_eq!(json!(values(app, id).await), json!({"hostname": "web-1", "rack": "r1"}));
        assert_eq!(json!(values(app, empty).await), json!({"hostname": null, "rack": "r2"}));
    }

    async fn lines_create_change_and_keep_objects_by_their_id(app) {
        let server = server(app).await;
        let first = app.create_object(server, &json!({"hostname": "a", "cores": 1, "rented": true})).await;
        let second = app.create_object(server, &json!({"hostname": "b"})).await;
        let file = format!("public_id,hostname,cores\n{first},a,2\n{second},b,\n,c,3\n500,d,4.0\n");
        let answer = import(app, &format!("type_id={server}"), file).await;
        assert_eq!(counts(&answer), (2, 1, 1));
        let lines = answer.json()["lines"].clone();
        assert_eq!(lines[0], json!({"line": 2, "action": "updated", "public_id": first}));
        assert_eq!(lines[1], json!({"line": 3, "action": "unchanged", "public_id": second}));
        assert_eq!((&lines[2]["action"], &lines[3]["public_id"]), (&json!("created"), &json!(500)));
        let changed = values(app, first).await;
        assert_eq!((&changed["cores"], &changed["rented"]), (&json!(2), &json!(true)), "what has no column stays");
        assert_eq!(values(app, 500).await["cores"], json!(4.0));
        let stored = app.get(&format!("/objects/{first}/native")).await.json();
        assert_eq!((&stored["version"], &stored["editor_id"]), (&json!("1.0.1"), &json!(1)));
        let kept = app.get(&format!("/objects/{second}/native")).await.json();
        assert_eq!((&kept["version"], &kept["editor_id"]), (&json!("1.0.0"), &Value::Null));
        assert_eq!(app.create_object(server, &json!({"hostname": "next"})).await, 501);
    }

    async fn every_bad_line_is_reported_and_nothing_is_changed(app) {
        let server = server(app).await;
        let file = "hostname,cores,rented,bought\na,1,true,2024-01-01\nb,one,maybe,1.1.2024\nc,2\n\nd,3,no,\n";
        let answer = import(app, &format!("type_id={server}"), file).await;
        assert_eq!(errors(&answer), at(&[(3, "cores"), (3, "rented"), (3, "bought"), (4, "")]));
        let report = answer.json()["report"].clone();
        assert_eq!((&report["failed"], &report["created"]), (&json!(2), &json!(0)));
        assert_eq!(answer.json()["message"], "2 lines cannot be taken; nothing was changed");
        let answer = import(app, &format!("type_id={server}"), "hostname,cores\na,one\n").await;
        assert_eq!(answer.json()["message"], "1 line cannot be taken; nothing was changed");
        assert_eq!(total(app).await, 0);
    }

    async fn a_thousand_bad_lines_among_many_are_told_up_to_the_bound(app) {
        let server = server(app).await;
        let line = |number: usize| if number.is_multiple_of(5) { "x,odd\n".to_owned() } else { format!("h{number},{number}\n") };
        let file: String = std::iter::once("hostname,cores\n".to_owned()).chain((0..6000).map(line)).collect();
        let answer = import(app, &format!("type_id={server}"), file).await;
        assert_eq!(errors(&answer).len(), 1000);
        let report = answer.json()["report"].clone();
        assert_eq!((&report["failed"], &report["errors_left_out"]), (&json!(1200), &json!(200)));
        assert_eq!(report["errors"][1], json!({"line": 7, "field": "cores", "reason": "must be a number, with a point for decimals, or empty"}));
        assert_eq!(total(app).await, 0);
    }

    async fn lines_may_have_their_fields_as_a_map_beside_a_key(app) {
        let server = server(app).await;
        let lines = "{\"fields\":{\"hostname\":\"a\",\"cores\":3}}\n{\"fields\":[{\"name\":\"hostname\",\"value\":\"b\"}]}\n";
        let query = format!("type_id={server}&key=hostname&format=ndjson");
        for _ in 0..2 {
            let answer = import(app, &query, lines).await;
            assert!(answer.status.is_success(), "{}", answer.text);
            assert_eq!(total(app).await, 2);
        }
    }

    async fn what_is_no_id_makes_no_new_object(app) {
        let server = server(app).await;
        let file = "public_id,hostname\n'=1,a\n[1],b\n1.5,c\nx,d\n,\n";
        let answer = import(app, &format!("type_id={server}"), file).await;
        assert_eq!(errors(&answer), at(&[(2, "public_id"), (3, "public_id"), (4, "public_id"), (5, "public_id")]));
        let open = import(app, &format!("type_id={server}"), "hostname,cores\na,1\n\"b,2\nc,3\n").await;
        assert_eq!(errors(&open), at(&[(3, "")]));
        assert_eq!(total(app).await, 0);
    }

    async fn the_same_file_twice_at_once_makes_each_object_once(app) {
        let server = server(app).await;
        let lines = (0..300).map(|number| format!("h{number}\n"));
        let file: String = std::iter::once("hostname\n".to_owned()).chain(lines).collect();
        let target = format!("type_id={server}&key=hostname");
        let (one, other) = tokio::join!(import(app, &target, file.clone()), import(app, &target, file));
        let (one, other) = (counts(&one), counts(&other));
        assert_eq!((one.0 + other.0, one.2 + other.2), (300, 300), "{one:?} {other:?}");
        assert_eq!(total(app).await, 300);
    }

    async fn the_header_has_to_fit_the_type(app) {
        let server = server(app).await;
        for (header, places) in [
            ("hostname,colour,size", &[(1, "colour"), (1, "size")][..]),
            ("hostname,hostname", &[(1, "hostname")]),
            ("hostname,fields.hostname", &[(1, "hostname")]),
            ("hostname,cores=rack/name", &[(1, "cores=rack/name")]),
            ("", &[(1, "")]),
        ] {
            let file = format!("{header}\n{}", if header.is_empty() { "" } else { "a\n" });
            assert_eq!(errors(&import(app, &format!("type_id={server}"), file).await), at(places), "{header}");
        }
        let without_key = import(app, &format!("type_id={server}&key=hostname"), "cores\n1\n").await;
        assert_eq!(errors(&without_key), at(&[(1, "hostname")]));
    }

    async fn a_column_that_the_type_lacks_is_answered_with_the_nearest_one(app) {
        let room = app.create_type("room", &[("number", "text")]).await;
        let rack = app.create_type("rack", &[("hostname", "text"), ("room", "ref")]).await;
        app.create_object(room, &json!({"number": "1"})).await;
        for (header, reason) in [
            ("hostnam", "the type rack has no field hostnam, did you mean hostname?"),
            ("fields.hostnam", "the type rack has no field hostnam, did you mean hostname?"),
            ("publc_id", "the type rack has no field publc_id, did you mean public_id?"),
            ("romo=room/number", "the type rack has no field romo, did you mean room?"),
            ("id", "is no column; did you mean public_id?"),
            ("type_id", "is no column; a table has objects of one type, which the request names"),
            ("sep=", "tells a spreadsheet the delimiter; leave the line out"),
        ] {
            let answer = import(app, &format!("type_id={rack}"), format!("{header}\n1\n")).await;
            assert_eq!(errors(&answer), at(&[(1, header)]));
            assert_eq!(answer.json()["report"]["errors"][0]["reason"], reason, "{header}");
        }
        let twice = import(app, &format!("type_id={rack}"), "active, active\ntrue,true\n").await;
        assert_eq!(twice.json()["report"]["errors"][0]["reason"], "is here twice");
        let spaced = import(app, &format!("type_id={rack}"), "hostname, active\nweb-1,true\n").await;
        assert_eq!(spaced.json()["created"], 1, "{}", spaced.text);
        let told = import(app, &format!("type_id={rack}&key=hostnam"), "hostname\n1\n").await;
        assert_eq!(told.error(400, "import_key")["message"], "the type rack has no field hostnam, did you mean hostname?");
    }

    async fn objects_are_found_by_a_key(app) {
        let server = server(app).await;
        let ids = [
            app.create_object(server, &json!({"hostname": "a", "cores": 1})).await,
            app.create_object(server, &json!({"hostname": "b", "cores": 1})).await,
        ];
        for _ in 0..2 {
            app.create_object(server, &json!({"hostname": "twin"})).await;
        }
        let key = format!("type_id={server}&key=hostname");
        let answer = import(app, &key, "hostname,cores\nb,5\na,1\nnew,7\n").await;
        assert_eq!(counts(&answer), (1, 1, 1));
        assert_eq!(values(app, ids[1]).await["cores"], json!(5));
        let refused = import(app, &key, "hostname,cores\ntwin,1\nx,1\nx,2\n,1\n").await;
        assert_eq!(errors(&refused), at(&[(2, "hostname"), (4, "hostname"), (5, "hostname")]));
        let at_odds = format!("public_id,hostname\n{},b\n{},c\n", ids[0], ids[0]);
        assert_eq!(errors(&import(app, &key, at_odds).await), at(&[(2, "public_id"), (3, "public_id")]));
        let again = import(app, &key, "hostname,cores\nb,5\na,1\nnew,7\n").await;
        assert_eq!(counts(&again), (0, 0, 3), "repeating changes nothing");
        import(app, &format!("type_id={server}&key=colour"), "hostname\n").await.error(400, "import_key");
    }

    async fn references_are_ids_or_fields_of_their_target(app) {
        let rack = app.create_type("rack", &[("name", "text")]).await;
        let holder = json!({"name": "blade", "author_id": 1, "fields": [
            {"type": "text", "name": "name", "label": "Name"},
            {"type": "ref", "name": "rack", "label": "Rack", "ref_types": [rack]},
        ]});
        let blade = app.created("/types/", &holder).await;
        let one = app.create_object(rack, &json!({"name": "r1"})).await;
        for _ in 0..2 {
            app.create_object(rack, &json!({"name": "twin"})).await;
        }
        let blades = format!("type_id={blade}");
        let answer = import(app, &blades, format!("public_id,name,rack\n100,a,{one}\n101,b,\n")).await;
        assert_eq!(counts(&answer), (2, 0, 0));
        let answer = import(app, &blades, "public_id,rack=rack/name\n100,r1\n101,r1\n102,\n").await;
        assert_eq!(counts(&answer), (1, 1, 1));
        assert_eq!(values(app, 101).await["rack"], json!(one));
        let refused = import(app, &blades, "name,rack=rack/name\nc,r2\nd,twin\n").await;
        assert_eq!(errors(&refused), at(&[(2, "rack"), (3, "rack")]));
        let refused = import(app, &blades, "public_id,name,rack\n100,a,999\n,b,100\n").await;
        assert_eq!(errors(&refused), at(&[(2, "rack"), (3, "rack")]));
        for header in ["rack=shelf/name", "rack=rack/colour", "name=rack/name"] {
            assert_eq!(errors(&import(app, &blades, format!("{header}\nx\n")).await), at(&[(1, header)]));
        }
    }

    async fn objects_of_one_file_may_refer_to_each_other(app) {
        let place = app.create_type("place", &[("name", "text"), ("within", "ref")]).await;
        let file = "public_id,name,within\n1,room,2\n2,house,\n3,odd,4\n";
        let refused = import(app, &format!("type_id={place}"), file).await;
        assert_eq!(errors(&refused), at(&[(4, "within")]));
        let answer = import(app, &format!("type_id={place}"), file.replace("3,odd,4\n", "")).await;
        assert_eq!(counts(&answer), (2, 0, 0));
        assert_eq!(values(app, 1).await["within"], json!(2));
    }

    async fn a_dry_run_says_what_would_happen_and_changes_nothing(app) {
        let server = server(app).await;
        let id = app.create_object(server, &json!({"hostname": "a"})).await;
        let file = format!("public_id,hostname\n{id},b\n,c\n700,d\n");
        let dry = import(app, &format!("type_id={server}&dry_run=true"), file.clone()).await;
        assert_eq!(counts(&dry), (2, 1, 0));
        let report = dry.json();
        assert_eq!((&report["dry_run"], &report["lines"][1]), (&json!(true), &json!({"line": 3, "action": "created"})));
        assert_eq!((total(app).await, values(app, id).await["hostname"].clone()), (1, json!("a")));
        assert_eq!(counts(&import(app, &format!("type_id={server}"), file).await), (2, 1, 0));
        assert_eq!(errors(&import(app, &format!("type_id={server}&dry_run=true"), "cores\nx\n").await), at(&[(2, "cores")]));
    }

    async fn files_come_in_any_encoding_and_with_any_delimiter(app) {
        let server = server(app).await;
        let id = app.create_object(server, &json!({"hostname": "K\u{e4}rcher"})).await;
        let text = format!("public_id;hostname\n{id};K\u{e4}rcher\n");
        let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let narrow: Vec<u8> = text.chars().map(|c| u8::try_from(u32::from(c)).expect("it is short")).collect();
        for (parameters, file) in [
            ("", format!("\u{feff}{text}").into_bytes()),
            ("&delimiter=;", text.replace('\n', "\r\n").into_bytes()),
            ("", text.replace(';', "\t").into_bytes()),
            ("&delimiter=pipe", text.replace(';', "|").into_bytes()),
            ("&encoding=utf-16le", wide.clone()),
            ("", [b"\xff\xfe", &wide[..]].concat()),
            ("&encoding=windows-1252", narrow.clone()),
            ("&encoding=latin1", narrow.clone()),
        ] {
            let answer = import(app, &format!("type_id={server}{parameters}"), file).await;
            assert_eq!(counts(&answer), (0, 0, 1), "{parameters}");
        }
        assert_eq!(errors(&import(app, &format!("type_id={server}"), narrow).await), at(&[(2, "")]));
    }

    async fn defused_cells_are_the_text_that_they_were(app) {
        let rack = app.create_type("rack", &[("name", "text"), ("more", "json")]).await;
        let texts = ["=1+1", "", "'", "'=x", "'t Hooft", "-5", "\t=1", "a\nb", "5", "{\"a\": 1}"];
        for text in texts {
            app.create_object(rack, &json!({"name": text, "more": text})).await;
        }
        let table = export(app, &format!("type_id={rack}")).await;
        assert_eq!(counts(&import(app, &format!("type_id={rack}"), table.clone()).await), (0, 0, 10));
        let removed = app.request(Method::DELETE, "/objects/").query(&[("filter", "{}"), ("expected_count", "10")]);
        assert_eq!(send(removed).await.status, 200);
        assert_eq!(counts(&import(app, &format!("type_id={rack}"), table).await), (10, 0, 0));
        for (id, text) in (1..).zip(texts) {
            assert_eq!(values(app, id).await["name"], json!(text));
            assert_eq!(values(app, id).await["more"], json!(text));
        }
    }

    async fn lines_of_json_go_both_ways(app) {
        let server = server(app).await;
        app.create_object(server, &json!({"hostname": "a", "cores": 1, "bought": "2024-02-29"})).await;
        app.create_object(server, &json!({"hostname": "b", "cores": 2.5})).await;
        let lines = export(app, &format!("type_id={server}&format=ndjson")).await;
        let target = format!("type_id={server}&format=ndjson");
        assert_eq!(counts(&import(app, &target, lines.clone()).await), (0, 0, 2));
        let changed = "{\"public_id\":1,\"fields\":[{\"name\":\"cores\",\"value\":9}]}\n\n{\"fields\":[{\"name\":\"hostname\",\"value\":\"c\"}]}\n";
        assert_eq!(counts(&import(app, &target, changed).await), (1, 1, 0));
        assert_eq!((values(app, 1).await["cores"].clone(), values(app, 1).await["hostname"].clone()), (json!(9), json!("a")));
        let broken = "{\"fields\":[{\"name\":\"cores\",\"value\":\"x\"}]}\n{\n[]\n{\"type_id\":99}\n{\"fields\":[{\"name\":\"colour\",\"value\":1}]}\n";
        assert_eq!(errors(&import(app, &target, broken).await), at(&[(1, "cores"), (2, ""), (3, ""), (4, "type_id"), (5, "colour")]));
        let strange = "{\"hostname\":\"lost\"}\n{\"public_id\":1,\"colour\":\"red\"}\n{\"public_id\":2,\"views\":0}\n{\"public_id\":3,\"value\":3}\n";
        assert_eq!(errors(&import(app, &target, strange).await), at(&[(1, "hostname"), (2, "colour"), (4, "value")]));
        let key = format!("{target}&key=hostname");
        assert_eq!(counts(&import(app, &key, "{\"fields\":[{\"name\":\"hostname\",\"value\":\"b\"},{\"name\":\"cores\",\"value\":3}]}").await), (0, 1, 0));
    }

    async fn spreadsheets_go_both_ways(app) {
        let id = app.create_type("server", &[("hostname", "text"), ("cores", "number"), ("rented", "checkbox"), ("bought", "date")]).await;
        for values in [
            json!({"hostname": "a", "cores": 2, "rented": true, "bought": "2024-02-29T10:11:12.345Z"}),
            json!({"hostname": "=1+1", "cores": 2.5}),
            json!({"hostname": "", "cores": 9_007_199_254_740_993_i64}),
        ] {
            app.create_object(id, &values).await;
        }
        let sheet = app.request(Method::GET, &format!("/export/objects?type_id={id}&format=xlsx")).send().await;
        let sheet = sheet.expect("an answer").bytes().await.expect("a sheet");
        let body = || reqwest::Body::from(sheet.clone());
        assert_eq!(counts(&import(app, &format!("type_id={id}&format=xlsx"), body()).await), (0, 0, 3));
        let request = app.request(Method::POST, &format!("/import/objects?type_id={id}"));
        let kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";
        assert_eq!(counts(&send(request.header("Content-Type", kind).body(body())).await), (0, 0, 3));
        let refused = import(app, &format!("type_id={id}&format=xlsx"), "hostname\na\n").await;
        assert_eq!(errors(&refused), at(&[(1, "")]));
    }

    async fn rules_of_the_type_hold_for_files_too(app) {
        let body = json!({"name": "box", "author_id": 1, "fields": [
            {"type": "text", "name": "code", "label": "Code", "required": true, "regex": "[a-z]+"},
            {"type": "select", "name": "state", "label": "State", "options": [{"name": "live", "label": "Live"}]},
        ]});
        let id = app.created("/types/", &body).await;
        let file = "code,state,version,author_id\nabc,live,1.0.0,\nABC,live,,\n,live,,\nabc,dead,,\nabc,,one,\nabc,,,77\n";
        let refused = import(app, &format!("type_id={id}"), file).await;
        assert_eq!(errors(&refused), at(&[(3, "code"), (4, "code"), (5, "state"), (6, "version"), (7, "author_id")]));
        app.patch(&format!("/types/{id}"), &json!({"active": false})).await;
        import(app, &format!("type_id={id}"), "code\nabc\n").await.error(403, "type_inactive");
        import(app, "type_id=77", "code\n").await.error(404, "type_not_found");
    }

    async fn nobody_imports_what_he_may_not_write(app) {
        let person = Person::with_rights(app, "importer", &["base.import.object.*"]).await;
        let typed = async |name: &str, permissions: &[&str]| {
            let groups = json!({"1": ["CREATE", "READ", "UPDATE"], person.group_id.to_string(): permissions});
            let acl = json!({"activated": true, "groups": {"includes": groups}});
            let fields = json!([{"type": "text", "name": "name", "label": "Name"}, {"type": "ref", "name": "to", "label": "To"}]);
            app.created("/types/", &json!({"name": name, "author_id": 1, "fields": fields, "acl": acl})).await
        };
        let (closed, makes, changes) = (typed("closed", &[]).await, typed("makes", &["CREATE"]).await, typed("changes", &["UPDATE"]).await);
        let old = [app.create_object(makes, &json!({"name": "a"})).await, app.create_object(changes, &json!({"name": "a"})).await];
        let send_file = async |type_id: i64, file: String| {
            let request = person.request(app, Method::POST, &format!("/import/objects?type_id={type_id}"));
            send(request.header("Content-Type", "text/csv").body(file)).await
        };
        send_file(closed, "name\nx\n".to_owned()).await.error(403, "acl_denied");
        send_file(makes, format!("public_id,name\n{},b\n", old[0])).await.error(403, "acl_denied");
        send_file(changes, "name\nx\n".to_owned()).await.error(403, "acl_denied");
        let unseen = send_file(makes, "to=closed/name\nx\n".to_owned()).await;
        unseen.error(400, "import_refused");
        assert!(unseen.text.contains("there is no type closed"), "{}", unseen.text);
        let made = send_file(makes, "name\nx\n".to_owned()).await;
        assert_eq!(counts(&made), (1, 0, 0));
        let id = made.json()["lines"][0]["public_id"].as_i64().expect("an id");
        assert_eq!(app.get(&format!("/objects/{id}/native")).await.json()["author_id"], person.id);
        assert_eq!(counts(&send_file(changes, format!("public_id,name\n{},b\n", old[1])).await), (0, 1, 0));
    }

    async fn a_file_says_that_it_is_one(app) {
        let server = server(app).await;
        let request = app.request(Method::POST, &format!("/import/objects?type_id={server}"));
        send(request.json(&json!({}))).await.error(415, "not_a_file");
        for (parameters, name) in [
            ("", "type_id".to_owned()),
            ("type_id=1&format=ods", "format".to_owned()),
            ("type_id=1&format=ndjson&delimiter=;", "delimiter".to_owned()),
            ("type_id=1&atomic=true", "atomic".to_owned()),
        ] {
            let answer = import(app, parameters, "hostname\n").await;
            answer.error(400, "parameter_invalid");
            assert_eq!(answer.pointers(), [name]);
        }
    }

    async fn more_lines_than_one_unit_has_room_for_are_stored_once(app) {
        let server = server(app).await;
        let file = |from: usize, to: usize| {
            let lines = (from..to).map(|number| format!("h{number},{number}\n"));
            std::iter::once("hostname,cores\n".to_owned()).chain(lines).collect::<String>()
        };
        assert_eq!(counts(&import(app, &format!("type_id={server}"), file(0, 2500)).await), (2500, 0, 0));
        let changed = file(1000, 4000).replace(",1500\n", ",0\n");
        assert_eq!(counts(&import(app, &format!("type_id={server}&key=hostname"), changed).await), (1500, 1, 1499));
        assert_eq!(total(app).await, 4000);
        let notes = Filter::parse(&bson::doc! {"first_id": {"$exists": true}}, &Limits::NONE).expect("a filter");
        let noted = app.store.count("service.imports", &notes, Duration::from_secs(9)).await;
        assert_eq!(noted.expect("an answer"), 0);
    }

    async fn every_type_of_the_demo_comes_back_as_it_was(app) {
        crate::demo::fill(app).await;
        let objects = total(app).await;
        let types = app.get("/types/?limit=0").await.json()["results"].as_array().cloned().expect("types");
        let mut tables = Vec::new();
        for found in &types {
            let id = found["public_id"].as_i64().expect("an id");
            tables.push((id, export(app, &format!("type_id={id}")).await));
        }
        let removed = app.request(Method::DELETE, "/objects/").query(&[("filter", "{}"), ("expected_count", &objects.to_string())]);
        assert_eq!(send(removed).await.status, 200);
        for (id, table) in &tables {
            let answer = import(app, &format!("type_id={id}"), table.clone()).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
            assert_eq!(&export(app, &format!("type_id={id}")).await, table);
            let again = counts(&import(app, &format!("type_id={id}"), table.clone()).await);
            assert_eq!((again.0, again.1), (0, 0));
        }
        assert_eq!(total(app).await, objects);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_too_large_is_refused() {
    let app = TestApp::embedded_with(&[("api.max_import_bytes", "1000")]).await;
    let server = server(&app).await;
    let file = format!("hostname\n{}\n", "x".repeat(2000));
    import(&app, &format!("type_id={server}"), file).await.error(413, "body_too_large");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_is_asked_as_often_for_many_lines_as_for_few() {
    use crate::support::counting::CountingStore;

    let counter = CountingStore::counter();
    let app = TestApp::embedded_around(|store| CountingStore::around(store, &counter)).await;
    let rack = app.create_type("rack", &[("name", "text")]).await;
    let blade = app.create_type("blade", &[("name", "text"), ("rack", "ref"), ("other", "ref")]).await;
    for number in 0..30 {
        app.create_object(rack, &json!({"name": format!("r{number}")})).await;
    }
    let mut calls = Vec::new();
    for count in [1, 30] {
        let lines = (0..count).map(|number| format!("b{number},r{number},{}\n", number + 1));
        let file: String = std::iter::once("name,rack=rack/name,other\n".to_owned()).chain(lines).collect();
        let before = counter.calls();
        let answer = import(&app, &format!("type_id={blade}&key=name"), file).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        calls.push(counter.calls() - before);
    }
    assert_eq!(calls[0], calls[1]);
}
