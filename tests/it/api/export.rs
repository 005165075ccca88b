//! Objects as files.

use std::io::Cursor;

use calamine::{Data, Reader, Xlsx};
use reqwest::Method;
use serde_json::{Value, json};

use super::people::Person;
use crate::support::app::{TestApp, on_each_store, send};

/// A file as bytes.
async fn file(app: &TestApp, parameters: &[(&str, &str)]) -> Vec<u8> {
    let request = app.request(Method::GET, "/export/objects").query(parameters);
    let response = request.send().await.expect("an answer");
    assert_eq!(response.status(), 200);
    response.bytes().await.expect("the whole file").to_vec()
}

async fn text(app: &TestApp, parameters: &[(&str, &str)]) -> String {
    String::from_utf8(file(app, parameters).await).expect("UTF-8")
}

/// A type with a field of each kind.
async fn server(app: &TestApp) -> i64 {
    app.create_type(
        "server",
        &[
            ("name", "text"),
            ("cores", "number"),
            ("rented", "checkbox"),
            ("bought", "date"),
            ("rack", "ref"),
            ("more", "json"),
        ],
    )
    .await
}

on_each_store! {
    async fn a_table_has_a_column_a_field_and_a_row_an_object(app) {
        let server = server(app).await;
        let id = app.create_object(server, &json!({
            "name": "web, \"one\"", "cores": 8, "rented": true, "bought": "2024-02-29T12:00:00Z", "more": {"a": [1]},
        })).await;
        app.create_object(server, &json!({"name": "", "cores": 1.0, "rack": id})).await;
        let answer = app.get(&format!("/export/objects?type_id={server}")).await;
        let expected = format!(
            "public_id,active,name,cores,rented,bought,rack,more\n\
             {id},true,\"web, \"\"one\"\"\",8,true,2024-02-29T12:00:00.000Z,,\"{{\"\"a\"\":[1]}}\"\n\
             {},true,',1.0,,,{id},\n",
            id + 1
        );
        assert_eq!(answer.text, expected);
        assert_eq!(answer.header("content-type"), "text/csv; charset=utf-8; header=present");
        assert_eq!(answer.header("content-disposition"), "attachment; filename=\"server.csv\"");
    }

    async fn ansible_reads_objects_as_hosts_in_groups(app) {
        let fields = [("name", "text"), ("ip", "text"), ("site", "text"), ("pin", "password"), ("bought", "date")];
        let (web, rack) = (app.create_type("web-server", &fields).await, app.create_type("rack", &fields).await);
        app.created("/categories/", &json!({"name": "linux-hosts", "types": [web, rack]})).await;
        let values = json!({"name": "web1", "ip": "10.0.0.1", "site": "Oslo 1", "pin": "1234", "bought": "2024-02-29T12:00:00Z"});
        let id = app.create_object(web, &values).await;
        app.create_object(web, &json!({"name": "", "site": "Oslo 1"})).await;
        app.create_object(rack, &json!({"name": "r1"})).await;
        let path = "/export/objects?format=ansible&host=name&address=ip&group_by=site";
        let answer = app.get(path).await;
        assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, "application/json"), "{}", answer.text);
        let inventory = answer.json();
        let hosts = inventory["_meta"]["hostvars"].as_object().expect("hosts");
        assert_eq!(hosts.keys().collect::<Vec<_>>(), ["web1", "r1"]);
        let unsafe_text = |text: &str| json!({"__ansible_unsafe": text});
        let expected = json!({"ansible_host": unsafe_text("10.0.0.1"), "inventory": {
            "id": id, "type": unsafe_text("web-server"), "active": true, "fields": {
                "name": unsafe_text("web1"), "ip": unsafe_text("10.0.0.1"), "site": unsafe_text("Oslo 1"),
                "bought": unsafe_text("2024-02-29T12:00:00Z"),
            },
        }});
        assert_eq!(hosts["web1"], expected);
        assert_eq!(inventory["all"]["children"], json!(["category_linux_hosts", "site_Oslo_1", "type_rack", "type_web_server"]));
        assert_eq!(inventory["category_linux_hosts"]["hosts"], json!(["r1", "web1"]));
        assert_eq!(inventory["site_Oslo_1"]["hosts"], json!(["web1"]));
        // Who may not see categories sees no groups of them.
        let reader = Person::with_rights(app, "reader", &["base.export.object.*", "base.framework.object.view"]).await;
        let seen = reader.get(app, path).await.json();
        assert_eq!(seen["all"]["children"], json!(["site_Oslo_1", "type_rack", "type_web_server"]));
        let nobody = "/export/objects?format=ansible&host=name&filter=%7B%22public_id%22%3A-1%7D";
        assert_eq!(app.get(nobody).await.json(), json!({"_meta": {"hostvars": {}}, "all": {"children": []}}));
        for (parameters, told) in [
            ("host=nam", "host: no type has a field named \"nam\", did you mean name?"),
            ("host=name&address=ipp", "address: no type has a field named \"ipp\", did you mean ip?"),
            ("host=name&group_by=colour", "group_by: no type has a field named \"colour\""),
            ("host=pin", "host: \"pin\" is a password field, and no tool gets passwords"),
            ("host=name&address=pin", "address: \"pin\" is a password field, and no tool gets passwords"),
            ("host=name&group_by=pin", "group_by: \"pin\" is a password field, and no tool gets passwords"),
        ] {
            let refused = app.get(&format!("/export/objects?format=ansible&{parameters}")).await;
            assert_eq!(refused.error(400, "parameter_invalid")["message"], told);
        }
        app.create_object(rack, &json!({"name": "web1"})).await;
        app.get(path).await.error(400, "export_does_not_fit");
        for wrong in ["format=ansible", "format=csv&host=name", "format=ansible&host=name&port=1", "format=ansible&host=name&columns=all"] {
            app.get(&format!("/export/objects?{wrong}")).await.error(400, "parameter_invalid");
        }
    }

    async fn a_harmless_template_in_a_text_stays_a_text_in_every_place(app) {
        let web = app.create_type("web", &[("name", "text"), ("ip", "text"), ("note", "textarea"), ("more", "json")]).await;
        let text = "{{ 1 + 1 }}\n# and {% raw %}";
        let values = json!({"name": "web1", "ip": text, "note": text, "more": {"list": [text, {"inner": text}]}});
        app.create_object(web, &values).await;
        let inventory = app.get("/export/objects?format=ansible&host=name&address=ip").await.json();
        let host = &inventory["_meta"]["hostvars"]["web1"];
        let marked = json!({"__ansible_unsafe": text});
        assert_eq!(host["ansible_host"], marked);
        let fields = &host["inventory"]["fields"];
        assert_eq!((&fields["note"], &fields["more"]), (&marked, &json!({"list": [marked, {"inner": marked}]})));
        app.create_object(web, &json!({"name": text})).await;
        let refused = app.get("/export/objects?format=ansible&host=name").await;
        let told = refused.error(400, "export_does_not_fit")["message"].as_str().expect("a message").to_owned();
        assert!(told.starts_with("object 2: ") && told.ends_with("or leave the object out by filter"), "{told}");
    }

    async fn groups_keep_the_letters_of_every_script_and_refuse_to_meet(app) {
        let web = app.create_type("web", &[("name", "text"), ("site", "text")]).await;
        for (name, site) in [("a", "\u{5317}\u{4eac}"), ("b", "\u{6771}\u{4eac}"), ("c", "K\u{f6}ln")] {
            app.create_object(web, &json!({"name": name, "site": site})).await;
        }
        let path = "/export/objects?format=ansible&host=name&group_by=site";
        let inventory = app.get(path).await.json();
        for (group, host) in [("site_\u{5317}\u{4eac}", "a"), ("site_\u{6771}\u{4eac}", "b"), ("site_K\u{f6}ln", "c")] {
            assert_eq!(inventory[group], json!({"hosts": [host]}), "{inventory}");
        }
        for (name, site) in [("d", "Oslo 1"), ("e", "Oslo-1")] {
            app.create_object(web, &json!({"name": name, "site": site})).await;
        }
        let told = app.get(path).await.error(400, "export_does_not_fit")["message"].clone();
        let both = "the value \"Oslo 1\" of site and the value \"Oslo-1\" of site would be one group site_Oslo_1; \
                    rename one, or leave its hosts out by filter";
        assert_eq!(told, both);
    }

    async fn addresses_lose_their_mask_and_their_port(app) {
        let web = app.create_type("web", &[("name", "text"), ("ip", "text")]).await;
        let addresses = ["10.0.0.3/24", "10.0.0.6:9100", "2001:db8::7/64", "web-1:22"];
        for (name, ip) in ["a", "b", "c", "d"].iter().zip(addresses) {
            app.create_object(web, &json!({"name": name, "ip": ip})).await;
        }
        let targets = app.get("/export/objects?format=prometheus-sd&host=ip&port=9100").await.json();
        let targets: Vec<&Value> = targets.as_array().expect("targets").iter().map(|one| &one["targets"][0]).collect();
        assert_eq!(targets, ["10.0.0.3:9100", "10.0.0.6:9100", "[2001:db8::7]:9100", "web-1:9100"]);
        let hosts = app.get("/export/objects?format=ansible&host=name&address=ip").await.json();
        let host = |name: &str| hosts["_meta"]["hostvars"][name]["ansible_host"]["__ansible_unsafe"].clone();
        assert_eq!(["a", "b", "c", "d"].map(host), ["10.0.0.3", "10.0.0.6", "2001:db8::7", "web-1"]);
        let named = app.get("/export/objects?format=ansible&host=ip").await.json();
        let names: Vec<String> = named["_meta"]["hostvars"].as_object().expect("hosts").keys().cloned().collect();
        assert_eq!(names, ["10.0.0.3", "10.0.0.6", "2001:db8::7", "web-1:22"]);
    }

    async fn two_fields_of_one_label_are_refused_with_both_names(app) {
        let web = app.create_type("web", &[("hostname", "text"), ("a-b", "text"), ("a_b", "text")]).await;
        app.create_object(web, &json!({"hostname": "web-1", "a-b": "x"})).await;
        let path = "/export/objects?format=prometheus-sd&host=hostname";
        assert_eq!(app.get(path).await.json()[0]["labels"]["__meta_inventory_field_a_b"], "x");
        app.create_object(web, &json!({"hostname": "web-2", "a_b": "y"})).await;
        let told = app.get(path).await.error(400, "export_does_not_fit")["message"].clone();
        let both = "the fields \"a-b\" and \"a_b\" would be one label __meta_inventory_field_a_b; rename one, or leave out \
                    its objects by filter";
        assert_eq!(told, both);
    }

    async fn no_tool_gets_passwords(app) {
        let web = app.create_type("web", &[("name", "text"), ("pin", "password")]).await;
        app.create_object(web, &json!({"name": "web1", "pin": "geheim-1234"})).await;
        for has_field in [true, false] {
            for format in ["ansible", "prometheus-sd"] {
                let answer = app.get(&format!("/export/objects?format={format}&host=name")).await;
                assert!(answer.status == 200 && answer.text.contains("web1"), "{}", answer.text);
                assert!(!answer.text.contains("pin") && !answer.text.contains("geheim"), "{has_field}: {}", answer.text);
            }
            // The objects keep the value when their type loses the field.
            let name = json!({"type": "text", "name": "name", "label": "Name"});
            assert!(app.patch(&format!("/types/{web}"), &json!({"fields": [name]})).await.status.is_success());
        }
    }

    async fn prometheus_discovers_targets(app) {
        let web = app.create_type("web", &[("ip", "text"), ("cores", "number"), ("my-note", "text")]).await;
        let ids = [
            app.create_object(web, &json!({"ip": "10.0.0.1", "cores": 8, "my-note": "a \"b\""})).await,
            app.create_object(web, &json!({"ip": "2001:db8::1"})).await,
        ];
        app.create_object(web, &json!({"cores": 1})).await;
        let answer = app.get("/export/objects?format=prometheus-sd&host=ip&port=9100").await;
        assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, "application/json"), "{}", answer.text);
        let labels = |id: i64| json!({
            "__meta_inventory_id": id.to_string(), "__meta_inventory_type": "web", "__meta_inventory_active": "true",
            "__meta_inventory_categories": "",
        });
        let mut first = labels(ids[0]);
        first["__meta_inventory_field_ip"] = json!("10.0.0.1");
        first["__meta_inventory_field_cores"] = json!("8");
        first["__meta_inventory_field_my_note"] = json!("a \"b\"");
        let mut second = labels(ids[1]);
        second["__meta_inventory_field_ip"] = json!("2001:db8::1");
        let expected = json!([
            {"targets": ["10.0.0.1:9100"], "labels": first},
            {"targets": ["[2001:db8::1]:9100"], "labels": second},
        ]);
        assert_eq!(answer.json(), expected);
        app.create_type("rack", &[("name", "text")]).await;
        let refused = app.get(&format!("/export/objects?format=prometheus-sd&type_id={web}&host=name")).await;
        assert_eq!(refused.error(400, "parameter_invalid")["message"], "host: the type has no field named \"name\"");
        assert_eq!(app.get("/export/objects?format=prometheus-sd&host=name").await.json(), json!([]));
        app.get("/export/objects?format=prometheus-sd&host=ip&port=70000").await.error(400, "parameter_invalid");
    }

    async fn filter_sort_and_state_choose_the_rows(app) {
        let rack = app.create_type("rack", &[("name", "text")]).await;
        for name in ["b", "a", "c"] {
            app.create_object(rack, &json!({"name": name})).await;
        }
        let last = app.create_object(rack, &json!({"name": "d"})).await;
        app.put(&format!("/objects/{last}/state"), &json!(false)).await;
        let rack = rack.to_string();
        let filter = json!({"fields.value": {"$ne": "c"}}).to_string();
        let chosen = text(app, &[("type_id", &rack), ("filter", &filter), ("sort", "-fields.name"), ("active", "true")]).await;
        let names: Vec<&str> = chosen.lines().skip(1).map(|line| line.rsplit(',').next().expect("a cell")).collect();
        assert_eq!(names, ["b", "a"]);
    }

    async fn all_columns_have_what_objects_have_beside_their_fields(app) {
        let rack = app.create_type("rack", &[("name", "text")]).await.to_string();
        app.create_object(rack.parse().expect("an id"), &json!({"name": "a"})).await;
        let table = text(app, &[("type_id", &rack), ("columns", "all")]).await;
        let (header, row) = table.split_once('\n').expect("two lines");
        assert_eq!(header, "public_id,active,status,version,author_id,editor_id,creation_time,last_edit_time,views,name");
        let cells: Vec<&str> = row.trim().split(',').collect();
        assert_eq!((&cells[1..6], &cells[7..]), (&["true", "true", "1.0.0", "1", ""][..], &["", "0", "a"][..]));
    }

    async fn lines_are_objects_as_they_are_stored_of_one_type_or_of_all(app) {
        let rack = app.create_type("rack", &[("name", "text")]).await;
        let room = app.create_type("room", &[("name", "text")]).await;
        app.create_object(rack, &json!({"name": "a"})).await;
        app.create_object(room, &json!({"name": "b"})).await;
        let stored = app.get("/objects/").await.json()["results"].as_array().cloned().expect("results");
        let lines = |text: String| -> Vec<Value> {
            text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
        };
        assert_eq!(lines(text(app, &[("format", "ndjson")]).await), stored);
        let room = room.to_string();
        assert_eq!(lines(text(app, &[("format", "ndjson"), ("type_id", &room)]).await), stored[1..]);
    }

    async fn no_cell_is_a_formula(app) {
        let rack = app.create_type("rack", &[("name", "text"), ("=1+1", "text")]).await;
        let formulas = [
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"), ("+1", "'+1"), ("-1", "'-1"), ("@SUM(1)", "'@SUM(1)"), ("\t=1", "'\t'=1"),
            ("\r=1", "'\r'=1"), ("\n=1", "'\n'=1"), ("＝1", "'＝1"), ("＋1", "'＋1"), ("－1", "'－1"), ("＠a", "'＠a"),
            ("a;=1", "'a;'=1"), ("a\t@b", "'a\t'@b"), ("x\n=1", "'x\n'=1"),
        ];
        for (formula, _) in formulas {
            app.create_object(rack, &json!({"name": formula, "=1+1": "'t Hooft"})).await;
        }
        let rack = rack.to_string();
        let table = text(app, &[("type_id", &rack)]).await;
        let mut reader = csv::Reader::from_reader(table.as_bytes());
        let header = reader.headers().expect("a header").clone();
        assert_eq!(header.iter().collect::<Vec<_>>(), ["public_id", "active", "name", "'=1+1"]);
        for (row, (_, cell)) in reader.records().zip(formulas) {
            let row = row.expect("a row");
            assert_eq!((&row[2], &row[3]), (cell, "'t Hooft"));
        }
        // Whatever a spreadsheet splits the file at, nothing but a number begins like a formula.
        for chunk in table.split([',', ';', '\t', '|', '\n', '\r']) {
            assert!(!chunk.trim_matches('"').starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']), "{chunk}");
        }
        let again = send(app.request(Method::POST, &format!("/import/objects?type_id={rack}"))
            .header("Content-Type", "text/csv").body(table)).await;
        assert_eq!((again.status.as_u16(), &again.json()["unchanged"]), (200, &json!(formulas.len())), "{}", again.text);
        let cells = sheet(&file(app, &[("type_id", &rack), ("format", "xlsx")]).await);
        // In a spreadsheet a text is a text.
        assert_eq!(cells[0][3], Data::String("=1+1".to_owned()));
        for (row, (formula, _)) in cells.iter().skip(1).zip(formulas).filter(|(_, (formula, _))| !formula.starts_with(char::is_whitespace)) {
            assert_eq!(row[2], Data::String(formula.to_owned()));
        }
    }

    async fn a_spreadsheet_has_the_same_cells(app) {
        let server = server(app).await;
        app.create_object(server, &json!({
            "name": "web", "cores": 8, "rented": true, "bought": "2024-02-29T12:00:00Z", "more": 9_007_199_254_740_993_i64,
        })).await;
        app.create_object(server, &json!({"name": "", "cores": 1.0, "more": 0.5})).await;
        app.create_object(server, &json!({"name": "least", "more": i64::MIN})).await;
        let cells = sheet(&file(app, &[("type_id", &server.to_string()), ("format", "xlsx")]).await);
        let text = |text: &str| Data::String(text.to_owned());
        assert_eq!(cells[0][2..], ["name", "cores", "rented", "bought", "rack", "more"].map(text));
        assert_eq!(cells[1][2..5], [text("web"), Data::Float(8.0), Data::Bool(true)]);
        // Noon of the day 45351.
        assert!(matches!(cells[1][5], Data::DateTime(bought) if (bought.as_f64() - 45_351.5).abs() < 1e-9), "{:?}", cells[1][5]);
        assert_eq!(cells[1][6], Data::Empty);
        assert_eq!(cells[1][7], text("9007199254740993"));
        assert_eq!(cells[2][2..], [Data::Empty, Data::Float(1.0), Data::Empty, Data::Empty, Data::Empty, Data::Float(0.5)]);
        assert_eq!(cells[3][7], text("-9223372036854775808"));
    }

    async fn what_is_exported_with_labels_and_names_can_be_imported_again(app) {
        let site = app.create_type("site", &[("name", "text"), ("pin", "password")]).await;
        let field = |kind: &str, name: &str, label: &str| json!({"type": kind, "name": name, "label": label});
        let mut fields = vec![
            field("text", "hostname", "Host name"), field("select", "state", "State"), field("ref", "site", "Site"),
            field("text", "a", "Note"), field("text", "b", "Note"), field("number", "size", "views"), field("date", "bought", "Bought"),
        ];
        fields[1]["options"] = json!([{"name": "live", "label": "In use"}, {"name": "old", "label": "Twin"}, {"name": "new", "label": "Twin"}]);
        let kind = app.created("/types/", &json!({"name": "host", "author_id": 1, "fields": fields})).await;
        let oslo = app.create_object(site, &json!({"name": "Oslo"})).await;
        let nameless = app.create_object(site, &json!({"pin": "1234"})).await;
        for values in [
            json!({"hostname": "a", "state": "live", "site": oslo, "a": "=1+1", "b": "", "size": 5.0, "bought": "2024-02-29"}),
            json!({"hostname": "b", "state": "old", "site": nameless, "a": "x", "b": "'=1", "size": 2.5}),
        ] {
            app.create_object(kind, &values).await;
        }
        let kind = kind.to_string();
        let chosen = "public_id,site=site/name,hostname,state,a,b,size,bought";
        let named = [("type_id", kind.as_str()), ("columns", chosen), ("headings", "labels"), ("values", "labels")];
        let table = text(app, &named).await;
        let mut lines = table.lines();
        assert_eq!(lines.next(), Some("public_id,Site=site/name,Host name,State,a,b,size,Bought"));
        assert!(lines.next().is_some_and(|line| line.contains(",Oslo,a,In use,'=1+1,',5.0,2024-02-29T")), "{table}");
        assert!(lines.next().is_some_and(|line| line.contains(&format!(",public_id={nameless},b,old,x,''=1,2.5,"))), "{table}");
        let sheet = file(app, &[&named[..], &[("format", "xlsx")]].concat()).await;
        for (format, bytes) in [("csv", table.into_bytes()), ("xlsx", sheet)] {
            let request = app.request(Method::POST, &format!("/import/objects?type_id={kind}&format={format}"));
            let again = send(request.header("Content-Type", "application/octet-stream").body(bytes)).await;
            let report = again.json();
            assert_eq!((again.status.as_u16(), &report["unchanged"], &report["updated"]), (200, &json!(2), &json!(0)), "{format}: {}", again.text);
        }
        for (columns, told) in [
            ("hostnam", "hostnam: the type host has no field hostnam, did you mean hostname?"),
            ("hostname,hostname", "hostname is there twice"),
            ("site=sites/name", "there is no type sites"),
            ("site=site/nam", "the type site has no field nam, did you mean name?"),
            ("site=site/pin", "pin is a password field, and nobody is found by a password"),
        ] {
            let refused = app.get(&format!("/export/objects?type_id={kind}&columns={columns}")).await;
            assert_eq!(refused.error(400, "parameter_invalid")["message"], format!("columns: {told}"));
        }
        for wrong in ["columns=", "columns=a,,b", "headings=both", "values=x", "format=ndjson&headings=labels"] {
            app.get(&format!("/export/objects?type_id={kind}&{wrong}")).await.error(400, "parameter_invalid");
        }
    }

    async fn columns_show_nobody_what_is_hidden(app) {
        let acl = json!({"activated": true, "groups": {"includes": {"1": ["CREATE", "READ", "UPDATE"]}}});
        let name = json!([{"type": "text", "name": "name", "label": "Name"}]);
        let closed = app.created("/types/", &json!({"name": "closed", "author_id": 1, "fields": name, "acl": acl})).await;
        let secret = app.create_object(closed, &json!({"name": "geheim"})).await;
        let open = app.create_type("open", &[("name", "text"), ("to", "ref"), ("pin", "password")]).await;
        app.create_object(open, &json!({"name": "a", "to": secret, "pin": "1234"})).await;
        let reader = Person::with_rights(app, "reader", &["base.export.object.*", "base.framework.object.view"]).await;
        let target = format!("/export/objects?type_id={open}&columns=name,");
        let refused = reader.get(app, &format!("{target}to=closed/name")).await;
        assert_eq!(refused.error(400, "parameter_invalid")["message"], "columns: there is no type closed");
        reader.get(app, &format!("{target}pin")).await.error(400, "parameter_invalid");
        assert_eq!(app.get(&format!("{target}pin,to=closed/name")).await.text, "name,pin,to=closed/name\na,1234,geheim\n");
        // Of a type that is not named, no value is shown.
        let other = app.create_type("other", &[("name", "text")]).await;
        assert_eq!(reader.get(app, &format!("{target}to=other/name")).await.text, format!("name,to=other/name\na,public_id={secret}\n"), "{other}");
    }

    async fn numbers_of_more_digits_than_spreadsheets_keep_are_text(app) {
        let rack = app.create_type("rack", &[("size", "number")]).await;
        let sizes = [json!(999_999_999_999_999_i64), json!(1_234_567_890_123_456_i64), json!(0.300_000_000_000_000_04), json!(0.000_25)];
        for size in &sizes {
            app.create_object(rack, &json!({"size": size})).await;
        }
        let bytes = file(app, &[("type_id", &rack.to_string()), ("format", "xlsx")]).await;
        let cells: Vec<Data> = sheet(&bytes).iter().skip(1).map(|row| row[2].clone()).collect();
        let text = |text: &str| Data::String(text.to_owned());
        let expected = [Data::Float(999_999_999_999_999.0), text("1234567890123456"), text("0.30000000000000004"), Data::Float(0.000_25)];
        assert_eq!(cells, expected);
        let request = app.request(Method::POST, &format!("/import/objects?type_id={rack}&format=xlsx"));
        let again = send(request.header("Content-Type", "application/octet-stream").body(bytes)).await;
        assert_eq!(again.json()["unchanged"], sizes.len(), "{}", again.text);
    }

    async fn what_a_cell_of_a_spreadsheet_cannot_hold_is_refused_before_anything_is_sent(app) {
        let rack = app.create_type("rack", &[("name", "text")]).await;
        let id = app.create_object(rack, &json!({"name": "x".repeat(32_768)})).await;
        let answer = app.get(&format!("/export/objects?type_id={rack}&format=xlsx")).await;
        let error = answer.error(400, "export_does_not_fit");
        assert!(error["message"].as_str().expect("a message").contains(&format!("object {id}: name")), "{error}");
        app.get(&format!("/export/objects?type_id={rack}")).await;
    }

    async fn a_csv_file_is_written_as_it_is_asked_for(app) {
        let rack = app.create_type("rack", &[("name", "text")]).await;
        let id = app.create_object(rack, &json!({"name": "K\u{e4}rcher;1"})).await;
        let rack = rack.to_string();
        let of = |more: &[(&str, &str)]| [&[("type_id", rack.as_str())], more].concat().iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>();
        let get = async |more: &[(&str, &str)]| {
            let parameters = of(more);
            let parameters: Vec<(&str, &str)> = parameters.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            file(app, &parameters).await
        };
        assert_eq!(
            get(&[("delimiter", ";"), ("bom", "true")]).await,
            format!("\u{feff}public_id;active;name\n{id};true;\"K\u{e4}rcher;1\"\n").as_bytes()
        );
        assert_eq!(
            get(&[("delimiter", "tab"), ("quoting", "all")]).await,
            format!("\"public_id\"\t\"active\"\t\"name\"\n\"{id}\"\t\"true\"\t\"K\u{e4}rcher;1\"\n").as_bytes()
        );
        for encoding in ["windows-1252", "latin1"] {
            assert!(get(&[("encoding", encoding)]).await.ends_with(b"K\xe4rcher;1\n"), "{encoding}");
        }
        let wide = get(&[("encoding", "utf-16le"), ("bom", "true")]).await;
        assert!(wide.starts_with(b"\xff\xfep\0u\0") && wide.ends_with(b";\x001\0\n\0"), "{wide:?}");
        app.create_object(rack.parse().expect("an id"), &json!({"name": "\u{4e2d}"})).await;
        let answer = app.get(&format!("/export/objects?type_id={rack}&encoding=latin1")).await;
        answer.error(400, "export_does_not_fit");
    }

    async fn parameters_that_do_not_go_together_are_refused(app) {
        for (parameters, name) in [
            ("", "type_id"),
            ("?format=xlsx", "type_id"),
            ("?format=ods&type_id=1", "format"),
            ("?format=ndjson&delimiter=;", "delimiter"),
            ("?format=ndjson&columns=all", "columns"),
            ("?type_id=1&delimiter=x", "delimiter"),
            ("?type_id=1&encoding=ebcdic", "encoding"),
            ("?type_id=1&encoding=windows-1252&bom=true", "bom"),
            ("?type_id=1&encoding=latin1&bom=true", "bom"),
            ("?type_id=1&limit=5", "limit"),
        ] {
            let answer = app.get(&format!("/export/objects{parameters}")).await;
            answer.error(400, "parameter_invalid");
            assert_eq!(answer.pointers(), [name], "{parameters}");
        }
        app.get("/export/objects?type_id=77").await.error(404, "type_not_found");
    }

    async fn nobody_exports_what_he_may_not_read(app) {
        let person = Person::with_rights(app, "exporter", &["base.export.object.*"]).await;
        let acl = json!({"activated": true, "groups": {"includes": {"1": ["CREATE", "READ", "UPDATE"]}}});
        let closed = json!({"name": "closed", "author_id": 1, "fields": [], "acl": acl});
        let closed = app.created("/types/", &closed).await;
        app.create_object(closed, &json!({})).await;
        let open = app.create_type("open", &[("name", "text"), ("pin", "password")]).await;
        let id = app.create_object(open, &json!({"name": "a", "pin": "1234"})).await;
        person.get(app, &format!("/export/objects?type_id={closed}")).await.error(403, "acl_denied");
        let table = person.get(app, &format!("/export/objects?type_id={open}")).await;
        assert_eq!(table.text, format!("public_id,active,name\n{id},true,a\n"), "values of passwords stay hidden");
        let lines = person.get(app, "/export/objects?format=ndjson").await.text;
        assert!(lines.lines().count() == 1 && !lines.contains("1234"), "{lines}");
        assert!(text(app, &[("type_id", &open.to_string())]).await.contains("1234"));
        assert_eq!(send(app.request(Method::HEAD, "/export/objects?format=ndjson")).await.text, "");
    }
}

fn sheet(bytes: &[u8]) -> Vec<Vec<Data>> {
    let mut workbook: Xlsx<_> = calamine::open_workbook_from_rs(Cursor::new(bytes)).expect("a workbook");
    let range = workbook.worksheet_range_at(0).expect("a sheet").expect("a readable sheet");
    range.rows().map(<[Data]>::to_vec).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_is_not_bounded_by_the_limit_of_lists() {
    let app = TestApp::embedded_with(&[("api.max_limit", "10")]).await;
    let rack = app.create_type("rack", &[("name", "text")]).await;
    let body = |number: u32| json!({"type_id": rack, "author_id": 1, "fields": [{"name": "name", "value": format!("r{number}")}]});
    let bodies: Vec<Value> = (0..2500).map(body).collect();
    assert_eq!(app.post("/objects/bulk", &bodies.into()).await.status, 200);
    let table = text(&app, &[("type_id", &rack.to_string())]).await;
    assert_eq!(table.lines().count(), 2501);
    assert_eq!(table.lines().last(), Some("2500,true,r2499"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_of_many_objects_does_not_fit_into_is_refused_before_the_answer_begins() {
    let app = TestApp::embedded().await;
    let rack = app.create_type("rack", &[("name", "text")]).await;
    let body = |name: String| json!({"type_id": rack, "author_id": 1, "fields": {"name": name}});
    let bodies: Vec<Value> = (0..5000).map(|number| body(format!("r{number}"))).collect();
    assert_eq!(app.post("/objects/bulk", &bodies.into()).await.status, 200);
    let ansible = "/export/objects?format=ansible&host=name";
    assert_eq!(app.get(ansible).await.json()["_meta"]["hostvars"].as_object().map(serde_json::Map::len), Some(5000));
    app.create_object(rack, &json!({"name": "r1"})).await;
    let refused = app.get(ansible).await.error(400, "export_does_not_fit");
    assert!(refused["message"].as_str().is_some_and(|told| told.contains("objects 2 and 5001")), "{refused}");
    app.create_object(rack, &json!({"name": "\u{4e2d}"})).await;
    app.get(&format!("/export/objects?type_id={rack}&encoding=windows-1252")).await.error(400, "export_does_not_fit");
}
