//! The service killed while it deletes a group with its users: all of it is done, or none, or saying it again completes it.

use std::time::Duration;

use inventory_service::app::open_store;
use inventory_service::domain::document::raw;
use inventory_service::domain::group::Group;
use inventory_service::domain::user::User;
use inventory_service::query::Filter;
use inventory_service::service::accounts::credentials::{self, NewPassword};
use inventory_service::settings::Settings;
use inventory_service::store::collections::{ALL, CREDENTIALS, GROUPS, USERS};
use inventory_service::store::{Change, Store, Unit};
use reqwest::Method;
use serde_json::json;
use tempfile::TempDir;

use crate::support::app::{ADMIN_PASSWORD, Answer, send};
use crate::support::mongod::{self, Deployment};
use crate::support::process::ServiceProcess;

const GROUP: i64 = 7;
const MEMBERS: i64 = 200;
/// How long after the request the service is killed, in milliseconds: from before it begins to after its end.
const MOMENTS: [u64; 5] = [0, 2, 8, 24, 64];

/// What is left of the group and its users.
#[derive(Debug, PartialEq, Eq)]
struct Remains {
    group: u64,
    in_group: u64,
    moved: u64,
    credentials: u64,
}

const NOTHING_DONE: Remains = Remains { group: 1, in_group: 200, moved: 0, credentials: 200 };
const ALL_MOVED: Remains = Remains { group: 0, in_group: 0, moved: 200, credentials: 200 };
const ALL_DELETED: Remains = Remains { group: 0, in_group: 0, moved: 0, credentials: 0 };

/// Puts the group and its users into the store as if nothing had happened to them.
async fn fill(store: &dyn Store) {
    let ids: Vec<i64> = (1000..1000 + MEMBERS).collect();
    let of_members = |path| Filter::one_of(path, ids.iter().copied());
    let clear = Unit::of(Change::DeleteMany { collection: USERS, filter: of_members("public_id") })
        .and(Change::DeleteMany { collection: CREDENTIALS, filter: of_members("user_id") })
        .and(Change::DeleteMany { collection: GROUPS, filter: Filter::equals("public_id", GROUP) });
    store.commit(clear).await.expect("an empty place");
    let group = Group { public_id: GROUP, name: "short-lived".into(), label: String::new(), rights: Vec::new() };
    let mut unit = Unit::of(Change::Insert { collection: GROUPS, document: raw(&group.to_document()) });
    for id in ids {
        let name = format!("member{id}");
        let user = User::new(id, &name, GROUP, chrono::DateTime::UNIX_EPOCH);
        unit = unit
            .and(Change::Insert { collection: USERS, document: raw(&user.to_document()) })
            .and(credentials::insert(id, &name, NewPassword { hash: "no hash", set_by: id }));
    }
    store.commit(unit).await.expect("a full group");
}

async fn remains(store: &dyn Store) -> Remains {
    let count = async |collection, filter: Filter| {
        store.count(collection, &filter, Duration::from_secs(30)).await.expect("a number")
    };
    Remains {
        group: count(GROUPS, Filter::equals("public_id", GROUP)).await,
        in_group: count(USERS, Filter::equals("group_id", GROUP)).await,
        moved: count(USERS, Filter::equals("group_id", 2_i64)).await,
        credentials: count(CREDENTIALS, Filter::equals("hash", "no hash")).await,
    }
}

/// A signed-in administrator's requests to one process.
struct Admin {
    http: reqwest::Client,
    origin: String,
    token: String,
}

impl Admin {
    async fn of(service: &ServiceProcess) -> Self {
        let http = reqwest::Client::new();
        let body = json!({"user_name": "admin", "password": ADMIN_PASSWORD});
        let login = http.post(format!("{}/rest/auth/login", service.origin)).json(&body);
        let token = send(login).await.json()["token"].as_str().expect("a token").to_owned();
        Self { http, origin: service.origin.clone(), token }
    }

    fn delete_group(&self, query: &str) -> reqwest::RequestBuilder {
        let url = format!("{}/rest/groups/{GROUP}?{query}", self.origin);
        self.http.request(Method::DELETE, url).bearer_auth(&self.token)
    }

    /// MongoDB keeps the transaction of a process that was killed for up to a minute; until then the answer is 503.
    async fn delete_group_patiently(&self, query: &str) -> Answer {
        loop {
            let answer = send(self.delete_group(query)).await;
            if answer.status != 503 {
                return answer;
            }
            assert!(!answer.header("retry-after").is_empty());
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

/// One process at a time has the embedded store, so it is opened and closed for each look.
async fn open(directory: &TempDir, uri: &str) -> std::sync::Arc<dyn Store> {
    let place = directory.path().join("data");
    let uri = if uri == "embedded:data" { format!("embedded:{}", place.display()) } else { uri.to_owned() };
    let settings = Settings::defaults(&[("store.uri", &uri)]).expect("valid settings");
    let store = open_store(&settings.store).await.expect("the store opens");
    store.prepare(ALL).await.expect("collections");
    store
}

/// Kills the service at one moment after the other.
async fn kill_and_complete(uri: &str, query: &str, done: Remains) {
    let directory = TempDir::new().expect("a temporary directory");
    // The first start makes the administrator.
    ServiceProcess::start(directory.path(), uri).kill();
    for moment in MOMENTS {
        let store = open(&directory, uri).await;
        fill(&*store).await;
        drop(store);
        let service = ServiceProcess::start(directory.path(), uri);
        let admin = Admin::of(&service).await;
        let request = tokio::spawn(admin.delete_group(query).send());
        tokio::time::sleep(Duration::from_millis(moment)).await;
        service.kill();
        let acknowledged = request.await.expect("the request ends").is_ok_and(|answer| answer.status() == 202);
        let store = open(&directory, uri).await;
        let found = remains(&*store).await;
        drop(store);
        assert!(!acknowledged || found == done, "{found:?} after an acknowledged deletion");
        assert!(found == done || found == NOTHING_DONE, "{found:?}");
        if found != done {
            let service = ServiceProcess::start(directory.path(), uri);
            let admin = Admin::of(&service).await;
            let again = admin.delete_group_patiently(query).await;
            assert_eq!(again.status, 202, "{}", again.text);
            service.kill();
            assert_eq!(remains(&*open(&directory, uri).await).await, done);
        }
    }
}

async fn on_mongodb(query: &str, done: Remains) {
    if let Some(server) = mongod::shared(Deployment::ReplicaSet).await {
        kill_and_complete(&server.fresh_uri(), query, done).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_is_whole_on_the_embedded_store() {
    kill_and_complete("embedded:data", "action=MOVE&group_id=2", ALL_MOVED).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_is_whole_on_the_embedded_store() {
    kill_and_complete("embedded:data", "action=DELETE", ALL_DELETED).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_is_whole_on_a_replica_set() {
    on_mongodb("action=MOVE&group_id=2", ALL_MOVED).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_is_whole_on_a_replica_set() {
    on_mongodb("action=DELETE", ALL_DELETED).await;
}
