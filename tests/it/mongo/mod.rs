//! What only a real MongoDB can show, and the contract of the port on it.

mod away;
mod building;
mod commands;
mod deployment;
mod dumps;
mod late_types;
mod races;
mod reads;
mod rights;
mod units;
mod unsent;

use std::sync::Arc;
use std::time::Duration;

use bson::oid::ObjectId;
use bson::raw::RawDocumentBuf;
use bson::{Document, doc, rawdoc};
use futures::TryStreamExt;
use inventory_service::query::Filter;
use inventory_service::store::collections::{ALL, OBJECTS, TYPES};
use inventory_service::store::mongo::{MongoOptions, MongoStore};
use inventory_service::store::{Change, Condition, FindQuery, Store};

use crate::contract::Fixture;
use crate::support::mongod::{Deployment, Mongod, shared};

const BUDGET: Duration = Duration::from_secs(10);

/// A prepared store on a database of its own, and its server.
async fn store_on() -> Option<(Arc<MongoStore>, &'static Mongod, String)> {
    let server = shared(Deployment::ReplicaSet).await?;
    let uri = server.fresh_uri();
    let store = connect(&uri).await;
    store.prepare(ALL).await.expect("the collections can be made");
    Some((store, server, uri))
}

async fn connect(uri: &str) -> Arc<MongoStore> {
    Arc::new(MongoStore::connect(uri, MongoOptions::default()).await.expect("the server answers"))
}

async fn database(server: &Mongod, uri: &str) -> mongodb::Database {
    let name = uri.rsplit('/').next().and_then(|rest| rest.split('?').next()).expect("the URI names a database");
    server.client().await.database(name)
}

/// The commands that the server got on this database during the work, except those that wait for changes.
async fn commands_of<T>(database: &mongodb::Database, work: impl Future<Output = T>) -> Vec<Document> {
    let list = database.collection::<Document>("system.profile");
    list.drop().await.expect("no list, or an old one");
    database.run_command(doc! { "profile": 2 }).await.expect("the server keeps a list");
    work.await;
    database.run_command(doc! { "profile": 0 }).await.expect("the server stops it");
    let of_others = doc! { "$or": [
        { "op": "getmore" },
        { "ns": format!("{}.service.writers", database.name()) },
        { "command.pipeline.$changeStream": { "$exists": true } },
        { "command.profile": { "$exists": true } },
        { "command.listIndexes": { "$exists": true } },
    ] };
    let commands = list.find(doc! { "$nor": [of_others] }).sort(doc! { "$natural": 1 }).await.expect("the list");
    commands.try_collect().await.expect("the list")
}

fn object(public_id: i64, type_id: i64) -> RawDocumentBuf {
    rawdoc! { "_id": ObjectId::new(), "public_id": public_id, "type_id": type_id }
}

fn object_type(public_id: i64) -> RawDocumentBuf {
    rawdoc! { "_id": ObjectId::new(), "public_id": public_id, "name": format!("type {public_id}") }
}

fn insert(collection: &'static str, document: RawDocumentBuf) -> Change {
    Change::Insert { collection, document }
}

fn type_exists(type_id: i64) -> Condition {
    Condition::Exists { collection: TYPES, filter: Filter::equals("public_id", type_id) }
}

fn no_objects_of(type_id: i64) -> Condition {
    Condition::None { collection: OBJECTS, filter: Filter::equals("type_id", type_id) }
}

fn all() -> FindQuery {
    FindQuery::new(Filter::all(), BUDGET)
}

async fn count(store: &MongoStore, collection: &str, filter: Filter) -> u64 {
    store.count(collection, &filter, BUDGET).await.expect("the server counts")
}

/// What the port says and MongoDB does not do.
const DIFFERENCES: &[(&str, &str)] = &[(
    "an_index_does_not_change_the_insertion_order",
    "without a sort MongoDB gives documents in the order of the index it chose; asking for another would cost a whole scan",
)];

async fn replica_set() -> Option<Fixture> {
    let store = connect(&shared(Deployment::ReplicaSet).await?.fresh_uri()).await;
    Some(Fixture { store, keep: Box::new(()), differences: DIFFERENCES })
}

mod contract {
    store_contract!(crate::mongo::replica_set);
}
