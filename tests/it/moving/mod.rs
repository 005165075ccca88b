//! Moving and keeping data: packages, migrations, backups.

pub(crate) mod backup;
mod export;
mod import;
mod killed;
mod migrate;
mod reading;
mod together;
mod upgrade;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use bson::{DateTime, doc};
use inventory_service::app::{build_services, open_store};
use inventory_service::clock::SystemClock;
use inventory_service::demo;
use inventory_service::moving::MovingError;
use inventory_service::moving::export::export;
use inventory_service::moving::import::{BadLine, ImportOptions, Stores, Summary, import};
use inventory_service::moving::package::Manifest;
use inventory_service::progress::Silent;
use inventory_service::service::Services;
use inventory_service::settings::Settings;
use inventory_service::store::{Copying, collections};
use tempfile::TempDir;

use crate::support::app::ADMIN_PASSWORD;
use crate::support::mongod::{self, Deployment};

/// Makes of each `async fn name(place)` a test on each store; `place` makes stores of this kind.
macro_rules! on_each_kind {
    ($($(#[$attribute:meta])* async fn $name:ident($place:ident) $body:block)*) => {
        $(
            $(#[$attribute])*
            async fn $name($place: &$crate::moving::Place) $body

            mod $name {
                use $crate::moving::Place;

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn on_the_embedded_store() {
                    super::$name(&Place::embedded()).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn on_mongodb() {
                    if let Some(place) = Place::mongodb().await {
                        super::$name(&place).await;
                    }
                }
            }
        )*
    };
}
use on_each_kind;

/// Where a test has its stores and packages.
pub(crate) struct Place {
    directory: TempDir,
    server: Option<&'static mongod::Mongod>,
}

impl Place {
    pub(crate) fn embedded() -> Self {
        Self { directory: TempDir::new().expect("a temporary directory"), server: None }
    }

    pub(crate) async fn mongodb() -> Option<Self> {
        let server = mongod::shared(Deployment::ReplicaSet).await?;
        Some(Self { server: Some(server), ..Self::embedded() })
    }

    /// The URI of a store that there is not yet.
    pub(crate) fn new_uri(&self) -> String {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        match self.server {
            Some(server) => server.fresh_uri(),
            None => format!("embedded:{}", self.path(&format!("data{number}")).display()),
        }
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    /// An empty store, prepared.
    pub(crate) async fn empty(&self) -> Arc<dyn Copying> {
        open(&self.new_uri()).await
    }

    /// A store with the demo in it.
    pub(crate) async fn demo(&self) -> Filled {
        let settings = settings(&self.new_uri());
        let store = open_store(&settings.store).await.expect("the store opens");
        let clock = Arc::new(SystemClock);
        let services = build_services(&settings, Arc::clone(&store) as _, clock).await.expect("services").0;
        demo::load(&services, 300, &Silent).await.expect("the demo loads");
        Filled { services, store }
    }

    /// What `export` writes of the store.
    pub(crate) async fn exported(&self, store: &dyn Copying, name: &str) -> Manifest {
        export(store, &self.path(name), false, chrono::DateTime::UNIX_EPOCH, None, &Silent).await.expect("an export")
    }

    /// Imports a package, and returns the messages about bad lines.
    pub(crate) async fn imported(
        &self,
        store: &dyn Copying,
        name: &str,
        options: ImportOptions,
    ) -> (Result<Vec<Summary>, MovingError>, Vec<BadLine>) {
        let mut findings = Vec::new();
        let mut hear = |finding: &BadLine| findings.push(finding.clone());
        let now = DateTime::from_millis(1_000_000);
        let stores = Stores { plain: store, recorded: store };
        let outcome = import(stores, &self.path(name), options, now, &mut hear, &Silent).await;
        (outcome, findings)
    }
}

/// A store with something in it, to be copied, and the use cases on it.
pub(crate) struct Filled {
    services: Services,
    pub(crate) store: Arc<dyn Copying>,
}

impl std::ops::Deref for Filled {
    type Target = Services;

    fn deref(&self) -> &Services {
        &self.services
    }
}

pub(crate) fn settings(uri: &str) -> Settings {
    let pairs = [
        ("store.uri", uri),
        ("auth.initial_admin_password", ADMIN_PASSWORD),
        ("auth.argon2.memory_kib", "8"),
        ("auth.argon2.iterations", "1"),
    ];
    Settings::defaults(&pairs).expect("valid settings")
}

/// The store, prepared, without a first start.
pub(crate) async fn open(uri: &str) -> Arc<dyn Copying> {
    let store = open_store(&settings(uri).store).await.expect("the store opens");
    store.prepare(collections::ALL).await.expect("collections");
    store
}

/// The use cases on a store after its first start.
pub(crate) async fn services(uri: &str) -> Services {
    let settings = settings(uri);
    let store = open_store(&settings.store).await.expect("the store opens");
    build_services(&settings, store, Arc::new(SystemClock)).await.expect("services").0
}

/// All files of a package but the manifest, byte for byte.
pub(crate) fn content(package: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(package)
        .expect("a package")
        .map(|entry| entry.expect("an entry"))
        .map(|entry| (entry.file_name().into_string().expect("a name"), fs::read(entry.path()).expect("a file")))
        .filter(|(name, _)| name != "manifest.json")
        .collect();
    files.sort();
    files
}

/// Changes a file of a package, and the manifest to fit.
pub(crate) fn rewrite(package: &Path, file: &str, change: impl FnOnce(Vec<String>) -> Vec<String>) {
    use sha2::Digest;
    let path = package.join(file);
    let lines = fs::read_to_string(&path).expect("a file").lines().map(str::to_owned).collect();
    let text: String = change(lines).into_iter().map(|line| line + "\n").collect();
    fs::write(&path, &text).expect("it can be written");
    let place = package.join("manifest.json");
    let mut manifest: Manifest = serde_json::from_slice(&fs::read(&place).expect("a manifest")).expect("a manifest");
    let entry = manifest.files.iter_mut().find(|entry| entry.name == file).expect("it is listed");
    entry.bytes = text.len() as u64;
    entry.sha256 = hex::encode(sha2::Sha256::digest(&text));
    fs::write(place, serde_json::to_vec(&manifest).expect("JSON")).expect("it can be written");
}

/// A user as it is stored.
pub(crate) fn user(id: i64, name: &str) -> bson::Document {
    doc! {
        "_id": bson::oid::ObjectId::new(), "public_id": id, "user_name": name, "active": true, "group_id": 2_i64,
        "registration_time": DateTime::from_millis(0), "authenticator": "LocalAuthenticationProvider",
        "email": null, "image": null, "first_name": null, "last_name": null,
    }
}
