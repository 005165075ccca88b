//! Indexes of a type: the lists that they have are answered as without them, from their keys.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bson::{Bson, DateTime, doc};
use inventory_service::domain::document::raw;
use inventory_service::query::Filter;
use inventory_service::store::collections::{INDEXED, OBJECTS};
use inventory_service::store::{Change, Unit};
use serde_json::{Value, json};

use super::support::{MAX_TIME, settled};
use crate::api::people::Person;
use crate::differential::random::Random;
use crate::support::app::{Answer, TestApp, fields, on_each_store};

const KINDS: [(&str, &str); 9] = [
    ("host", "text"),
    ("state", "text"),
    ("units", "number"),
    ("ip", "ip"),
    ("since", "date"),
    ("on", "checkbox"),
    ("secret", "password"),
    ("racks", "refs"),
    ("any", "json"),
];

/// Declares indexes, and waits until they answer.
async fn declare(app: &TestApp, type_id: i64, indexes: Value) {
    let answer = app.patch(&format!("/types/{type_id}"), &json!({ "indexes": indexes })).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    settled(&*app.store).await;
}

fn any_values(random: &mut Random) -> Value {
    let value = |name: &str, random: &mut Random| match name {
        "host" => json!(format!("web-{}", random.below(30))),
        "state" => json!(random.pick(&["live", "spare", "gone", ""])),
        "units" | "late" => random.pick(&[json!(1), json!(2), json!(2.5), json!(10), json!(-3), json!(1e20)]).clone(),
        "ip" => json!(random.pick(&["10.0.0.9", "10.0.0.10", "9.1.1.1", "2001:db8::7"])),
        "since" => json!(format!("2026-01-0{}", 1 + random.below(5))),
        _ => json!(random.percent(50)),
    };
    let mut values = json!({});
    for name in ["host", "state", "units", "ip", "since", "on"] {
        match random.below(6) {
            0 => {}
            1 => values[name] = Value::Null,
            _ => values[name] = value(name, random),
        }
    }
    values
}

/// Makes objects: of the second half all have a field that the first half lacks.
async fn filled(app: &TestApp, random: &mut Random) -> i64 {
    let type_id = app.create_type("server", &KINDS).await;
    for half in 0..2 {
        let object = |_| json!({"type_id": type_id, "author_id": 1, "fields": fields(&any_values(random))});
        let bodies: Vec<Value> = (0..80).map(object).collect();
        let made = app.post("/objects/bulk", &json!(bodies)).await;
        assert!(made.status.is_success(), "{}", made.text);
        if half == 0 {
            let more = KINDS.into_iter().chain([("late", "number")]);
            let more: Vec<Value> =
                more.map(|(name, kind)| json!({"type": kind, "name": name, "label": name})).collect();
            assert_eq!(app.patch(&format!("/types/{type_id}"), &json!({"fields": more})).await.status, 202);
        }
    }
    // As another tool stores them.
    let values: [Bson; 9] = [
        Bson::Null,
        3.into(),
        1_i64.into(),
        2.5.into(),
        f64::NAN.into(),
        "b".into(),
        true.into(),
        false.into(),
        DateTime::from_millis(5).into(),
    ];
    let changes = (1001_i64..).zip(values).map(|(id, value)| {
        let entries = vec![
            doc! { "name": "host", "value": &value },
            doc! { "name": "units", "value": value },
            doc! { "name": "on" },
        ];
        let document = raw(&doc! { "_id": id, "public_id": id, "type_id": type_id, "fields": entries, "active": true });
        Change::Insert { collection: OBJECTS, document }
    });
    app.store.commit(Unit { changes: changes.collect(), ..Unit::default() }).await.expect("it is stored");
    type_id
}

/// The link to the next page.
fn next(answer: &Answer) -> Option<String> {
    let link = answer.header("link").split(", <").find(|part| part.ends_with("rel=\"next\""))?;
    Some(link.trim_start_matches('<').split('>').next()?.to_owned())
}

/// How many questions are asked each time.
const QUESTIONS: usize = 90;

const SORTS: [&str; 16] = [
    "f.units", "-f.units", "f.late", "f.ip", "-f.ip", "f.state,f.units", "-f.state,-f.units", "f.state,-f.units",
    "public_id", "-public_id", "f.units,-public_id", "-f.units,-public_id", "f.on,f.since,f.host", "f.since,f.host",
    "f.host", "-f.since,-f.host",
];

/// The parameters of a question.
fn any_question(random: &mut Random, type_id: i64) -> Vec<(&'static str, String)> {
    let mut filter = json!({"type_id": type_id});
    for name in ["state", "units", "on", "since", "public_id", "late", "ip"] {
        let operands = match name {
            "state" => vec![json!("live"), json!(""), json!({"$in": ["spare", "gone"]}), Value::Null],
            "units" | "late" => {
                vec![json!({"$gte": 2, "$lt": 10}), json!(2), json!({"$ne": 2}), json!({"$exists": true})]
            }
            "on" => vec![json!(true), json!({"$ne": null})],
            "since" => vec![json!({"$gt": {"$date": 1_767_312_000_000_i64}}), json!({"$exists": false})],
            "ip" => vec![json!("10.0.0.9"), json!({"$gte": "10.0.0.0", "$lte": "10.0.0.9"})],
            _ => vec![json!({"$gt": 40}), json!({"$in": [3, 5, 8, 90]})],
        };
        if random.percent(if name == "state" { 50 } else { 12 }) {
            let path = if name == "public_id" { name.to_owned() } else { format!("f.{name}") };
            filter[path] = random.pick(&operands).clone();
        }
    }
    let limit = random.pick(&["3", "7", "150"]);
    let mut parameters = vec![
        ("filter", filter.to_string()),
        ("sort", (*random.pick(&SORTS)).to_owned()),
        ("limit", (*limit).to_owned()),
    ];
    if random.percent(40) {
        parameters.push(("page", random.pick(&["2", "4"]).to_string()));
    } else if random.percent(60) {
        parameters.push(("after", String::new()));
    }
    if random.percent(20) {
        parameters.push(("projection", r#"{"f.units":1,"public_id":1}"#.to_owned()));
    }
    parameters
}

async fn asked(app: &TestApp, parameters: &[(&str, String)], more: &[(&str, &str)]) -> Answer {
    let own: Vec<(&str, &str)> = parameters.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let answer = app.get_with("/objects/", &[&own, more].concat()).await;
    assert_eq!(answer.status, 200, "{parameters:?}: {}", answer.text);
    answer
}

/// The first pages of answers to questions by chance.
async fn answers(app: &TestApp, type_id: i64) -> Vec<Value> {
    let mut random = Random::new(52, 1);
    let mut all = Vec::new();
    for _ in 0..QUESTIONS {
        let parameters = any_question(&mut random, type_id);
        let mut answer = asked(app, &parameters, &[]).await;
        for page in 0..3 {
            let body = answer.json();
            all.push(json!([parameters, page, body["results"], body["total"]]));
            match next(&answer) {
                Some(next) => answer = app.get(&next).await,
                None => break,
            }
        }
    }
    all
}

/// How many of the questions an index of the type answers.
async fn by_index(app: &TestApp, type_id: i64) -> usize {
    let mut random = Random::new(52, 1);
    let mut count = 0;
    for _ in 0..QUESTIONS {
        let parameters = any_question(&mut random, type_id);
        let explained = asked(app, &parameters, &[("explain", "true")]).await.json();
        let name = explained["plan"]["index"].as_str().unwrap_or_default();
        if name.starts_with(&format!("type {type_id}: ")) {
            // A server may sort what is little.
            assert!(app.store.kind() == "mongodb" || explained["sort"] != "memory", "{parameters:?}: {explained}");
            count += 1;
        }
    }
    count
}

/// Which index lists objects by this sort, and how it is sorted.
async fn plan(app: &TestApp, filter: Value, sort: &str) -> (String, Value) {
    let parameters = [("filter", filter.to_string()), ("sort", sort.to_owned()), ("limit", "3".to_owned())];
    let body = asked(app, &parameters, &[("explain", "true")]).await;
    let body = body.json();
    (body["plan"]["index"].as_str().unwrap_or_default().to_owned(), body)
}

async fn documents(app: &TestApp) -> u64 {
    app.store.count(INDEXED, &Filter::all(), MAX_TIME).await.expect("a number")
}

on_each_store! {
    async fn lists_are_the_same_with_an_index_and_without(app) {
        let mut random = Random::new(5, 2);
        let type_id = filled(app, &mut random).await;
        let before = answers(app, type_id).await;
        assert_eq!(by_index(app, type_id).await, 0);
        declare(app, type_id, json!([["units"], ["state", "units"], ["ip"], ["on", "since", "host"]])).await;
        for (with, without) in answers(app, type_id).await.iter().zip(&before) {
            assert_eq!(with, without);
        }
        let count = by_index(app, type_id).await;
        assert!(count > 10, "{count}");
        for _ in 0..60 {
            let id = 1 + random.below(160);
            let path = format!("/objects/{id}");
            let change = match random.below(3) {
                0 => app.delete(&path).await,
                1 => app.patch(&path, &json!({"fields": any_values(&mut random)})).await,
                _ => app.post("/objects/", &json!({"type_id": type_id, "author_id": 1, "fields": fields(&any_values(&mut random))})).await,
            };
            assert!(change.status.is_success() || change.status == 404, "{}", change.text);
        }
        let with = answers(app, type_id).await;
        declare(app, type_id, json!([])).await;
        assert_eq!(documents(app).await, 0, "what is taken away leaves nothing");
        assert_eq!((with, by_index(app, type_id).await), (answers(app, type_id).await, 0));
    }

    async fn the_plan_names_the_index_with_its_fields(app) {
        let type_id = app.create_type("server", &KINDS).await;
        declare(app, type_id, json!([["state", "units"], ["host"]])).await;
        for number in 0..30 {
            let state = if number % 3 == 0 { "live" } else { "spare" };
            app.create_object(type_id, &json!({"state": state, "units": number % 7, "host": format!("web-{number}")})).await;
        }
        for (sort, order) in [("f.units", 1), ("-f.units", -1)] {
            let (index, body) = plan(app, json!({"type_id": type_id, "f.state": "live"}), sort).await;
            assert_eq!(index, format!("type {type_id}: state, units"), "{body}");
            let paths: Vec<&str> = body["plan"]["keys"].as_array().expect("keys").iter().filter_map(|key| key["path"].as_str()).collect();
            assert_eq!(paths, ["type_id", "f.state", "f.units", "public_id"]);
            assert_eq!(body["plan"]["keys"][3]["order"], order, "{body}");
            assert_eq!(body["plan"]["keys"][1]["bounds"], json!(["[\"live\", \"live\"]"]));
            assert_eq!((&body["sort"], &body["total"], &body["returned"]), (&json!("index"), &json!(10), &json!(3)), "{body}");
            let examined = body["documents_examined"].as_u64().expect("a number");
            assert!(examined <= 6 && body["total_from"] == "keys", "the page alone is read: {body}");
        }
        let of_type = |sort: &'static str| async move { plan(app, json!({"type_id": type_id}), sort).await.0 };
        assert_eq!(of_type("f.host").await, format!("type {type_id}: host"));
        for other in ["f.units", "f.host,f.state", "f.state,-f.units", "public_id"] {
            assert!(!of_type(other).await.starts_with("type "), "{other}");
        }
    }

    async fn an_index_is_made_while_others_write(app) {
        let mut random = Random::new(9, 2);
        let type_id = filled(app, &mut random).await;
        let is_done = Arc::new(AtomicBool::new(false));
        let write = async {
            let mut made = Vec::new();
            while !is_done.load(Ordering::Relaxed) {
                made.push(app.create_object(type_id, &json!({"units": 1 + made.len() % 9, "state": "live"})).await);
                if made.len() % 4 == 0 {
                    assert!(app.delete(&format!("/objects/{}", made.remove(0))).await.status.is_success());
                    let id = 1 + random.below(160);
                    assert!(app.patch(&format!("/objects/{id}"), &json!({"fields": {"units": 77}})).await.status.is_success());
                }
            }
        };
        let build = async {
            declare(app, type_id, json!([["units"]])).await;
            is_done.store(true, Ordering::Relaxed);
        };
        tokio::join!(write, build);
        let parameters = [("filter", json!({"type_id": type_id}).to_string()), ("sort", "f.units".to_owned()), ("limit", "0".to_owned())];
        let (index, _) = plan(app, json!({"type_id": type_id}), "f.units").await;
        assert_eq!(index, format!("type {type_id}: units"));
        let ids = |body: &Value| -> Vec<Value> { body["results"].as_array().expect("results").iter().map(|it| it["public_id"].clone()).collect() };
        let mut by_pages = Vec::new();
        for page in 1.. {
            let page = page.to_string();
            let few = [parameters[0].clone(), parameters[1].clone(), ("limit", "100".to_owned()), ("page", page)];
            let body = asked(app, &few, &[]).await.json();
            by_pages.extend(ids(&body));
            if u64::try_from(by_pages.len()).expect("few") >= body["total"].as_u64().expect("a total") {
                break;
            }
        }
        assert_eq!(by_pages, ids(&asked(app, &parameters, &[]).await.json()));
    }

    async fn hidden_objects_are_in_no_list_by_an_index(app) {
        let type_id = app.create_type("server", &KINDS).await;
        declare(app, type_id, json!([["state", "units"]])).await;
        app.create_object(type_id, &json!({"state": "live", "units": 1})).await;
        let other = app.create_type("rack", &[("state", "text")]).await;
        app.create_object(other, &json!({"state": "live"})).await;
        let person = Person::with_rights(app, "outsider", &["base.framework.object.view"]).await;
        let acl = json!({"acl": {"activated": true, "groups": {"includes": {"1": ["READ"]}}}});
        assert_eq!(app.patch(&format!("/types/{other}"), &acl).await.status, 202);
        let path = format!("/objects/?filter={{\"type_id\":{type_id},\"f.state\":\"live\"}}&sort=f.units");
        let list = person.get(app, &path).await;
        assert_eq!(list.results("/type_id"), [json!(type_id)], "where another type is hidden");
        let explained = person.get(app, &format!("{path}&explain=true")).await.json();
        assert_eq!(explained["plan"]["index"], format!("type {type_id}: state, units"), "{explained}");
        assert!(explained["keys_examined"].is_null(), "{explained}");
        assert_eq!(app.patch(&format!("/types/{type_id}"), &acl).await.status, 202);
        let list = person.get(app, &path).await;
        // The name of the field is hidden, too.
        assert!(list.status == 400 || list.results("/public_id").is_empty(), "{}", list.text);
        let sorted = person.get(app, &format!("/objects/?filter={{\"type_id\":{type_id}}}&sort=public_id")).await;
        assert_eq!(sorted.results("/public_id"), Vec::<Value>::new());
    }

    async fn an_index_that_cannot_be_is_refused_with_its_place(app) {
        let type_id = app.create_type("server", &KINDS).await;
        for (indexes, place, reason) in [
            (json!([["host"], ["stage"]]), "/indexes/1/0", "has no field stage"),
            (json!([["secret"]]), "/indexes/0/0", "passwords"),
            (json!([["host", "racks"]]), "/indexes/0/1", "holds lists"),
            (json!([["any"]]), "/indexes/0/0", "any JSON"),
            (json!([["host", "host"]]), "/indexes/0/1", "twice"),
            (json!([["host"], ["state"], ["host"]]), "/indexes/2", "twice"),
            (json!([[]]), "/indexes/0", "from 1 to 3"),
            (json!([["host", "state", "units", "ip"]]), "/indexes/0", "from 1 to 3"),
            (json!([["host"], ["state"], ["units"], ["ip"], ["on"]]), "/indexes", "at most 4"),
            (json!(["host"]), "/indexes/0", ""),
            (json!("host"), "/indexes", ""),
        ] {
            let refused = app.patch(&format!("/types/{type_id}"), &json!({"indexes": indexes})).await;
            let body = refused.error(400, "validation_failed");
            assert_eq!(refused.pointers(), [place], "{indexes}: {body}");
            assert!(body["errors"][0]["message"].as_str().is_some_and(|message| message.contains(reason)), "{body}");
        }
    }

    async fn values_without_a_place_in_an_index_leave_lists_right(app) {
        let type_id = app.create_type("server", &KINDS).await;
        declare(app, type_id, json!([["host"]])).await;
        let short = app.create_object(type_id, &json!({"host": "b"})).await;
        let long = app.create_object(type_id, &json!({"host": "a".repeat(2000)})).await;
        let path = format!("/objects/?filter={{\"type_id\":{type_id}}}&sort=f.host");
        assert_eq!(app.get(&path).await.results("/public_id"), [long, short]);
        let named = |index: String| index.starts_with("type ");
        assert!(!named(plan(app, json!({"type_id": type_id}), "f.host").await.0));
        assert!(app.patch(&format!("/objects/{long}"), &json!({"fields": {"host": "c"}})).await.status.is_success());
        assert!(named(plan(app, json!({"type_id": type_id}), "f.host").await.0));
        assert_eq!(app.get(&path).await.results("/public_id"), [short, long]);
    }

    async fn a_field_of_an_index_goes_with_the_index_alone(app) {
        let type_id = app.create_type("server", &[("host", "text"), ("units", "number")]).await;
        declare(app, type_id, json!([["units"]])).await;
        for units in [3, 1, 2] {
            app.create_object(type_id, &json!({"units": units})).await;
        }
        let path = format!("/types/{type_id}");
        let fields = json!([
            {"type": "text", "name": "host", "label": "host"}, {"type": "number", "name": "height", "label": "units"},
        ]);
        let steps = json!([{"rename": {"from": "units", "to": "height"}}]);
        let refused = app.patch(&path, &json!({"fields": fields, "migration": steps})).await;
        refused.error(400, "validation_failed");
        assert_eq!(refused.pointers(), ["/indexes/0/0"]);
        let change = json!({"fields": fields, "migration": steps, "indexes": [["height"]]});
        let planned = app.patch(&format!("{path}?dry_run=true"), &change).await.json();
        let changes: BTreeSet<&str> = planned["result"]["differences"].as_array().expect("differences").iter()
            .filter_map(|difference| difference["change"].as_str()).collect();
        assert!(changes.contains("indexes"), "{planned}");
        assert!(app.patch(&path, &change).await.status.is_success());
        settled(&*app.store).await;
        let (index, body) = plan(app, json!({"type_id": type_id}), "-f.height").await;
        assert_eq!(index, format!("type {type_id}: height"), "{body}");
        let list = app.get(&format!("/objects/?filter={{\"type_id\":{type_id}}}&sort=-f.height")).await;
        assert_eq!(list.results("/fields/1/value"), [json!(3), json!(2), json!(1)]);
        assert!(app.delete(&format!("{path}?cascade=true")).await.status.is_success());
        assert_eq!(documents(app).await, 0);
    }
}
