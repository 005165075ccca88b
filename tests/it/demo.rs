//! The demo: what it loads, that it is always the same, and that it wants an empty store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bson::Document;
use inventory_service::app::{build_services, open_store};
use inventory_service::clock::SystemClock;
use inventory_service::demo::model::DemoKind;
use inventory_service::demo::plan::DemoPlan;
use inventory_service::demo::{self, DemoError};
use inventory_service::progress::Progress;
use inventory_service::query::{Filter, Sort};
use inventory_service::service::Services;
use inventory_service::settings::Settings;
use inventory_service::store::{FindQuery, collections};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::app::{ADMIN_PASSWORD, TestApp};

const OBJECTS: u32 = 200;

/// Counts the reports of progress.
#[derive(Default)]
struct Counter {
    begun: AtomicU64,
    stored: AtomicU64,
    ended: AtomicU64,
}

impl Progress for Counter {
    fn begin(&self, _things: &str, total: u64) {
        self.begun.store(total, Ordering::Relaxed);
    }

    fn advance(&self, count: u64, _label: &str) {
        self.stored.fetch_add(count, Ordering::Relaxed);
    }

    fn end(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// The use cases on a store in the directory, without HTTP.
async fn services_in(directory: &TempDir) -> Services {
    let uri = format!("embedded:{}", directory.path().join("data").display());
    services_on(&uri).await
}

async fn services_on(uri: &str) -> Services {
    let settings = Settings::defaults(&[
        ("store.uri", uri),
        ("auth.initial_admin_password", ADMIN_PASSWORD),
        ("auth.argon2.memory_kib", "8"),
        ("auth.argon2.iterations", "1"),
    ]);
    let settings = settings.expect("valid settings");
    let store = open_store(&settings.store).await.expect("the store opens");
    build_services(&settings, store, Arc::new(SystemClock)).await.expect("the services start").0
}

/// The documents of a collection in the order of their ids, without what differs from one load to the next.
async fn comparable(services: &Services, collection: &str) -> Vec<Document> {
    let query = FindQuery::new(Filter::all(), services.max_time).sorted(Sort::by("public_id", false));
    let found = services.store.find(collection, &query).await.expect("documents");
    let documents = found.iter().map(|document| Document::try_from(document).expect("a whole document"));
    documents
        .map(|mut document| {
            document.remove("_id").expect("an _id");
            document.remove("creation_time").expect("a creation time");
            document
        })
        .collect()
}

async fn loaded_documents(services: &Services) -> Vec<Vec<Document>> {
    demo::load(services, OBJECTS, &Counter::default()).await.expect("the demo loads");
    let mut all = Vec::new();
    for collection in [collections::TYPES, collections::CATEGORIES, collections::OBJECTS] {
        all.push(comparable(services, collection).await);
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_loads_give_the_same_documents() {
    let (first, second) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
    let documents = loaded_documents(&services_in(&first).await).await;
    assert_eq!(documents, loaded_documents(&services_in(&second).await).await);
    let counts: Vec<usize> = documents.iter().map(Vec::len).collect();
    assert_eq!(counts, [DemoKind::ALL.len(), 7, OBJECTS as usize]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mongodb_gets_the_same_documents_as_the_embedded_store() {
    let Some(server) = crate::support::mongod::shared(crate::support::mongod::Deployment::ReplicaSet).await else {
        return;
    };
    let directory = TempDir::new().expect("a directory");
    let embedded = loaded_documents(&services_in(&directory).await).await;
    assert_eq!(loaded_documents(&services_on(&server.fresh_uri()).await).await, embedded);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_is_told_of_every_object() {
    let directory = TempDir::new().expect("a directory");
    let services = services_in(&directory).await;
    let counter = Counter::default();
    let loaded = demo::load(&services, 300, &counter).await.expect("the demo loads");
    assert_eq!((loaded.types, loaded.categories, loaded.objects), (DemoKind::ALL.len() as u64, 7, 300));
    let heard = [&counter.begun, &counter.stored, &counter.ended].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(heard, [300, 300, 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_with_anything_in_it_is_refused_and_left_alone() {
    let directory = TempDir::new().expect("a directory");
    let services = services_in(&directory).await;
    demo::load(&services, OBJECTS, &Counter::default()).await.expect("the demo loads");
    let before = comparable(&services, collections::OBJECTS).await;
    let error = demo::load(&services, OBJECTS, &Counter::default()).await.expect_err("a second demo");
    assert!(matches!(error, DemoError::NotEmpty { what: "types" }), "{error}");
    assert!(error.to_string().contains("store.uri"), "{error}");
    assert_eq!(comparable(&services, collections::OBJECTS).await, before);
}

/// A service with the demo in its store.
async fn app_with_demo() -> TestApp {
    let app = TestApp::embedded().await;
    fill(&app).await;
    app
}

/// Loads the demo into the store of a service.
pub(crate) async fn fill(app: &TestApp) {
    // Use cases of their own on the store of the running service, as another instance would have them.
    let settings = Settings::defaults(&[("auth.argon2.memory_kib", "8")]).expect("valid settings");
    let built = build_services(&settings, Arc::clone(&app.store), Arc::new(SystemClock)).await;
    let (services, _) = built.expect("the services start");
    demo::load(&services, OBJECTS, &Counter::default()).await.expect("the demo loads");
}

async fn rendered(app: &TestApp) -> Vec<Value> {
    let answer = app.get("/objects/?view=render&limit=1000").await.json();
    answer["results"].as_array().expect("results").clone()
}

/// All references in the fields of a view, those in sections of other objects too.
fn references(fields: &Value) -> Vec<&Value> {
    let mut found = Vec::new();
    for field in fields.as_array().into_iter().flatten() {
        if !field["value"].is_null() && field["ref_types"].as_array().is_some_and(|types| !types.is_empty()) {
            found.push(&field["reference"]);
        }
        found.extend(references(&field["reference"]["fields"]));
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_object_is_rendered_with_lines_and_with_references_that_lead_somewhere() {
    let app = app_with_demo().await;
    let views = rendered(&app).await;
    assert_eq!(views.len(), OBJECTS as usize);
    let mut count = 0;
    for view in &views {
        let shown = &view["type_information"];
        let line = shown["summary_line"].as_str().expect("a line");
        assert!(!line.is_empty() && !line.contains('#'), "{line}");
        for reference in references(&shown["fields"]) {
            assert!(reference["object_id"].as_i64().is_some_and(|id| id > 0), "{reference}");
            assert!(
                reference["line"].as_str().is_some_and(|line| line.len() > 3 && !line.contains("{}")),
                "{reference}"
            );
            count += 1;
        }
    }
    assert!(count > OBJECTS, "{count} references");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_of_types_add_up() {
    let app = app_with_demo().await;
    let plan = DemoPlan::new(OBJECTS);
    for kind in DemoKind::ALL {
        let filter = json!({"type_id": kind.type_id()}).to_string();
        let answer = app.get_with("/objects/", &[("filter", &filter), ("limit", "1")]).await;
        assert_eq!(answer.json()["total"], plan.count(kind), "{kind:?}");
    }
    let tree = app.get("/categories/?view=tree").await.json();
    assert_eq!(tree["total"], 3);
    let labels: Vec<&Value> =
        tree["results"].as_array().expect("roots").iter().map(|root| &root["category"]["label"]).collect();
    assert_eq!(labels, ["Infrastructure", "Software", "Organisation"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_shows_where_it_stands_and_who_supports_it() {
    let app = app_with_demo().await;
    let filter = json!({"fields": {"$elemMatch": {"name": "role", "value": "hypervisor"}}}).to_string();
    let answer = app.get_with("/objects/", &[("filter", &filter), ("view", "render"), ("limit", "100")]).await.json();
    let views = answer["results"].as_array().expect("results");
    assert_eq!(views.len(), 10);
    let field = |view: &Value, name: &str| {
        let fields = view["type_information"]["fields"].as_array().expect("fields").clone();
        fields.into_iter().find(|field| field["name"] == name).expect("the field")
    };
    let view = views.iter().find(|view| !field(view, "contract")["value"].is_null()).expect("one with a contract");
    let shown = &view["type_information"];
    let links: Vec<&Value> = shown["externals"].as_array().expect("links").iter().map(|link| &link["name"]).collect();
    assert_eq!(links, ["monitoring", "ssh", "ticket"]);
    assert!(field(view, "rack")["reference"]["line"].as_str().expect("a line").contains(", row "));
    let contract = field(view, "contract");
    let support: Vec<&Value> =
        contract["reference"]["fields"].as_array().expect("fields").iter().map(|field| &field["name"]).collect();
    assert_eq!(support, ["hotline", "portal", "owner"]);
    assert_eq!(contract["reference"]["line"].as_str().map(|line| line.starts_with("C-20")), Some(true));
}
