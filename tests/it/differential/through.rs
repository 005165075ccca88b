//! Conditions through references against the language itself: a MongoDB server is asked about documents in which each reference
//! is replaced by the fields of the object that it leads to. Both stores are asked by `f.<reference>-><field>`, and must find the
//! same objects, for a caller who sees everything and for one from whom some objects are hidden.

use std::collections::{BTreeMap, BTreeSet};

use bson::oid::ObjectId;
use bson::{Bson, Document, doc};
use inventory_service::domain::document::raw;
use inventory_service::store::{Change, Unit, collections};
use serde_json::{Value, json};

use super::random::Random;
use super::{SEED, USUAL_SEED, cases, number};
use crate::api::people::Person;
use crate::support::app::{Answer, TestApp};
use crate::support::mongod::{Deployment, shared};

/// The number of questions by default.
const USUAL_CASES: u64 = 400;
/// How many questions are asked about the same objects.
const QUESTIONS: u64 = 100;
/// How many of the last objects are asked about.
const REFERRING: usize = 40;
const FIRST: i64 = 1000;

/// The types of one world, which both stores give the same ids.
struct Types {
    site: i64,
    rack: i64,
    vault: i64,
    server: i64,
}

async fn types(app: &TestApp) -> Types {
    let plain = |name: &str| json!({"type": "json", "name": name, "label": name});
    let reference =
        |name: &str, kind: &str, types: &[i64]| json!({"type": kind, "name": name, "label": name, "ref_types": types});
    let made = async |name: &str, fields: Vec<Value>, is_hidden: bool| {
        let acl = json!({"activated": is_hidden, "groups": {"includes": {"1": ["READ", "CREATE"]}}});
        app.created("/types/", &json!({"name": name, "author_id": 1, "fields": fields, "acl": acl})).await
    };
    let site = made("site", vec![plain("v")], false).await;
    let of_rack = || vec![plain("v"), plain("w"), reference("site", "ref", &[site])];
    let rack = made("rack", of_rack(), false).await;
    let vault = made("vault", of_rack(), true).await;
    let both = [rack, vault];
    let of_server = vec![plain("v"), reference("one", "ref", &both), reference("many", "refs", &both)];
    let server = made("server", of_server, false).await;
    Types { site, rack, vault, server }
}

fn value(random: &mut Random) -> Bson {
    let pool = [
        Bson::Null,
        "a".into(),
        "b".into(),
        1.into(),
        2.5.into(),
        Bson::Array(Vec::new()),
        vec![Bson::from("a"), "b".into()].into(),
        vec![Bson::Null].into(),
        vec![Bson::Array(vec!["a".into()])].into(),
        doc! { "x": "a" }.into(),
    ];
    random.pick(&pool).clone()
}

/// Entries of one name: none, one, or several.
fn entries(random: &mut Random, name: &str, make: &mut dyn FnMut(&mut Random) -> Bson) -> Vec<Bson> {
    let count = [0, 1, 1, 1, 1, 1, 1, 1, 2][random.below(9)];
    (0..count).map(|_| doc! { "name": name, "value": make(random) }.into()).collect()
}

fn id_from(random: &mut Random, ids: &[i64]) -> Bson {
    match random.below(10) {
        0 => Bson::Int64(999_999),
        1 => Bson::Null,
        2 => "no id".into(),
        3 => Bson::Int32(i32::try_from(*random.pick(ids)).expect("small")),
        _ => Bson::Int64(*random.pick(ids)),
    }
}

/// The objects, those that are referred to first.
fn objects(random: &mut Random, types: &Types) -> Vec<Document> {
    let kinds = [types.site, types.site, types.rack, types.rack, types.rack, types.rack, types.vault, types.vault];
    let mut all: Vec<Document> = Vec::new();
    let ids: Vec<i64> = (FIRST..).take(kinds.len()).collect();
    for (number, index) in (FIRST..).zip(0..kinds.len() + REFERRING) {
        let type_id = kinds.get(index).copied().unwrap_or(types.server);
        let mut fields = entries(random, "v", &mut value);
        if type_id == types.server {
            fields.extend(entries(random, "one", &mut |random| id_from(random, &ids)));
            fields.extend(entries(random, "many", &mut |random| {
                if random.percent(15) {
                    return id_from(random, &ids);
                }
                (0..random.below(4)).map(|_| id_from(random, &ids)).collect::<Vec<_>>().into()
            }));
        } else if type_id != types.site {
            fields.extend(entries(random, "w", &mut value));
            fields.extend(entries(random, "site", &mut |random| id_from(random, &ids[..3])));
        }
        all.push(doc! {
            "_id": ObjectId::new(), "public_id": number, "type_id": type_id, "active": true, "status": true,
            "author_id": 1_i64, "version": "1.0.0", "fields": fields,
        });
    }
    all
}

fn id_of(object: &Document, member: &str) -> i64 {
    object.get_i64(member).expect("an id")
}

fn members(object: &Document) -> Document {
    let mut all: BTreeMap<&str, Vec<Bson>> = BTreeMap::new();
    for entry in object.get_array("fields").expect("fields").iter().filter_map(Bson::as_document) {
        all.entry(entry.get_str("name").expect("a name"))
            .or_default()
            .push(entry.get("value").expect("a value").clone());
    }
    let one = |mut values: Vec<Bson>| if values.len() == 1 { values.remove(0) } else { Bson::Array(values) };
    all.into_iter().map(|(name, values)| (name.to_owned(), one(values))).collect()
}

/// The members of an object with the objects that it refers to in place of their ids.
fn planted(object: &Document, all: &[Document], types: &Types, sees_vault: bool) -> Document {
    let mut planted = members(object);
    let racks = if sees_vault { vec![types.rack, types.vault] } else { vec![types.rack] };
    for (name, targets) in [("one", racks.clone()), ("many", racks), ("site", vec![types.site])] {
        let lead = |id: &Bson| {
            let id = match id {
                Bson::Int32(id) => i64::from(*id),
                Bson::Int64(id) => *id,
                other => return other.clone(),
            };
            let is_it =
                |target: &&Document| id_of(target, "public_id") == id && targets.contains(&id_of(target, "type_id"));
            all.iter().find(is_it).map_or(Bson::Int64(id), |it| planted_value(it, all, types, sees_vault))
        };
        if let Some(reference) = planted.get_mut(name) {
            *reference = match &*reference {
                Bson::Array(ids) => Bson::Array(ids.iter().map(lead).collect()),
                id => lead(id),
            };
        }
    }
    planted
}

fn planted_value(target: &Document, all: &[Document], types: &Types, sees_vault: bool) -> Bson {
    planted(target, all, types, sees_vault).into()
}

fn operators(random: &mut Random, depth: usize) -> Document {
    let mut said = Document::new();
    for _ in 0..=usize::from(random.percent(25)) {
        let operand = value(random);
        let list = (0..=random.below(3)).map(|_| value(random)).collect::<Vec<_>>();
        match random.below(16) {
            0 => said.insert("$eq", operand),
            1 => said.insert("$ne", operand),
            2 => said.insert("$gt", operand),
            3 => said.insert("$gte", operand),
            4 => said.insert("$lt", operand),
            5 => said.insert("$lte", operand),
            6 => said.insert("$in", list),
            7 => said.insert("$nin", list),
            8 => said.insert("$all", list),
            9 => said.insert("$exists", random.percent(50)),
            10 => said.insert("$size", i32::try_from(random.below(3)).expect("small")),
            11 => said.insert("$regex", "^a"),
            12 => said.insert("$type", *random.pick(&["array", "string", "null", "number", "object"])),
            13 => said.insert("$elemMatch", doc! { "$gte": "a" }),
            14 if depth > 0 => said.insert("$not", operators(random, depth - 1)),
            _ => said.insert("$mod", vec![2, 1]),
        };
    }
    said
}

fn bounds_twice(said: &Bson) -> bool {
    match said {
        Bson::Document(members) => {
            members.keys().filter(|name| ["$gt", "$gte", "$lt", "$lte"].contains(&name.as_str())).count() > 1
                || members.values().any(bounds_twice)
        }
        _ => false,
    }
}

/// One condition: as the server is asked, and as objects are asked.
fn condition(random: &mut Random, depth: usize) -> (Document, Document) {
    if depth > 0 && random.percent(35) {
        let operator = *random.pick(&["$and", "$or", "$nor"]);
        let pairs = (0..=random.below(2)).map(|_| condition(random, depth - 1));
        let (plain, asked): (Vec<Document>, Vec<Document>) = pairs.unzip();
        return (doc! { operator: plain }, doc! { operator: asked });
    }
    let path =
        *random.pick(&["one->v", "one->w", "many->v", "many->w", "one->site->v", "many->site->v", "one->v.x", "v"]);
    let mut said: Bson = if random.percent(25) { value(random) } else { operators(random, 1).into() };
    // Of several entries of one name, one meets both bounds.
    while bounds_twice(&said) {
        said = operators(random, 1).into();
    }
    (doc! { format!("f.{}", path.replace("->", ".")): said.clone() }, doc! { format!("f.{path}"): said })
}

fn ids(answer: &Answer, filter: &Value) -> BTreeSet<i64> {
    assert_eq!(answer.status, 200, "{filter}: {}", answer.text);
    let found = answer.json()["results"].as_array().expect("results").clone();
    found.iter().map(|object| object["public_id"].as_i64().expect("an id")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_referred_object_is_asked_for_as_a_member_would_be() {
    let Some(server) = shared(Deployment::ReplicaSet).await else { return };
    let (seed, cases) = (number(SEED).unwrap_or(USUAL_SEED), cases(USUAL_CASES));
    let (mut asked, mut found, mut failures) = (0, 0, Vec::new());
    let database = server.client().await.database("through_references");
    for set in 0..cases.div_ceil(QUESTIONS) {
        let mut random = Random::new(seed, set);
        let apps = [TestApp::embedded().await, TestApp::on(&server.fresh_uri(), &[]).await];
        let mut people = Vec::new();
        let types_of = types(&apps[0]).await;
        types(&apps[1]).await;
        let all = objects(&mut random, &types_of);
        for app in &apps {
            let changes = all
                .iter()
                .map(|object| Change::Insert { collection: collections::OBJECTS, document: raw(object) })
                .collect();
            app.store.commit(Unit { changes, ..Unit::default() }).await.expect("they are stored");
            people.push(Person::with_rights(app, "visitor", &["base.framework.object.view"]).await);
        }
        for sees_vault in [true, false] {
            let of_server = all.iter().filter(|object| id_of(object, "type_id") == types_of.server);
            let plain = of_server.map(|object| {
                doc! { "public_id": object.get("public_id"), "f": planted(object, &all, &types_of, sees_vault) }
            });
            let collection = database.collection::<Document>(&format!("set_{set}_{sees_vault}"));
            collection.drop().await.expect("it is empty");
            collection.insert_many(plain).await.expect("they are stored");
            for _ in 0..QUESTIONS / 2 {
                let (plain, question) = condition(&mut random, 2);
                let mut cursor = collection.find(plain.clone()).await.expect("the server answers");
                let mut wanted = BTreeSet::new();
                while cursor.advance().await.expect("a document") {
                    let document = Document::try_from(cursor.current()).expect("a document");
                    wanted.insert(id_of(&document, "public_id"));
                }
                let filter = doc! { "$and": [{ "type_id": types_of.server }, question] };
                let filter = Bson::Document(filter).into_relaxed_extjson();
                asked += 1;
                found += u64::from(!wanted.is_empty() && wanted.len() < REFERRING);
                for (app, person) in apps.iter().zip(&people) {
                    let path = format!(
                        "/objects/?limit=0&filter={}",
                        url::form_urlencoded::byte_serialize(filter.to_string().as_bytes()).collect::<String>()
                    );
                    let answer = if sees_vault { app.get(&path).await } else { person.get(app, &path).await };
                    let answered = ids(&answer, &filter);
                    if answered != wanted {
                        let store = app.store.kind();
                        let differs: Vec<i64> = answered.symmetric_difference(&wanted).copied().collect();
                        let example = all.iter().find(|object| id_of(object, "public_id") == differs[0]);
                        let example = example.map(|object| planted(object, &all, &types_of, sees_vault));
                        failures.push(format!(
                            "set {set} on {store}, {sees_vault}: {filter}: {differs:?}, first {example:?}"
                        ));
                    }
                }
            }
        }
        if failures.len() > 20 {
            break;
        }
    }
    eprintln!("{SEED}={seed} {asked} questions, {found} with some of the objects, {} differences", failures.len());
    assert!(failures.is_empty(), "with {SEED}={seed}:\n{}", failures.join("\n"));
    assert!(found * 3 > asked, "{found} of {asked} questions find some of the objects");
}
