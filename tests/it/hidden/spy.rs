//! What a MongoDB server is asked for a caller from whom something is hidden: its profiler writes down every command.

use std::collections::BTreeSet;

use bson::{Bson, Document, doc};
use futures::TryStreamExt;
use inventory_service::query::OWN_OPERATOR;
use inventory_service::store::collections::OBJECTS;
use mongodb::Database;
use serde_json::json;

use super::requests::{Asked, generated, walked};
use super::world::World;
use crate::support::app::TestApp;
use crate::support::mongod::{Deployment, shared};

/// What no command may have: the names of expressions, patterns and schemas where conditions stand, of stages, and the service's own
/// conditions on fields.
const OF_CLIENTS: [&str; 20] = [
    OWN_OPERATOR, "$expr", "$regex", "$options", "$jsonSchema", "$set", "$addFields", "$unset", "$project", "$group",
    "$sortByCount", "$bucket", "$unwind", "$lookup", "$unionWith", "$facet", "$redact", "$replaceRoot", "$sample",
    "$slice",
];

/// The first of these names in a command.
fn of_clients(value: &Bson) -> Option<String> {
    match value {
        Bson::Document(members) => members.iter().find_map(|(name, value)| {
            let is_known = OF_CLIENTS.contains(&name.as_str());
            if is_known { Some(name.clone()) } else { of_clients(value) }
        }),
        Bson::Array(items) => items.iter().find_map(of_clients),
        Bson::RegularExpression(_) => Some("a pattern".to_owned()),
        // A projection computes from paths.
        Bson::String(text) if text.starts_with('$') && !OF_THE_SERVICE.contains(&text.as_str()) => Some(text.clone()),
        _ => None,
    }
}

/// The service orders by a field with an expression of its own.
const OF_THE_SERVICE: [&str; 6] = ["$$ROOT", "$document", "$fields", "$$this.name", "$$entries.value", "$$values"];

/// What the server was asked of objects while it wrote that down.
async fn noted(database: &Database) -> Vec<Document> {
    database.run_command(doc! { "profile": 0 }).await.expect("the profiler stops");
    let of_objects = doc! { "ns": format!("{}.{OBJECTS}", database.name()), "op": { "$in": ["query", "command"] } };
    let entries = database.collection::<Document>("system.profile").find(of_objects).await.expect("the entries");
    let entries: Vec<Document> = entries.try_collect().await.expect("the entries");
    entries.iter().filter_map(|entry| entry.get_document("command").ok().cloned()).collect()
}

async fn note(database: &Database) {
    let _ = database.collection::<Document>("system.profile").drop().await;
    let create = doc! { "create": "system.profile", "capped": true, "size": 256 * 1024 * 1024 };
    database.run_command(create).await.expect("a place for the entries");
    database.run_command(doc! { "profile": 2 }).await.expect("the profiler starts");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_expression_pattern_schema_or_stage_of_a_caller_with_hidden_types_reaches_the_server() {
    let Some(server) = shared(Deployment::ReplicaSet).await else { return };
    let uri = server.fresh_uri();
    let app = TestApp::on(&uri, &[]).await;
    let world = World::new(&app).await;
    let name = uri.rsplit('/').next().and_then(|rest| rest.split('?').next()).expect("the URI names a database");
    let database = server.client().await.database(name);
    note(&database).await;
    let of_fields = [json!({"f.name": {"$size": 1}}), json!({"f.name": {"$regex": "^seen"}, "f.size": {"$gt": 1}})];
    let of_fields = of_fields.map(|filter| Asked::get("/objects/").with("filter", filter).with("sort", "-f.name"));
    for asked in walked().iter().chain(&generated(1, 400)).chain(&of_fields) {
        world.ask(&app, asked).await;
    }
    let commands = noted(&database).await;
    assert!(commands.len() > 200, "{} commands", commands.len());
    for command in &commands {
        let part = doc! { "filter": command.get("filter"), "projection": command.get("projection"), "pipeline": command.get("pipeline") };
        assert_eq!(of_clients(&part.into()), None, "{command}");
    }
    // Of a caller who sees everything, the same server gets patterns. It gets no condition of the service on a field.
    note(&database).await;
    let field = json!({"f.name": {"$size": 1}});
    for filter in [json!({"fields.value": {"$regex": "^seen"}}), field.clone()] {
        assert_eq!(app.post("/objects/query", &json!({"filter": filter})).await.status, 200, "{filter}");
    }
    let stages = json!([{"$match": field}, {"$group": {"_id": "$type_id"}}]);
    assert_eq!(app.post("/objects/aggregate", &json!({"pipeline": stages})).await.status, 200);
    let commands = noted(&database).await;
    let of_clients =
        commands.iter().filter_map(|command| of_clients(&command.get("filter").cloned().unwrap_or(Bson::Null)));
    assert_eq!(of_clients.collect::<BTreeSet<_>>(), BTreeSet::from(["$regex".to_owned()]), "{commands:?}");
    assert!(!commands.iter().any(|command| command.to_string().contains(OWN_OPERATOR)), "{commands:?}");
}
