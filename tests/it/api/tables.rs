//! Tables as people have them: what spreadsheets and other programs write, and how it is imported.

use std::io::{Cursor, Write};

use inventory_service::query::{Filter, Update};
use inventory_service::store::collections::IMPORTS;
use inventory_service::store::{Change, Unit};
use reqwest::Method;
use serde_json::{Value, json};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::import::import;
use crate::support::app::{Answer, TestApp, on_each_store, send};

/// Line, field and reason of each error of a refused import.
fn errors(answer: &Answer) -> Vec<(i64, String, String)> {
    places(&answer.error(400, "import_refused")["report"]["errors"])
}

/// Line, field and reason of each warning of an import.
fn warnings(answer: &Answer) -> Vec<(i64, String, String)> {
    assert_eq!(answer.status, 200, "{}", answer.text);
    places(&answer.json()["warnings"])
}

fn places(list: &Value) -> Vec<(i64, String, String)> {
    let text = |entry: &Value, name: &str| entry[name].as_str().expect("a text").to_owned();
    let entry = |entry: &Value| (entry["line"].as_i64().expect("a line"), text(entry, "field"), text(entry, "reason"));
    list.as_array().expect("a list").iter().map(entry).collect()
}

/// The values of a field of all objects.
async fn values(app: &TestApp, field: &str) -> Vec<Value> {
    let objects = app.get("/objects/?limit=0").await.json();
    let of = |object: &Value| {
        let fields = object["fields"].as_array().expect("fields");
        fields.iter().find(|entry| entry["name"] == field).map_or(Value::Null, |entry| entry["value"].clone())
    };
    objects["results"].as_array().expect("objects").iter().map(of).collect()
}

/// An xlsx file; each sheet is the XML of its rows.
fn book(sheets: &[&str]) -> Vec<u8> {
    const MAIN: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
    const OFFICE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    const PACKAGE: &str = "http://schemas.openxmlformats.org/package/2006/relationships";
    let numbers = 1..=sheets.len();
    let relation = |id: &str, kind: &str, target: &str| {
        format!("<Relationship Id=\"{id}\" Type=\"{OFFICE}/{kind}\" Target=\"{target}\"/>")
    };
    let (mut names, mut parts) = (String::new(), String::new());
    for number in numbers.clone() {
        names.extend([format!("<sheet name=\"S{number}\" sheetId=\"{number}\" r:id=\"r{number}\"/>")]);
        parts += &relation(&format!("r{number}"), "worksheet", &format!("worksheets/sheet{number}.xml"));
    }
    let mut files = vec![
        (
            "_rels/.rels".to_owned(),
            format!(
                "<Relationships xmlns=\"{PACKAGE}\">{}</Relationships>",
                relation("r", "officeDocument", "xl/workbook.xml")
            ),
        ),
        (
            "xl/workbook.xml".to_owned(),
            format!("<workbook xmlns=\"{MAIN}\" xmlns:r=\"{OFFICE}\"><sheets>{names}</sheets></workbook>"),
        ),
        (
            "xl/_rels/workbook.xml.rels".to_owned(),
            format!("<Relationships xmlns=\"{PACKAGE}\">{parts}</Relationships>"),
        ),
    ];
    files.extend(numbers.zip(sheets).map(|(number, rows)| {
        let sheet = format!("<worksheet xmlns=\"{MAIN}\"><sheetData>{rows}</sheetData></worksheet>");
        (format!("xl/worksheets/sheet{number}.xml"), sheet)
    }));
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in files {
        archive.start_file(name, SimpleFileOptions::default()).expect("a part");
        archive.write_all(text.as_bytes()).expect("its bytes");
    }
    archive.finish().expect("an archive").into_inner()
}

/// A cell with a text.
fn text(place: &str, text: &str) -> String {
    format!("<c r=\"{place}\" t=\"inlineStr\"><is><t>{text}</t></is></c>")
}

/// Rows with the header `serial`, `name` and one serial number.
fn serial(cell: &str) -> String {
    let (serial, name, first) = (text("A1", "serial"), text("B1", "name"), text("B2", "sim-1"));
    format!("<row r=\"1\">{serial}{name}</row><row r=\"2\"><c r=\"A2\"><v>{cell}</v></c>{first}</row>")
}

on_each_store! {
    async fn a_long_number_of_a_spreadsheet_is_refused_and_changes_no_other_object(app) {
        for kind in ["text", "number"] {
            let id = app.create_type(&format!("sim-{kind}"), &[("serial", kind), ("name", "text")]).await;
            let target = format!("type_id={id}&format=xlsx&key=serial");
            for number in ["8939010102358478435", "8939010102358478436", "12345678901234567", "8.9390101023584788E+18", "5e-400"] {
                let answer = import(app, &target, book(&[&serial(number)])).await;
                let told = format!("cell A2 holds the number {number}, which a spreadsheet rounds; format the column as text, and enter the number again");
                assert_eq!(errors(&answer), [(2, String::new(), told)]);
            }
            assert_eq!(import(app, &target, book(&[&serial("123456789012345")])).await.json()["created"], 1);
        }
    }

    async fn a_number_that_would_be_rounded_is_refused_wherever_it_comes_from(app) {
        let kind = app.create_type("sim", &[("serial", "number"), ("more", "json")]).await;
        for number in ["89390101023584784351", "5e-400", "0.12345678901234567890123"] {
            for field in ["serial", "more"] {
                let csv = import(app, &format!("type_id={kind}"), format!("{field}\n1\n{number}\n")).await;
                let (line, place, reason) = errors(&csv).remove(0);
                assert_eq!((line, place.as_str()), (3, field));
                assert!(reason.starts_with(&format!("holds the number {number}, which would be rounded; ")), "{reason}");
                let line = format!("{{\"fields\": {{\"{field}\": {number}}}}}\n");
                let lines = import(app, &format!("type_id={kind}&format=ndjson"), line).await;
                assert!(errors(&lines)[0].2.contains(&format!("the number {number} would be rounded")), "{}", lines.text);
                let body = format!("{{\"type_id\": {kind}, \"author_id\": 1, \"fields\": {{\"{field}\": {number}}}}}");
                let post = async |path: &str, body: String| {
                    send(app.request(Method::POST, path).header("Content-Type", "application/json").body(body)).await
                };
                let told = post("/objects/", body.clone()).await.error(400, "json_malformed")["message"].clone();
                let place = format!("the number {number} would be rounded at line 1, column ");
                let told = told.as_str().expect("a message").to_owned();
                assert!(told.contains(&place) && told.contains("$numberDecimal"), "{told}");
                post("/objects/bulk", format!("[{body}]")).await.error(400, "json_malformed");
            }
        }
        assert_eq!(app.get("/objects/?limit=1").await.json()["total"], 0);
        let filter = app.request(Method::GET, "/objects/").query(&[("filter", "{\"f.serial\": 12345678901234567890}")]);
        assert!(send(filter).await.error(400, "parameter_invalid")["message"].as_str().is_some_and(|told| told.contains("rounded")));
        // Usual doubles, whole numbers of 64 bits, and numbers that are more exact.
        for (number, stored) in [
            ("0.1", json!(0.1)), ("1.10", json!(1.1)), ("9223372036854775807", json!(i64::MAX)), ("1e300", json!(1e300)),
            ("{\"$numberDecimal\": \"89390101023584784351\"}", json!({"$numberDecimal": "89390101023584784351"})),
        ] {
            let body = format!("{{\"type_id\": {kind}, \"author_id\": 1, \"fields\": {{\"serial\": {number}}}}}");
            let answer = send(app.request(Method::POST, "/objects/").header("Content-Type", "application/json").body(body)).await;
            assert!(answer.status.is_success(), "{}", answer.text);
            assert_eq!(values(app, "serial").await.last(), Some(&stored), "{number}");
        }
    }

    async fn lines_are_counted_as_the_reader_splits_them(app) {
        let kind = app.create_type("box", &[("name", "text"), ("v", "number")]).await;
        let target = format!("type_id={kind}");
        for (file, expected) in [
            ("name,v\ra,1\rb,bad\rc,3\rd,worse\r", [3, 5]),
            ("name,v\r\na,1\r\nb,bad\rc,3\rd,worse\n", [3, 5]),
            ("name,v\r\"a\rx\",1\rb,bad\r\"c\r\ny\",3\rd,worse", [4, 7]),
        ] {
            let lines: Vec<i64> = errors(&import(app, &target, file).await).iter().map(|(line, ..)| *line).collect();
            assert_eq!(lines, expected, "{file:?}");
        }
        let taken = import(app, &target, "name,v\r\"a\rx\",1\rb,2\r").await.json();
        assert_eq!((&taken["lines"][0]["line"], &taken["lines"][1]["line"]), (&json!(2), &json!(4)));
    }

    async fn a_missing_required_column_is_one_error_with_its_own_name(app) {
        let body = json!({"name": "box", "author_id": 1, "fields": [
            {"type": "text", "name": "name", "label": "Name", "required": true},
            {"type": "text", "name": "size", "label": "Size"},
        ]});
        let kind = app.created("/types/", &body).await;
        let target = format!("type_id={kind}");
        let refused = import(app, &target, "size\n1\n2\n3\n").await;
        assert_eq!(errors(&refused), [(1, "name".to_owned(), "is required, but the table has no such column".to_owned())]);
        assert_eq!(refused.json()["report"]["failed"], 1);
        let lines = import(app, &format!("{target}&format=ndjson"), "{\"fields\":{\"size\":\"1\"}}\n").await;
        assert_eq!(errors(&lines), [(1, "name".to_owned(), "is required, and the line has no such field".to_owned())]);
        // Stored objects have their value.
        let id = app.create_object(kind, &json!({"name": "a"})).await;
        assert_eq!(import(app, &target, format!("public_id,size\n{id},9\n")).await.json()["updated"], 1);
    }

    async fn cells_lose_their_blanks_and_near_keys_are_told(app) {
        let kind = app.create_type("host", &[("name", "text"), ("note", "text")]).await;
        let id = app.create_object(kind, &json!({"name": "a1"})).await;
        let target = format!("type_id={kind}&key=name");
        let answer = import(app, &target, "name , note\n a1 ,  x y \n").await;
        assert_eq!((&answer.json()["updated"], warnings(&answer)), (&json!(1), vec![]));
        assert_eq!(values(app, "note").await, ["x y"]);
        let answer = import(app, &format!("{target}&dry_run=true"), "name\nA1\nb 1\nB1\nc\n").await;
        let told = |line, key: &str, other: &str| {
            (line, "name".to_owned(), format!("is {key:?}, which differs from {other} by case or blanks alone"))
        };
        let expected = [told(2, "A1", &format!("\"a1\" of object {id}")), told(4, "B1", "\"b 1\" in line 3")];
        assert_eq!(warnings(&answer), expected);
        let kept = import(app, &format!("{target}&trim=false"), "name\n a1 \n").await;
        assert_eq!(warnings(&kept), [told(2, " a1 ", &format!("\"a1\" of object {id}"))]);
        assert_eq!(values(app, "name").await, ["a1", " a1 "]);
        import(app, &format!("type_id={kind}&format=ndjson&trim=false"), "{}").await.error(400, "parameter_invalid");
        // What is stored with blanks stays, if its line says nothing else.
        let table = app.get(&format!("/export/objects?type_id={kind}")).await.text;
        assert_eq!(import(app, &format!("type_id={kind}"), table).await.json()["unchanged"], 2);
    }

    async fn a_file_without_a_header_is_asked_for_it(app) {
        let kind = app.create_type("host", &[("name", "text"), ("serial", "text")]).await;
        let refused = import(app, &format!("type_id={kind}"), "web-1,40B7FC\nweb-2,40B7FD\n").await;
        let told = "no column is known; does the file lack its header? its first line names fields of host, such as name, serial";
        assert_eq!(errors(&refused), [(1, String::new(), told.to_owned())]);
        // A misspelt header is none of these.
        let told = errors(&import(app, &format!("type_id={kind}"), "nmae\nx\n").await);
        assert_eq!(told, [(1, "nmae".to_owned(), "the type host has no field nmae, did you mean name?".to_owned())]);
    }

    async fn headings_may_be_labels_and_have_any_unicode_form(app) {
        let body = json!({"name": "host", "author_id": 1, "fields": [
            {"type": "text", "name": "nom \u{e9}", "label": "Nom"},
            {"type": "text", "name": "sn", "label": "Serial number"},
        ]});
        let kind = app.created("/types/", &body).await;
        let answer = import(app, &format!("type_id={kind}"), "nom e\u{301},Serial number\nRene\u{301},7\n").await;
        assert_eq!(answer.json()["created"], 1, "{}", answer.text);
        assert_eq!((values(app, "nom \u{e9}").await, values(app, "sn").await), (vec![json!("Ren\u{e9}")], vec![json!("7")]));
    }

    async fn a_cover_page_is_told_with_the_other_sheets(app) {
        let kind = app.create_type("sim", &[("serial", "text"), ("name", "text")]).await;
        let cover = format!("<row r=\"1\">{}</row>", text("A1", "Assets of the year"));
        let file = book(&[&cover, &serial("12")]);
        let target = format!("type_id={kind}&format=xlsx");
        let told = errors(&import(app, &target, file.clone()).await).remove(0).2;
        assert!(told.ends_with("the sheet S1 was read; choose another by sheet=<name or number>: S2"), "{told}");
        assert!(!told.contains("curl"), "{told}");
        for sheet in ["S2", "2"] {
            let answer = import(app, &format!("{target}&sheet={sheet}&dry_run=true"), file.clone()).await;
            assert_eq!(answer.json()["created"], 1, "{}", answer.text);
        }
        let told = errors(&import(app, &format!("{target}&sheet=S3"), file).await).remove(0).2;
        assert_eq!(told, "there is no sheet S3; the file has S1, S2");
        import(app, &format!("type_id={kind}&sheet=S2"), "name\n").await.error(400, "parameter_invalid");
    }

    async fn the_id_of_another_database_is_left_out_with_a_warning(app) {
        let kind = app.create_type("host", &[("name", "text")]).await;
        let line = |id: u32, name: &str| {
            format!("{{\"_id\":{{\"$oid\":\"6512bd43d9caa6e02c990b{id:02}\"}},\"type_id\":{kind},\"fields\":[{{\"name\":\"name\",\"value\":\"{name}\"}}]}}\n")
        };
        let file = format!("{}{}", line(10, "a"), line(11, "b"));
        let answer = import(app, &format!("type_id={kind}&format=ndjson"), file).await;
        let told = "belongs to the database that the file is from, and is left out, in 2 lines";
        assert_eq!(warnings(&answer), [(1, "_id".to_owned(), told.to_owned())]);
        assert_eq!(answer.json()["created"], 2);
    }

    async fn the_same_file_without_ids_and_key_is_taken_once_a_day(app) {
        let kind = app.create_type("host", &[("name", "text")]).await;
        let (target, file) = (format!("type_id={kind}"), "name\na\nb\n");
        let first = import(app, &target, file).await;
        assert_eq!(first.json()["created"], 2);
        for parameters in ["", "&dry_run=true"] {
            let refused = import(app, &format!("{target}{parameters}"), file).await;
            let body = refused.error(409, "import_repeated");
            assert_eq!(body["report"], first.json());
            assert!(body["message"].as_str().is_some_and(|told| told.contains("again=true")), "{body}");
        }
        assert_eq!(values(app, "name").await, ["a", "b"]);
        assert_eq!(import(app, &format!("{target}&again=true"), file).await.json()["created"], 2);
        // Ids and keys find what is stored, so such files change nothing the second time.
        for _ in 0..2 {
            assert_eq!(import(app, &format!("{target}&key=name"), "name\nc\n").await.status, 200);
            assert_eq!(import(app, &target, "public_id,name\n900,d\n").await.status, 200);
        }
        // After a day the query may be intended.
        let update = Update::set("done_at", bson::DateTime::from_millis(0));
        let aged = Change::UpdateMany { collection: IMPORTS, filter: Filter::all(), update };
        app.store.commit(Unit::of(aged)).await.expect("older marks");
        assert_eq!(import(app, &target, file).await.json()["created"], 2);
    }

    async fn a_spreadsheet_of_a_colleague_is_imported_in_one_call(app) {
        let rack = app.create_type("rack", &[("name", "text")]).await;
        let mut racks = Vec::new();
        for number in 1..=3 {
            racks.push(app.create_object(rack, &json!({"name": format!("Schrank {number}")})).await);
        }
        let field = |kind: &str, name: &str, label: &str| json!({"type": kind, "name": name, "label": label});
        let mut fields = vec![
            field("text", "name", "Bezeichnung"), field("number", "price", "Preis (\u{20ac})"),
            field("date", "bought", "Gekauft am"), field("checkbox", "rented", "Gemietet"),
            field("select", "status", "Zustand"), field("ref", "rack", "Schrank"), field("text", "maker", "Hersteller"),
        ];
        fields[0]["required"] = json!(true);
        fields[4]["options"] = json!([{"name": "live", "label": "in Betrieb"}, {"name": "gone", "label": "au\u{df}er Betrieb"}]);
        let kind = app.created("/types/", &json!({"name": "device", "author_id": 1, "fields": fields})).await;
        let mut file = "Bezeichnung;Preis (\u{20ac});Gekauft am;Gemietet;status;Schrank=rack/name;Hersteller\r\n".to_owned();
        for number in 1..=300 {
            let status = if number % 3 == 0 { "au\u{df}er Betrieb" } else { "in Betrieb" };
            let line = format!(
                "Ger\u{e4}t {number} ;{number},25;{:02}.{:02}.2024;{};{status};Schrank {};K\u{e4}rcher\r\n",
                number % 28 + 1, number % 12 + 1, ["ja", "Nein"][number % 2], number % 3 + 1
            );
            file.push_str(&line);
        }
        let bytes = |character: char| if character == '\u{20ac}' { 0x80 } else { u8::try_from(u32::from(character)).expect("it is short") };
        let file: Vec<u8> = file.chars().map(bytes).collect();
        let target = format!("type_id={kind}&encoding=windows-1252&decimal=,&dates=dmy&true=ja&false=nein");
        let answer = import(app, &target, file.clone()).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["created"]), (200, &json!(300)), "{}", answer.text);
        let objects = app.get(&format!("/objects/?limit=0&filter={{\"type_id\":{kind}}}")).await.json();
        let objects = objects["results"].as_array().expect("objects").clone();
        assert_eq!(objects.len(), 300);
        for (number, object) in (1_usize..).zip(objects) {
            let fields = object["fields"].as_array().expect("fields");
            let value = |name: &str| fields.iter().find(|entry| entry["name"] == name).expect("a field")["value"].clone();
            assert_eq!(value("name"), format!("Ger\u{e4}t {number}"));
            assert_eq!(value("price").as_f64(), u32::try_from(number).ok().map(|number| f64::from(number) + 0.25));
            let day = format!("2024-{:02}-{:02}T00:00:00Z", number % 12 + 1, number % 28 + 1);
            let millis = bson::DateTime::parse_rfc3339_str(day).expect("a day").timestamp_millis();
            assert_eq!(value("bought"), json!({"$date": millis}), "{number}");
            assert_eq!(value("rented"), number % 2 == 0);
            assert_eq!(value("status"), ["gone", "live", "live"][number % 3]);
            assert_eq!(value("rack"), racks[number % 3]);
            assert_eq!(value("maker"), "K\u{e4}rcher");
            assert_eq!(object["status"], true);
        }
        import(app, &target, file).await.error(409, "import_repeated");
    }

    async fn numbers_dates_and_words_are_read_as_the_request_says(app) {
        let kind = app.create_type("box", &[("name", "text"), ("size", "number"), ("day", "date"), ("on", "checkbox")]).await;
        let target = format!("type_id={kind}&decimal=,&dates=mdy&true=x,ja&false=nein");
        let refused = import(app, &target, "name;size;day;on\na;1.234;31.12.2024;vielleicht\n").await;
        let told = |field: &str, reason: &str| (2, field.to_owned(), reason.to_owned());
        assert_eq!(errors(&refused), [
            told("size", "must be a number, with a comma for decimals, or empty"),
            told("day", "must be a date such as 01/31/2026, an ISO 8601 date or moment (2026-01-31 or 2026-01-31T12:00:00Z), or empty"),
            told("on", "must be x, ja, nein, true, false, yes, no, 1, 0 or empty"),
        ]);
        let good = import(app, &target, "name;size;day;on\na;1234,5;12/31/2024;X\nb;7;2024-12-31;no\n").await;
        assert_eq!(good.json()["created"], 2, "{}", good.text);
        assert_eq!((values(app, "size").await, values(app, "on").await), (vec![json!(1234.5), json!(7)], vec![json!(true), json!(false)]));
        let days = values(app, "day").await;
        assert_eq!(days[0], days[1]);
        let pattern = import(app, &format!("type_id={kind}&key=name&dates=%25d.%25m.%25y"), "name,day\na,31.12.24\n").await;
        assert_eq!(pattern.json()["unchanged"], 1, "{}", pattern.text);
        // A sheet has numbers, and perhaps texts of the same form.
        let row = |cells: &str| format!("<row r=\"1\">{}{}</row><row r=\"2\">{cells}</row>", text("A1", "name"), text("B1", "size"));
        for cell in ["<c r=\"B2\"><v>2.5</v></c>".to_owned(), text("B2", "2,5")] {
            let file = book(&[&row(&format!("{}{cell}", text("A2", "a")))]);
            let answer = import(app, &format!("{target}&format=xlsx&key=name"), file).await;
            assert_eq!((answer.status.as_u16(), &values(app, "size").await[0]), (200, &json!(2.5)), "{}", answer.text);
        }
    }

    async fn an_option_that_is_none_is_refused_by_its_name(app) {
        let kind = app.create_type("box", &[("name", "text")]).await;
        for (option, reason) in [
            ("decimal=;", "must be . or ,"),
            ("dates=ydm", "must be ymd, dmy, mdy, or a pattern with a whole date, such as %d.%m.%Y or %d.%m.%y %H:%M"),
            ("dates=%25d.%25m", "must be ymd, dmy, mdy, or a pattern with a whole date, such as %d.%m.%Y or %d.%m.%y %H:%M"),
            ("true=", "must be words with commas, at most 200 characters"),
            ("true=x&false=X", "has the word x, which true has too"),
            ("format=ndjson&dates=dmy", "goes with tables only: format=csv or xlsx"),
        ] {
            let refused = import(app, &format!("type_id={kind}&{option}"), "name\na\n").await;
            let message = refused.error(400, "parameter_invalid")["message"].clone();
            let name = option.rsplit('&').next().and_then(|last| last.split('=').next()).expect("a name");
            assert_eq!(message, format!("{name}: {reason}"));
        }
        import(app, &format!("type_id={kind}&date=dmy"), "name\na\n").await.error(400, "parameter_invalid");
    }

    async fn lines_of_one_file_refer_to_each_other_by_name(app) {
        let body = json!({"name": "place", "author_id": 1, "fields": [
            {"type": "text", "name": "name", "label": "Name"}, {"type": "ref", "name": "within", "label": "Within", "required": false},
        ]});
        let kind = app.created("/types/", &body).await;
        let house = app.create_object(kind, &json!({"name": "house"})).await;
        let file = "name,within=place/name\nroom,floor\nfloor,house\nrack,room\n";
        let target = format!("type_id={kind}");
        let dry = import(app, &format!("{target}&dry_run=true"), file).await;
        assert_eq!((&dry.json()["created"], &dry.json()["lines"][0]), (&json!(3), &json!({"line": 2, "action": "created"})), "{}", dry.text);
        let answer = import(app, &target, file).await;
        assert_eq!(answer.json()["created"], 3, "{}", answer.text);
        let ids: Vec<i64> = answer.json()["lines"].as_array().expect("lines").iter().map(|line| line["public_id"].as_i64().expect("an id")).collect();
        assert_eq!(values(app, "within").await, [json!(null), json!(ids[1]), json!(house), json!(ids[0])]);
        // With a key the second time changes nothing, and a new line finds what is stored and what is not yet.
        let more = format!("{file}shelf,new rack\nnew rack,house\n");
        let answer = import(app, &format!("{target}&key=name"), more).await;
        assert_eq!((&answer.json()["created"], &answer.json()["unchanged"]), (&json!(2), &json!(3)), "{}", answer.text);
        let refused = import(app, &target, "name,within=place/name\na,b\nc,c2\nc2,\nc2,\n").await;
        let told = |line, reason: &str| (line, "within".to_owned(), reason.to_owned());
        let both = [told(2, "no place has this name"), told(3, "several objects of the type place have this name")];
        assert_eq!(errors(&refused), both);
        // A line that renames an object takes its old name away.
        let renamed = format!("public_id,name,within=place/name\n{house},home,\n,hut,home\n,tent,house\n");
        assert_eq!(errors(&import(app, &target, renamed).await), [told(4, "no place has this name")]);
    }

    async fn two_columns_together_say_which_object_is_meant(app) {
        let rack = app.create_type("rack", &[("name", "text"), ("site", "text")]).await;
        let kind = app.create_type("host", &[("name", "text"), ("rack", "ref")]).await;
        let mut ids = Vec::new();
        for (name, site) in [("r1", "Oslo"), ("r1", "Bergen"), ("r2", "Oslo"), ("r2", "Oslo")] {
            ids.push(app.create_object(rack, &json!({"name": name, "site": site})).await);
        }
        let target = format!("type_id={kind}");
        let header = "name,rack=rack/name,rack.site=rack/site";
        let answer = import(app, &target, format!("{header}\na,r1,Bergen\nb,r1,Oslo\nc,,Oslo\nd,public_id={},\n", ids[3])).await;
        assert_eq!(answer.json()["created"], 4, "{}", answer.text);
        let racks = values(app, "rack").await;
        assert_eq!(racks[4..], [json!(ids[1]), json!(ids[0]), json!(null), json!(ids[3])]);
        let refused = import(app, &target, format!("{header}\na,r2,Oslo\nb,r1,Rome\nc,r1,\n")).await;
        let told = |line, reason: &str| (line, "rack".to_owned(), reason.to_owned());
        assert_eq!(errors(&refused), [
            told(2, "several objects of the type rack have this name and site"),
            told(3, "no rack has this name and site"),
            told(4, "site: needs a value beside that of name"),
        ]);
        let alone = import(app, &target, "name,rack.site=rack/site\na,Oslo\n").await;
        let reason = "is a further value of rack; it needs a column rack=rack/<field> beside it";
        assert_eq!(errors(&alone), [(1, "rack.site=rack/site".to_owned(), reason.to_owned())]);
        let export = app.get(&format!("/export/objects?type_id={kind}&format=csv&columns=name,rack.site=rack/site")).await;
        let message = export.error(400, "parameter_invalid")["message"].to_string();
        assert!(message.contains(reason), "{message}");
    }

    async fn a_reference_by_a_list_is_refused_and_not_cleared(app) {
        let body = json!({"name": "rack", "author_id": 1, "fields": [
            {"type": "select", "multiple": true, "name": "tags", "label": "Tags",
                "options": [{"name": "a", "label": "A"}, {"name": "b", "label": "B"}]}]});
        let rack = app.created("/types/", &body).await;
        let tagged = app.create_object(rack, &json!({"tags": ["a", "b"]})).await;
        let kind = app.create_type("host", &[("name", "text"), ("rack", "ref")]).await;
        let host = app.create_object(kind, &json!({"name": "web", "rack": tagged})).await;
        let file = format!("public_id,rack=rack/tags\n{host},\"a, b\"\n");
        let refused = errors(&import(app, &format!("type_id={kind}"), file).await).remove(0);
        assert_eq!((refused.0, &*refused.1), (2, "rack"));
        assert_eq!(values(app, "rack").await.last(), Some(&json!(tagged)));
    }

    async fn ids_that_a_file_names_are_given_to_no_other_line(app) {
        let body = json!({"name": "place", "author_id": 1, "fields": [
            {"type": "text", "name": "name", "label": "Name"}, {"type": "ref", "name": "within", "label": "Within"}]});
        let kind = app.created("/types/", &body).await;
        let first = app.create_object(kind, &json!({"name": "old"})).await;
        let file = format!("public_id,name,within=place/name\n{},house,\n,floor,house\n,room,floor\n", first + 1);
        let answer = import(app, &format!("type_id={kind}"), file).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["created"]), (200, &json!(3)), "{}", answer.text);
    }

    async fn files_that_are_no_table_have_words_of_their_own(app) {
        let kind = app.create_type("host", &[("name", "text")]).await;
        let old = [&b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"[..], &[0; 600]].concat();
        let name: Vec<u8> = "EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes).collect();
        for format in ["csv", "xlsx", "ndjson"] {
            let target = format!("type_id={kind}&format={format}");
            let told = errors(&import(app, &target, old.clone()).await).remove(0).2;
            assert_eq!(told, "is of an old format, such as .xls; save it as .xlsx or as CSV");
            let told = errors(&import(app, &target, [old.clone(), name.clone()].concat()).await).remove(0).2;
            assert_eq!(told, "is protected by a password; save it without one");
        }
    }
}

on_each_store! {
    async fn a_type_that_a_file_proposes_takes_the_file(app) {
        let cities = app.create_type("city", &[("name", "text")]).await;
        let porto = app.create_object(cities, &json!({"name": "Porto"})).await;
        let line = |n: usize| {
            let (state, used) = (["live", "spare"][n % 2], ["ja", "nein"][n % 2]);
            format!("srv-{n};{state};{n},5;0{}.02.2026;{used};10.0.0.{n};Porto\n", n % 9 + 1)
        };
        let lines: String = (0..30).map(line).collect();
        let file = format!("Host name;State;Power (kW);Bought;In use;Address;city=city/name\n{lines}");
        let locale = "decimal=,&dates=dmy&true=ja&false=nein";
        let propose = async |parameters: &str, file: &str| {
            let request = app.request(Method::POST, &format!("/types/from-file?{parameters}"));
            send(request.header("Content-Type", "text/csv").body(file.to_owned())).await
        };
        let answer = propose(&format!("name=server&{locale}"), &file).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let body = answer.json();
        let fields = body["fields"].as_array().expect("fields");
        let text = |field: &Value, name: &str| field[name].as_str().expect("a text").to_owned();
        let kinds: Vec<String> = fields.iter().map(|it| text(it, "name") + " " + &text(it, "type")).collect();
        let expected = [
            "host_name text", "state select", "power_kw number", "bought date", "in_use checkbox", "address ip", "city ref",
        ];
        assert_eq!(kinds, expected);
        assert_eq!((&body["fields"][0]["unique"], &body["fields"][0]["label"]), (&json!(true), &json!("Host name")));
        assert_eq!(body["render_meta"]["summary"]["fields"], json!(["host_name"]));
        let kind = app.created("/types/", &body).await;
        let imported = import(app, &format!("type_id={kind}&{locale}"), file.clone()).await;
        assert_eq!((imported.status.as_u16(), &imported.json()["created"]), (200, &json!(30)), "{}", imported.text);
        let (power, city) = (values(app, "power_kw").await, values(app, "city").await);
        assert_eq!((&power[4], &city[4], power.len()), (&json!(3.5), &json!(porto), 31));

        for file in ["a\n\"open", ""] {
            propose("", file).await.error(400, "import_refused");
        }
        propose("", "a,a\n1,2\n").await.error(400, "import_refused");
        propose("format=ndjson", "{}").await.error(400, "parameter_invalid");
        propose("name=no%20name", "a\n1\n").await.error(400, "parameter_invalid");
        propose("key=a", "a\n1\n").await.error(400, "parameter_invalid");
    }
}
