//! Units that are refused, and what is left of them: nothing.

use bson::oid::ObjectId;
use bson::raw::RawDocumentBuf;
use bson::{Document, doc, rawdoc};
use futures::future::join_all;
use inventory_service::query::{Filter, Limits, Sort, Update};
use inventory_service::store::collections::{ALL, CATEGORIES, OBJECTS, TYPES};
use inventory_service::store::mongo::MongoStore;
use inventory_service::store::{Change, Condition, Store, StoreError, Unit};

use super::{all, commands_of, connect, count, database, insert, object, object_type, store_on, type_exists};
use crate::support::mongod::{Deployment, Mongod, program};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_given_their_type_refuse_a_missing_one_and_leave_nothing() {
    let Some((store, ..)) = store_on().await else { return };
    store.commit(Unit::of(insert(TYPES, object_type(1)))).await.expect("the type is new");
    let unit = Unit::of(insert(OBJECTS, object(1, 1)))
        .and(insert(OBJECTS, object(2, 2)))
        .given(type_exists(1))
        .given(type_exists(2));
    assert!(matches!(store.commit(unit.clone()).await, Err(StoreError::Condition { index: 1 })));
    assert_eq!(count(&store, OBJECTS, Filter::all()).await, 0);
    store.commit(Unit::of(insert(TYPES, object_type(2)))).await.expect("the type is new");
    assert_eq!(store.commit(unit).await.expect("both types exist"), [1, 1]);
    // What does not hold comes before what the changes run into.
    let unit = Unit::of(insert(OBJECTS, object(2, 3))).given(type_exists(3));
    assert!(matches!(store.commit(unit).await, Err(StoreError::Condition { index: 0 })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_unit_stored_is_taken_back_wherever_its_id_stands() {
    let Some((store, ..)) = store_on().await else { return };
    let document = |id: i64| rawdoc! { "type_id": 1_i64, "odd": { "$x": f64::NAN }, "_id": id, "public_id": id };
    for unit in [
        Unit::of(insert(OBJECTS, document(1))),
        Unit::of(insert(OBJECTS, document(1))).and(insert(OBJECTS, document(2))),
    ] {
        let refused = store.commit(unit.given(type_exists(1))).await;
        assert!(matches!(refused, Err(StoreError::Condition { index: 0 })), "{refused:?}");
        assert_eq!(count(&store, OBJECTS, Filter::all()).await, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_too_large_for_a_transaction_goes_through() {
    let Some((store, server, uri)) = store_on().await else { return };
    let foreign = database(server, &uri).await.collection::<Document>(OBJECTS);
    let many = (1..=22_000_i64).map(|id| doc! { "public_id": id, "type_id": 1 + id % 2 });
    foreign.insert_many(many).await.expect("stored by another tool");
    let document = object_type(1);
    store.commit(Unit::of(insert(TYPES, document.clone()))).await.expect("new");
    let cascade = |before: RawDocumentBuf| {
        Unit::of(insert(OBJECTS, object(30_000, 1)))
            .and(Change::DeleteMany { collection: OBJECTS, filter: Filter::equals("type_id", 1_i64) })
            .and(Change::Delete { collection: TYPES, before })
    };
    let mut other = Document::try_from(&document).expect("a document");
    other.insert("name", "changed");
    let stale = store.commit(cascade(RawDocumentBuf::try_from(&other).expect("a document"))).await;
    assert!(matches!(stale, Err(StoreError::Stale)), "{stale:?}");
    assert_eq!(count(&store, OBJECTS, Filter::all()).await, 22_000);
    assert_eq!(store.commit(cascade(document)).await.expect("nothing speaks against it"), [1, 11_001, 1]);
    assert_eq!(count(&store, OBJECTS, Filter::all()).await, 11_000);
    assert_eq!(count(&store, OBJECTS, Filter::equals("type_id", 1_i64)).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_that_fails_in_the_middle_leaves_nothing() {
    let Some((store, ..)) = store_on().await else { return };
    let (one, two) = (object_type(1), object_type(2));
    let category =
        rawdoc! { "_id": ObjectId::new(), "public_id": 1_i64, "name": "c", "types": [1_i64, 2_i64], "parent": 5_i64 };
    store.commit(Unit::of(insert(TYPES, one.clone())).and(insert(TYPES, two.clone()))).await.expect("new");
    store.commit(Unit::of(insert(CATEGORIES, category.clone())).and(insert(OBJECTS, object(1, 1)))).await.expect("new");
    let before = snapshot(&store).await;
    let unit = Unit::of(insert(OBJECTS, object(2, 1)))
        .and(Change::DeleteMany { collection: OBJECTS, filter: Filter::equals("type_id", 1_i64) })
        .and(Change::UpdateMany {
            collection: CATEGORIES,
            filter: Filter::equals("types", 1_i64),
            update: Update::pull("types", 1_i64).and_set("parent", 7_i64),
        })
        .and(Change::Replace { collection: TYPES, before: two.clone(), after: two.clone() })
        .and(Change::Delete { collection: TYPES, before: one })
        .and(insert(CATEGORIES, rawdoc! { "_id": ObjectId::new(), "public_id": 1_i64, "name": "d" }));
    let failed = store.commit(unit).await;
    assert!(
        matches!(&failed, Err(StoreError::Duplicate { collection, key }) if collection == CATEGORIES && key == "public_id"),
        "{failed:?}"
    );
    assert_eq!(snapshot(&store).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_changes_are_taken_back_together() {
    let Some((store, server, uri)) = store_on().await else { return };
    let foreign = database(server, &uri).await.collection::<Document>(OBJECTS);
    let padding = "a".repeat(5000);
    let many = (1..=2500_i64).map(|id| doc! { "public_id": id, "type_id": 1, "odd": { "$x": &padding }, "at": id });
    foreign.insert_many(many).await.expect("stored by another tool");
    let before = snapshot(&store).await;
    let all = || Filter::equals("type_id", 1_i64);
    let types = (1..=20).map(|id| insert(TYPES, object_type(id))).collect();
    let unit = Unit { conditions: Vec::new(), changes: types }
        .and(Change::UpdateMany { collection: OBJECTS, filter: all(), update: Update::set("at", 0_i64) })
        .and(Change::UpdateMany { collection: OBJECTS, filter: all(), update: Update::set("again", 1_i64) })
        .and(Change::DeleteMany { collection: OBJECTS, filter: Filter::equals("at", 0_i64) })
        .and(insert(TYPES, object_type(20)));
    let failed = store.commit(unit).await;
    assert!(matches!(failed, Err(StoreError::Duplicate { .. })), "{failed:?}");
    assert!(snapshot(&store).await == before, "not everything is what it was");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_counter_follows_ids_of_the_client_and_of_other_tools() {
    let Some((store, server, uri)) = store_on().await else { return };
    let foreign = database(server, &uri).await.collection::<Document>(OBJECTS);
    foreign.insert_one(doc! { "public_id": 40 }).await.expect("stored by another tool");
    assert_eq!(store.reserve_ids(OBJECTS, 1).await.expect("the server answers"), 41);
    store.commit(Unit::of(insert(OBJECTS, object(100, 1)))).await.expect("the id is free");
    assert_eq!(store.reserve_ids(OBJECTS, 2).await.expect("the server answers"), 101);
    foreign.insert_one(doc! { "public_id": 103.0 }).await.expect("stored by another tool");
    foreign.insert_one(doc! { "public_id": 110_i64 }).await.expect("stored by another tool");
    let id = store.reserve_ids(OBJECTS, 1).await.expect("the server answers");
    let refused = store.commit(Unit::of(insert(OBJECTS, object(id, 1)))).await;
    assert!(matches!(refused, Err(StoreError::Duplicate { key, .. }) if key == "public_id"));
    assert_eq!(store.reserve_ids(OBJECTS, 1).await.expect("the server answers"), 111);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duplicates_name_the_declared_index() {
    let Some((store, ..)) = store_on().await else { return };
    let first = object_type(1);
    let id = first.get_object_id("_id").expect("an id");
    store.commit(Unit::of(insert(TYPES, first))).await.expect("new");
    let same_name = rawdoc! { "_id": ObjectId::new(), "public_id": 2_i64, "name": "type 1" };
    let same_id = rawdoc! { "_id": id, "public_id": 3_i64, "name": "type 3" };
    for (document, expected) in [(object_type(1), "public_id"), (same_name, "name"), (same_id, "_id")] {
        for unit in [
            Unit::of(insert(TYPES, document.clone())),
            Unit::of(insert(OBJECTS, object(9, 9))).and(insert(TYPES, document.clone())),
        ] {
            match store.commit(unit).await {
                Err(StoreError::Duplicate { collection, key }) => assert_eq!((&*collection, &*key), (TYPES, expected)),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(count(&store, OBJECTS, Filter::all()).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documents_that_a_unit_relies_on_are_asked_for_together() {
    let Some((store, server, uri)) = store_on().await else { return };
    let there = (1..=50).map(|id| insert(OBJECTS, object(id, 1))).collect();
    store.commit(Unit { conditions: Vec::new(), changes: there }).await.expect("new objects");
    let database = database(server, &uri).await;
    let exists = |id: i64| Condition::Exists { collection: OBJECTS, filter: Filter::equals("public_id", id) };
    let conditions: Vec<Condition> = (1..=50).map(exists).collect();
    let changes = vec![insert(OBJECTS, object(60, 1)), insert(OBJECTS, object(61, 1))];
    let unit = Unit { conditions: conditions.clone(), changes };
    let commands = commands_of(&database, async { store.commit(unit).await.expect("all of them are there") }).await;
    let counters = format!("{}.service.counters", database.name());
    let of_counters = commands.iter().filter(|command| command.get_str("ns").is_ok_and(|ns| ns == counters)).count();
    // The order, what the unit relies on, and the insertion. Before it, the counter is raised.
    assert!(of_counters <= 3 && commands.len() <= 4, "{commands:#?}");
    let missing = [&conditions[..7], &[exists(99)], &conditions[7..]].concat();
    let refused = store.commit(Unit { conditions: missing, changes: vec![insert(OBJECTS, object(62, 1))] }).await;
    assert!(matches!(refused, Err(StoreError::Condition { index: 7 })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_that_may_have_taken_effect_are_not_carried_out_again() {
    let Some(program) = program() else { return };
    let server = Mongod::start_with_failpoints(program, Deployment::ReplicaSet).await;
    let store = connect(&server.fresh_uri()).await;
    store.prepare(ALL).await.expect("the collections can be made");
    // The transaction takes effect, and the server does not know whether the majority has it.
    let data =
        doc! { "failCommands": ["commitTransaction"], "writeConcernError": { "code": 11601, "errmsg": "interrupted" } };
    let command = doc! { "configureFailPoint": "failCommand", "mode": "alwaysOn", "data": data };
    let admin = server.client().await.database("admin");
    admin.run_command(command).await.expect("the server has failpoints");
    // The first one has a transaction of its own, and the others share the next one.
    let units = (1..=4_i64).map(|id| store.commit(Unit::of(insert(OBJECTS, object(id, 1)))));
    for outcome in join_all(units).await {
        assert!(matches!(outcome, Err(StoreError::Unavailable { .. })), "{outcome:?}");
    }
    admin.run_command(doc! { "configureFailPoint": "failCommand", "mode": "off" }).await.expect("it ends");
    store.commit(Unit::of(insert(OBJECTS, object(5, 1)))).await.expect("the majority has it, and all before it");
    assert_eq!(count(&store, OBJECTS, Filter::all()).await, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_that_the_server_cannot_answer_leaves_the_others() {
    let Some((store, ..)) = store_on().await else { return };
    let kind = rawdoc! { "_id": ObjectId::new(), "public_id": 1_i64, "name": "a", "parts": 0 };
    store.commit(Unit::of(insert(TYPES, kind))).await.expect("new");
    let quotient = doc! { "$expr": { "$eq": [{ "$divide": [1, "$parts"] }, 1] } };
    let filter = Filter::parse(&quotient, &Limits::NONE).expect("a filter");
    let relies = Condition::None { collection: TYPES, filter };
    let broken = Unit { conditions: vec![relies], changes: vec![insert(OBJECTS, object(2, 1))] };
    let sound = (3..=9_i64).map(|id| Unit::of(insert(OBJECTS, object(id, 1))));
    let first = Unit::of(insert(OBJECTS, object(100, 1)));
    let units = [first, broken].into_iter().chain(sound).map(|unit| store.commit(unit));
    let outcomes = join_all(units).await;
    let refused: Vec<usize> = (0..outcomes.len()).filter(|index| outcomes[*index].is_err()).collect();
    assert_eq!(refused, [1], "{outcomes:?}");
}

async fn snapshot(store: &MongoStore) -> Vec<Vec<u8>> {
    let mut documents = Vec::new();
    for collection in [OBJECTS, TYPES, CATEGORIES] {
        let query = all().sorted(Sort::by("public_id", false));
        let found = store.find(collection, &query).await.expect("the server answers");
        documents.extend(found.iter().map(|document| document.as_bytes().to_vec()));
    }
    documents
}
