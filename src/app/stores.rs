//! Opens the store that the settings name; the only file that names both kinds.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bson::Document;

use super::StartError;
use crate::clock::Clock;
use crate::service::history::kept;
use crate::service::search::state;
use crate::service::upkeep::migrations;
use crate::settings::{Settings, StoreSettings, StoreUri, in_full};
use crate::store::embedded::{EmbeddedStore, OpenError, Options, has_store};
use crate::store::mongo::MongoStore;
use crate::store::{Copying, FileStore, Store, StoreError, collections};

/// A store that is open.
pub struct Opened {
    /// The store.
    pub store: Arc<dyn Copying>,
    /// The same one, where it is a file.
    pub file: Option<Arc<dyn FileStore>>,
}

/// Opens the store that the settings name; creates an embedded one if there is none.
///
/// # Errors
/// [`StartError::Store`] with the error and the remedy.
pub async fn open(settings: &StoreSettings) -> Result<Opened, StartError> {
    match settings.location()? {
        StoreUri::Embedded(directory) => {
            let store = open_embedded(settings, directory, EmbeddedStore::open).await?;
            Ok(Opened { store: Arc::clone(&store) as Arc<dyn Copying>, file: Some(store) })
        }
        StoreUri::MongoDb(uri) => {
            let store =
                MongoStore::connect(&uri, settings.mongo_options()).await.map_err(StartError::of_store(settings))?;
            Ok(Opened { store: Arc::new(store), file: None })
        }
    }
}

/// The same for commands, which need only the store.
///
/// # Errors
/// As [`open`].
pub async fn open_store(settings: &StoreSettings) -> Result<Arc<dyn Copying>, StartError> {
    Ok(open(settings).await?.store)
}

/// Opens the store that the settings name for changes; creates none.
///
/// # Errors
/// As [`open_store`]; when there is no store, or its documents are not migrated to this version.
pub async fn open_existing(settings: &Settings) -> Result<Arc<dyn Copying>, StartError> {
    let store = match settings.store.location()? {
        StoreUri::Embedded(directory) if !has_store(&directory)? => return Err(OpenError::NoStore(directory).into()),
        StoreUri::Embedded(_) => open_store(&settings.store).await?,
        StoreUri::MongoDb(_) => open_aside(&settings.store).await?,
    };
    let done = migrations::require_done(&*store, migrations::ALL, settings.query.max_time()).await;
    done.map_err(StartError::at(&settings.store))?;
    Ok(store)
}

/// Opens the store that the settings name for reading. An embedded store is opened in an overlay: its file does not
/// change, and writes stay in memory.
///
/// # Errors
/// As [`open_store`]; when there is no store.
pub async fn open_aside(settings: &StoreSettings) -> Result<Arc<dyn Copying>, StartError> {
    match settings.location()? {
        StoreUri::Embedded(directory) => Ok(open_embedded(settings, directory, EmbeddedStore::open_aside).await?),
        StoreUri::MongoDb(uri) => {
            let store = MongoStore::connect(&uri, settings.mongo_options()).await;
            let store = store.map_err(StartError::of_store(settings))?;
            if store.has_any(collections::ALL).await.map_err(StartError::of_store(settings))? {
                Ok(Arc::new(store))
            } else {
                Err(StartError::NoStore(without_password(settings)))
            }
        }
    }
}

/// The same for commands that need documents of this version. Missing indexes of an embedded store are created in
/// memory; on MongoDB they stay missing.
///
/// # Errors
/// As [`open_aside`]; when the documents are not migrated to this version.
pub async fn open_to_read(settings: &Settings) -> Result<Arc<dyn Copying>, StartError> {
    let store = open_aside(&settings.store).await?;
    let done = migrations::require_done(&*store, migrations::ALL, settings.query.max_time()).await;
    done.map_err(StartError::at(&settings.store))?;
    if matches!(settings.store.location()?, StoreUri::Embedded(_)) {
        store.prepare(collections::ALL).await.map_err(StartError::of_store(&settings.store))?;
    }
    Ok(store)
}

/// Makes these views of the objects of a store on MongoDB, see [`MongoStore::replace_views`].
///
/// # Errors
/// As [`open_store`]; when the views cannot be made, or the store is an embedded one.
pub async fn replace_views(
    settings: &StoreSettings,
    prefix: &'static str,
    views: Vec<(String, Vec<Document>)>,
) -> Result<(usize, Vec<String>), StartError> {
    let failed = |source| StartError::Store { uri: without_password(settings), source };
    let StoreUri::MongoDb(uri) = settings.location()? else {
        return Err(failed(StoreError::Unsupported { what: "views".to_owned() }));
    };
    let store = MongoStore::connect(&uri, settings.mongo_options()).await.map_err(failed)?;
    store.replace_views(prefix, views).await.map_err(failed)
}

/// Refuses a store that `migrate` began to fill and did not complete. Other faults of a store are reported elsewhere.
///
/// # Errors
/// [`MigrationError::Incomplete`](crate::service::upkeep::migrations::MigrationError::Incomplete), with the store.
pub async fn require_whole(settings: &Settings) -> Result<(), StartError> {
    let Ok(store) = open_aside(&settings.store).await else { return Ok(()) };
    match migrations::require_known(&*store, migrations::ALL, settings.query.max_time()).await {
        Err(half @ migrations::MigrationError::Incomplete(_)) => Err(StartError::at(&settings.store)(half)),
        _ => Ok(()),
    }
}

/// Prepares a store for every command: collections, indexes and migrations. It refuses a store of a newer version
/// before it changes anything, and a store into which another one is being copied.
///
/// # Errors
/// As [`Application::build`](super::Application::build).
pub async fn make_ready(settings: &Settings, store: &dyn Store, clock: &dyn Clock) -> Result<(), StartError> {
    let known = migrations::require_known(store, migrations::ALL, settings.query.max_time()).await;
    known.map_err(StartError::at(&settings.store))?;
    store.prepare(collections::ALL).await.map_err(StartError::of_store(&settings.store))?;
    let now = bson::DateTime::from_chrono(clock.now());
    let migrated = migrations::run(store, migrations::ALL, now, settings.query.max_time()).await;
    migrated.map_err(StartError::at(&settings.store))?;
    let begun = async {
        if let Some(warning) = kept::behind_entries(store, now, settings.query.max_time()).await? {
            log::warn!("{warning}");
        }
        kept::begin(store, now, settings.query.max_time()).await?;
        state::begin(store, settings.query.max_time()).await
    };
    begun.await.map_err(StartError::of_store(&settings.store))
}

/// Opens an embedded store in a thread that may block.
async fn open_embedded(
    settings: &StoreSettings,
    directory: PathBuf,
    open: fn(&Path, &Options) -> Result<EmbeddedStore, OpenError>,
) -> Result<Arc<EmbeddedStore>, StartError> {
    let options = settings.embedded_options();
    match tokio::task::spawn_blocking(move || open(&directory, &options)).await {
        Ok(opened) => Ok(Arc::new(opened?)),
        Err(error) => Err(StartError::of_store(settings)(StoreError::backend(error))),
    }
}

/// `store.uri` without the part between `//` and `@`.
pub fn without_password(settings: &StoreSettings) -> String {
    // Options can be secret, too.
    let uri = settings.uri.expose().split('?').next().unwrap_or_default();
    match (uri.split_once("://"), uri.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://***@{rest}"),
        _ => uri.to_owned(),
    }
}

/// `store.uri` without a password, and with the full path of a directory.
pub fn full_name(settings: &StoreSettings) -> String {
    match settings.location() {
        Ok(StoreUri::Embedded(directory)) => format!("embedded:{}", in_full(&directory).display()),
        _ => without_password(settings),
    }
}
