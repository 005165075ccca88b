//! The law of the past: changes of hidden objects, however many and however large, show in no answer about the past and in no
//! event.

use bson::raw::RawDocumentBuf;
use bson::{DateTime, doc};
use inventory_service::clock::{Clock, SystemClock};
use inventory_service::history::entry::{Action, After, Author, Changes, Draft, state_of, with_sequences};
use inventory_service::store::collections::{HISTORY, LOGS, OBJECTS};
use inventory_service::store::{Change, Unit};
use reqwest::Method;
use serde_json::{Value, json};

use super::answers::Comparable;
use super::requests::Asked;
use super::world::{HIDDEN, OPEN, World};
use crate::history::reader::Reader;
use crate::support::app::TestApp;
use crate::support::mongod::{Deployment, shared};
use crate::webhooks::receiver::{ALLOWED, Receiver};

/// One user has 48 MiB.
const NARROW: [(&str, &str); 2] = [("admission.memory_mib", "64"), ALLOWED];
/// Several times that, and as large as the service takes them.
const LARGE: (i64, usize) = (200, 900_000);
/// More changes than one question rolls back.
const MANY: (i64, usize) = (50_100, 0);
/// Where the ids of hidden objects begin.
const FIRST: i64 = 10_000;

/// Hidden objects that are stored by a tool which keeps the history, each with its entry.
async fn come(app: &TestApp, first: i64, (count, bytes): (i64, usize)) {
    let end = first + count;
    let mut id = first;
    while id < end {
        // What one unit holds on MongoDB.
        let some = if bytes > 0 { 8 } else { 1_000 }.min(end - id);
        let sequence = app.store.reserve_ids(HISTORY, u32::try_from(some).expect("few")).await.expect("sequences");
        let changes = (0..some).flat_map(|number| entered(id + number, sequence + number, bytes)).collect();
        app.store.commit(Unit { changes, ..Unit::default() }).await.expect("they are stored");
        id += some;
    }
}

fn entered(id: i64, sequence: i64, bytes: usize) -> Vec<Change> {
    let fields = vec![doc! { "name": "name", "value": "x".repeat(bytes) }];
    let object =
        doc! { "_id": id, "public_id": id, "type_id": HIDDEN[0], "active": true, "version": "1.0.0", "fields": fields };
    let object = RawDocumentBuf::try_from(&object).expect("it is BSON");
    let author = Author::default();
    let after = After { version: Some("1.0.0"), state: Some(state_of(&object)) };
    let (resource, type_id, action) = ("objects", Some(HIDDEN[0]), Action::Create);
    let draft = Draft {
        resource,
        public_id: id,
        type_id,
        action,
        author: &author,
        cause: None,
        changes: Changes::Created,
        after,
    };
    let entry = with_sequences(&[draft.pending(None, DateTime::from_chrono(SystemClock.now()))], sequence).remove(0);
    let stored = |collection, document| Change::Insert { collection, document };
    let object = (bytes > 0).then(|| stored(OBJECTS, object));
    object.into_iter().chain([stored(LOGS, entry)]).collect()
}

/// Objects that the caller sees and that change after the cursor.
async fn seen_changes(app: &TestApp) -> (String, [i64; 3]) {
    let of = |name: &str| json!({"name": name, "size": 1});
    let ids = [app.create_object(OPEN, &of("a")).await, app.create_object(OPEN, &of("b")).await];
    let since = app.get("/changes/").await.json()["next"].as_str().expect("a cursor").to_owned();
    assert_eq!(app.patch(&format!("/objects/{}", ids[0]), &json!({"fields": {"name": "c"}})).await.status, 202);
    assert_eq!(app.delete(&format!("/objects/{}", ids[1])).await.status, 200);
    let last = app.create_object(OPEN, &of("d")).await;
    (since, [ids[0], ids[1], last])
}

fn asked(since: &str, ids: [i64; 3]) -> Vec<Asked> {
    let filter = json!({"fields": {"$elemMatch": {"name": "name", "value": {"$in": ["a", "c", "d"]}}}});
    let expression = json!({"$expr": {"$ne": ["$type_id", 77]}});
    let mut all = Vec::new();
    for path in ["/objects/", "/types/", "/categories/"] {
        all.push(Asked::get(path).with("at", since));
        all.push(Asked::get(path).with("at", since).with("limit", 1).with("projection", "public_id"));
        all.push(Asked::get(path).with("at", since).with("limit", 3).with("page", 2).with("sort", "-public_id"));
    }
    for filter in [&filter, &expression, &json!({"type_id": OPEN}), &json!({"public_id": {"$in": ids}})] {
        all.push(Asked::get("/objects/").with("at", since).with("filter", filter).with("sort", "-views"));
        let changes = Asked::get("/changes/").with("since", since).with("resource", "objects");
        all.push(changes.with("filter", filter).with("limit", 1000));
    }
    all.push(Asked::get("/objects/").with("at", since).with("view", "render").with("limit", 0));
    for id in ids.into_iter().chain([FIRST, FIRST + 1, 999_999]) {
        all.push(Asked::get(format!("/objects/{id}")).with("at", since));
        all.push(Asked::get(format!("/objects/{id}/history")));
        all.push(Asked::get(format!("/objects/{id}/diff")).with("from", since));
    }
    for view in ["native", "ids", "render"] {
        all.push(Asked::get("/changes/").with("since", since).with("view", view).with("limit", 1000));
    }
    let behind = json!({"sequence": {"$gt": since.parse::<i64>().expect("a number")}});
    all.push(Asked::get("/logs/").with("filter", behind).with("limit", 0));
    all
}

/// What a stream sends after the cursor, without numbers of the order.
async fn streamed(app: &TestApp, world: &World, since: &str, view: &str) -> Vec<Value> {
    let request = world.caller().request(app, Method::GET, &format!("/changes/?resource=objects&view={view}"));
    let mut reader = Reader::open(request, Some(since)).await.expect("it begins");
    let mut events = Vec::new();
    for _ in 0..3 {
        let (_, _, data) = reader.event().await.expect("an event");
        events.push(timeless(data));
    }
    events
}

fn timeless(mut data: Value) -> Value {
    data.as_object_mut().expect("an object").retain(|name, _| !["sequence", "time"].contains(&name.as_str()));
    if let Some(document) = data["document"].as_object_mut() {
        document.remove("current_render_time");
    }
    data
}

/// A webhook of the caller, and what receives it.
struct Hook {
    id: i64,
    receiver: Receiver,
}

impl Hook {
    async fn new(app: &TestApp, world: &World) -> Self {
        let receiver = Receiver::start();
        let body = json!({"name": "hook", "url": receiver.url(), "resources": ["objects"]});
        let made = world.caller().send(app, Method::POST, "/webhooks/", &body).await;
        assert_eq!(made.status, 201, "{}", made.text);
        Self { id: made.json()["result_id"].as_i64().expect("an id"), receiver }
    }

    /// What it sends again.
    async fn sent(&self, app: &TestApp, since: &str) -> Vec<Value> {
        let replayed = app.post(&format!("/webhooks/{}/replay?since={since}", self.id), &json!({})).await;
        assert!(replayed.status.is_success(), "{}", replayed.text);
        (0..3).map(|_| timeless(self.receiver.next().json()["data"].clone())).collect()
    }
}

async fn answers(
    app: &TestApp,
    (world, hook): (&World, &Hook),
    (since, ids): (&str, [i64; 3]),
) -> (Vec<(Asked, Comparable)>, Vec<Value>) {
    let mut all = Vec::new();
    for asked in asked(since, ids) {
        let answer = world.ask(app, &asked).await;
        all.push((asked, answer));
    }
    let mut events = Vec::new();
    for view in ["native", "ids", "render"] {
        events.extend(streamed(app, world, since, view).await);
    }
    events.extend(hook.sent(app, since).await);
    (all, events)
}

async fn hold_the_law_of_the_past(app: &TestApp) {
    let world = World::new(app).await;
    let (since, ids) = seen_changes(app).await;
    let hook = Hook::new(app, &world).await;
    let (before, told) = answers(app, (&world, &hook), (&since, ids)).await;
    assert!(before.iter().filter(|(_, answer)| answer.status() == 200).count() > 20, "{before:?}");
    for (first, hidden) in [(FIRST, LARGE), (2 * FIRST, MANY)] {
        come(app, first, hidden).await;
        // After them, the next change of the service continues the order.
        app.create_object(HIDDEN[0], &json!({"name": "hidden"})).await;
        let free = app.admission.memory().free();
        let (after, again) = answers(app, (&world, &hook), (&since, ids)).await;
        for ((asked, before), (_, after)) in before.iter().zip(&after) {
            assert_eq!(before, after, "{hidden:?} hidden changes show in the answer to {asked:?}");
        }
        assert_eq!(told, again, "{hidden:?} hidden changes show in an event");
        assert_eq!(app.admission.memory().free(), free);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_past_tells_of_many_or_large_hidden_objects_on_the_embedded_store() {
    hold_the_law_of_the_past(&TestApp::embedded_with(&NARROW).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_past_tells_of_many_or_large_hidden_objects_on_mongodb() {
    let Some(server) = shared(Deployment::ReplicaSet).await else { return };
    hold_the_law_of_the_past(&TestApp::on(&server.fresh_uri(), &NARROW).await).await;
}
